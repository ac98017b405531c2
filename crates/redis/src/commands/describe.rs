//! What `COMMAND` says of the commands, so that clients know which words are
//! keys and can hint at arguments.

use super::table::{Group, Keys, Spec, TABLE, find};
use crate::access::Scope;
use crate::protocol::encode::Replies;
use crate::protocol::pipeline::Words;

/// Bytes that describe one command, at most.
pub(crate) const MOST_BYTES: usize = 1024;

/// Answers `COMMAND`.
pub(crate) fn command(words: Words<'_>, replies: &mut Replies) {
    match (words.get(1).to_ascii_lowercase().as_slice(), words.len()) {
        (_, 1) | (b"info", 2) => {
            replies.array(TABLE.len());
            TABLE.iter().for_each(|spec| info(spec, replies));
        }
        (b"info", _) => {
            replies.array(words.len() - 2);
            for name in words.from(2).iter() {
                match find(name) {
                    Some(spec) => info(spec, replies),
                    None => replies.nil(),
                }
            }
        }
        (b"docs", 2) => docs(TABLE.iter(), TABLE.len(), replies),
        (b"docs", _) => {
            let known: Vec<&Spec> = words.from(2).iter().filter_map(find).collect();
            docs(known.iter().copied(), known.len(), replies);
        }
        (b"list", 2) => {
            replies.array(TABLE.len());
            replies.bulks(TABLE.iter().map(|spec| spec.name));
        }
        (b"count", 2) => replies.count(TABLE.len() as u64),
        (b"list" | b"count", _) => replies.error(&super::errors::arity_of("command", words.get(1))),
        _ => replies.error(&super::errors::unknown_subcommand(words)),
    }
}

fn info(spec: &Spec, replies: &mut Replies) {
    let (first, last) = match spec.keys {
        Keys::None => (0, 0),
        Keys::First => (1, 1),
        Keys::All => (1, -1),
        Keys::Second => (2, 2),
    };
    let (flags, categories) = flags_and_categories(spec);
    replies.array(10);
    replies.bulk(spec.name.as_bytes());
    replies.integer(i64::from(spec.arity));
    statuses(flags, replies);
    replies.integer(first);
    replies.integer(last);
    replies.integer(i64::from(first > 0));
    statuses(categories, replies);
    replies.set(0);
    replies.set(usize::from(first > 0));
    if first > 0 {
        key_places(spec, first, last, replies);
    }
    replies.set(0);
}

/// Where the keys are, in the form that redis 7 has for it.
fn key_places(spec: &Spec, first: i64, last: i64, replies: &mut Replies) {
    let access = match spec.scope {
        Scope::Read => "RO",
        Scope::Write | Scope::Admin => "RW",
    };
    replies.map(3);
    replies.bulk(b"flags");
    statuses(&[access], replies);
    replies.bulk(b"begin_search");
    replies.map(2);
    replies.bulks(["type", "index", "spec"]);
    replies.map(1);
    replies.bulk(b"index");
    replies.integer(first);
    replies.bulk(b"find_keys");
    replies.map(2);
    replies.bulks(["type", "range", "spec"]);
    replies.map(3);
    // Counted from the first key.
    for (name, number) in [("lastkey", last.min(0)), ("keystep", 1), ("limit", 0)] {
        replies.bulk(name.as_bytes());
        replies.integer(number);
    }
}

fn statuses(words: &[&str], replies: &mut Replies) {
    replies.set(words.len());
    words.iter().for_each(|word| replies.status(word));
}

/// Flags of commands that touch no filter.
const FAST: &[&str] = &["noscript", "loading", "stale", "fast"];

/// The flags of a command, and its categories.
fn flags_and_categories(spec: &Spec) -> (&'static [&'static str], &'static [&'static str]) {
    match (spec.group, spec.scope) {
        (Group::Cuckoo, Scope::Read) => (&["readonly", "module"], &["@read", "@cuckoo"]),
        (Group::Cuckoo, Scope::Write) => (&["write", "denyoom", "module"], &["@write", "@cuckoo"]),
        (Group::Cuckoo, Scope::Admin) => (&["write", "module"], &["@write", "@cuckoo"]),
        (Group::Bloom, Scope::Read) => (&["readonly", "module"], &["@read", "@bloom"]),
        (Group::Bloom, Scope::Write) => (&["write", "denyoom", "module"], &["@write", "@bloom"]),
        (Group::Bloom, Scope::Admin) => (&["write", "module"], &["@write", "@bloom"]),
        (Group::Generic, Scope::Read) => (&["readonly"], &["@keyspace", "@read"]),
        (Group::Generic, _) => (&["write"], &["@keyspace", "@write"]),
        (Group::Server, Scope::Read) => (&["loading", "stale"], &["@slow"]),
        (Group::Server, _) => (&["write"], &["@slow", "@dangerous"]),
        (Group::Connection | Group::Cluster, _) => (FAST, &["@fast", "@connection"]),
        (Group::Transactions, _) => (FAST, &["@fast", "@transaction"]),
    }
}

fn docs<'a>(specs: impl Iterator<Item = &'a Spec>, count: usize, replies: &mut Replies) {
    replies.map(count);
    for spec in specs {
        replies.bulk(spec.name.as_bytes());
        let arguments = arguments(spec.arguments);
        replies.map(if arguments.is_empty() { 3 } else { 4 });
        replies.bulks(["summary", spec.summary, "since", spec.since]);
        replies.bulks(["group", spec.group.name()]);
        if !arguments.is_empty() {
            replies.bulk(b"arguments");
            replies.array(arguments.len());
            arguments.iter().for_each(|it| it.describe(replies));
        }
    }
}

/// An argument, as `COMMAND DOCS` describes it.
#[derive(Debug, PartialEq, Eq)]
struct Argument<'a> {
    /// `None`: the token is all of it.
    name: Option<&'a str>,
    token: Option<&'a str>,
    is_optional: bool,
    is_repeated: bool,
}

impl Argument<'_> {
    fn describe(&self, replies: &mut Replies) {
        let name = self.name.or(self.token).unwrap_or_default();
        let kind = match self.name {
            None => "pure-token",
            Some("key") => "key",
            Some(_) => "string",
        };
        let optional = self.is_optional.then_some("optional");
        let repeated = self.is_repeated.then_some("multiple");
        let flags: Vec<&str> = optional.into_iter().chain(repeated).collect();
        replies.map(2 + usize::from(self.token.is_some()) + usize::from(!flags.is_empty()));
        replies.bulks(["name", &name.to_ascii_lowercase(), "type", kind]);
        if let Some(token) = self.token {
            replies.bulks(["token", token]);
        }
        if !flags.is_empty() {
            replies.bulk(b"flags");
            replies.array(flags.len());
            flags.iter().for_each(|flag| replies.status(flag));
        }
    }
}

/// Takes the arguments of a [`Spec`] apart. A word in capitals is a token that
/// stands before what follows it.
fn arguments(text: &str) -> Vec<Argument<'_>> {
    let mut found = Vec::new();
    let (mut token, mut is_optional) = (None, false);
    for word in text.split_ascii_whitespace() {
        is_optional |= word.starts_with('[');
        let is_last = word.ends_with(']') || !is_optional;
        let word = word.trim_matches(['[', ']']);
        let is_repeated = word.ends_with('*');
        let word = word.strip_suffix('*').unwrap_or(word);
        let is_token = word.bytes().all(|byte| byte.is_ascii_uppercase());
        if is_token && !(is_optional && is_last) {
            token = Some(word);
            continue;
        }
        found.push(Argument {
            name: (!is_token).then_some(word),
            token: if is_token { Some(word) } else { token.take() },
            is_optional,
            is_repeated,
        });
        is_optional = false;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::Version;

    #[test]
    fn arguments_are_taken_apart() {
        let text = "key [CAPACITY capacity] [NOCREATE] ITEMS item*";
        let of = |name, token, is_optional, is_repeated| Argument {
            name,
            token,
            is_optional,
            is_repeated,
        };
        assert_eq!(
            arguments(text),
            [
                of(Some("key"), None, false, false),
                of(Some("capacity"), Some("CAPACITY"), true, false),
                of(None, Some("NOCREATE"), true, false),
                of(Some("item"), Some("ITEMS"), false, true),
            ]
        );
    }

    #[test]
    fn descriptions_are_replies_in_both_versions() {
        for version in [Version::Resp2, Version::Resp3] {
            let mut replies = Replies::default();
            replies.version = version;
            TABLE.iter().for_each(|spec| info(spec, &mut replies));
            docs(TABLE.iter(), TABLE.len(), &mut replies);
            let all = replies.len();
            for spec in TABLE {
                let before = replies.len();
                info(spec, &mut replies);
                assert!(replies.len() - before <= MOST_BYTES, "{}", spec.name);
                let before = replies.len();
                docs(std::iter::once(spec), 1, &mut replies);
                assert!(replies.len() - before <= MOST_BYTES, "{}", spec.name);
            }
            let mut parser = redis::Parser::new();
            let mut bytes = &replies.bytes()[..all];
            for _ in 0..TABLE.len() + 1 {
                parser.parse_value(&mut bytes).unwrap();
            }
        }
    }
}
