//! In tests: whether what a commit left in pages is what it says that they hold.
//!
//! It is asked in the way in which stored data are verified, of the store as of the
//! commit, with the log applied. So a test of anything else fails, too, where a commit
//! and its description part, or where they agree and the verifier says otherwise.

use super::changes::Changes;
use crate::engine::check::pages::{SliceBounds, compare, page_of};
use crate::engine::check::{Fault, Inspector};
use crate::page::Ordinal;
use crate::store::PageStore;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Bytes of slots of a filter beyond which it is not read.
const MOST_BYTES: u64 = 64 << 20;

/// It takes one part in so many of a lane's time.
const SHARE: u32 = 20;

/// When commits are looked at again.
#[derive(Default)]
pub(crate) struct CommitCheck {
    not_before: Cell<Option<Instant>>,
}

impl CommitCheck {
    /// Looks at a commit that is stored and published, unless the last look was just
    /// now.
    pub(super) fn look(&self, store: &PageStore, changes: &[Changes]) {
        let began = Instant::now();
        if self.not_before.get().is_some_and(|it| began < it) {
            return;
        }
        let view = store.snapshot();
        for it in changes {
            let bytes = it.view.chain.slot_bytes();
            if bytes > MOST_BYTES {
                continue;
            }
            let bounds = SliceBounds {
                bytes,
                sub_filters: usize::MAX,
                log_entries: 1 << 19,
            };
            // What can't be read is for others to say.
            let _ = compare(&view, page_of(it.filter.id, Ordinal(0)), bounds, &mut Sums);
        }
        drop(view);
        let pause: Duration = SHARE * began.elapsed();
        self.not_before.set(Some(Instant::now() + pause));
    }
}

/// Ends the program where a sum is wrong: no test may miss it.
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
