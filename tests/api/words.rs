//! What no log line may hold: items, keys of filters, API keys and keys of
//! retries. Whatever the tests' own clients send of these is kept here, and
//! each line that a server of theirs logs is looked through for it.
//!
//! Of what was sent, words count that tell something: of five characters and
//! more, and not digits alone. In a line what the server says by itself does
//! not count: the fields of [`OWN_FIELDS`].

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

/// Fields whose values are the server's own words, or the client's own name for
/// its request.
const OWN_FIELDS: [&str; 19] = [
    "action",
    "added_names",
    "address",
    "caller",
    "changed_names",
    "code",
    "data_dir",
    "level",
    "method",
    "note",
    "outcome",
    "removed_names",
    "request_id",
    "route",
    "status",
    "target",
    "timestamp",
    "version",
    "what",
];

/// Bytes of a body, and words of a request, that are looked at.
const MOST_BYTES: usize = 64 << 10;
const MOST_WORDS: usize = 64;

#[derive(Default)]
struct Known {
    words: HashSet<String>,
    /// Lines that hold one.
    found: Vec<String>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Remembers what is secret in a request that is about to be sent.
pub(crate) fn remember_request(url: &Url, headers: &HeaderMap, body: Option<&[u8]>) {
    let mut words = Vec::new();
    let mut path = url.path_segments().into_iter().flatten();
    if path.next() == Some("filters") {
        words.extend(path.next().map(str::to_owned));
    }
    for (name, value) in url.query_pairs() {
        if name.starts_with("item") || name == "prefix" {
            words.push(value.into_owned());
        }
    }
    for name in [AUTHORIZATION.as_str(), "idempotency-key"] {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        words.extend(value.map(|value| value.trim_start_matches("Bearer ").to_owned()));
    }
    let body = body.map(|body| &body[..body.len().min(MOST_BYTES)]);
    if let Some(text) = body.and_then(|body| std::str::from_utf8(body).ok()) {
        match serde_json::from_str::<Value>(text) {
            Ok(body) => strings_of(&body, &mut words),
            Err(_) => words.extend(text.lines().map(str::to_owned)),
        }
    }
    remember(words.iter().map(String::as_str));
}

/// Commands of redis that are about the server, with words of its own.
const OWN_COMMANDS: [&[u8]; 4] = [b"CLIENT", b"COMMAND", b"CONFIG", b"INFO"];

/// Remembers the words of a command of redis that may be secret: all but its name and
/// its options.
pub(crate) fn remember_command<W: AsRef<[u8]>>(words: &[W]) {
    let name = words.first().map(AsRef::as_ref).unwrap_or_default();
    if OWN_COMMANDS.contains(&name) {
        return;
    }
    let texts = words.iter().skip(1);
    let texts = texts.filter_map(|word| std::str::from_utf8(word.as_ref()).ok());
    remember(texts.filter(|word| word.bytes().any(|byte| !byte.is_ascii_uppercase())));
}

fn remember<'a>(words: impl Iterator<Item = &'a str>) {
    let mut known = KNOWN.lock().unwrap();
    for word in words.take(MOST_WORDS) {
        known.words.extend(telling(word).map(str::to_owned));
    }
}

/// What an object names as items or filters.
fn strings_of(body: &Value, words: &mut Vec<String>) {
    for field in ["items", "filters", "prefix"] {
        match &body[field] {
            Value::Array(items) => {
                let texts = items.iter().filter_map(Value::as_str);
                words.extend(texts.take(MOST_WORDS).map(str::to_owned));
            }
            Value::String(text) => words.push(text.clone()),
            _ => {}
        }
    }
}

/// The words of a text that tell something.
fn telling(text: &str) -> impl Iterator<Item = &str> {
    let is_of_a_word = |c: char| c.is_alphanumeric() || "._:~-/+=%".contains(c);
    text.split(move |c| !is_of_a_word(c))
        .map(|word| word.trim_matches([':', '.', '=', '"']))
        .filter(|word| word.len() >= 5 && !word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Looks through the value of a field that was logged.
pub(crate) fn look_through(field: &str, value: &str) {
    if OWN_FIELDS.contains(&field) {
        return;
    }
    let mut known = KNOWN.lock().unwrap();
    let held = telling(value).find(|word| known.words.contains(*word));
    if let Some(word) = held {
        let line = format!("{word:?} is logged: {field}: {value}");
        known.found.push(line);
    }
}

/// Fails if a line held what was sent.
#[track_caller]
pub(crate) fn assert_none_was_logged() {
    let found = KNOWN.lock().unwrap().found.clone();
    assert!(found.is_empty(), "{found:#?}");
}

/// Forgets what was found of a word; says whether there was anything.
pub(crate) fn take_found(word: &str) -> bool {
    let mut known = KNOWN.lock().unwrap();
    let before = known.found.len();
    known.found.retain(|line| !line.contains(word));
    known.found.len() < before
}

#[test]
fn a_word_that_was_sent_is_found_in_a_line_and_others_are_not() {
    let url =
        Url::parse("http://localhost/filters/zz-words-key/exists?item=zz-words-asked").unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(
        "authorization",
        "Bearer cuckood_zzwordstoken".parse().unwrap(),
    );
    headers.insert("idempotency-key", "zz-words-retry".parse().unwrap());
    remember_request(
        &url,
        &headers,
        Some(br#"{"items": ["zz-words-item", 17, "abc"]}"#),
    );
    remember_request(&url, &HeaderMap::new(), Some(b"zz-words-line\n12345678\n"));
    remember_command(&["CF.ADD", "zz-words-redis", "CAPACITY", "12345678"]);
    let found = |value: &str| {
        look_through("route", value);
        assert!(!take_found(value));
        look_through("message", value);
        take_found(value)
    };
    for word in [
        "zz-words-key",
        "zz-words-asked",
        "cuckood_zzwordstoken",
        "zz-words-retry",
        "zz-words-item",
        "zz-words-line",
        "zz-words-redis",
    ] {
        assert!(
            found(&format!("it holds {word}, which it may not")),
            "{word}"
        );
        assert!(found(&format!("{{\"x\":\"{word}\"}}")), "{word}");
        assert!(!found(&format!("it holds {word}er")), "{word}");
    }
    assert!(!found("abc 17 12345678 CAPACITY"));
}
