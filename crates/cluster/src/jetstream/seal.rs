//! Who wrote what the bucket has: each lease and each announcement has a seal, made
//! with the key of the cluster about the key of the bucket that it is under (so about its
//! epoch, and its lane or its pod), what it says, and the newest revision of the bucket
//! that its writer knew.
//!
//! So it is believed in its place and for a while only: who reads remembers which
//! revisions the bucket had some seconds ago, and takes what was written before those
//! for a copy of the past. No clock of another machine is asked for that.

use crate::mac::MacKeys;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// For how long something is believed after its writer looked: longer than leases and
/// announcements live, and than a writer goes without looking ([`LOOK_AFTER`]).
const BELIEVED: Duration = Duration::from_secs(10);

/// A writer looks for the newest revision if it has not seen one for so long.
const LOOK_AFTER: Duration = Duration::from_secs(2);

/// Who has just begun to read knows no revision of some seconds ago, and believes what
/// was written at most so many revisions ago.
const AT_FIRST: u64 = 1024;

/// How often the newest revision is kept for later.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// Of what is not believed one is logged in so long.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Makes and breaks the seals of a cluster's founding. Clones are the same.
#[derive(Clone)]
pub struct Seals(Arc<Shared>);

struct Shared {
    keys: MacKeys,
    seen: Mutex<Seen>,
    logged: Mutex<Option<Instant>>,
    refused: AtomicU64,
    news: AtomicU64,
}

/// The revisions of the bucket, as far as this process has seen them.
#[derive(Default)]
struct Seen {
    newest: Option<u64>,
    /// When the newest one was asked for.
    asked: Option<Instant>,
    /// When the answer came.
    told: Option<Instant>,
    /// What the newest one was, once a second.
    past: VecDeque<(Instant, u64)>,
    /// What is believed until that goes back far enough.
    at_first: u64,
    /// The newest one when this process began to look.
    began: u64,
}

/// What is under a key, as JSON.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    /// The newest revision that the writer knew.
    behind: u64,
    seal: String,
    #[serde(borrow)]
    said: &'a RawValue,
}

/// What a pod of the cluster has said.
pub(super) struct Said {
    /// As it was said, JSON.
    pub(super) bytes: Bytes,
    /// Whether it was said a moment ago; or it is, or may be, a copy of the past.
    pub(super) is_fresh: bool,
    /// Whether it was sealed with the key that this pod seals with, too.
    pub(super) has_first_key: bool,
}

impl Seals {
    /// With the keys for what pods tell each other.
    pub fn new(keys: MacKeys) -> Seals {
        Seals(Arc::new(Shared {
            keys,
            seen: Mutex::default(),
            logged: Mutex::default(),
            refused: AtomicU64::new(0),
            news: AtomicU64::new(0),
        }))
    }

    /// How much was found that nobody with the key has written.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How much of that was written since this process began to look.
    pub(super) fn news(&self) -> u64 {
        self.0.news.load(Ordering::Relaxed)
    }

    /// Takes in the newest revision of the bucket, which was asked for at a moment.
    pub(super) fn update(&self, newest: u64, asked: Instant) {
        self.0.seen.lock().update(newest, asked, Instant::now());
    }

    /// Whether a writer has to look for the newest revision before it writes.
    pub(super) fn must_look(&self) -> bool {
        let asked = self.0.seen.lock().asked;
        asked.is_none_or(|it| it.elapsed() >= LOOK_AFTER)
    }

    /// Seals what is to be under a key.
    ///
    /// # Errors
    /// It can't be written as JSON.
    pub(super) fn close(&self, key: &str, said: &impl Serialize) -> serde_json::Result<Bytes> {
        let said = serde_json::value::to_raw_value(said)?;
        let behind = self.0.seen.lock().newest.unwrap_or_default();
        let bytes = behind.to_le_bytes();
        let parts = parts(key, &bytes, &said);
        let seal = self.0.keys.first().map(|it| hex::encode(it.tag(&parts)));
        let sealed = Sealed {
            behind,
            seal: seal.unwrap_or_default(),
            said: &said,
        };
        serde_json::to_vec(&sealed).map(Bytes::from)
    }

    /// What a pod said under a key, as of a revision; `None`: no pod of the cluster did,
    /// or not there.
    pub(super) fn open(&self, key: &str, revision: u64, value: &[u8]) -> Option<Said> {
        let found = self.try_open(key, revision, value);
        if found.is_none() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            // Leases and announcements of another key are left for some seconds after pods have
            // got this one: only what came since this process looks is news.
            if revision > self.0.seen.lock().began {
                self.0.news.fetch_add(1, Ordering::Relaxed);
                self.log(key, revision, Instant::now());
            }
        }
        found
    }

    fn try_open(&self, key: &str, revision: u64, value: &[u8]) -> Option<Said> {
        let sealed: Sealed<'_> = serde_json::from_slice(value).ok()?;
        let seal = hex::decode(&sealed.seal).ok()?;
        let behind = sealed.behind.to_le_bytes();
        let parts = parts(key, &behind, sealed.said);
        let key = self.0.keys.of(&parts, &seal)?;
        let first = self.0.keys.first();
        let since = self.0.seen.lock().believed_since(Instant::now());
        Some(Said {
            is_fresh: (since..revision).contains(&sealed.behind),
            has_first_key: first.is_some_and(|it| std::ptr::eq(it, key)),
            bytes: Bytes::copy_from_slice(sealed.said.get().as_bytes()),
        })
    }

    fn log(&self, key: &str, revision: u64, now: Instant) {
        let mut logged = self.0.logged.lock();
        if logged.is_none_or(|it| now - it >= LOG_EVERY) {
            *logged = Some(now);
            tracing::warn!(
                key,
                revision,
                "the brokers' bucket has a lease or an announcement that no pod with this cluster key has written: it is not believed. Give all pods the same --cluster-key-file, and see who else may write there"
            );
        }
    }
}

fn parts<'a>(key: &'a str, behind: &'a [u8; 8], said: &'a RawValue) -> [&'a [u8]; 3] {
    [key.as_bytes(), behind, said.get().as_bytes()]
}

impl Seen {
    fn update(&mut self, newest: u64, asked: Instant, now: Instant) {
        let lost = self.newest.is_none_or(|it| newest < it);
        // An answer that was under way meanwhile says nothing.
        if self.newest.is_some() && lost && self.told.is_some_and(|it| asked < it) {
            return;
        }
        if lost {
            // The bucket is another one, or was set back: what was seen of it is void.
            self.past.clear();
            self.at_first = newest.saturating_sub(AT_FIRST);
            self.began = newest;
        }
        self.newest = Some(newest);
        (self.asked, self.told) = (Some(asked), Some(now));
        if self
            .past
            .back()
            .is_none_or(|(at, _)| now - *at >= KEEP_EVERY)
        {
            self.past.push_back((now, newest));
        }
        // The last one of those that are old enough stays.
        while self
            .past
            .get(1)
            .is_some_and(|(at, _)| now - *at >= BELIEVED)
        {
            self.past.pop_front();
        }
    }

    /// What a writer must have known at least.
    fn believed_since(&self, now: Instant) -> u64 {
        let old_enough = self.past.iter().rev().find(|(at, _)| now - *at >= BELIEVED);
        old_enough.map_or(self.at_first, |(_, it)| *it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seals(secret: &str) -> Seals {
        Seals::new(MacKeys::derive([secret], b"", "test").unwrap())
    }

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_sealed_is_believed_under_its_key_and_as_it_is_alone() {
        let (own, other) = (seals("own"), seals("other"));
        let now = Instant::now();
        own.update(40, now);
        let sealed = own.close("lease.1.0", &"said").unwrap();
        let found = own.open("lease.1.0", 41, &sealed).unwrap();
        assert!(found.is_fresh);
        assert_eq!(&found.bytes[..], br#""said""#);
        for key in ["lease.1.1", "lease.2.0", "pod.1.0", ""] {
            assert!(own.open(key, 41, &sealed).is_none(), "{key}");
        }
        assert!(other.open("lease.1.0", 41, &sealed).is_none());
        let text = String::from_utf8(sealed.to_vec()).unwrap();
        for (from, to) in [
            ("\"said\"}", "\"says\"}"),
            (":40,", ":41,"),
            ("\"seal\":\"", "\"seal\":\"00"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(own.open("lease.1.0", 42, changed.as_bytes()).is_none());
        }
        assert!(own.open("lease.1.0", 41, b"\"said\"").is_none());
        assert_eq!((own.refused(), own.news()), (8, 8));
        // What was there before is none.
        assert!(other.open("lease.1.0", 41, &sealed).is_none());
        other.update(50, now);
        let (refused, news) = (other.refused(), other.news());
        assert!(other.open("lease.1.0", 50, &sealed).is_none());
        assert_eq!((other.refused(), other.news()), (refused + 1, news));
    }

    #[test]
    fn a_copy_of_the_past_is_told_from_what_is_said_now() {
        let start = Instant::now();
        let mut seen = Seen::default();
        seen.update(5_000, start, start);
        // At first what was just written, and nothing from long ago.
        assert_eq!(seen.believed_since(start), 5_000 - AT_FIRST);
        for second in 1..=60 {
            let now = at(start, second);
            seen.update(5_000 + second * 10, now, now);
            let believed = seen.believed_since(now);
            match second {
                0..10 => assert_eq!(believed, 5_000 - AT_FIRST),
                _ => assert_eq!(believed, 5_000 + (second - 10) * 10),
            }
            assert!(seen.past.len() <= 12);
        }
        // Who hears nothing goes on to believe what it believed last, at least.
        assert!(seen.believed_since(at(start, 100)) <= 5_600);
    }

    #[test]
    fn what_has_the_key_that_is_being_replaced_is_known() {
        let both = Seals::new(MacKeys::derive(["new", "old"], b"", "test").unwrap());
        for (secret, has_first_key) in [("new", true), ("old", false)] {
            let sealed = seals(secret).close("kept", &"said").unwrap();
            let found = both.open("kept", 1, &sealed).unwrap();
            assert_eq!(found.has_first_key, has_first_key, "{secret}");
        }
    }

    #[test]
    fn nothing_is_from_before_what_was_written_after_it() {
        let own = seals("own");
        own.update(40, Instant::now());
        let sealed = own.close("lease.1.0", &"said").unwrap();
        for (revision, is_fresh) in [(39, false), (40, false), (41, true), (50, true)] {
            let found = own.open("lease.1.0", revision, &sealed).unwrap();
            assert_eq!(found.is_fresh, is_fresh, "{revision}");
        }
    }

    #[test]
    fn a_bucket_that_was_made_anew_is_read_on() {
        let start = Instant::now();
        let mut seen = Seen::default();
        for second in 0..30 {
            let now = at(start, second);
            seen.update(9_000 + second, now, now);
        }
        // An answer that was under way is no such bucket.
        seen.update(9_028, at(start, 28), at(start, 30));
        assert_eq!(seen.newest, Some(9_029));
        seen.update(3, at(start, 31), at(start, 31));
        assert_eq!(seen.newest, Some(3));
        assert_eq!(seen.believed_since(at(start, 31)), 0);
    }
}
