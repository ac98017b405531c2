//! Whether what a commit left in pages is what it says that they hold. Tests here and
//! elsewhere include this file.
//!
//! It is asked in the way in which stored data are verified, of the store as of the
//! commit, with the log applied. So a test of anything else fails, too, where a commit
//! and its description part, or where they agree and the verifier says otherwise.

use cuckood_engine::check::{Fault, Inspector, inspect_filter};
use cuckood_pages::page::FilterId;
use cuckood_pages::store::PageStore;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of slots of a filter beyond which it is not read.
const MOST_BYTES: u64 = 64 << 20;

/// It takes one part in so many of a lane's time.
const SHARE: u32 = 20;

/// Filters that were read, of all engines of this program.
pub(crate) static LOOKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// When the commits of a lane are looked at again.
    static NOT_BEFORE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Looks at the filters that a commit changed, with the bytes of their slots, unless the
/// last look was just now. The program ends where one holds other than it says.
pub(crate) fn after_commit(store: &PageStore, changed: &[(FilterId, u64)]) {
    let began = Instant::now();
    if NOT_BEFORE.get().is_some_and(|it| began < it) {
        return;
    }
    for &(id, bytes) in changed {
        if bytes <= MOST_BYTES
            && let Some(wrong) = wrong_sum(store, id, bytes)
        {
            eprintln!("after a commit: {wrong}");
            std::process::abort();
        }
    }
    let pause: Duration = SHARE * began.elapsed();
    NOT_BEFORE.set(Some(Instant::now() + pause));
}

/// What is said of a filter whose pages hold other than it says: no test damages what sums
/// are made of.
pub(crate) fn wrong_sum(store: &PageStore, id: FilterId, bytes: u64) -> Option<String> {
    let mut sums = Sums(None);
    // That the store can't be read is of the tests that have it so.
    if inspect_filter(store, id, bytes, &mut sums).is_ok() {
        LOOKS.fetch_add(1, Ordering::Relaxed);
    }
    sums.0
}

/// What is wrong with sums.
struct Sums(Option<String>);

impl Inspector for Sums {
    fn read(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn fault(&mut self, fault: Fault) {
        if fault.is_sum {
            self.0 = Some(fault.to_string());
        }
    }
}
