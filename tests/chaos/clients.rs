//! Clients that change filters of their own, one change after the other, and know
//! exactly what is in them.

use crate::errand::{Answer, Ask, Over, World};
use crate::random::Random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Entries that there may be in a filter.
const ENTRIES: u64 = 300;

/// Copies of each.
const COPIES: u64 = 3;

/// Entries of a change, at most.
const BATCH: u64 = 20;

/// What kind of filter a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of pages, which grows by splits.
    Pages,
    /// A chain of sub-filters, which is compacted. Its fingerprints are so small that
    /// items look alike: only what was added is deleted and asked for.
    Chain,
    /// One whose items have values.
    Values,
    /// One that is removed and made again and again.
    Renewed,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Pages, Kind::Chain, Kind::Values, Kind::Renewed];

    fn parameters(self) -> &'static str {
        match self {
            Kind::Pages | Kind::Renewed => r#"{"capacity": 100, "fingerprint_bits": 32}"#,
            Kind::Chain => {
                r#"{"capacity": 64, "layout": "classic", "bucket_size": 2,
                    "expansion": 1, "max_expansions": 63}"#
            }
            Kind::Values => r#"{"capacity": 100, "fingerprint_bits": 32, "value_bits": 8}"#,
        }
    }

    fn entry(self, number: u64) -> String {
        match self {
            Kind::Values => format!("item-{}\t{}", number / 3, number % 3),
            _ => format!("item-{number}"),
        }
    }

    fn path(self) -> &'static str {
        match self {
            Kind::Values => "values",
            _ => "items",
        }
    }
}

/// A client, and what is in its filter.
pub(crate) struct Owner {
    pub(crate) filter: String,
    kind: Kind,
    random: Random,
    /// Copies of each entry that is there.
    copies: BTreeMap<u64, u64>,
    /// Of the last change that was acknowledged.
    pub(crate) position: String,
    changes: u64,
}

impl Owner {
    /// One that has made its filter.
    pub(crate) fn new(
        world: &World,
        name: &str,
        kind: Kind,
        mut random: Random,
    ) -> Result<Owner, Over> {
        let filter = format!("/filters/{name}");
        let key = format!("{name}-make");
        let ask = Ask::json("PUT", &filter, kind.parameters());
        let made = world.change(&mut random, &key, ask)?;
        assert_eq!(made.status, 201, "{}", made.text);
        Ok(Owner {
            filter,
            kind,
            random,
            copies: BTreeMap::new(),
            position: made.position.unwrap(),
            changes: 0,
        })
    }

    /// What must be there, all copies.
    pub(crate) fn items(&self) -> u64 {
        self.copies.values().sum()
    }

    /// One change, and perhaps a question.
    pub(crate) fn step(&mut self, world: &World) -> Result<(), Over> {
        match self.random.below(40) {
            0 if self.kind == Kind::Renewed => self.renew(world)?,
            0..20 => self.add(world)?,
            20..28 if self.kind != Kind::Chain => self.add_if_absent(world)?,
            _ => self.delete(world)?,
        }
        match self.random.below(8) {
            0 => self.ask(world, ("cuckood-consistency", "strong")),
            1 | 2 => {
                let position = self.position.clone();
                self.ask(world, ("cuckood-min-position", &position));
            }
            _ => {}
        }
        Ok(())
    }

    fn some(&mut self) -> Vec<u64> {
        let count = 1 + self.random.below(BATCH);
        let first = self.random.below(ENTRIES);
        (first..first + count).map(|it| it % ENTRIES).collect()
    }

    /// Without those of which nobody can say what the filter says.
    fn without_indeterminate(&self, mut entries: Vec<u64>) -> Vec<u64> {
        if self.kind == Kind::Chain {
            entries.retain(|it| self.copies.contains_key(it));
        }
        entries
    }

    fn body(&self, entries: &[u64]) -> String {
        let lines: Vec<String> = entries.iter().map(|it| self.kind.entry(*it)).collect();
        lines.join("\n")
    }

    /// Sends a change, and compares the answer to each entry with what must be
    /// answered.
    fn change(
        &mut self,
        world: &World,
        path: &str,
        entries: &[u64],
        expected: &[&str],
    ) -> Result<(), Over> {
        if entries.is_empty() {
            return Ok(());
        }
        let (path, body) = (format!("{}/{path}", self.filter), self.body(entries));
        let answer = self.send(world, Ask::lines(&path, &body))?;
        let answered: Vec<&str> = answer.text.lines().collect();
        if answer.status != 200 || answered != expected {
            let text = &answer.text;
            world.accuse(format!(
                "{path}, change {}: {} instead of {expected:?} to {body:?}: {text}",
                self.changes, answer.status
            ));
            return Err(Over);
        }
        Ok(())
    }

    fn send(&mut self, world: &World, ask: Ask<'_>) -> Result<Answer, Over> {
        self.changes += 1;
        let key = format!("{}-{}", self.filter, self.changes);
        let answer = world.change(&mut self.random, &key, ask)?;
        if let Some(position) = &answer.position {
            self.position.clone_from(position);
        }
        Ok(answer)
    }

    fn add(&mut self, world: &World) -> Result<(), Over> {
        let mut entries = self.some();
        entries.retain(|it| self.copies.get(it).is_none_or(|it| *it < COPIES));
        self.change(
            world,
            self.kind.path(),
            &entries,
            &vec!["added"; entries.len()],
        )?;
        for entry in entries {
            *self.copies.entry(entry).or_default() += 1;
        }
        Ok(())
    }

    fn add_if_absent(&mut self, world: &World) -> Result<(), Over> {
        let entries = self.some();
        let expected = |it: &u64| match self.copies.contains_key(it) {
            true => "exists",
            false => "added",
        };
        let expected: Vec<&str> = entries.iter().map(expected).collect();
        let path = format!("{}?only_if_absent=true", self.kind.path());
        self.change(world, &path, &entries, &expected)?;
        for entry in entries {
            self.copies.entry(entry).or_insert(1);
        }
        Ok(())
    }

    fn delete(&mut self, world: &World) -> Result<(), Over> {
        let entries = self.some();
        let entries = self.without_indeterminate(entries);
        let expected = |it: &u64| match self.copies.contains_key(it) {
            true => "true",
            false => "false",
        };
        let expected: Vec<&str> = entries.iter().map(expected).collect();
        let path = format!("{}/delete", self.kind.path());
        self.change(world, &path, &entries, &expected)?;
        for entry in entries {
            let left = self.copies.remove(&entry).unwrap_or_default();
            if left > 1 {
                self.copies.insert(entry, left - 1);
            }
        }
        Ok(())
    }

    /// Removes the filter and makes it again.
    fn renew(&mut self, world: &World) -> Result<(), Over> {
        let filter = self.filter.clone();
        for (method, body, status) in [("DELETE", "", 204), ("PUT", self.kind.parameters(), 201)] {
            let answer = self.send(world, Ask::json(method, &filter, body))?;
            if answer.status != status {
                world.accuse(format!("{method} {filter}: {answer:?}"));
                return Err(Over);
            }
        }
        self.copies.clear();
        Ok(())
    }

    /// Asks any pod for entries with everything that was acknowledged. It may not
    /// answer, but it must not answer anything else.
    fn ask(&mut self, world: &World, header: (&str, &str)) {
        let pod = self.random.below(world.addresses.len() as u64) as usize;
        let entries = self.some();
        let question = self.question(self.without_indeterminate(entries));
        let headers = [header];
        if let Some(answer) = world.ask(pod, question.ask().with(&headers))
            && answer.status != 503
        {
            world.own.fetch_add(1, Ordering::Relaxed);
            if let Some(wrong) = question.wrong(&answer) {
                world.accuse(format!("pod {pod} with {header:?}: {wrong}"));
            }
        }
    }

    /// Where to ask for entries, and what must be answered.
    fn question(&self, entries: Vec<u64>) -> Question {
        let copies = |it: &u64| self.copies.get(it).copied().unwrap_or_default();
        let copies = entries.iter().map(copies);
        let (path, expected): (_, Vec<Value>) = match self.kind {
            Kind::Values | Kind::Chain => ("exists", copies.map(|it| (it > 0).into()).collect()),
            Kind::Pages | Kind::Renewed => ("count", copies.map(Value::from).collect()),
        };
        let entry = |it: u64| match self.kind {
            Kind::Values => json!({ "item": format!("item-{}", it / 3), "value": it % 3 }),
            _ => self.kind.entry(it).into(),
        };
        let asked: Vec<Value> = entries.into_iter().map(entry).collect();
        Question {
            path: format!("{}/{path}", self.filter),
            body: match self.kind {
                Kind::Values => json!({ "entries": asked }),
                _ => json!({ "items": asked }),
            }
            .to_string(),
            expected,
        }
    }

    /// Whether a pod has exactly what was acknowledged; says so otherwise.
    pub(crate) fn verify(&self, world: &World, pod: usize) -> Option<String> {
        let question = self.question(self.without_indeterminate((0..ENTRIES).collect()));
        let headers = [("cuckood-min-position", self.position.as_str())];
        let wrong = match world.ask_patiently(pod, question.ask().with(&headers)) {
            Some(answer) => question.wrong(&answer)?,
            None => format!("no answer to {}", question.path),
        };
        Some(format!("pod {pod}: {wrong}"))
    }
}

/// What is asked about entries, and what must be answered.
struct Question {
    path: String,
    body: String,
    expected: Vec<Value>,
}

impl Question {
    fn ask(&self) -> Ask<'_> {
        Ask::json("POST", &self.path, &self.body)
    }

    /// What an answer says that it must not.
    fn wrong(&self, answer: &Answer) -> Option<String> {
        let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let list = body["results"].as_array().or(body["counts"].as_array());
        let answered = list.map_or(&[][..], Vec::as_slice);
        if answer.status == 200 && answered == self.expected {
            return None;
        }
        let differ: Vec<_> = std::iter::zip(&self.expected, answered)
            .enumerate()
            .filter(|(_, (one, other))| one != other)
            .take(10)
            .collect();
        let (path, asked) = (&self.path, self.expected.len());
        let (status, text) = (answer.status, &answer.text);
        Some(match differ.is_empty() {
            true => format!("{path}: {asked} asked, {status}: {text}"),
            false => format!("{path}: entry, expected, answered: {differ:?}"),
        })
    }
}

/// A client that adds to a filter of many, each item once.
pub(crate) struct Sharer {
    pub(crate) number: usize,
    random: Random,
    pub(crate) added: u64,
    pub(crate) position: String,
}

/// The filter of many.
pub(crate) const SHARED: &str = "/filters/shared";

impl Sharer {
    /// One that has made the filter, if it was not there.
    pub(crate) fn new(world: &World, number: usize, mut random: Random) -> Result<Sharer, Over> {
        let parameters = r#"{"capacity": 1000, "fingerprint_bits": 32}"#;
        let key = format!("shared-{number}");
        let made = world.change(&mut random, &key, Ask::json("PUT", SHARED, parameters))?;
        assert!([200, 201].contains(&made.status), "{}", made.text);
        Ok(Sharer {
            number,
            random,
            added: 0,
            position: made.position.unwrap(),
        })
    }

    pub(crate) fn step(&mut self, world: &World) -> Result<(), Over> {
        let items = self.added..self.added + 1 + self.random.below(BATCH);
        let count = items.end - items.start;
        let items: Vec<String> = items.map(|it| format!("{}-{it}", self.number)).collect();
        let body = json!({ "items": items }).to_string();
        let key = format!("shared-{}-{}", self.number, self.added);
        let path = format!("{SHARED}/items");
        let answer = world.change(&mut self.random, &key, Ask::json("POST", &path, &body))?;
        let results: Option<Value> = serde_json::from_str(&answer.text).ok();
        let results = results.map(|it| it["results"].clone());
        if answer.status != 200 || results != Some(vec!["added"; items.len()].into()) {
            world.accuse(format!("{key}: {answer:?}"));
            return Err(Over);
        }
        self.added += count;
        self.position = answer.position.unwrap();
        Ok(())
    }
}
