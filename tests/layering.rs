//! The import rule: `http -> engine -> chain -> cuckoo` and `engine -> store`,
//! never back and never around. See the code map in `src/lib.rs`.
//!
//! Every path in `src` that starts at `crate`, `super` or another crate is
//! looked at, in `use` lines and in the middle of code. Tests keep the rule,
//! too, but may read the environment.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};

/// What each room of the house may import of ours. A file's room is the first
/// part of its path; a room that is not listed here is refused, so that a new
/// one is thought about.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("cuckoo", &[]),
    ("page", &[]),
    ("memory", &[]),
    ("chain", &["cuckoo", "page", "memory"]),
    ("store", &["page"]),
    ("store::metered", &["page", "metrics"]),
    ("remote", &[]),
    ("from_redis", &["remote"]),
    ("load", &["remote"]),
    ("metrics", &[]),
    (
        "engine",
        &["chain", "cuckoo", "store", "page", "metrics", "memory"],
    ),
    ("backup", &["store", "metrics"]),
    // For the shape of a filter's key, nothing else.
    ("access", &["engine"]),
    ("watch", &["metrics"]),
    ("http", &["access", "backup", "engine", "chain", "metrics"]),
    ("client", &["remote"]),
    (
        "config",
        &[
            "access", "backup", "http", "engine", "chain", "remote", "store",
        ],
    ),
    ("fuzz_targets", &["access", "engine", "http", "store"]),
    (
        "main",
        &[
            "access",
            "backup",
            "client",
            "config",
            "engine",
            "from_redis",
            "http",
            "load",
            "metrics",
            "remote",
            "store",
            "watch",
        ],
    ),
    ("lib", &[]),
];

/// Rooms whose results depend on nothing but their arguments.
const PURE: &[&str] = &["cuckoo", "chain", "page", "memory"];

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
    let module = module_of(file);
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

/// `src/chain/plan.rs` is `chain::plan`, `src/chain/mod.rs` is `chain`.
fn module_of(file: &str) -> Vec<String> {
    let path = Path::new(file).with_extension("");
    let mut module: Vec<String> = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
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
            None => Some(format!("{room} is no room that the import rule knows")),
            Some((_, allowed)) if allowed.contains(&imported.as_str()) => None,
            Some((_, allowed)) => Some(format!(
                "{full_module} imports {full_path}; it may import {allowed:?}"
            )),
        };
    }
    let below = |what: &str| full_module == what || full_module.starts_with(&format!("{what}::"));
    if names("rocksdb") && !below("store::rocks") {
        return Some(format!(
            "{full_module} names {full_path}; only store::rocks knows RocksDB"
        ));
    }
    let is_test = module.iter().any(|part| part == "tests");
    if names("std::env") && !is_test && room != "config" && room != "main" {
        return Some(format!(
            "{full_module} reads the environment; only config and main do"
        ));
    }
    if PURE.contains(&room) && IMPURE.iter().any(|impure| names(impure)) {
        return Some(format!("{full_module} names {full_path}; {room} is pure"));
    }
    if room == "cuckoo" && names("serde") {
        return Some(format!(
            "{full_module} names {full_path}; cuckoo is mathematics alone"
        ));
    }
    None
}

/// One path that the source names, from its root.
struct NamedPath {
    line: usize,
    module: Vec<String>,
    segments: Vec<String>,
}

/// Collects every path, and the bare words `async` and `await`.
fn collect_paths(tokens: TokenStream, module: &[String], paths: &mut Vec<NamedPath>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let inner = inline_module(&tokens, at);
                let nested: Vec<String> = module.iter().cloned().chain(inner).collect();
                collect_paths(group.stream(), &nested, paths);
                at += 1;
            }
            TokenTree::Ident(_) => at = read_path(&tokens, at, module, paths),
            _ => at += 1,
        }
    }
}

/// The name of the inline module whose body is the group at `at`.
fn inline_module(tokens: &[TokenTree], at: usize) -> Option<String> {
    let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = tokens.get(at.checked_sub(2)?..at)?
    else {
        return None;
    };
    (keyword == "mod").then(|| name.to_string())
}

/// Reads the path that starts at an identifier, and returns where it ends.
fn read_path(
    tokens: &[TokenTree],
    start: usize,
    module: &[String],
    paths: &mut Vec<NamedPath>,
) -> usize {
    let line = tokens[start].span().start().line;
    let mut segments = Vec::new();
    let mut at = start;
    while let Some(TokenTree::Ident(segment)) = tokens.get(at) {
        segments.push(segment.to_string());
        at += 1;
        if !is_path_separator(tokens, at) {
            break;
        }
        at += 2;
        if let Some(TokenTree::Group(group)) = tokens.get(at)
            && group.delimiter() == Delimiter::Brace
        {
            // `a::{b, c::d}`: a path for each leaf.
            for branch in branches(group.stream()) {
                let mut leaves = Vec::new();
                collect_paths(branch, module, &mut leaves);
                for leaf in leaves {
                    let mut whole = segments.clone();
                    whole.extend(leaf.segments);
                    paths.push(NamedPath {
                        line: leaf.line,
                        module: module.to_vec(),
                        segments: resolve(whole, module),
                    });
                }
            }
            return at + 1;
        }
    }
    paths.push(NamedPath {
        line,
        module: module.to_vec(),
        segments: resolve(segments, module),
    });
    at
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// The parts of a use group, without their commas.
fn branches(group: TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<TokenTree> = group.into_iter().collect();
    tokens
        .split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
        .map(|branch| branch.iter().cloned().collect())
        .collect()
}

/// Turns a path that starts at `super` into one that starts at `crate`.
fn resolve(segments: Vec<String>, module: &[String]) -> Vec<String> {
    let up = segments
        .iter()
        .take_while(|segment| *segment == "super")
        .count();
    if up == 0 {
        return segments;
    }
    let stays = module.len().saturating_sub(up);
    std::iter::once("crate")
        .chain(module.iter().take(stays).map(String::as_str))
        .chain(segments.iter().skip(up).map(String::as_str))
        .map(str::to_owned)
        .collect()
}

fn source_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn imports_point_one_way() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    source_files(&source, &mut files);
    files.sort();
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
        ("store/redo.rs", "use crate::chain::meta::Meta;"),
        ("store/rocks.rs", "use crate::metrics::Metrics;"),
        ("store/mod.rs", "fn f() -> ::rocksdb::Error {}"),
        ("engine/lane.rs", "use rocksdb::DB;"),
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
        ("store/metered.rs", "use crate::metrics::Metrics;"),
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
        ("main.rs", "use cuckood::store::rocks::RocksStore;"),
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
fn two_files_alone_have_unsafe_code() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    source_files(&source, &mut files);
    files.retain(|file| has_unsafe(fs::read_to_string(file).unwrap().parse().unwrap()));
    files.sort();
    let named = ["cuckoo/hash/eight.rs", "memory.rs"];
    assert_eq!(files, named.map(|file| source.join(file)));
}
