//! Memory for frames, in huge pages where the system has them.
//!
//! Unsafe code, as in few other files. Who looks for a word in many pages of
//! 4 KiB waits for memory, and once more to learn where the page is, of which
//! there are more than the processor keeps in mind. Rust has no safe way to ask
//! for huge pages. Where the system has none, nothing is done.

#![expect(unsafe_code, reason = "advice to the system has no safe wrapper")]

use std::ops::Deref;
use std::sync::atomic::AtomicU64;

/// Bytes of a huge page. On machines where they are others, the advice does
/// less.
const HUGE_PAGE: usize = 2 << 20;

/// Words that are zero at first, in huge pages if the system has them.
///
/// Of many (more than 32 MiB) those that were never touched take no memory, or
/// a huge page of it where their neighbours were.
pub(super) struct HugeWords {
    /// More than are wanted, since the first must begin a huge page.
    all: Box<[AtomicU64]>,
    first: usize,
    count: usize,
}

impl HugeWords {
    /// So many words.
    pub(super) fn new(count: usize) -> Self {
        let spare = HUGE_PAGE / size_of::<AtomicU64>();
        let all = Box::<[AtomicU64]>::new_zeroed_slice(count + spare);
        // SAFETY: all bits zero are a valid `AtomicU64`, namely 0.
        let all = unsafe { all.assume_init() };
        let words = HugeWords {
            first: all.as_ptr().align_offset(HUGE_PAGE).min(spare),
            all,
            count,
        };
        words.ask_for_huge_pages();
        words
    }

    /// Before the first word is touched: the system gives a page of the size
    /// that is right then.
    #[cfg(target_os = "linux")]
    fn ask_for_huge_pages(&self) {
        let words: &[AtomicU64] = self;
        let address = words.as_ptr().cast_mut().cast();
        let advice = rustix::mm::Advice::LinuxHugepage;
        // SAFETY: the range is part of one live allocation. This advice changes
        // neither what the memory holds nor that it may be used.
        let advised = unsafe { rustix::mm::madvise(address, size_of_val(words), advice) };
        // A system without huge pages refuses, and small ones do.
        let _ = advised;
    }

    #[cfg(not(target_os = "linux"))]
    fn ask_for_huge_pages(&self) {}
}

impl Deref for HugeWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        self.all
            .get(self.first..self.first + self.count)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_are_as_many_as_were_asked_for_and_begin_a_huge_page_as_zeros() {
        let words = HugeWords::new(3 * HUGE_PAGE / 8 + 5);
        assert_eq!(words.len(), 3 * HUGE_PAGE / 8 + 5);
        assert_eq!(words.as_ptr().addr() % HUGE_PAGE, 0);
        for (n, word) in (1..).zip(words.iter()) {
            assert_eq!(word.swap(n, Ordering::Relaxed), 0);
        }
        assert_eq!(
            words.last().unwrap().load(Ordering::Relaxed),
            words.len() as u64
        );
    }
}
