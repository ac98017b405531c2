//! Holds `docs/code-tour.md` against the code: each function of a way through
//! the code is where the page says, and is named by a function before it.

use crate::source::Source;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// One way through the code.
pub(crate) struct Way {
    /// The heading over it.
    pub(crate) title: String,
    steps: Vec<Step>,
}

/// A line of its table.
struct Step {
    file: String,
    function: String,
    /// Whether it is reached through a queue, so that nothing names it.
    is_elsewhere: bool,
}

impl Way {
    /// Functions that it goes through.
    pub(crate) fn functions(&self) -> usize {
        self.steps.len()
    }

    /// Files that it goes through.
    pub(crate) fn files(&self) -> usize {
        let files: BTreeSet<&str> = self.steps.iter().map(|step| step.file.as_str()).collect();
        files.len()
    }

    /// What does not agree with the code, whose files are given by their paths.
    pub(crate) fn wrong(&self, sources: &[(String, Source)]) -> Vec<String> {
        let mut named: BTreeSet<String> = BTreeSet::new();
        let mut wrong = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let name = step.function.rsplit("::").next().unwrap_or_default();
            if at > 0 && !step.is_elsewhere && !named.contains(name) {
                wrong.push(format!("no step before it names {}", step.function));
            }
            let bodies = sources
                .iter()
                .find(|(path, _)| *path == step.file)
                .map(|(_, source)| bodies(source, &step.function))
                .unwrap_or_default();
            if bodies.is_empty() {
                wrong.push(format!("{} has no function {}", step.file, step.function));
            }
            bodies.into_iter().for_each(|body| words(body, &mut named));
        }
        wrong
    }
}

/// The ways of a page: the rows of each table under its heading, whose first
/// two cells are a file and a function, both in backquotes.
pub(crate) fn ways(page: &str) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            ways.push(Way {
                title: title.to_owned(),
                steps: Vec::new(),
            });
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let quoted = |at: usize| cells.get(at)?.strip_prefix('`')?.strip_suffix('`');
        if let (Some(file), Some(function), Some(way)) = (quoted(1), quoted(2), ways.last_mut()) {
            way.steps.push(Step {
                file: file.to_owned(),
                function: function.to_owned(),
                is_elsewhere: cells.get(3).is_some_and(|it| it.starts_with("on a thread")),
            });
        }
    }
    ways.retain(|way| !way.steps.is_empty());
    ways
}

/// The bodies of the functions of that name; `Type::name` is one in an `impl`
/// that names the type.
fn bodies(source: &Source, function: &str) -> Vec<TokenStream> {
    let (holder, name) = match function.rsplit_once("::") {
        Some((holder, name)) => (Some(holder), name),
        None => (None, function),
    };
    let mut found = Vec::new();
    find(
        source.tokens.clone(),
        holder,
        name,
        holder.is_none(),
        &mut found,
    );
    found
}

fn find(
    tokens: TokenStream,
    holder: Option<&str>,
    name: &str,
    held: bool,
    found: &mut Vec<TokenStream>,
) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, word: &str| matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if ident == word);
    let mut at = 0;
    while at < tokens.len() {
        let to_body = tokens[at..].iter().position(|token| {
            matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
        });
        let Some(body) = to_body.map(|length| at + length) else {
            return;
        };
        let TokenTree::Group(group) = &tokens[body] else {
            return;
        };
        let head = at..body;
        let is_function = head.clone().any(|at| is(at, "fn") && is(at + 1, name));
        if is_function && held {
            found.push(group.stream());
        }
        let holds = held
            || head.clone().any(|at| is(at, "impl") || is(at, "trait"))
                && head
                    .clone()
                    .any(|at| holder.is_some_and(|holder| is(at, holder)));
        find(group.stream(), holder, name, holds, found);
        at = body + 1;
    }
}

fn words(tokens: TokenStream, into: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                into.insert(word.to_string());
            }
            TokenTree::Group(group) => words(group.stream(), into),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
