//! Circles: files and rooms that import each other, directly or through others. A
//! room is a folder, with the file of its name beside it.
//!
//! A file imports another if it names an item that is defined there. A name
//! that a module only hands on counts where it is defined, so a `mod.rs` that
//! re-exports its files ties nothing. Tests are left out.

use crate::paths::{branches, collect_paths, is_path_separator, resolve};
use crate::source::{Source, module_of};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// What one file defines, hands on and names.
#[derive(Default)]
struct File {
    module: Vec<String>,
    items: BTreeSet<String>,
    children: BTreeSet<String>,
    /// Names that `use` brings in, by the path that they stand for.
    aliases: BTreeMap<String, Vec<String>>,
    /// Modules all of whose names are handed on.
    globs: Vec<Vec<String>>,
    /// Paths that it names for its own use.
    names: Vec<Vec<String>>,
}

/// How deep the folders are that a path tells apart; beyond it, all is one.
pub(crate) const FILES: usize = usize::MAX;

/// The groups that import each other of rooms so deep, or of files, each with what
/// ties it.
pub(crate) fn circles(sources: &[Source], depth: usize) -> Vec<String> {
    let files: Vec<File> = sources.iter().map(File::read).collect();
    let by_module: BTreeMap<&[String], usize> = files
        .iter()
        .enumerate()
        .map(|(index, file)| (file.module.as_slice(), index))
        .collect();
    let names = Names {
        files: &files,
        by_module,
    };
    let room = |file: usize| &files[file].module[..files[file].module.len().min(depth)];
    let rooms: BTreeSet<&[String]> = (0..files.len()).map(room).collect();
    let rooms: Vec<&[String]> = rooms.into_iter().collect();
    let number = |file| rooms.binary_search(&room(file)).unwrap();
    let mut imports = vec![BTreeSet::new(); rooms.len()];
    let mut ties: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for file in 0..files.len() {
        for (other, names) in names.imports(file) {
            let tie = (number(file), number(other));
            if tie.0 == tie.1 {
                continue;
            }
            imports[tie.0].insert(tie.1);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (from, to) = (&sources[file].name, &sources[other].name);
            let line = format!("\n  {from} -> {to}: {}", names.join(", "));
            ties.entry(tie).or_default().push(line);
        }
    }
    strongly_connected(&imports)
        .into_iter()
        .map(|circle| {
            let within = |(from, to): &(usize, usize)| circle.contains(from) && circle.contains(to);
            let ties = ties.iter().filter(|(tie, _)| within(tie));
            let ties: String = ties.map(|(_, lines)| lines.concat()).collect();
            format!("{} of them:{ties}", circle.len())
        })
        .collect()
}

impl File {
    fn read(source: &Source) -> File {
        let mut file = File {
            module: module_of(&source.name),
            ..File::default()
        };
        let tokens: Vec<TokenTree> = source.tokens.clone().into_iter().collect();
        let mut rest = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let word = match &tokens[at] {
                TokenTree::Ident(word) => word.to_string(),
                _ => String::new(),
            };
            match word.as_str() {
                "use" => {
                    let end = at + length_to_semicolon(&tokens[at..]);
                    let path: TokenStream = tokens[at + 1..end].iter().cloned().collect();
                    file.read_use(path, &[], is_public(&tokens, at));
                    at = end;
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "union" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                        file.items.insert(name.to_string());
                    }
                }
                "mod" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 1) {
                        file.children.insert(name.to_string());
                    }
                }
                "macro_rules" => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 2) {
                        file.items.insert(name.to_string());
                    }
                }
                _ => {}
            }
            rest.push(tokens[at].clone());
            at += 1;
        }
        let mut paths = Vec::new();
        collect_paths(rest.into_iter().collect(), &file.module, &mut paths);
        file.names
            .extend(paths.into_iter().map(|path| path.segments));
        file
    }

    /// Takes `a::b::{c as d, e::*}` apart.
    fn read_use(&mut self, tokens: TokenStream, before: &[String], public: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut path = before.to_vec();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(word) if word == "as" => {
                    if let Some(TokenTree::Ident(alias)) = tokens.get(at + 1) {
                        self.add_name(path, alias.to_string(), public);
                    }
                    return;
                }
                TokenTree::Ident(segment) => path.push(segment.to_string()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    for branch in branches(group.stream()) {
                        self.read_use(branch, &path, public);
                    }
                    return;
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    let path = resolve(path, &self.module);
                    if public {
                        self.globs.push(path);
                    } else {
                        self.names.push(path);
                    }
                    return;
                }
                _ => {}
            }
            at += if is_path_separator(&tokens, at) { 2 } else { 1 };
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(name) = path.last().cloned() {
            self.add_name(path, name, public);
        }
    }

    fn add_name(&mut self, path: Vec<String>, name: String, public: bool) {
        let path = resolve(path, &self.module);
        if !public {
            self.names.push(path.clone());
        }
        self.aliases.insert(name, path);
    }
}

struct Names<'a> {
    files: &'a [File],
    by_module: BTreeMap<&'a [String], usize>,
}

impl Names<'_> {
    /// The other files whose items a file names, and those names.
    fn imports(&self, of: usize) -> BTreeMap<usize, BTreeSet<String>> {
        let mut imports: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for path in &self.files[of].names {
            let Some(absolute) = self.absolute(of, path, 0) else {
                continue;
            };
            if let Some((file, name)) = self.defined(&absolute, 0)
                && file != of
            {
                imports.entry(file).or_default().insert(name);
            }
        }
        imports
    }

    /// The path from the crate's root that a file means by a path.
    fn absolute(&self, file: usize, path: &[String], depth: usize) -> Option<Vec<String>> {
        let file_at = &self.files[file];
        let (first, rest) = path.split_first()?;
        let from = match first.as_str() {
            "crate" | "cuckood" => Vec::new(),
            "self" => file_at.module.clone(),
            first if file_at.children.contains(first) => {
                let mut module = file_at.module.clone();
                module.push(first.to_owned());
                module
            }
            first => {
                let alias = file_at.aliases.get(first).filter(|alias| *alias != path)?;
                if depth > 8 {
                    return None;
                }
                self.absolute(file, alias, depth + 1)?
            }
        };
        Some(from.into_iter().chain(rest.iter().cloned()).collect())
    }

    /// The file that defines what a path from the root leads to, and its name.
    fn defined(&self, path: &[String], depth: usize) -> Option<(usize, String)> {
        let (length, file) = (0..=path.len())
            .rev()
            .find_map(|length| Some((length, *self.by_module.get(&path[..length])?)))?;
        let name = path.get(length)?;
        let file_at = &self.files[file];
        if file_at.items.contains(name) || depth > 8 {
            return Some((file, name.clone()));
        }
        if let Some(alias) = file_at.aliases.get(name) {
            let mut absolute = self.absolute(file, alias, 0)?;
            absolute.extend(path[length + 1..].iter().cloned());
            return self.defined(&absolute, depth + 1);
        }
        for glob in &file_at.globs {
            let mut absolute = self.absolute(file, glob, 0)?;
            absolute.extend(path[length..].iter().cloned());
            if let Some((found, name)) = self.defined(&absolute, depth + 1)
                && self.files[found].items.contains(&name)
            {
                return Some((found, name));
            }
        }
        Some((file, name.clone()))
    }
}

fn length_to_semicolon(tokens: &[TokenTree]) -> usize {
    tokens
        .iter()
        .position(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';'))
        .unwrap_or(tokens.len())
}

/// Whether `pub` or `pub(…)` stands before a position.
fn is_public(tokens: &[TokenTree], at: usize) -> bool {
    let is_pub = |at: Option<usize>| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|token| matches!(token, TokenTree::Ident(word) if word == "pub"))
    };
    let before = at.checked_sub(1);
    match before.and_then(|before| tokens.get(before)) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            is_pub(at.checked_sub(2))
        }
        _ => is_pub(before),
    }
}

/// Groups of more than one file in which each can be reached from each
/// (Tarjan, "Depth-first search and linear graph algorithms", 1972).
fn strongly_connected(imports: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let mut search = Search {
        imports,
        number: vec![None; imports.len()],
        low: vec![0; imports.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for file in 0..imports.len() {
        if search.number[file].is_none() {
            search.visit(file);
        }
    }
    search.found
}

struct Search<'a> {
    imports: &'a [BTreeSet<usize>],
    number: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<BTreeSet<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, file: usize) {
        let number = self.next;
        self.next += 1;
        self.number[file] = Some(number);
        self.low[file] = number;
        self.stack.push(file);
        for &other in &self.imports[file] {
            match self.number[other] {
                None => {
                    self.visit(other);
                    self.low[file] = self.low[file].min(self.low[other]);
                }
                Some(reached) if self.stack.contains(&other) => {
                    self.low[file] = self.low[file].min(reached);
                }
                Some(_) => {}
            }
        }
        if self.low[file] == number {
            let start = self.stack.iter().position(|&on| on == file).unwrap();
            let circle: BTreeSet<usize> = self.stack.split_off(start).into_iter().collect();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], depth: usize) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(name, text)| Source::parse(name, text))
            .collect();
        circles(&sources, depth)
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        for back in [
            "use super::a::A; pub struct B(A);",
            "use crate::room::a; pub struct B(a::A);",
            "pub struct B(crate::room::a::A);",
            "use super::{a::{A as Other}}; pub struct B(Other);",
            "pub struct B; fn f() { use super::a::A; }",
        ] {
            let circle = found(
                &[
                    ("room/mod.rs", "mod a; mod b;"),
                    ("room/a.rs", "use super::b::B; pub struct A(B);"),
                    ("room/b.rs", back),
                ],
                FILES,
            );
            assert_eq!(circle.len(), 1, "{back}");
            assert!(circle[0].starts_with("2 of them:"), "{back}");
        }
    }

    #[test]
    fn a_circle_may_go_through_a_name_that_is_handed_on() {
        let files = [
            ("room/mod.rs", "mod a; mod b; pub use b::B; pub use a::*;"),
            ("room/a.rs", "use super::B; pub struct A(B);"),
            ("room/b.rs", "use crate::room::A; pub struct B(A);"),
        ];
        assert_eq!(found(&files, FILES).len(), 1);
    }

    #[test]
    fn handing_names_on_and_testing_ties_nothing() {
        let files = [
            ("room/mod.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("room/a.rs", "use super::B; pub struct A(B);"),
            (
                "room/b.rs",
                "pub struct B; #[cfg(test)] mod tests { use super::super::a::A; }",
            ),
        ];
        assert_eq!(found(&files, FILES), Vec::<String>::new());
    }

    #[test]
    fn a_parent_that_takes_from_its_child_may_not_give_to_it() {
        let files = [
            ("room/mod.rs", "mod a; use a::A; pub struct Top(A);"),
            ("room/a.rs", "use super::Top; pub struct A(Box<Top>);"),
        ];
        assert_eq!(found(&files, FILES).len(), 1);
    }

    #[test]
    fn rooms_may_tie_a_circle_where_no_files_do() {
        let files = [
            ("a/mod.rs", "mod one; mod two;"),
            ("a/one.rs", "use crate::b::One; pub struct A(One);"),
            ("a/two.rs", "pub struct Two;"),
            ("b.rs", "mod two; pub struct One;"),
            ("b/two.rs", "use crate::a::two::Two; pub struct B(Two);"),
        ];
        assert_eq!(found(&files, FILES), Vec::<String>::new());
        assert_eq!(found(&files, 2), Vec::<String>::new());
        assert_eq!(found(&files, 1).len(), 1);
    }
}
