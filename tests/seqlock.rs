//! A model of the sequence lock: its source is compiled here a second time,
//! with loom's atomics, and small programs run through the interleavings of
//! their threads and every value that a relaxed load may return.
//!
//! It fails, as was tried with one change of `seqlock.rs` after the other:
//! without the acquire fence of `WordsRead::fence`; without the release fence of
//! `Version::change` or of `Entry::set`; with a relaxed load in `Version::read`
//! or `Entry::read`; with a relaxed end of `Version::change`; with a relaxed
//! store in `Entry::set`, or one before the words; if the beginning or the end
//! of a change, or `Entry::clear`, does nothing; if two lanes count in one
//! number whose parity says whether a change is under way; if either `is_still`
//! is always true; and if a reader does not look at the shape of its view.
//!
//! It does not fail with a relaxed store in `Entry::clear`: the fence of the
//! `set` that follows is what readers of the last page meet. Loom takes
//! sequentially consistent accesses for acquire and release ones, which are
//! weaker; and none of its loads returns what is stored later in the same run.

#![expect(
    clippy::unwrap_used,
    reason = "what helps a test may fail as the test does"
)]

use atomics::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use seqlock::{Entry, Version, WordsRead};
use std::sync::atomic::AtomicUsize;

/// Takes the place of the file beside `seqlock.rs`.
mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[path = "../crates/pages/src/resident/seqlock.rs"]
#[expect(unreachable_pub, reason = "it is a package's there, and a test's here")]
mod seqlock;

/// Where a thread waits for another, or ends, does not count. Without a bound
/// the programs of three threads take a minute.
const INTERRUPTIONS: usize = 4;

/// Two words that are always changed together.
struct Pair([AtomicU64; 2]);

impl Pair {
    fn new() -> Pair {
        Pair([AtomicU64::new(0), AtomicU64::new(0)])
    }

    fn store(&self, value: u64) {
        for word in &self.0 {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn load(&self) -> [u64; 2] {
        [0, 1].map(|word: usize| self.0.get(word).unwrap().load(Ordering::Relaxed))
    }
}

/// Runs a program through its executions: all in which threads are interrupted
/// up to [`INTERRUPTIONS`] times. It says of each whether its reader read
/// something whole.
fn explore(program: impl Fn() -> bool + Send + Sync + 'static) {
    let (executions, whole) = (counter(), counter());
    let counted = (
        std::sync::Arc::clone(&executions),
        std::sync::Arc::clone(&whole),
    );
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(INTERRUPTIONS);
    model.check(move || {
        let is_whole = program();
        counted.0.fetch_add(1, Ordering::Relaxed);
        counted.1.fetch_add(is_whole.into(), Ordering::Relaxed);
    });
    let (executions, whole) = (
        executions.load(Ordering::Relaxed),
        whole.load(Ordering::Relaxed),
    );
    println!("{executions} executions, {whole} of them with words read whole");
    assert!(0 < whole && whole < executions);
}

fn counter() -> std::sync::Arc<AtomicUsize> {
    std::sync::Arc::default()
}

#[test]
fn words_under_an_unchanged_version_are_of_one_commit() {
    explore(|| {
        let page = Arc::new((Version::new(), Pair::new()));
        let lane = thread::spawn({
            let page = Arc::clone(&page);
            move || {
                for commit in 1..=2 {
                    let (version, words) = &*page;
                    Version::change(|| [version].into_iter(), || words.store(commit));
                }
            }
        });
        let (version, words) = &*page;
        let whole = version.read().is_some_and(|number| {
            let read = words.load();
            let is_still = version.is_still(number, WordsRead::fence());
            // The number counts the commits.
            assert!(!is_still || read == [number; 2], "{read:?} at {number}");
            is_still
        });
        lane.join().unwrap();
        whole
    });
}

#[test]
fn lanes_that_share_a_version_do_not_hide_each_others_commits() {
    explore(|| {
        // Each lane has a word of its own here.
        let stripe = Arc::new((Version::new(), Pair::new()));
        let lanes = [0, 1].map(|lane: usize| {
            let stripe = Arc::clone(&stripe);
            thread::spawn(move || {
                let (version, Pair(words)) = &*stripe;
                let word = words.get(lane).unwrap();
                Version::change(
                    || [version].into_iter(),
                    || word.store(1, Ordering::Relaxed),
                );
            })
        });
        let (version, words) = &*stripe;
        let whole = version.read().is_some_and(|number| {
            let read = words.load();
            let is_still = version.is_still(number, WordsRead::fence());
            let commits: u64 = read.iter().sum();
            assert!(!is_still || commits == number, "{read:?} at {number}");
            is_still
        });
        for lane in lanes {
            lane.join().unwrap();
        }
        whole
    });
}

#[test]
fn words_under_an_unchanged_entry_are_of_that_page() {
    /// The places of pages in the frame: of the first one that it held, of
    /// another one, and of the first one again.
    const PLACES: [u64; 3] = [1, 2, 3];

    struct Frame {
        entries: [Entry; 2],
        words: Pair,
    }

    explore(|| {
        let frame = Arc::new(Frame {
            entries: [Entry::new(), Entry::new()],
            words: Pair::new(),
        });
        let [first, again, back] = PLACES;
        let set = |frame: &Frame, page: usize, place: u64| {
            let entry = frame.entries.get(page).unwrap();
            entry.set(place, || frame.words.store(place));
        };
        set(&frame, 0, first);
        let cache = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let [one, other] = &frame.entries;
                one.clear();
                set(&frame, 1, again);
                other.clear();
                set(&frame, 0, back);
            }
        });
        let [entry, _] = &frame.entries;
        let place = entry.read();
        let read = frame.words.load();
        let is_still = entry.is_still(place, WordsRead::fence());
        let whole = place != 0 && is_still;
        assert!(!whole || read == [place; 2], "{read:?} in {place}");
        cache.join().unwrap();
        whole
    });
}

#[test]
fn a_page_that_was_cleared_by_another_thread_is_not_read_from_its_frame() {
    explore(|| {
        let frame = Arc::new((Entry::new(), Entry::new(), Pair::new()));
        let (old, _, words) = &*frame;
        old.set(1, || words.store(1));
        // The lock of the cache, and the frame if it is free.
        let free = Arc::new(Mutex::new(false));
        let evicting = thread::spawn({
            let (frame, free) = (Arc::clone(&frame), Arc::clone(&free));
            move || {
                let mut free = free.lock().unwrap();
                let (old, _, _) = &*frame;
                old.clear();
                *free = true;
            }
        });
        let installing = thread::spawn({
            let (frame, free) = (Arc::clone(&frame), Arc::clone(&free));
            move || {
                if *free.lock().unwrap() {
                    let (_, new, words) = &*frame;
                    new.set(2, || words.store(2));
                }
            }
        });
        let place = old.read();
        let read = words.load();
        let is_still = old.is_still(place, WordsRead::fence());
        let whole = place != 0 && is_still;
        assert!(!whole || read == [1; 2], "{read:?} in {place}");
        evicting.join().unwrap();
        installing.join().unwrap();
        whole
    });
}

/// A filter of two pages whose first is split: before, an item lies on it, and
/// after, on the second.
struct Splitting {
    /// The number of the shape that it is of, which is the page of the item.
    view: AtomicU64,
    shape: Version,
    versions: [Version; 2],
    words: [AtomicU64; 2],
}

/// The entry of the item.
const ITS_OWN: u64 = 1;

/// An entry of another item. On the first page, as it was before the split, it
/// would be one of an item that was never added.
const ANOTHER: u64 = 2;

/// Asks for an item while the first page is split, as a reader does that has a
/// view already when it comes to the versions. What is read counts if `is_right`
/// says so.
fn ask_beside_a_split(item: u64, is_right: fn(&Splitting, u64, WordsRead) -> bool) {
    explore(move || {
        let filter = Arc::new(Splitting {
            view: AtomicU64::new(0),
            shape: Version::new(),
            versions: [Version::new(), Version::new()],
            words: [AtomicU64::new(ITS_OWN), AtomicU64::new(0)],
        });
        let lane = thread::spawn({
            let filter = Arc::clone(&filter);
            move || {
                let [first, second] = &filter.versions;
                let [stays, goes] = &filter.words;
                Version::change(
                    || [first, second, &filter.shape].into_iter(),
                    || {
                        stays.store(ANOTHER, Ordering::Relaxed);
                        goes.store(ITS_OWN, Ordering::Relaxed);
                        filter.view.store(1, Ordering::Release);
                    },
                );
            }
        });
        let view = filter.view.load(Ordering::Acquire);
        let page = view as usize;
        let version = filter.versions.get(page).unwrap();
        let number = version.read();
        let word = filter.words.get(page).unwrap().load(Ordering::Relaxed);
        let read = WordsRead::fence();
        let of_its_shape = is_right(&filter, view, read);
        let undisturbed = number.is_some_and(|it| version.is_still(it, read));
        // A "no" needs that nothing was changed, a "yes" does not.
        let is_there = match item {
            ITS_OWN => word == ITS_OWN,
            _ => page == 0 && word == ANOTHER,
        };
        let counts = of_its_shape && (is_there || undisturbed);
        assert!(!counts || is_there || item != ITS_OWN, "a wrong no");
        assert!(!counts || !is_there || item == ITS_OWN, "a wrong yes");
        lane.join().unwrap();
        counts
    });
}

fn is_shaped_as(filter: &Splitting, view: u64, read: WordsRead) -> bool {
    filter.shape.is_still(view, read)
}

#[test]
fn no_answer_counts_that_crossed_a_split() {
    ask_beside_a_split(ITS_OWN, is_shaped_as);
    ask_beside_a_split(ANOTHER, is_shaped_as);
}

#[test]
#[should_panic(expected = "a wrong no")]
fn without_its_shape_a_view_from_before_a_split_misses_what_the_split_moved() {
    ask_beside_a_split(ITS_OWN, |_, _, _| true);
}

#[test]
#[should_panic(expected = "a wrong yes")]
fn without_its_shape_a_view_from_before_a_split_misreads_what_stayed() {
    ask_beside_a_split(ANOTHER, |_, _, _| true);
}
