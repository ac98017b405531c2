//! Clients without keys, who never know what became of a request that was not
//! answered: several that share a filter, and one that makes and deletes one.

use crate::load::Life;
use crate::random::Random;
use crate::server::{Server, post_lines};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

/// A filter of many pages that has room for everything.
const ROOMY: &str = "roomy";
/// A filter that starts small and expands under the load.
const GROWING: &str = "growing";
/// A filter that is created, filled and deleted all the time.
pub(crate) const CHURNED: &str = "churned";

/// Copies of one item that are added at most: more would fill both of its
/// buckets and make the filter grow for nothing.
const MOST_COPIES: u32 = 3;

/// Items beyond which a writer of the growing filter deletes, doubled up to three
/// times; how many at once, and until there are so few.
const LEAST_GROWN: i64 = 800;
const MOST_DELETED: u64 = 1_500;
const FEW_ITEMS: i64 = 200;
const FEW_AT_ONCE: usize = 5;

/// Items of a writer beyond which those are added again that were deleted. Of the
/// growing filter so few that items chosen at random find those that are there.
const MOST_ITEMS: usize = 300_000;
const MOST_GROWING_ITEMS: usize = 20_000;

/// Creates the filters that writers share, and the writers.
pub(crate) fn create(server: &Server, random: &mut Random) -> Vec<Writer> {
    server.create_filter(ROOMY, &json!({"capacity": 16_000_000, "expansion": 2}));
    let growing = json!({"capacity": 1_000, "bucket_size": 4, "expansion": 2});
    server.create_filter(GROWING, &growing);
    [ROOMY, ROOMY, GROWING, GROWING]
        .into_iter()
        .enumerate()
        .map(|(number, filter)| Writer::new(number, filter, random.next()))
        .collect()
}

/// Names of the filters that writers share.
pub(crate) const SHARED: [&str; 2] = [ROOMY, GROWING];

/// One client that has the growing filter compacted again and again; returns
/// how often that was begun.
pub(crate) fn compact(client: &Client, base: &str, life: &Life) -> u64 {
    let mut begun = 0;
    loop {
        let url = format!("{base}/filters/{GROWING}/compact");
        let Ok(answer) = client.post(url).send() else {
            assert!(life.is_over());
            return begun;
        };
        match answer.status() {
            StatusCode::ACCEPTED => begun += 1,
            // The last one is still going on.
            StatusCode::CONFLICT => {}
            other => panic!("compacting: {other}"),
        }
        sleep(Duration::from_millis(20));
    }
}

/// Compares what the server has with what it acknowledged, and takes what it
/// has as the truth about the requests that were never answered.
pub(crate) fn verify(server: &Server, writers: &mut [Writer], extent: Extent) {
    for filter in SHARED {
        let (mut acknowledged, mut indeterminate) = (0, Vec::new());
        for writer in writers.iter_mut().filter(|writer| writer.filter == filter) {
            acknowledged += writer.settled_items;
            indeterminate.extend(writer.indeterminate.take());
        }
        let found = i64::try_from(server.items(filter)).unwrap();
        assert!(
            subset_sums(&indeterminate).contains(&(found - acknowledged)),
            "{filter}: {found} items, {acknowledged} acknowledged, {indeterminate:?} indeterminate"
        );
        // Which of them it was no longer matters, only the sum does.
        if let Some(writer) = writers.iter_mut().find(|writer| writer.filter == filter) {
            writer.settled_items += found - acknowledged;
        }
    }
    for writer in writers.iter_mut() {
        writer.verify(server, extent);
    }
}

/// How much is looked at after a crash.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Extent {
    /// The newest items, and some of the others.
    Sample,
    /// Every item.
    All,
}

/// Newest items of a [`Extent::Sample`].
const NEWEST: usize = 10_000;

/// One in so many of the others.
const ONE_IN: u64 = 50;

/// One client that adds and deletes items which nobody else touches.
pub(crate) struct Writer {
    number: usize,
    filter: &'static str,
    random: Random,
    /// What is known of item `index`.
    items: Vec<Copies>,
    /// Items added less items deleted, of the requests whose outcome is known.
    settled_items: i64,
    /// What the request that was never answered would have changed.
    indeterminate: Option<i64>,
    /// Requests answered.
    pub(crate) answered: u64,
    /// Items added and deleted by them.
    pub(crate) changed: u64,
    /// Acknowledged items that were looked for, and those that were not there.
    pub(crate) looked_for: u64,
    pub(crate) lost: u64,
    /// Copies that are known to be there, so that they can be deleted. What a kill
    /// left indeterminate is never among them, and stays.
    deletable: i64,
    is_shrinking: bool,
    grows_to: i64,
}

/// How many copies of an item the filter has.
#[derive(Clone, Copy, Default)]
struct Copies {
    at_least: u32,
    at_most: u32,
}

impl Writer {
    fn new(number: usize, filter: &'static str, seed: u64) -> Writer {
        Writer {
            number,
            filter,
            random: Random(seed),
            items: Vec::new(),
            settled_items: 0,
            indeterminate: None,
            answered: 0,
            changed: 0,
            looked_for: 0,
            lost: 0,
            deletable: 0,
            is_shrinking: false,
            grows_to: LEAST_GROWN,
        }
    }

    pub(crate) fn load(&mut self, client: &Client, base: &str, life: &Life) {
        let url = format!("{base}/filters/{}", self.filter);
        loop {
            self.turn();
            let answered = match self.random.below(10) {
                0..9 if self.is_shrinking => {
                    let gone = self.choose(MOST_DELETED, |copies| copies.at_least > 0);
                    // Of what is indeterminate nothing is deleted.
                    self.is_shrinking = gone.len() >= FEW_AT_ONCE;
                    self.delete(client, &url, &gone)
                }
                0..5 => {
                    let absent = self.absent();
                    self.add(client, &url, &absent)
                }
                5 => {
                    let again = self.choose(30, |copies| copies.at_most < MOST_COPIES);
                    self.add(client, &url, &again)
                }
                6..8 => {
                    let gone = self.choose(150, |copies| copies.at_least > 0);
                    self.delete(client, &url, &gone)
                }
                _ => {
                    let asked = self.choose(150, |copies| copies.at_least > 0);
                    self.ask(client, &url, &asked)
                }
            };
            if !answered {
                assert!(life.is_over(), "a request failed while the server was up");
                return;
            }
            self.answered += 1;
            life.pause();
        }
    }

    /// What grew is made small again, so that compactions have something to do.
    fn turn(&mut self) {
        self.is_shrinking = match self.is_shrinking {
            true => self.deletable > FEW_ITEMS,
            false => self.filter == GROWING && self.deletable > self.grows_to,
        };
        if self.is_shrinking {
            self.grows_to = LEAST_GROWN << self.random.below(4);
        }
    }

    /// Items that are not there: new ones, until there are many, then any.
    fn absent(&mut self) -> Vec<usize> {
        let first = self.items.len();
        let most = match self.filter {
            GROWING => MOST_GROWING_ITEMS,
            _ => MOST_ITEMS,
        };
        if first >= most {
            return self.choose(300, |copies| copies.at_most == 0);
        }
        let batch = 1 + self.random.below(150) as usize;
        self.items.resize(first + batch, Copies::default());
        (first..first + batch).collect()
    }

    /// Up to `most` distinct items, at random, of which `wanted` holds.
    fn choose(&mut self, most: u64, wanted: fn(&Copies) -> bool) -> Vec<usize> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let mut chosen: Vec<usize> = (0..=self.random.below(most))
            .map(|_| self.random.below(self.items.len() as u64) as usize)
            .filter(|&index| wanted(&self.items[index]))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    fn name(&self, index: usize) -> String {
        format!("writer {} item {index}", self.number)
    }

    fn names(&self, indexes: &[usize]) -> Vec<String> {
        indexes.iter().map(|&index| self.name(index)).collect()
    }

    fn add(&mut self, client: &Client, url: &str, indexes: &[usize]) -> bool {
        if indexes.is_empty() {
            return true;
        }
        for &index in indexes {
            self.items[index].at_most += 1;
        }
        let change = indexes.len() as i64;
        let Some(results) = post_lines(client, &format!("{url}/items"), &self.names(indexes))
        else {
            self.indeterminate = Some(change);
            return false;
        };
        assert!(
            results.iter().all(|result| result == "added"),
            "{results:?}"
        );
        for &index in indexes {
            self.items[index].at_least += 1;
        }
        self.deletable += change;
        self.settled_items += change;
        self.changed += change.unsigned_abs();
        true
    }

    fn delete(&mut self, client: &Client, url: &str, indexes: &[usize]) -> bool {
        if indexes.is_empty() {
            return true;
        }
        for &index in indexes {
            self.items[index].at_least -= 1;
        }
        self.deletable -= indexes.len() as i64;
        let change = -(indexes.len() as i64);
        let names = self.names(indexes);
        let Some(results) = post_lines(client, &format!("{url}/items/delete"), &names) else {
            self.indeterminate = Some(change);
            return false;
        };
        self.assert_none_lost(indexes, &results, |result| result == "true");
        for &index in indexes {
            self.items[index].at_most -= 1;
        }
        self.settled_items += change;
        self.changed += change.unsigned_abs();
        true
    }

    fn ask(&mut self, client: &Client, url: &str, indexes: &[usize]) -> bool {
        if indexes.is_empty() {
            return true;
        }
        match post_lines(client, &format!("{url}/exists"), &self.names(indexes)) {
            None => false,
            Some(results) => {
                self.assert_none_lost(indexes, &results, |result| result == "true");
                true
            }
        }
    }

    /// Counts the items whose result is not right; there must be none.
    fn assert_none_lost(
        &mut self,
        indexes: &[usize],
        results: &[String],
        is_right: impl Fn(&str) -> bool,
    ) {
        let missing: Vec<String> = indexes
            .iter()
            .zip(results)
            .filter(|(_, result)| !is_right(result))
            .map(|(&index, _)| self.name(index))
            .collect();
        self.looked_for += indexes.len() as u64;
        self.lost += missing.len() as u64;
        assert!(
            missing.is_empty(),
            "{} of {} acknowledged items are lost from {}: {:?}",
            missing.len(),
            indexes.len(),
            self.filter,
            missing.iter().take(5).collect::<Vec<_>>()
        );
    }

    /// Every acknowledged item is there, as often as it was added.
    fn verify(&mut self, server: &Server, extent: Extent) {
        let newest = self.items.len().saturating_sub(NEWEST);
        let there: Vec<usize> = (0..self.items.len())
            .filter(|&index| self.items[index].at_least > 0)
            .filter(|&index| {
                extent == Extent::All || index >= newest || self.random.below(ONE_IN) == 0
            })
            .collect();
        for indexes in there.chunks(5_000) {
            let names = self.names(indexes);
            let path = format!("/filters/{}/exists", self.filter);
            let results = server.post_lines(&path, &names).unwrap();
            self.assert_none_lost(indexes, &results, |result| result == "true");

            let path = format!("/filters/{}/count", self.filter);
            let counts = server.post_lines(&path, &names).unwrap();
            for (&index, count) in indexes.iter().zip(&counts) {
                let at_least = self.items[index].at_least;
                let has_all = |count: &str| count.parse::<u32>().unwrap() >= at_least;
                self.assert_none_lost(&[index], std::slice::from_ref(count), has_all);
            }
        }
    }
}

/// One client that creates a filter, fills it, deletes it, and again.
pub(crate) struct Churner {
    random: Random,
    /// What the filter may be: absent, or there with so many items.
    possible: Vec<Option<u64>>,
}

impl Churner {
    pub(crate) fn new(seed: u64) -> Churner {
        Churner {
            random: Random(seed),
            possible: vec![None],
        }
    }

    pub(crate) fn load(&mut self, client: &Client, base: &str, life: &Life) {
        let url = format!("{base}/filters/{CHURNED}");
        loop {
            let before = self.possible[0];
            let (after, answered) = match before {
                None => (
                    Some(0),
                    client.put(&url).send().is_ok_and(|answer| {
                        assert_eq!(answer.status(), StatusCode::CREATED);
                        true
                    }),
                ),
                Some(items) if items < 500 => {
                    let batch = 1 + self.random.below(200);
                    let items = items + batch;
                    self.possible.push(Some(items));
                    let names: Vec<String> = (0..batch).map(|n| format!("{items} {n}")).collect();
                    let answered = post_lines(client, &format!("{url}/items"), &names).is_some();
                    (Some(items), answered)
                }
                Some(_) => (
                    None,
                    client.delete(&url).send().is_ok_and(|answer| {
                        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
                        true
                    }),
                ),
            };
            if !answered {
                assert!(life.is_over(), "a request failed while the server was up");
                self.possible = vec![before, after];
                return;
            }
            self.possible = vec![after];
            life.pause();
        }
    }

    pub(crate) fn verify(&mut self, server: &Server) {
        let path = format!("/filters/{CHURNED}");
        let answer = server.client().get(server.url(&path)).send().unwrap();
        let found = match answer.status() {
            StatusCode::NOT_FOUND => None,
            StatusCode::OK => Some(server.items(CHURNED)),
            other => panic!("GET {path}: {other}"),
        };
        assert!(
            self.possible.contains(&found),
            "{CHURNED} has {found:?} items, possible is {:?}",
            self.possible
        );
        self.possible = vec![found];
    }
}

fn subset_sums(changes: &[i64]) -> Vec<i64> {
    changes.iter().fold(vec![0], |sums, change| {
        sums.iter().flat_map(|sum| [*sum, sum + change]).collect()
    })
}
