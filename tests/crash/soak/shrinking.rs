//! A tenant whose filter, of the layout `classic`, grows into a chain, is nearly
//! emptied and compacted, again and again. Nobody else changes it, and a change that
//! was not answered is sent again with its key: so what the filter has is known
//! exactly, whatever a kill interrupts. A compaction that a kill interrupts must be
//! taken up again.

use crate::load::Life;
use crate::random::Random;
use crate::scribe::post;
use crate::server::{Server, client_with};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

const FILTER: &str = "shrinking:classic";

/// Four sub-filters hold the most, and the first has room for what is left.
const CAPACITY: usize = 500;
const MOST: usize = 6_000;
const LEFT: usize = 300;
const AT_ONCE: usize = 500;

/// Between two looks at a compaction.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A change that was sent and is not known to have been made.
struct Change {
    key: String,
    verb: &'static str,
    items: Vec<u64>,
}

enum Step {
    Grow,
    Shrink,
    Compact,
}

pub(super) struct Shrinking {
    client: Client,
    random: Random,
    /// The items that are there.
    held: Vec<u64>,
    step: Step,
    open: Option<Change>,
    changes: u64,
    rounds: u64,
    looked_for: u64,
    lost: u64,
}

fn names(items: &[u64]) -> Vec<String> {
    items.iter().map(|item| format!("item {item}")).collect()
}

fn url(base: &str, rest: &str) -> String {
    format!("{base}/filters/{FILTER}{rest}")
}

impl Shrinking {
    pub(super) fn new(server: &Server, key: &str, seed: u64) -> Shrinking {
        let fields = json!({
            "layout": "classic", "capacity": CAPACITY, "bucket_size": 4, "expansion": 2,
        });
        server.create_filter(FILTER, &fields);
        Shrinking {
            client: client_with(Some(key)),
            random: Random(seed),
            held: Vec::new(),
            step: Step::Grow,
            open: None,
            changes: 0,
            rounds: 0,
            looked_for: 0,
            lost: 0,
        }
    }

    pub(super) fn work(&mut self, base: &str, life: &Life) {
        while !life.is_over() {
            if self.act(base, life).is_none() {
                assert!(life.is_over(), "a request failed while the server was up");
                return;
            }
            life.pause();
        }
    }

    /// `None` if no answer came.
    fn act(&mut self, base: &str, life: &Life) -> Option<()> {
        match self.step {
            Step::Grow if self.held.len() >= MOST => self.step = Step::Shrink,
            Step::Grow => {
                let items = (0..AT_ONCE).map(|_| self.random.next()).collect();
                self.change(base, "/items", items)?;
            }
            Step::Shrink if self.held.len() <= LEFT => self.step = Step::Compact,
            Step::Shrink => {
                let gone = AT_ONCE.min(self.held.len() - LEFT);
                for last in (self.held.len() - gone..self.held.len()).rev() {
                    let chosen = self.random.below(last as u64 + 1) as usize;
                    self.held.swap(last, chosen);
                }
                let items = self.held.split_off(self.held.len() - gone);
                self.change(base, "/items/delete", items)?;
            }
            Step::Compact => {
                self.compact(base, life)?;
                self.compare(base)?;
                self.rounds += 1;
                self.step = Step::Grow;
            }
        }
        Some(())
    }

    fn change(&mut self, base: &str, verb: &'static str, items: Vec<u64>) -> Option<()> {
        self.changes += 1;
        let key = format!("shrinking-{}", self.changes);
        self.open = Some(Change { key, verb, items });
        self.send(base)
    }

    /// Sends the change that is not known to have been made.
    fn send(&mut self, base: &str) -> Option<()> {
        let Some(change) = &self.open else {
            return Some(());
        };
        let url = url(base, change.verb);
        let (results, _) = post(&self.client, &url, &names(&change.items), Some(&change.key))?;
        let right = if change.verb == "/items" {
            "added"
        } else {
            "true"
        };
        let wrong = results.iter().filter(|it| *it != right).count();
        assert_eq!((results.len(), wrong), (change.items.len(), 0), "{right}");
        if let Some(change) = self.open.take()
            && change.verb == "/items"
        {
            self.held.extend(change.items);
        }
        Some(())
    }

    /// Has it compacted until there is nothing left to do.
    fn compact(&mut self, base: &str, life: &Life) -> Option<()> {
        while !life.is_over() {
            let asked = self.client.post(url(base, "/compact")).send().ok()?;
            match asked.status() {
                StatusCode::ACCEPTED => {
                    let begun: Value = asked.json().ok()?;
                    if begun["closed_sub_filters"] == 0 {
                        let now: Value = self.get(base, "")?.json().ok()?;
                        let left = now["sub_filters"].as_array().map(Vec::len);
                        assert_eq!(left, Some(1), "{now}");
                        return Some(());
                    }
                }
                // One that a kill interrupted goes on.
                StatusCode::CONFLICT => {}
                other => panic!("compacting: {other}"),
            }
            self.follow(base, life)?;
        }
        None
    }

    /// Waits until the compaction that runs has ended.
    fn follow(&self, base: &str, life: &Life) -> Option<()> {
        while !life.is_over() {
            let now = self.get(base, "/compaction")?;
            // The one that went on after a kill may have ended and be forgotten.
            let is_known = now.status() == StatusCode::OK;
            let now: Value = now.json().ok()?;
            if !is_known || now["state"] != "running" {
                assert!(!is_known || now["state"] == "done", "{now}");
                return Some(());
            }
            thread::sleep(LOOK_EVERY);
        }
        None
    }

    fn get(&self, base: &str, rest: &str) -> Option<reqwest::blocking::Response> {
        self.client.get(url(base, rest)).send().ok()
    }

    /// The filter has as many items as it must have, and finds each.
    fn compare(&mut self, base: &str) -> Option<()> {
        let now: Value = self.get(base, "")?.json().ok()?;
        assert_eq!(now["items"], self.held.len(), "{FILTER}");
        let asked = names(&self.held);
        let (found, _) = post(&self.client, &url(base, "/exists"), &asked, None)?;
        let there = found.iter().filter(|found| *found == "true").count();
        self.looked_for += asked.len() as u64;
        self.lost += (asked.len() - there) as u64;
        assert_eq!(there, asked.len(), "{FILTER} has lost items");
        Some(())
    }

    /// After a restart: what was not answered is sent again, and everything compared.
    pub(super) fn verify(&mut self, server: &Server) {
        let base = server.url("");
        let sent = self.send(&base);
        sent.and_then(|()| self.compare(&base)).unwrap();
    }

    pub(super) fn figures(&self) -> Value {
        json!({
            "compacted_to_one_sub_filter": self.rounds,
            "items_looked_for": self.looked_for,
            "items_lost": self.lost,
        })
    }

    pub(super) fn leave(&self, server: &Server) {
        super::hostile::remove(server, FILTER);
    }
}
