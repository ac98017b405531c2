//! A client that has a filter for itself and sends one request after the
//! other, each change under a key. What was not answered is sent again, so
//! that every change counts exactly once, and a [`Model`] is fed the same.
//! Every answer of the server must be the model's.

use crate::load::Life;
use crate::model::Model;
use crate::random::Random;
use crate::server::Server;
use cuckood::engine::AddMode;
use cuckood::file::FileView;
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Distinct items beyond which more are deleted than added.
const MANY_ITEMS: usize = 4_000;

/// Distinct items at high tide and at low tide of the filters that grow and shrink
/// again and again, and items of a change then, at most.
const HIGH_TIDE: usize = 10_000;
const LOW_TIDE: usize = 100;
const MOST_OF_TIDE: u64 = 800;

/// Items that are added many times: more than may have slots.
const HOT_ITEMS: u64 = 4;

/// The filters: every layout and width. Those with a tide split and merge pages
/// all the time. The last one's client also deletes what was never added, which
/// takes other items' fingerprints; there only the model knows what is right.
const FILTERS: [(&str, &str); 8] = [
    (
        "scribe-12-bits",
        r#"{"capacity": 500, "fingerprint_bits": 12}"#,
    ),
    (
        "scribe-16-bits",
        r#"{"capacity": 500, "fingerprint_bits": 16}"#,
    ),
    (
        "scribe-32-bits",
        r#"{"capacity": 500, "fingerprint_bits": 32}"#,
    ),
    (
        "scribe-classic-2",
        r#"{"capacity": 500, "bucket_size": 2, "expansion": 2}"#,
    ),
    (
        "scribe-classic-4",
        r#"{"capacity": 500, "bucket_size": 4, "expansion": 1}"#,
    ),
    ("scribe-tide", r#"{"fingerprint_bits": 16}"#),
    (
        "scribe-wide-tide",
        r#"{"capacity": 2000, "fingerprint_bits": 32}"#,
    ),
    ("scribe-wild", r#"{"capacity": 500, "error_rate": 0.1}"#),
];

pub(crate) struct Scribe {
    pub(crate) filter: &'static str,
    model: Model,
    random: Random,
    is_wild: bool,
    /// Whether it is rising; of a filter with a tide.
    tide: Option<bool>,
    /// Copies of each item that is there.
    copies: HashMap<u64, u64>,
    /// The items that are there, in no order.
    live: Vec<u64>,
    next_item: u64,
    /// Changes sent so far; numbers their keys.
    sent: u64,
    /// The one that was not answered.
    open: Option<Change>,
    pub(crate) figures: Figures,
}

/// What a client did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Changes that were answered.
    pub(crate) changes: u64,
    /// Questions that were answered.
    pub(crate) questions: u64,
    pub(crate) items_added: u64,
    pub(crate) items_deleted: u64,
    /// Changes that were sent again, since no answer came.
    pub(crate) sent_again: u64,
    /// Those of them that had been made.
    pub(crate) replayed: u64,
    pub(crate) dumps_compared: u64,
    pub(crate) counts_compared: u64,
    /// Answers for one item that were compared with the model's, and those that
    /// were another one.
    pub(crate) answers_compared: u64,
    pub(crate) answers_unlike: u64,
    /// Acknowledged items that were looked for, and those that were not there as
    /// often as they were added.
    pub(crate) looked_for: u64,
    pub(crate) lost: u64,
}

#[derive(Clone)]
struct Change {
    verb: Verb,
    items: Vec<u64>,
    key: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Add,
    AddIfAbsent,
    Delete,
}

/// Makes the filters and their clients.
pub(crate) fn create(server: &Server, model: &Model, random: &mut Random) -> Vec<Scribe> {
    let scribe = |&(filter, parameters): &(&'static str, &str)| {
        let parameters: Value = serde_json::from_str(parameters).unwrap();
        server.create_filter(filter, &parameters);
        let dump = server.client().get(server.url(&path(filter, "dump")));
        model.take_over(filter, &dump.send().unwrap().bytes().unwrap());
        Scribe {
            filter,
            model: model.clone(),
            random: Random(random.next()),
            is_wild: filter.ends_with("wild"),
            tide: filter.ends_with("tide").then_some(true),
            copies: HashMap::new(),
            live: Vec::new(),
            next_item: HOT_ITEMS,
            sent: 0,
            open: None,
            figures: Figures::default(),
        }
    };
    FILTERS.iter().map(scribe).collect()
}

fn path(filter: &str, rest: &str) -> String {
    format!("/filters/{filter}/{rest}")
}

impl Scribe {
    pub(crate) fn load(&mut self, client: &Client, base: &str, life: &Life) {
        loop {
            let answered = match self.random.below(10) {
                0..7 => {
                    let change = self.choose_change();
                    self.open = Some(change);
                    self.send(client, base)
                }
                7 | 8 => self.ask(client, base),
                _ => self.look_up(client, base),
            };
            if !answered {
                assert!(life.is_over(), "a request failed while the server was up");
                return;
            }
            life.pause();
        }
    }

    fn choose_change(&mut self) -> Change {
        let is_large = self.live.len() > MANY_ITEMS;
        let tide = match self.live.len() {
            0..LOW_TIDE => self.tide.map(|_| true),
            HIGH_TIDE.. => self.tide.map(|_| false),
            _ => self.tide,
        };
        self.tide = tide;
        let (verb, items) = match self.random.below(10) {
            0..8 if tide == Some(true) => (Verb::Add, self.new_items(MOST_OF_TIDE)),
            0..8 if tide == Some(false) => (Verb::Delete, self.copies_to_delete(MOST_OF_TIDE)),
            0..4 if !is_large => (Verb::Add, self.new_items(100)),
            4 | 5 => (Verb::Add, self.hot_items()),
            6 => {
                let mut items = self.known_items(30);
                items.extend(self.new_items(10));
                (Verb::AddIfAbsent, items)
            }
            _ => (Verb::Delete, self.copies_to_delete(150)),
        };
        self.sent += 1;
        Change {
            verb,
            items,
            key: format!("{}-{}", self.filter, self.sent),
        }
    }

    fn new_items(&mut self, most: u64) -> Vec<u64> {
        let count = 1 + self.random.below(most);
        let first = self.next_item;
        self.next_item += count;
        (first..first + count).collect()
    }

    fn hot_items(&mut self) -> Vec<u64> {
        let hot = self.random.below(HOT_ITEMS);
        let mut items = vec![hot; 20 + self.random.below(200) as usize];
        items.extend(self.known_items(5));
        items
    }

    /// Up to so many items that are there.
    fn known_items(&mut self, most: u64) -> Vec<u64> {
        if self.live.is_empty() {
            return Vec::new();
        }
        let count = self.random.below(most + 1);
        let choose = |_| self.live[self.random.below(self.live.len() as u64) as usize];
        (0..count).map(choose).collect()
    }

    /// Items that are there, none more often than it is.
    fn copies_to_delete(&mut self, most: u64) -> Vec<u64> {
        let mut left: HashMap<u64, u64> = HashMap::new();
        let mut chosen = Vec::new();
        for item in self.known_items(most) {
            let left = left.entry(item).or_insert(self.copies[&item]);
            // Of a hot item many at once.
            let count = (*left).min(match item < HOT_ITEMS {
                true => 1 + self.random.below(150),
                false => 1,
            });
            *left -= count;
            chosen.extend((0..count).map(|_| item));
        }
        if self.is_wild {
            let never_added = self.next_item + self.random.below(1 << 40);
            chosen.push(never_added);
        }
        chosen
    }

    fn names(&self, items: &[u64]) -> Vec<String> {
        let name = |item: &u64| format!("{} item {item}", self.filter);
        items.iter().map(name).collect()
    }

    /// Sends the open change; `false` if no answer came.
    fn send(&mut self, client: &Client, base: &str) -> bool {
        let Some(change) = self.open.clone() else {
            return true;
        };
        let names = self.names(&change.items);
        let rest = match change.verb {
            Verb::Add => "items",
            Verb::AddIfAbsent => "items?only_if_absent=true",
            Verb::Delete => "items/delete",
        };
        let url = format!("{base}{}", path(self.filter, rest));
        let Some((results, replayed)) = post(client, &url, &names, Some(&change.key)) else {
            return false;
        };
        self.open = None;
        self.figures.changes += 1;
        self.figures.replayed += u64::from(replayed);
        let expected = match change.verb {
            Verb::Add => self.model.add(self.filter, &names, AddMode::Always),
            Verb::AddIfAbsent => self.model.add(self.filter, &names, AddMode::OnlyIfAbsent),
            Verb::Delete => self.model.delete(self.filter, &names),
        };
        self.agree(&results, &expected);
        for (item, result) in change.items.into_iter().zip(results) {
            match (change.verb, result.as_str()) {
                (Verb::Add | Verb::AddIfAbsent, "added") => self.count_added(item),
                (Verb::Delete, "true") => self.count_deleted(item),
                (Verb::Delete, _) if !self.is_wild => self.report_lost(item, "not there to delete"),
                _ => {}
            }
        }
        true
    }

    fn count_added(&mut self, item: u64) {
        self.figures.items_added += 1;
        let copies = self.copies.entry(item).or_insert(0);
        *copies += 1;
        if *copies == 1 {
            self.live.push(item);
        }
    }

    fn count_deleted(&mut self, item: u64) {
        self.figures.items_deleted += 1;
        let Some(copies) = self.copies.get_mut(&item) else {
            // Of the wild one: another item's fingerprint went.
            return;
        };
        *copies -= 1;
        if *copies == 0 {
            self.copies.remove(&item);
            let at = self.live.iter().position(|&it| it == item).unwrap();
            self.live.swap_remove(at);
        }
    }

    /// Asks for items that are there, were there, and never were.
    fn ask(&mut self, client: &Client, base: &str) -> bool {
        let mut items = self.known_items(60);
        items.extend((0..40).map(|_| self.random.below(self.next_item * 2)));
        let names = self.names(&items);
        let url = |rest| format!("{base}{}", path(self.filter, rest));
        let Some((found, _)) = post(client, &url("exists"), &names, None) else {
            return false;
        };
        let Some((counts, _)) = post(client, &url("count"), &names, None) else {
            return false;
        };
        self.compare(&items, &names, &found, &counts);
        self.figures.questions += 2;
        true
    }

    fn compare(&mut self, items: &[u64], names: &[String], found: &[String], counts: &[String]) {
        self.agree(found, &self.model.exists(self.filter, names));
        self.agree(counts, &self.model.count(self.filter, names));
        self.figures.counts_compared += items.len() as u64;
        if self.is_wild {
            return;
        }
        for ((item, found), count) in items.iter().zip(found).zip(counts) {
            let copies = self.copies.get(item).copied().unwrap_or(0);
            let counted: u64 = count.parse().unwrap();
            self.figures.looked_for += u64::from(copies > 0);
            if counted < copies || copies > 0 && found != "true" {
                self.report_lost(*item, &format!("counted {counted} times of {copies}"));
            }
        }
    }

    /// Counts the answers that are not the model's; there must be none.
    fn agree(&mut self, answers: &[String], expected: &[String]) {
        let unlike = answers
            .iter()
            .zip(expected)
            .filter(|(one, other)| one != other);
        self.figures.answers_unlike += unlike.count() as u64;
        self.figures.answers_compared += answers.len() as u64;
        assert_eq!(answers, expected, "{}", self.filter);
    }

    fn report_lost(&mut self, item: u64, found: &str) {
        self.figures.lost += 1;
        let filter = self.filter;
        panic!("item {item} of {filter} was acknowledged and is lost: {found}");
    }

    /// Asks all filters at once for an item that is in this one.
    fn look_up(&mut self, client: &Client, base: &str) -> bool {
        let items = self.known_items(20);
        if items.is_empty() || self.is_wild {
            return true;
        }
        let asked = json!({"items": self.names(&items), "prefix": "scribe-"});
        let answer = client.post(format!("{base}/lookup")).json(&asked).send();
        let Some(answer) = answer.ok().and_then(|answer| answer.json::<Value>().ok()) else {
            return false;
        };
        let all = answer["results"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        for (item, found) in items.iter().zip(all) {
            let found = found.to_string();
            assert!(
                found.contains(self.filter),
                "item {item} of {} is in {found}",
                self.filter
            );
        }
        self.figures.questions += 1;
        true
    }

    /// Sends again what was not answered, then compares everything.
    pub(crate) fn verify(&mut self, server: &Server) {
        if self.open.is_some() {
            self.figures.sent_again += 1;
            assert!(self.send(server.client(), &server.url("")));
        }
        let items = self.model.items(self.filter);
        assert_eq!(server.items(self.filter), items, "{}", self.filter);
        if !self.is_wild {
            assert_eq!(items, self.copies.values().sum::<u64>(), "{}", self.filter);
        }
        // The whole filter, bit for bit.
        let dump = server.client().get(server.url(&path(self.filter, "dump")));
        let dump = dump.send().unwrap().bytes().unwrap();
        assert!(
            FileView::open(dump).unwrap().verify().unwrap() == self.model.content(self.filter),
            "{} is not what the same commits make of it in memory",
            self.filter
        );
        self.figures.dumps_compared += 1;

        let live = self.live.clone();
        for items in live.chunks(2_000) {
            let names = self.names(items);
            let found = server.post_lines(&path(self.filter, "exists"), &names);
            let counts = server.post_lines(&path(self.filter, "count"), &names);
            self.compare(items, &names, &found.unwrap(), &counts.unwrap());
        }
    }
}

/// Posts one item a line, perhaps under a key; returns one result a line and
/// whether they were given before. `None` if no answer came.
pub(crate) fn post(
    client: &Client,
    url: &str,
    items: &[String],
    key: Option<&str>,
) -> Option<(Vec<String>, bool)> {
    let mut request = client
        .post(url)
        .header("content-type", "text/plain")
        .header("accept", "text/plain")
        .body(items.join("\n"));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let answer = request.send().ok()?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let text = answer.text().ok()?;
    assert_eq!(status, StatusCode::OK, "POST {url}: {text}");
    let results = text.lines().map(str::to_owned).collect();
    Some((results, headers.contains_key("idempotency-replayed")))
}
