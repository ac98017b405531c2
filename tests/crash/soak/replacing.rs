//! A tenant that replaces a filter by one of two others all the time. What it has
//! then is one of them as a whole: the last that was acknowledged, or the one that
//! was sent and not answered.

use crate::load::Life;
use crate::random::Random;
use crate::server::{Server, client_with, post_lines};
use cuckood::file::FileView;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

const TARGET: &str = "replacing:target";
const SOURCES: [&str; 2] = ["replacing:a", "replacing:b"];
const ITEMS: usize = 5_000;
const PAUSE: Duration = Duration::from_millis(150);

pub(super) struct Replacing {
    client: Client,
    random: Random,
    /// The dumps of both sources.
    sources: Vec<Vec<u8>>,
    /// Which of them the target may be.
    possible: Vec<usize>,
    replaced: u64,
    compared: u64,
    differing: u64,
}

fn names(source: usize) -> Vec<String> {
    let names = (0..ITEMS).map(|n| format!("item {n} of {source}"));
    names.collect()
}

impl Replacing {
    pub(super) fn new(server: &Server, key: &str, seed: u64) -> Replacing {
        let client = client_with(Some(key));
        let sources = SOURCES.iter().enumerate().map(|(source, filter)| {
            server.create_filter(filter, &json!({"capacity": 1000, "fingerprint_bits": 32}));
            let path = format!("/filters/{filter}/items");
            server.post_lines(&path, &names(source)).unwrap();
            let dump = client.get(server.url(&format!("/filters/{filter}/dump")));
            let dump = dump.send().unwrap();
            dump.bytes().unwrap().to_vec()
        });
        let mut replacing = Replacing {
            sources: sources.collect(),
            client,
            random: Random(seed),
            possible: vec![0],
            replaced: 0,
            compared: 0,
            differing: 0,
        };
        assert!(replacing.replace(&server.url(""), 0));
        replacing
    }

    pub(super) fn work(&mut self, base: &str, life: &Life) {
        while !life.is_over() {
            let source = self.random.below(2) as usize;
            self.possible.push(source);
            if !self.replace(base, source) {
                assert!(life.is_over(), "a request failed while the server was up");
                return;
            }
            self.possible = vec![source];
            let found = post_lines(
                &self.client,
                &format!("{base}/filters/{TARGET}/exists"),
                &names(source),
            );
            match found {
                Some(found) => self.compare(found.iter().all(|found| found == "true")),
                None => assert!(life.is_over(), "a request failed while the server was up"),
            }
            thread::sleep(PAUSE);
        }
    }

    fn compare(&mut self, is_same: bool) {
        self.compared += 1;
        self.differing += u64::from(!is_same);
        assert!(is_same, "{TARGET} is not what it was replaced by");
    }

    /// `false` if no answer came.
    fn replace(&mut self, base: &str, source: usize) -> bool {
        let request = self
            .client
            .put(format!("{base}/filters/{TARGET}/dump?replace=true"))
            .header("content-type", "application/octet-stream")
            .body(self.sources[source].clone());
        let Ok(answer) = request.send() else {
            return false;
        };
        let status = answer.status();
        assert!(status.is_success(), "{status}: {:?}", answer.text());
        self.replaced += 1;
        true
    }

    /// After a restart: the target is one of those that it may be, bit for bit.
    pub(super) fn verify(&mut self, server: &Server) {
        let dump = server.url(&format!("/filters/{TARGET}/dump"));
        let dump = self.client.get(dump).send().unwrap().bytes().unwrap();
        let content = |file: &[u8]| FileView::open(file).ok()?.verify().ok();
        let dumped = content(&dump);
        let is_now = |source: &usize| dumped.is_some() && dumped == content(&self.sources[*source]);
        let now = self.possible.iter().copied().find(is_now);
        self.compare(now.is_some());
        self.possible = now.into_iter().collect();
    }

    pub(super) fn count(&self) -> u64 {
        self.replaced
    }

    pub(super) fn figures(&self) -> Value {
        json!({"times": self.replaced, "compared": self.compared, "differing": self.differing})
    }

    pub(super) fn leave(&self, server: &Server) {
        for filter in [TARGET, SOURCES[0], SOURCES[1]] {
            super::hostile::remove(server, filter);
        }
    }
}
