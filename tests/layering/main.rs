//! The import rule: `http -> engine -> chain -> cuckoo` and `engine -> store`,
//! never back and never around. See the code map in `src/lib.rs`.
//!
//! Also: no file imports one that imports it (`circles`), the code tour follows
//! the code (`tour`), what is promised names its tests (`promises`), and how large
//! the program is (`measures`).
//!
//! Every path in `src` that starts at `crate`, `super` or another crate is
//! looked at, in `use` lines and in the middle of code. Tests keep the rule,
//! too, but may read the environment.

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

use paths::collect_paths;
use proc_macro2::{TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may import of ours. A file's module is the first part of
/// its path; one that is not listed here is refused, so that a new one is
/// thought about.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("cuckoo", &[]),
    ("page", &[]),
    ("hints", &[]),
    ("varint", &[]),
    ("mac", &[]),
    ("chain", &["cuckoo", "page", "hints", "varint"]),
    ("store", &["page", "varint"]),
    ("metrics", &[]),
    ("share", &["metrics"]),
    ("replication", &["mac"]),
    (
        "engine",
        &[
            "chain",
            "cuckoo",
            "store",
            "page",
            "metrics",
            "hints",
            "replication",
            "share",
        ],
    ),
    ("backup", &["store", "metrics"]),
    // Of the engine for the shape of a filter's key, nothing else.
    ("access", &["engine", "mac"]),
    ("watch", &["metrics"]),
    (
        "http",
        &[
            "access",
            "backup",
            "engine",
            "chain",
            "mac",
            "metrics",
            "replication",
            "share",
        ],
    ),
    // Keys, budgets and connections are those of `http`.
    ("redis", &["access", "engine", "chain", "http", "metrics"]),
    ("client", &[]),
    (
        "config",
        &[
            "access",
            "backup",
            "client",
            "http",
            "redis",
            "engine",
            "chain",
            "replication",
            "store",
        ],
    ),
    (
        "fuzz_targets",
        &["access", "engine", "http", "redis", "replication", "store"],
    ),
    (
        "commands",
        &[
            "access",
            "backup",
            "client",
            "config",
            "engine",
            "http",
            "metrics",
            "redis",
            "replication",
            "store",
            "watch",
        ],
    ),
    ("main", &["commands", "config"]),
    ("lib", &[]),
];

/// Modules whose results depend on nothing but their arguments.
const PURE: &[&str] = &[
    "cuckoo",
    "chain",
    "page",
    "hints",
    "varint",
    "replication::record",
    "replication::replica",
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

/// Reads one source file and returns what breaks the rule, as
/// `file:line: what`.
fn violations(file: &str, source: &str) -> Vec<String> {
    let module = source::module_of(file);
    let tokens: TokenStream = source
        .parse()
        .unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut paths = Vec::new();
    collect_paths(tokens, &module, &mut paths);
    paths
        .iter()
        .filter_map(|path| {
            let problem = problem_of(&path.module, &path.segments)?;
            Some(format!("{file}:{}: {problem}", path.line))
        })
        .collect()
}

/// What is wrong with the module naming this path, if anything.
fn problem_of(module: &[String], path: &[String]) -> Option<String> {
    let room = module.first()?.as_str();
    let full_module = module.join("::");
    let full_path = path.join("::");
    let names = |what: &str| full_path == what || full_path.starts_with(&format!("{what}::"));

    if let [root, imported, ..] = path
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
    let below = |what: &str| full_module == what || full_module.starts_with(&format!("{what}::"));
    if (names("rocksdb") || names("librocksdb_sys")) && !below("store::rocks") {
        return Some(format!(
            "{full_module} names {full_path}; only store::rocks knows RocksDB"
        ));
    }
    if names("async_nats") && !below("replication::jetstream") {
        return Some(format!(
            "{full_module} names {full_path}; only replication::jetstream knows NATS"
        ));
    }
    let is_test = module.iter().any(|part| part == "tests");
    if names("std::env") && !is_test && room != "config" && room != "main" {
        return Some(format!(
            "{full_module} reads the environment; only config and main do"
        ));
    }
    if let Some(pure) = PURE.iter().find(|pure| below(pure))
        && IMPURE.iter().any(|impure| names(impure))
    {
        return Some(format!("{full_module} names {full_path}; {pure} is pure"));
    }
    if room == "cuckoo" && names("serde") {
        return Some(format!(
            "{full_module} names {full_path}; cuckoo is mathematics alone"
        ));
    }
    None
}

fn source_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn imports_point_one_way() {
    let source = source_directory();
    let files = source::files(&source);
    assert!(!files.is_empty());
    let broken: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let name = file
                .strip_prefix(&source)
                .unwrap()
                .to_string_lossy()
                .into_owned();
            violations(&name, &fs::read_to_string(file).unwrap())
        })
        .collect();
    assert!(
        broken.is_empty(),
        "the import rule is broken:\n{}",
        broken.join("\n")
    );
}

#[test]
fn the_checker_notices_each_kind_of_violation() {
    for (file, source) in [
        ("cuckoo/kick.rs", "use crate::chain::params::FilterParams;"),
        (
            "chain/plan.rs",
            "use crate::{page::PageId, store::PageStore};",
        ),
        (
            "chain/plan.rs",
            "fn f() { let id = crate::engine::Engine::open(); }",
        ),
        (
            "chain/plan.rs",
            "fn f() { format!(\"{}\", crate::store::x()) }",
        ),
        ("chain/read.rs", "use super::super::store::PageStore;"),
        (
            "chain/read.rs",
            "mod tests { use super::super::super::store::PageStore; }",
        ),
        ("chain/read.rs", "async fn f() {}"),
        ("chain/read.rs", "use std::{fmt, time::Instant};"),
        ("cuckoo/hash.rs", "use rand::Rng;"),
        ("cuckoo/hash.rs", "use serde::Serialize;"),
        ("replication/replica.rs", "use std::time::Instant;"),
        ("replication/driver.rs", "use async_nats::Client;"),
        ("replication/record.rs", "use crate::store::Commit;"),
        ("store/redo.rs", "use crate::chain::meta::Meta;"),
        ("store/rocks.rs", "use crate::metrics::Metrics;"),
        ("store/mod.rs", "fn f() -> ::rocksdb::Error {}"),
        ("engine/lane.rs", "use rocksdb::DB;"),
        ("store/mod.rs", "use librocksdb_sys as c;"),
        ("engine/lane.rs", "use crate::http::problem::Problem;"),
        ("engine/lane.rs", "fn f() { std::env::var(\"X\"); }"),
        ("http/items.rs", "use crate::store::rocks::RocksStore;"),
        ("http/items.rs", "use crate::cuckoo::classic;"),
        ("metrics.rs", "use crate::engine::Engine;"),
        ("attic/mod.rs", "use crate::page::PageId;"),
    ] {
        assert_eq!(violations(file, source).len(), 1, "{file}: {source}");
    }
}

#[test]
fn the_checker_lets_through_what_is_allowed() {
    for (file, source) in [
        ("cuckoo/kick.rs", "use super::bucket::Bucket; use std::fmt;"),
        (
            "cuckoo/kick.rs",
            "// use crate::engine::Engine;\n/// See [`crate::engine`].\nfn f() {}",
        ),
        (
            "chain/plan.rs",
            "use crate::{cuckoo::layout, page::PageId}; use super::meta::Meta;",
        ),
        (
            "chain/plan.rs",
            "fn f() { g(\"crate::engine::Engine\"); env!(\"CARGO_PKG_VERSION\"); }",
        ),
        (
            "chain/plan.rs",
            "mod tests { use super::super::meta::Meta; use super::*; }",
        ),
        ("store/rocks.rs", "use rocksdb::{DB, Options};"),
        ("engine/mod.rs", "use crate::metrics::Metrics;"),
        (
            "engine/lane.rs",
            "use crate::{chain::plan, store::PageStore, metrics::Metrics};",
        ),
        (
            "http/items.rs",
            "use crate::engine::{ItemBatch, Engine}; async fn f() {}",
        ),
        ("config.rs", "fn f() { std::env::var(\"X\"); }"),
        ("store/rocks/tests.rs", "use std::env;"),
        ("store/mod.rs", "mod tests { use std::env; }"),
        ("store/rocks/tuning.rs", "use rocksdb::Options;"),
        ("main.rs", "use cuckood::config::Cli;"),
        ("commands/serve.rs", "use crate::store::rocks::RocksStore;"),
    ] {
        assert_eq!(
            violations(file, source),
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
fn four_files_alone_have_unsafe_code() {
    let source = source_directory();
    let mut files = source::files(&source);
    files.retain(|file| has_unsafe(fs::read_to_string(file).unwrap().parse().unwrap()));
    let named = [
        "cuckoo/hash/eight.rs",
        "hints.rs",
        "main.rs",
        "store/rocks/deletions.rs",
    ];
    assert_eq!(files, named.map(|file| source.join(file)));
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let circles = circles::circles(&source::program(&source_directory()));
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// The bounds are what it comes to today: a change that makes a way longer says
/// why. An add to pages that split belongs to a group of them, which has a file of
/// its own for items that need no more than a free slot; a question is compiled for each layout and width, is told from those about rows and
/// windows, and is asked of one filter, of which rows and conditions are.
#[test]
fn the_code_tour_follows_the_code() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/code-tour.md");
    let ways = tour::ways(&fs::read_to_string(page).unwrap());
    let sources = source::program(&source_directory());
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
    let map = fs::read_to_string(source_directory().join("lib.rs")).unwrap();
    let named: Vec<&str> = map
        .split('`')
        .filter(|word| word.ends_with(".rs") || word.ends_with('/'))
        .filter(|word| word.contains('/') && !word.contains(' '))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for file in named {
        assert!(source_directory().join(file).exists(), "{file}");
    }
}

/// Prints a table: `cargo test --release --test layering measures -- --nocapture`.
/// `CUCKOOD_SOURCE` names another tree to compare with.
#[test]
fn measures_of_the_program() {
    let other = std::env::var_os("CUCKOOD_SOURCE").map(PathBuf::from);
    let sources = source::program(&other.unwrap_or_else(source_directory));
    assert!(sources.len() > 1);
    println!("{}", measures::table(&sources));
}

#[test]
fn each_command_of_what_is_promised_runs_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    let (found, wrong) = promises::commands(&page, root);
    assert!(found > 30, "{found}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let none = "`make nothing`, `cargo test --release --lib no_such_test`, `cargo test --release --test api no_such_test`, `cargo test --release --test no_such_suite`";
    assert_eq!(promises::commands(none, root).1.len(), 4);
}
