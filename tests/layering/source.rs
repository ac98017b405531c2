//! The files of `src` as tokens, without what is compiled for tests alone.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub(crate) struct Source {
    /// Its path below `src`.
    pub(crate) name: String,
    /// Its tokens, tests left out.
    pub(crate) tokens: TokenStream,
    /// Modules that it declares for tests alone.
    test_modules: Vec<String>,
}

impl Source {
    /// Reads a file.
    pub(crate) fn parse(name: &str, text: &str) -> Source {
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut test_modules = Vec::new();
        Source {
            name: name.to_owned(),
            tokens: without_tests(tokens, &mut test_modules),
            test_modules,
        }
    }
}

/// The directories of source of this project's packages, as paths below `root`: the
/// program's first.
pub(crate) fn packages(root: &Path) -> Vec<String> {
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let mut crates: Vec<String> = crates
        .map(|entry| format!("crates/{}/src", entry.unwrap().file_name().display()))
        .collect();
    crates.sort();
    std::iter::once("src".to_owned()).chain(crates).collect()
}

/// The files below a directory that the program is made of: no tests, no
/// targets of fuzzing.
pub(crate) fn program(directory: &Path) -> Vec<Source> {
    let sources: Vec<Source> = files(directory)
        .iter()
        .map(|file| {
            let name = file.strip_prefix(directory).unwrap().to_string_lossy();
            Source::parse(&name, &fs::read_to_string(file).unwrap())
        })
        .collect();
    let tests: BTreeSet<Vec<String>> = sources
        .iter()
        .flat_map(|source| {
            let module = module_of(&source.name);
            source.test_modules.iter().map(move |name| {
                let name = std::iter::once(name.clone());
                module.iter().cloned().chain(name).collect()
            })
        })
        .collect();
    let is_test = |source: &Source| {
        let module = module_of(&source.name);
        (1..=module.len()).any(|length| tests.contains(&module[..length]))
    };
    sources.into_iter().filter(|it| !is_test(it)).collect()
}

/// Every file of Rust below a directory, sorted.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// `chain/plan.rs` is `chain::plan`, `chain/mod.rs` is `chain`, and `lib.rs`
/// the crate itself.
pub(crate) fn module_of(name: &str) -> Vec<String> {
    let path = Path::new(name).with_extension("");
    let mut module: Vec<String> = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

/// Leaves out every item with a `#[cfg(…test…)]`, and notes the modules among
/// them.
fn without_tests(tokens: TokenStream, modules: &mut Vec<String>) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_cfg_test(&tokens[at..]) {
            let item = &tokens[at..];
            let end = item.iter().position(ends_item).unwrap_or(item.len() - 1);
            for pair in item[..=end].windows(2) {
                if let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = pair
                    && keyword == "mod"
                {
                    modules.push(name.to_string());
                }
            }
            at += end + 1;
            continue;
        }
        kept.push(match &tokens[at] {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner = without_tests(group.stream(), modules);
                let mut kept = proc_macro2::Group::new(Delimiter::Brace, inner);
                kept.set_span(group.span());
                TokenTree::Group(kept)
            }
            other => other.clone(),
        });
        at += 1;
    }
    kept.into_iter().collect()
}

fn is_cfg_test(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = tokens else {
        return false;
    };
    let text = attribute.stream().to_string();
    hash.as_char() == '#'
        && text.starts_with("cfg")
        && !text.contains("not")
        && text
            .split(|c: char| !c.is_alphanumeric())
            .any(|it| it == "test")
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    }
}
