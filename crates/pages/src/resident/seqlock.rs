//! How words are read whole without a lock: a sequence lock.
//!
//! A lane changes words while other threads read them. A reader takes no lock:
//! it looks at a number, reads the words, and looks at the number again. The
//! number is another while the words are changed and after that, so if it is
//! the same, the words belong together. The orderings are those of Boehm, "Can
//! Seqlocks Get Along With Programming Language Memory Models?", MSPC 2012:
//!
//! ```text
//! writer                              reader
//! 1 change the number, relaxed        a load the number, acquire
//! 2 release fence                     b load words, relaxed
//! 3 store words, relaxed              c acquire fence
//! 4 change the number, release        d load the number again, relaxed
//! ```
//!
//! # Argument
//! Let *a* and *d* load the same number, and let it be none that step 1 left.
//!
//! - *No word is newer.* If *b* loaded a word of step 3, the fences 2 and *c*
//!   synchronise: step 1 happens before *d*. So *d* loads what step 1 left, or
//!   something later. No number comes twice, so that is not what *a* loaded.
//! - *No word is older.* *a* synchronises with the step 4 whose number it
//!   loaded, and with the steps 4 before it: each change of a [`Version`] is a
//!   read-modify-write, which continues their release sequences. So all words
//!   of those changes happen before *b*.
//!
//! The words have to be atomics, or the program would have data races; relaxed
//! loads and stores of them are plain instructions.
//!
//! # Where it is used
//! | number | belongs to | changed by | an equal number says |
//! |---|---|---|---|
//! | [`Version`] in [`Versions`](super::Versions) | pages of one stripe | all lanes | words and counters of these pages are as of one commit each |
//! | [`Version`] of an open filter | all its pages | its lane | all words of a group of items are as of one commit |
//! | [`Version`] of its shape | what its pages mean | its lane, where it splits or merges pages | the view says where items lie, and what the words say |
//! | [`Entry`] | one page | evictions and installations, under their lock | the frame held this page |
//! | name of a [leaf](super::leaves) | 64 pages of a table | evictions and installations, under their lock | the place that was read on the leaf is of that page |
//!
//! With an [`Entry`] the steps are spread over two numbers: the frame's last
//! page loses its entry (1), and after the words are stored the next page gets
//! one (4). A reader of the last page finds that its entry is gone, and a reader
//! of the next one sees its words.
//!
//! An entry may be another page's after its leaf was given to another table. The
//! name of the leaf in its first table goes (1) before that table's place is
//! stored in the entry, with release; so a reader that has loaded it, with
//! acquire, finds that the name is another. One that has loaded a place of its
//! own page goes on as above: no place comes twice, in whichever entry.
//!
//! # Views
//! Which pages a filter has, and what their slots mean, is said by a view that
//! is published with them. A reader loads the view, finds out from it where an
//! item lies, and only then reads the versions of those pages and their words:
//! the view may be of a commit long past by then. An item that a split has
//! moved is not where such a view looks for it, and all versions agree that
//! nothing was changed. So a view carries the number that the filter's shape
//! has from its commit on, and there is no step *a*: the number comes with the
//! view. In step 3 the view is stored after the words, and in step *d* the
//! reader looks whether the shape still has that number.
//!
//! - *No word is of a later shape*, as above: the commit that stored it
//!   changed the number before.
//! - *No word is of an earlier shape.* The view was loaded before any word, by
//!   a load that acquires, and stored after the words of its commit, by a store
//!   that releases.
//!
//! This holds for every word alone, so it makes a "yes" right that rests on one
//! word; without it a word of two shapes may look like an entry of an item that
//! was never added. For a "no", versions tell in addition that all words are as
//! of one moment, which is then a moment of that shape. To read the versions
//! first and the view after them would do as well for a "no", but not for a
//! "yes", and would load the view again for every item that is asked about.
//!
//! `tests/seqlock.rs` runs this file under loom: through the interleavings of
//! some small programs, and all values that their loads may return.

use super::atomics::{AtomicU64, Ordering, fence};

/// A version counts finished changes in its low bits and those under way in
/// its high bits.
const UNDER_WAY: u64 = 1 << 48;

/// The number that tells whether words were changed. Several threads may change
/// different words of one version at once.
#[derive(Default)]
pub struct Version(AtomicU64);

impl Version {
    /// A version that nothing was changed under.
    pub fn new() -> Version {
        Version(AtomicU64::new(0))
    }

    /// Its number, or `None` during a change. Step *a*.
    #[inline]
    pub fn read(&self) -> Option<u64> {
        let number = self.0.load(Ordering::Acquire);
        (number < UNDER_WAY).then_some(number)
    }

    /// Whether nothing was changed since it had that number. Step *d*.
    #[inline]
    pub fn is_still(&self, number: u64, _: WordsRead) -> bool {
        self.0.load(Ordering::Relaxed) == number
    }

    /// Has `change` store words that belong to these versions. A version may
    /// be named more than once.
    #[inline]
    pub fn change<'a, V: Iterator<Item = &'a Version>>(
        versions: impl Fn() -> V,
        change: impl FnOnce(),
    ) {
        for version in versions() {
            version.0.fetch_add(UNDER_WAY, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        change();
        for version in versions() {
            version.0.fetch_sub(UNDER_WAY - 1, Ordering::Release);
        }
    }
}

/// Proof that the acquire fence stands between the words that were read and a
/// second look at a number. Step *c*.
#[derive(Clone, Copy)]
pub struct WordsRead(());

impl WordsRead {
    /// To be called after the last word was read.
    #[inline]
    pub fn fence() -> WordsRead {
        fence(Ordering::Acquire);
        WordsRead(())
    }
}

/// Where one page lies: 0 for nowhere, or a place that is new whenever a frame
/// gets a page.
pub(crate) struct Entry(AtomicU64);

impl Entry {
    /// An entry of a page that lies nowhere.
    pub(crate) fn new() -> Entry {
        Entry(AtomicU64::new(0))
    }

    /// The place, or 0. Step *a*.
    #[inline]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The place, or 0, where no words are read under it.
    #[inline]
    pub(crate) fn peek(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether the page was in that place all the time. Step *d*.
    #[inline]
    pub(crate) fn is_still(&self, place: u64, _: WordsRead) -> bool {
        self.peek() == place
    }

    /// Says that the page has no place any more. Step 1; steps 2 and 3 are in
    /// the [`set`](Self::set) of the page that gets the frame next.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Says where the page lies, once `fill` has stored its words there. The
    /// last page of that frame was [cleared](Self::clear), by this thread or by
    /// one that has released the cache's lock since.
    pub(crate) fn set(&self, place: u64, fill: impl FnOnce()) {
        fence(Ordering::Release);
        fill();
        self.0.store(place, Ordering::SeqCst);
    }
}
