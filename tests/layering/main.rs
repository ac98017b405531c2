//! The import rule beyond what the packages' own `Cargo.toml` say: within the
//! program, what its modules may import; in all packages, who is pure, who may read
//! the environment, and that neither files nor rooms import each other in a circle
//! (`circles`). See the code map in `src/lib.rs`.
//!
//! Also: the code tour follows the code (`tour`), what is promised names its tests
//! (`promises`), and how large the program is (`measures`).
//!
//! Every path that starts at `crate`, `super` or another crate is looked at, in
//! `use` lines and in the middle of code. Tests keep the rule, too, but may read the
//! environment.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod circles;
mod measures;
mod paths;
mod promises;
mod source;
mod tour;

use circles::FILES;
use paths::collect_paths;
use proc_macro2::{TokenStream, TokenTree};
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each module of the program may import of ours. A file's module is the first part of
/// its path; one that is not listed here is refused, so that a new one is
/// thought about.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("watch", &["metrics"]),
    ("client", &["file"]),
    (
        "config",
        &[
            "access", "backup", "client", "redis", "server", "engine", "chain", "cluster", "store",
        ],
    ),
    (
        "commands",
        &[
            "access", "backup", "chain", "client", "config", "cuckoo", "engine", "file", "http",
            "metrics", "redis", "cluster", "server", "store", "watch",
        ],
    ),
    ("main", &["commands", "config"]),
    ("lib", &[]),
];

/// The packages, from the ground up: each imports of those beneath its row alone. Cargo
/// knows no circles, but would let one protocol import the other.
const PACKAGES: &[&[&str]] = &[
    &["codes", "filter", "metrics"],
    &["file", "share"],
    &["pages"],
    &["engine"],
    &["access", "backup"],
    &["cluster"],
    &["server"],
    &["http", "redis"],
];

/// Packages and modules whose results depend on nothing but their arguments.
const PURE: &[(&str, &str)] = &[
    ("crates/filter/src", ""),
    ("crates/cluster/src", "record"),
    ("crates/cluster/src", "replica"),
];

/// What would make a result depend on something else.
const IMPURE: &[&str] = &[
    "async",
    "await",
    "rand",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "tokio",
];

/// Reads one source file of a package and returns what breaks the rule, as
/// `file:line: what`.
fn violations(package: &str, file: &str, source: &str) -> Vec<String> {
    let module = source::module_of(file);
    let tokens: TokenStream = source
        .parse()
        .unwrap_or_else(|error| panic!("{package}/{file}: {error}"));
    let mut paths = Vec::new();
    collect_paths(tokens, &module, &mut paths);
    paths
        .iter()
        .filter_map(|path| {
            let problem = problem_of(package, &path.module, &path.segments)?;
            Some(format!("{package}/{file}:{}: {problem}", path.line))
        })
        .collect()
}

/// What is wrong with the module naming this path, if anything.
fn problem_of(package: &str, module: &[String], path: &[String]) -> Option<String> {
    let room = module.first().map_or("", String::as_str);
    let full_module = module.join("::");
    let full_path = path.join("::");
    let names = |what: &str| full_path == what || full_path.starts_with(&format!("{what}::"));
    let below = |what: &str| {
        what.is_empty() || full_module == what || full_module.starts_with(&format!("{what}::"))
    };

    if let [root, imported, ..] = path
        && package == "src"
        && !room.is_empty()
        && (root == "crate" || (root == "cuckood" && room == "main"))
        && imported != room
    {
        let allowed = MAY_IMPORT
            .iter()
            .filter(|(of, _)| full_module == *of || full_module.starts_with(&format!("{of}::")))
            .max_by_key(|(of, _)| of.len());
        return match allowed {
            None => Some(format!("{room} is no module that the import rule knows")),
            Some((_, allowed)) if allowed.contains(&imported.as_str()) => None,
            Some((_, allowed)) => Some(format!(
                "{full_module} imports {full_path}; it may import {allowed:?}"
            )),
        };
    }
    let is_rocks = package == "crates/pages/src" && below("store::rocks");
    if (names("rocksdb") || names("librocksdb_sys")) && !is_rocks {
        return Some(format!(
            "{full_module} names {full_path}; only store::rocks of pages knows RocksDB"
        ));
    }
    if names("async_nats") && !(package == "crates/cluster/src" && below("jetstream")) {
        return Some(format!(
            "{full_module} names {full_path}; only jetstream of cluster knows NATS"
        ));
    }
    let is_test = module.iter().any(|part| part == "tests");
    if names("std::env") && !is_test && room != "config" && room != "main" {
        return Some(format!(
            "{full_module} reads the environment; only config and main do"
        ));
    }
    let is_pure = PURE.iter().any(|(of, pure)| *of == package && below(pure));
    if is_pure && IMPURE.iter().any(|impure| names(impure)) {
        return Some(format!(
            "{full_module} names {full_path}, and is to be pure"
        ));
    }
    None
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The program's files, those of all packages, by their paths.
fn all_sources() -> Vec<(String, Source)> {
    let packages = source::packages(root()).into_iter();
    let sources = packages.flat_map(|package| {
        let sources = source::program(&root().join(&package)).into_iter();
        sources.map(move |source| (format!("{package}/{}", source.name), source))
    });
    sources.collect()
}

#[test]
fn imports_point_one_way() {
    let mut broken = Vec::new();
    for package in source::packages(root()) {
        let directory = root().join(&package);
        let files = source::files(&directory);
        assert!(!files.is_empty());
        for file in files {
            let name = file.strip_prefix(&directory).unwrap().to_string_lossy();
            broken.extend(violations(
                &package,
                &name,
                &fs::read_to_string(&file).unwrap(),
            ));
        }
    }
    assert!(
        broken.is_empty(),
        "the import rule is broken:\n{}",
        broken.join("\n")
    );
}

#[test]
fn the_checker_notices_each_kind_of_violation() {
    for (package, file, source) in [
        ("crates/filter/src", "chain/read.rs", "async fn f() {}"),
        (
            "crates/filter/src",
            "chain/read.rs",
            "use std::{fmt, time::Instant};",
        ),
        ("crates/filter/src", "lib.rs", "use std::fs;"),
        (
            "crates/cluster/src",
            "replica.rs",
            "use std::time::Instant;",
        ),
        ("crates/cluster/src", "driver.rs", "use async_nats::Client;"),
        (
            "src",
            "watch/files.rs",
            "use crate::{metrics::Metrics, engine::Engine};",
        ),
        (
            "src",
            "watch/files.rs",
            "fn f() { let it = crate::engine::Engine::open(); }",
        ),
        (
            "src",
            "watch/files.rs",
            "fn f() { format!(\"{}\", crate::share::x()) }",
        ),
        ("src", "watch/files.rs", "use super::super::engine::Engine;"),
        (
            "src",
            "watch/files.rs",
            "mod tests { use super::super::super::engine::Engine; }",
        ),
        (
            "crates/pages/src",
            "store/mod.rs",
            "fn f() -> ::rocksdb::Error {}",
        ),
        ("crates/engine/src", "lane/run.rs", "use rocksdb::DB;"),
        (
            "crates/pages/src",
            "store/mod.rs",
            "use librocksdb_sys as c;",
        ),
        (
            "crates/engine/src",
            "lane/run.rs",
            "fn f() { std::env::var(\"X\"); }",
        ),
        (
            "src",
            "client/items.rs",
            "use crate::store::rocks::RocksStore;",
        ),
        ("src", "client/mod.rs", "use crate::engine::Engine;"),
        ("src", "attic/mod.rs", "use crate::page::PageId;"),
    ] {
        assert_eq!(
            violations(package, file, source).len(),
            1,
            "{file}: {source}"
        );
    }
}

#[test]
fn the_checker_lets_through_what_is_allowed() {
    for (package, file, source) in [
        (
            "crates/filter/src",
            "chain/read.rs",
            "use crate::cuckoo::bucket; use std::fmt;",
        ),
        (
            "src",
            "client/mod.rs",
            "// use crate::engine::Engine;\n/// See [`crate::engine`].\nfn f() {}",
        ),
        (
            "src",
            "client/mod.rs",
            "fn f() { g(\"crate::engine::Engine\"); env!(\"CARGO_PKG_VERSION\"); }",
        ),
        (
            "src",
            "commands/plan.rs",
            "mod tests { use super::super::ops::Ask; use super::*; }",
        ),
        (
            "crates/pages/src",
            "store/rocks.rs",
            "use rocksdb::{DB, Options};",
        ),
        (
            "src",
            "commands/lane.rs",
            "use crate::{engine::Engine, store::PageStore, metrics::Metrics};",
        ),
        (
            "src",
            "commands/items.rs",
            "use crate::engine::{ItemBatch, Engine}; async fn f() {}",
        ),
        ("src", "config.rs", "fn f() { std::env::var(\"X\"); }"),
        ("crates/pages/src", "store/rocks/tests.rs", "use std::env;"),
        (
            "crates/pages/src",
            "store/mod.rs",
            "mod tests { use std::env; }",
        ),
        ("src", "main.rs", "use cuckood::config::Cli;"),
        (
            "src",
            "commands/serve.rs",
            "use crate::store::rocks::RocksStore;",
        ),
    ] {
        assert_eq!(
            violations(package, file, source),
            Vec::<String>::new(),
            "{file}: {source}"
        );
    }
}

fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "unsafe",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[test]
fn six_files_alone_have_unsafe_code() {
    let mut files = Vec::new();
    for package in source::packages(root()) {
        files.extend(source::files(&root().join(package)));
    }
    files.retain(|file| has_unsafe(fs::read_to_string(file).unwrap().parse().unwrap()));
    let named = [
        "src/main.rs",
        "crates/file/src/map.rs",
        "crates/filter/src/cuckoo/hash/eight.rs",
        "crates/filter/src/hints.rs",
        "crates/pages/src/resident/huge.rs",
        "crates/pages/src/store/rocks/pacing.rs",
    ];
    assert_eq!(files, named.map(|file| root().join(file)));
}

/// What a package of `crates` depends on, but for its tests.
fn dependencies(package: &str) -> Vec<String> {
    let manifest = root().join("crates").join(package).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let (_, lines) = manifest.split_once("[dependencies]\n").unwrap_or_default();
    let lines = lines.lines().take_while(|line| !line.is_empty());
    let names = lines.map(|line| line.split(['.', ' ']).next().unwrap().to_owned());
    names.collect()
}

#[test]
fn a_package_stands_on_those_beneath_it() {
    for (layer, packages) in PACKAGES.iter().enumerate() {
        for package in *packages {
            for dependency in dependencies(package) {
                let is_beneath = |name| PACKAGES[..layer].concat().contains(&name);
                let name = dependency.strip_prefix("cuckood-");
                assert!(name.is_none_or(is_beneath), "{package} -> {dependency}");
            }
        }
    }
    assert_eq!(PACKAGES.concat().len() + 1, source::packages(root()).len());
}

#[test]
fn no_file_and_no_room_imports_one_that_imports_it() {
    for package in source::packages(root()) {
        let sources = source::program(&root().join(&package));
        for depth in [1, 2, FILES] {
            let circles = circles::circles(&sources, depth);
            assert!(circles.is_empty(), "{package}: {}", circles.join("\n"));
        }
    }
}

/// The bounds are what it comes to today: a change that makes a way longer says
/// why. An add to pages that split belongs to a group of them, which has a file of
/// its own for items that need no more than a free slot; a question is compiled for each layout and width, is told from those about rows and
/// windows, and is asked of one filter, of which rows and conditions are.
#[test]
fn the_code_tour_follows_the_code() {
    let page = root().join("docs/code-tour.md");
    let ways = tour::ways(&fs::read_to_string(page).unwrap());
    let sources = all_sources();
    for (way, title, functions, files) in [
        (&ways[0], "One add", 46, 27),
        (&ways[1], "One question", 26, 13),
    ] {
        assert_eq!(way.title, title);
        assert_eq!(way.wrong(&sources), Vec::<String>::new(), "{title}");
        println!(
            "{title}: {} functions in {} files",
            way.functions(),
            way.files()
        );
        assert!(way.functions() <= functions && way.files() <= files);
    }
}

#[test]
fn the_code_map_names_files_that_are_there() {
    let map = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let named: Vec<&str> = map
        .split('`')
        .filter(|word| word.ends_with(".rs") || word.ends_with('/'))
        .filter(|word| word.contains('/') && !word.contains(' '))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for file in named {
        let below = |directory| root().join(directory).join(file).exists();
        assert!(below("src") || below("crates") || below(""), "{file}");
    }
}

/// Prints a table: `cargo test --release --test layering measures -- --nocapture`.
/// `CUCKOOD_SOURCE` names another tree to compare with.
#[test]
fn measures_of_the_program() {
    let other = std::env::var_os("CUCKOOD_SOURCE").map(PathBuf::from);
    let other = other.map(|other| source::program(&other));
    let sources = other.unwrap_or_else(|| all_sources().into_iter().map(|it| it.1).collect());
    assert!(sources.len() > 1);
    println!("{}", measures::table(&sources));
}

#[test]
fn each_command_of_what_is_promised_runs_a_test() {
    let page = fs::read_to_string(root().join("docs/reliability.md")).unwrap();
    let (found, wrong) = promises::commands(&page, root());
    assert!(found > 30, "{found}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let none = "`make nothing`, `cargo test --release --lib no_such_test`, `cargo test --release --test api no_such_test`, `cargo test --release --test no_such_suite`";
    assert_eq!(promises::commands(none, root()).1.len(), 4);
}

/// The packages of a lock file, each with its versions.
fn locked(file: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        let value = |key: &str| line.strip_prefix(key)?.strip_suffix('"');
        if let Some(found) = value("name = \"") {
            name = found;
        } else if let Some(version) = value("version = \"") {
            let versions = packages.entry(name.to_owned()).or_default();
            versions.insert(version.to_owned());
        }
    }
    packages
}

/// Fuzzing is built apart, and seldom: it would not build any more, or build
/// another program.
#[test]
fn fuzzing_is_locked_to_what_the_server_is_locked_to() {
    let (server, fuzzing) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
    for (name, versions) in &fuzzing {
        if let Some(locked) = server.get(name) {
            assert!(
                versions.is_subset(locked),
                "{name}: {versions:?} {locked:?}"
            );
        }
    }
    let names = PACKAGES.concat().into_iter().flat_map(dependencies);
    let missing: Vec<String> = names.filter(|name| !fuzzing.contains_key(name)).collect();
    assert!(missing.is_empty(), "fuzz/Cargo.lock lacks {missing:?}");
}
