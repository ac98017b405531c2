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
use std::time::{Duration, Instant};

/// Bytes of slots of a filter beyond which it is not read.
const MOST_BYTES: u64 = 64 << 20;

/// It takes one part in so many of a lane's time.
const SHARE: u32 = 20;

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
        if bytes <= MOST_BYTES {
            // That the store can't be read is of the tests that have it so.
            let _ = inspect_filter(store, id, bytes, &mut Sums);
        }
    }
    let pause: Duration = SHARE * began.elapsed();
    NOT_BEFORE.set(Some(Instant::now() + pause));
}

/// Ends the program where sums part: no test damages what they are made of.
struct Sums;

impl Inspector for Sums {
    fn read(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn fault(&mut self, fault: Fault) {
        if fault.is_sum {
            eprintln!("after a commit: {fault}");
            std::process::abort();
        }
    }
}
