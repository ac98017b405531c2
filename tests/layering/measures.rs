//! How large the program is: lines of code, files and long functions, by
//! module.
//!
//! A line of code is one with a token of the program on it: no comment, no
//! blank line, no test.

use crate::source::{Source, module_of};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// A function that takes more lines is counted as long.
const LONG_FUNCTION: usize = 50;

/// What a module comes to.
#[derive(Default)]
struct Module {
    /// Lines of code of each file.
    files: Vec<(usize, String)>,
    functions: usize,
    long_functions: usize,
}

/// One line a module and one for all together.
pub(crate) fn table(sources: &[Source]) -> String {
    let mut modules: BTreeMap<String, Module> = BTreeMap::new();
    for source in sources {
        let mut lines = BTreeSet::new();
        let mut functions = Vec::new();
        read(source.tokens.clone(), &mut lines, &mut functions);
        let module = module_of(&source.name).into_iter().next();
        for name in [
            module.unwrap_or_else(|| "lib".to_owned()),
            "~ all".to_owned(),
        ] {
            let module = modules.entry(name).or_default();
            module.files.push((lines.len(), source.name.clone()));
            module.functions += functions.len();
            let is_long = |lines: &&usize| **lines > LONG_FUNCTION;
            module.long_functions += functions.iter().filter(is_long).count();
        }
    }
    let mut table = "| module | lines of code | files | median file | longest file | functions | over 50 lines |\n|---|---|---|---|---|---|---|\n".to_owned();
    for (name, mut module) in modules {
        module.files.sort();
        let (median, _) = module.files[module.files.len() / 2];
        let (longest, file) = module.files[module.files.len() - 1].clone();
        let lines: usize = module.files.iter().map(|(lines, _)| lines).sum();
        table += &format!(
            "| {name} | {lines} | {} | {median} | {longest} ({file}) | {} | {} |\n",
            module.files.len(),
            module.functions,
            module.long_functions
        );
    }
    table
}

/// Notes the lines that tokens stand on, and how many lines each function has.
fn read(tokens: TokenStream, lines: &mut BTreeSet<usize>, functions: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if is_comment(&tokens, at) {
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                add(group.span_open(), lines);
                add(group.span_close(), lines);
                read(group.stream(), lines, functions);
            }
            other => add(other.span(), lines),
        }
        if let (TokenTree::Ident(keyword), Some(TokenTree::Ident(_))) = (token, tokens.get(at + 1))
            && keyword == "fn"
            && let Some(end) = body(&tokens[at..])
        {
            functions.push(end - token.span().start().line + 1);
        }
    }
}

fn add(span: Span, lines: &mut BTreeSet<usize>) {
    lines.extend(span.start().line..=span.end().line);
}

/// Whether a token is part of `#[doc = …]` or `#![doc = …]`, which is what a
/// comment is to the compiler.
fn is_comment(tokens: &[TokenTree], at: usize) -> bool {
    let is = |at: usize, character: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == character);
    let is_doc = |at: usize| match tokens.get(at) {
        Some(TokenTree::Group(group)) => {
            group.delimiter() == Delimiter::Bracket
                && group
                    .stream()
                    .into_iter()
                    .next()
                    .is_some_and(|first| first.to_string() == "doc")
        }
        _ => false,
    };
    (is(at, '#') && (is_doc(at + 1) || is(at + 1, '!') && is_doc(at + 2)))
        || (is(at, '!') && at > 0 && is(at - 1, '#') && is_doc(at + 1))
        || (is_doc(at) && at > 0 && (is(at - 1, '#') || is(at - 1, '!')))
}

/// The last line of the body of a function that starts here, if it has one.
fn body(function: &[TokenTree]) -> Option<usize> {
    function.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Some(Some(group.span_close().end().line))
        }
        TokenTree::Punct(punct) if punct.as_char() == ';' => Some(None),
        _ => None,
    })?
}
