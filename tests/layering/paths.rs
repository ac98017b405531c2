//! Reads the paths that Rust source names, in `use` lines and in the middle of
//! code, as they are written and as they resolve from `crate`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One path that the source names, from its root.
pub(crate) struct NamedPath {
    /// The line it stands in.
    pub(crate) line: usize,
    /// The module it stands in, inline ones included.
    pub(crate) module: Vec<String>,
    /// Its parts; those that lead upward are resolved.
    pub(crate) segments: Vec<String>,
}

/// Collects every path, and the bare words `async` and `await`.
pub(crate) fn collect_paths(tokens: TokenStream, module: &[String], paths: &mut Vec<NamedPath>) {
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
pub(crate) fn inline_module(tokens: &[TokenTree], at: usize) -> Option<String> {
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

pub(crate) fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// The parts of a use group, without their commas.
pub(crate) fn branches(group: TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<TokenTree> = group.into_iter().collect();
    tokens
        .split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
        .map(|branch| branch.iter().cloned().collect())
        .collect()
}

/// Turns a path that starts at `super` into one that starts at `crate`.
pub(crate) fn resolve(segments: Vec<String>, module: &[String]) -> Vec<String> {
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
