//! What goes on while a server meets its end: clients of every kind at once,
//! and what they must find afterwards.

use crate::mayfly::{self, Mayfly};
use crate::model::Model;
use crate::piper;
use crate::random::Random;
use crate::scribe::{self, Figures, Scribe};
use crate::server::Server;
use crate::writers::{self, CHURNED, Churner, Extent, Writer};
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) struct Load {
    model: Model,
    scribes: Vec<Scribe>,
    writers: Vec<Writer>,
    churner: Churner,
    mayfly: Mayfly,
    /// Compactions that were begun.
    compactions: u64,
    /// What each client waits for between two requests.
    pub(crate) pause: Duration,
}

/// The life of a server, for those who ask it until it ends.
#[derive(Default)]
pub(crate) struct Life {
    is_over: AtomicBool,
    pause: Duration,
}

impl Life {
    /// Whether a request may fail.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Becomes true when it ends.
    pub(crate) fn over(&self) -> &AtomicBool {
        &self.is_over
    }

    /// The server is about to be killed.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// What comes between two requests of a client.
    pub(crate) fn pause(&self) {
        if !self.pause.is_zero() {
            thread::sleep(self.pause);
        }
    }
}

impl Load {
    /// Creates the filters on a server that has none.
    pub(crate) fn new(server: &Server, random: &mut Random) -> Load {
        let model = Model::new();
        Load {
            scribes: scribe::create(server, &model, random),
            model,
            writers: writers::create(server, random),
            churner: Churner::new(random.next()),
            mayfly: Mayfly::new(random.next()),
            compactions: 0,
            pause: Duration::ZERO,
        }
    }

    /// Has all clients work while `meanwhile` does, which says when the server's life
    /// ends and must see to it that it does.
    pub(crate) fn during<T>(
        &mut self,
        client: &Client,
        base: &str,
        meanwhile: impl FnOnce(&Life) -> T,
    ) -> T {
        let life = Life {
            pause: self.pause,
            ..Life::default()
        };
        thread::scope(|scope| {
            let life = &life;
            for scribe in &mut self.scribes {
                scope.spawn(move || scribe.load(client, base, life));
            }
            for writer in &mut self.writers {
                scope.spawn(move || writer.load(client, base, life));
            }
            let (churner, mayfly) = (&mut self.churner, &mut self.mayfly);
            scope.spawn(move || churner.load(client, base, life));
            scope.spawn(move || mayfly.load(client, base, life));
            let compactions = &mut self.compactions;
            scope.spawn(move || *compactions += writers::compact(client, base, life));
            meanwhile(life)
        })
    }

    /// Compares what the server has with what it acknowledged, and takes what
    /// it has as the truth about requests that were never answered and have no
    /// key.
    pub(crate) fn verify(&mut self, server: &Server, extent: Extent) {
        for scribe in &mut self.scribes {
            scribe.verify(server);
        }
        writers::verify(server, &mut self.writers, extent);
        self.churner.verify(server);
        self.mayfly.verify(server);
    }

    /// As [`verify`](Self::verify), and that there is nothing else.
    pub(crate) fn verify_all(&mut self, server: &Server) {
        self.mayfly.outlive(server);
        self.verify(server, Extent::All);
        let list = server.get_json("/filters?limit=1000");
        let keys = list["filters"].as_array().unwrap().iter();
        let mut found: Vec<&str> = keys.map(|it| it["key"].as_str().unwrap()).collect();
        assert!(!found.iter().any(|key| key.starts_with(mayfly::PREFIX)));
        found.retain(|&key| key != CHURNED && !key.starts_with(piper::PREFIX));
        let scribes = self.scribes.iter().map(|scribe| scribe.filter);
        let mut expected: Vec<&str> = scribes.chain(writers::SHARED).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    /// What was done and compared so far, each figure counted.
    pub(crate) fn figures(&self) -> Value {
        let mut all = Figures::default();
        for figures in self.scribes.iter().map(|scribe| scribe.figures) {
            all.changes += figures.changes;
            all.questions += figures.questions;
            all.items_added += figures.items_added;
            all.items_deleted += figures.items_deleted;
            all.sent_again += figures.sent_again;
            all.replayed += figures.replayed;
            all.dumps_compared += figures.dumps_compared;
            all.counts_compared += figures.counts_compared;
            all.answers_compared += figures.answers_compared;
            all.answers_unlike += figures.answers_unlike;
            all.looked_for += figures.looked_for;
            all.lost += figures.lost;
        }
        let shared: u64 = self.writers.iter().map(|writer| writer.answered).sum();
        let changed: u64 = self.writers.iter().map(|writer| writer.changed).sum();
        let looked_for: u64 = self.writers.iter().map(|writer| writer.looked_for).sum();
        let lost: u64 = self.writers.iter().map(|writer| writer.lost).sum();
        let (splits, merges) = self.model.splits_and_merges();
        json!({
            "requests_answered": all.changes + all.questions + shared,
            "items_changed": all.items_added + all.items_deleted + changed,
            "changes_sent_again": all.sent_again,
            "answers_replayed": all.replayed,
            "counts_compared": all.counts_compared,
            "filters_compared_bit_for_bit": all.dumps_compared,
            "filters_ended": self.mayfly.ended,
            "compactions_begun": self.compactions,
            "pages_split": splits,
            "pages_merged": merges,
            "answers_compared_with_the_model": all.answers_compared,
            "answers_unlike_the_model": all.answers_unlike,
            "acknowledged_items_looked_for": all.looked_for + looked_for,
            "acknowledged_items_lost": all.lost + lost,
        })
    }

    /// Whether pages were split and merged.
    pub(crate) fn has_split_and_merged(&self) -> bool {
        let (splits, merges) = self.model.splits_and_merges();
        splits > 0 && merges > 0
    }

    /// Changes that were sent and not answered, and had been made all the same.
    pub(crate) fn replayed(&self) -> u64 {
        let figures = self.scribes.iter().map(|scribe| scribe.figures);
        figures.map(|figures| figures.replayed).sum()
    }
}
