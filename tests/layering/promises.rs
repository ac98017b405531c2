//! Holds `docs/reliability.md` against the tests: each command of it runs at least
//! one.

use std::fs;
use std::path::Path;

/// A command, and why it is wrong.
pub(crate) type Wrong = (String, &'static str);

/// The commands of a page that run tests, and those of them that run none in the
/// project at `root`.
pub(crate) fn commands(page: &str, root: &Path) -> (usize, Vec<Wrong>) {
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let (mut found, mut wrong) = (0, Vec::new());
    for code in page.split('`').skip(1).step_by(2) {
        let words: Vec<&str> = code.split_whitespace().collect();
        let reason = match words.as_slice() {
            ["make", target, ..] => {
                let is_there = makefile.lines().any(|line| {
                    let target = line.strip_prefix(target);
                    target.is_some_and(|rest| rest.starts_with(':'))
                });
                (!is_there).then_some("the Makefile has no such target")
            }
            _ => {
                let Some(at) = words.iter().position(|word| *word == "test") else {
                    continue;
                };
                if at == 0 || words[at - 1] != "cargo" {
                    continue;
                }
                runs_none(&words[at + 1..], root).then_some("no test has such a name")
            }
        };
        found += 1;
        wrong.extend(reason.map(|reason| (code.to_owned(), reason)));
    }
    (found, wrong)
}

/// Whether the arguments of `cargo test` choose no test.
fn runs_none(arguments: &[&str], root: &Path) -> bool {
    let (names, rest) = match arguments {
        ["--release", "--test", suite, rest @ ..] => {
            (names(&root.join("tests"), Some(suite)), rest)
        }
        ["--release", "--package", package, rest @ ..] => {
            let directory = package.trim_start_matches("cuckood-");
            let source = root.join("crates").join(directory).join("src");
            (
                names(&source, None),
                rest.strip_prefix(&["--lib"]).unwrap_or(rest),
            )
        }
        ["--release", "--lib", rest @ ..] => {
            let packages = super::source::packages(root).into_iter();
            let names = packages.flat_map(|package| names(&root.join(package), None));
            (names.collect(), rest)
        }
        _ => return true,
    };
    let filter = rest.first().filter(|word| **word != "--").unwrap_or(&"");
    !names.iter().any(|name| name.contains(filter))
}

/// The tests below a directory, of one of its suites, as they are called.
fn names(directory: &Path, suite: Option<&str>) -> Vec<String> {
    let mut names = Vec::new();
    for file in super::source::files(directory) {
        let path = file.strip_prefix(directory).unwrap().with_extension("");
        let parts = path.iter().map(|part| part.to_str().unwrap());
        let parts: Vec<&str> = parts
            .filter(|part| !["mod", "main"].contains(part))
            .collect();
        let module = match (suite, parts.as_slice()) {
            (None, parts) => parts,
            (Some(suite), [first, parts @ ..]) if *first == suite => parts,
            _ => continue,
        };
        let mut is_test = false;
        for line in fs::read_to_string(&file).unwrap().lines().map(str::trim) {
            if line == "#[test]" || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if is_test && let Some((_, name)) = line.split_once("fn ") {
                let name = name.split('(').next().unwrap();
                names.push([module, &[name]].concat().join("::"));
                is_test = false;
            }
        }
    }
    names
}
