//! Filters that are handed out, or taken in, part by part. Clients keep pools of
//! connections, so the parts of one may come on several: what is known of a
//! transfer is known here, by its caller and its filter.

use crate::access::keys::ApiKey;
use crate::engine::{FilterName, ForeignIntake, SlotView};
use crate::server::admission::budget::Held;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a filter that is handed out is remembered after its last part.
const DUMP_IDLE: Duration = Duration::from_secs(60);

/// How long the next part of a filter that is taken in may take to come.
const LOAD_IDLE: Duration = Duration::from_secs(30);

/// Ends that are remembered of one caller.
const ENDED_OF_A_CALLER: usize = 64;

/// Whose transfer it is, and of which filter.
pub(crate) type TransferKey = (Option<Arc<str>>, FilterName);

/// See the module.
#[derive(Default)]
pub(crate) struct Transfers {
    /// What is handed out, and when that was asked for last.
    dumps: Mutex<HashMap<TransferKey, (Given, Instant)>>,
    /// Those that came to their end lately, the oldest first.
    ended: Mutex<Vec<Ended>>,
    loads: Mutex<HashMap<TransferKey, Loading>>,
    /// How many filters are taken in.
    loading: AtomicUsize,
}

/// A filter that was handed out, and where it ended.
struct Ended {
    key: TransferKey,
    at: u64,
    since: Instant,
}

/// What is handed out, and what it holds.
pub(crate) struct Given {
    pub(crate) slots: Arc<SlotView>,
    /// With which it began; it ends with that.
    pub(crate) key: Option<Arc<ApiKey>>,
    /// Its place among those that are handed out.
    #[expect(dead_code, reason = "held only")]
    pub(crate) place: Held,
    /// Its memory.
    #[expect(dead_code, reason = "held only")]
    pub(crate) memory: Option<Held>,
}

/// A filter that is taken in.
pub(crate) enum Loading {
    /// A part of it is being worked on.
    Busy,
    /// Its next part may come.
    Waits(Box<Load>, Instant),
}

/// What came of a filter that is taken in.
pub(crate) struct Load {
    pub(crate) intake: ForeignIntake,
    /// Bytes of slots that came.
    pub(crate) came: u64,
    /// With which it began; it ends with that.
    pub(crate) key: Option<Arc<ApiKey>>,
    /// Its place among those that are taken in.
    #[expect(dead_code, reason = "held only")]
    pub(crate) place: Held,
}

impl Transfers {
    /// Remembers what is handed out.
    pub(crate) fn remember_dump(&self, key: TransferKey, given: Given) {
        self.dumps.lock().insert(key, (given, Instant::now()));
    }

    /// What is handed out.
    pub(crate) fn dump(&self, key: &TransferKey) -> Option<Arc<SlotView>> {
        let mut dumps = self.dumps.lock();
        let (given, last) = dumps.get_mut(key)?;
        *last = Instant::now();
        Some(Arc::clone(&given.slots))
    }

    /// Forgets what was handed out.
    pub(crate) fn forget_dump(&self, key: &TransferKey) {
        self.dumps.lock().remove(key);
        self.ended.lock().retain(|ended| ended.key != *key);
    }

    /// The same, but for where it ended.
    pub(crate) fn end_dump(&self, key: TransferKey, at: u64) {
        self.forget_dump(&key);
        let mut ended = self.ended.lock();
        let of_caller = |it: &Ended| it.key.0 == key.0;
        if ended.iter().filter(|it| of_caller(it)).count() == ENDED_OF_A_CALLER
            && let Some(oldest) = ended.iter().position(of_caller)
        {
            ended.remove(oldest);
        }
        let since = Instant::now();
        ended.push(Ended { key, at, since });
    }

    /// Whether what was handed out lately ended there.
    pub(crate) fn has_ended_at(&self, key: &TransferKey, at: u64) -> bool {
        let ended = self.ended.lock();
        ended.iter().any(|it| it.at == at && it.key == *key)
    }

    /// Whether a filter of this name is being taken in, by anybody.
    pub(crate) fn is_loading(&self, name: &FilterName) -> bool {
        self.loading.load(Ordering::Acquire) > 0
            && self.loads.lock().keys().any(|(_, loaded)| loaded == name)
    }

    /// Notes that a part of a filter is being worked on, and gives what came of it,
    /// which nobody else has then. `None`: it is not being taken in.
    pub(crate) fn take_load(&self, key: &TransferKey) -> Option<Loading> {
        let mut loads = self.loads.lock();
        Some(std::mem::replace(loads.get_mut(key)?, Loading::Busy))
    }

    /// Notes that the first part of a filter is being worked on; what came of it
    /// before is forgotten. `false`: a part of it is being worked on already.
    pub(crate) fn begin_load(&self, key: &TransferKey) -> bool {
        let mut loads = self.loads.lock();
        let before = loads.insert(key.clone(), Loading::Busy);
        self.loading.store(loads.len(), Ordering::Release);
        !matches!(before, Some(Loading::Busy))
    }

    /// Waits for the next part of a filter.
    pub(crate) fn keep_load(&self, key: TransferKey, load: Box<Load>) {
        let waits = Loading::Waits(load, Instant::now());
        self.loads.lock().insert(key, waits);
    }

    /// A filter is taken in, or refused.
    pub(crate) fn end_load(&self, key: &TransferKey) {
        let mut loads = self.loads.lock();
        loads.remove(key);
        self.loading.store(loads.len(), Ordering::Release);
    }

    /// Forgets what nobody goes on with, and what was begun with keys that are none
    /// any more. To be called every second.
    pub(crate) fn sweep(&self) {
        self.dumps
            .lock()
            .retain(|_, (given, last)| last.elapsed() < DUMP_IDLE && !has_ended(&given.key));
        self.ended
            .lock()
            .retain(|ended| ended.since.elapsed() < DUMP_IDLE);
        let mut loads = self.loads.lock();
        let is_over = |_: &TransferKey, loading: &mut Loading| match loading {
            Loading::Busy => false,
            Loading::Waits(load, last) => last.elapsed() >= LOAD_IDLE || has_ended(&load.key),
        };
        let dropped: Vec<(TransferKey, Loading)> = loads.extract_if(is_over).collect();
        self.loading.store(loads.len(), Ordering::Release);
        // Their pages are reclaimed, which others need not wait for.
        drop(loads);
        drop(dropped);
    }
}

fn has_ended(key: &Option<Arc<ApiKey>>) -> bool {
    key.as_ref().is_some_and(|key| key.end().is_some())
}
