//! Permits for the async threads: tasks that keep a thread busy need one for each poll,
//! and whoever has used least is first. There is one thread more than there are permits,
//! which sees at once what comes from others.
//!
//! The runtime itself would poll tasks in the order in which they were woken, so that
//! somebody who asks little waited for a poll of each who asks much.
//!
//! Each API key has an account of the time that its polls took; without a key, each
//! connection has its own. The order is that of start-time fair queueing (Goyal, Vin
//! and Cheng, 1996): the clock of the queue is at the account that was served last, and
//! whoever was idle goes on from there, without credit. So one key has no more of the
//! threads for having many connections, and what counts is what others use: beside
//! programs that take most of the processors it is the same.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A poll needs no permit if it ends less than so many nanoseconds ahead of the clock,
/// were it as long as the one before. A permit costs as much in advance, so that another
/// connection of the same key needs one, too.
const FREE: u64 = 50_000;

/// What somebody's polls took, in nanoseconds on the clock of the queue.
pub type Account = Arc<AtomicU64>;

/// Cores that the process may use; one, if that is not known.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many threads a server polls its tasks on.
pub fn async_threads() -> usize {
    cores() + 1
}

/// The permits of a server.
pub struct Threads {
    queue: Mutex<Queue>,
    /// The account that was served last.
    clock: AtomicU64,
}

#[derive(Default)]
struct Queue {
    free: usize,
    next: u64,
    /// Who waits, by their accounts and the numbers of their requests.
    waiting: BTreeMap<(usize, u64), (Account, Waker)>,
    /// Their accounts.
    order: BTreeSet<Turn>,
    /// The turn of each account there.
    turns: BTreeMap<usize, Turn>,
}

/// What an account had used when that was looked at last, the first of its requests then,
/// and where it lies.
type Turn = (u64, u64, usize);

impl Queue {
    /// Whether there was a free one, which is taken.
    fn take_free(&mut self) -> bool {
        let is_free = self.free > 0;
        self.free -= usize::from(is_free);
        is_free
    }

    /// Has one wait; returns where.
    fn push(&mut self, account: &Account, waker: Waker) -> (usize, u64) {
        let at = (place_of(account), self.next);
        self.next += 1;
        if !self.turns.contains_key(&at.0) {
            self.put((used(account), at.1, at.0));
        }
        self.waiting.insert(at, (Arc::clone(account), waker));
        at
    }

    fn put(&mut self, turn: Turn) {
        self.order.insert(turn);
        self.turns.insert(turn.2, turn);
    }

    /// Has one wait no longer; what it was woken by, unless its turn has come.
    fn remove(&mut self, at: (usize, u64)) -> Option<(Account, Waker)> {
        let removed = self.waiting.remove(&at)?;
        // Another account may come to lie there.
        if self.first_of(at.0).is_none()
            && let Some(turn) = self.turns.remove(&at.0)
        {
            self.order.remove(&turn);
        }
        Some(removed)
    }

    /// The first request of an account, and what it has used.
    fn first_of(&self, account: usize) -> Option<(u64, u64)> {
        let mut all = self.waiting.range((account, 0)..=(account, u64::MAX));
        all.next().map(|(at, (account, _))| (at.1, used(account)))
    }

    /// Takes the first request of who has used least, and says how much that is.
    fn pop(&mut self) -> Option<(u64, Waker)> {
        while let Some((known, _, account)) = self.order.pop_first() {
            self.turns.remove(&account);
            let Some((first, now)) = self.first_of(account) else {
                continue;
            };
            let popped = match now > known {
                // Others may have used less by now.
                true => None,
                false => self.waiting.remove(&(account, first)),
            };
            if let Some((next, _)) = self.first_of(account) {
                self.put((now, next, account));
            }
            if let Some((_, waker)) = popped {
                return Some((now, waker));
            }
        }
        None
    }
}

/// Where an account lies: as long as one waits for it, no other lies there.
fn place_of(account: &Account) -> usize {
    Arc::as_ptr(account).addr()
}

impl Threads {
    /// So many.
    pub(crate) fn new(count: usize) -> Arc<Threads> {
        let queue = Queue {
            free: count,
            ..Queue::default()
        };
        Arc::new(Threads {
            queue: Mutex::new(queue),
            clock: AtomicU64::new(0),
        })
    }

    fn give_back(&self) {
        let mut queue = self.queue.lock();
        let Some((used, waker)) = queue.pop() else {
            queue.free += 1;
            return;
        };
        drop(queue);
        self.clock.fetch_max(used, Ordering::Relaxed);
        waker.wake();
    }
}

fn used(account: &Account) -> u64 {
    account.load(Ordering::Relaxed)
}

/// A permit; it is given back when this is dropped.
struct Permit(Arc<Threads>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// One user of the threads: a task.
pub(crate) struct User {
    threads: Arc<Threads>,
    /// Who pays while nobody else has said so.
    own: Account,
    account: Account,
    /// Whether what comes after the poll under way is not the account's any more.
    is_over: bool,
    /// What its last poll took, in nanoseconds.
    last: u64,
    /// For the poll under way, if it needs one.
    permit: Option<Permit>,
    /// What was charged for it.
    paid: u64,
    /// Where it waits for one.
    waiting: Option<(usize, u64)>,
}

impl User {
    /// One with an account of its own.
    pub(crate) fn new(threads: &Arc<Threads>) -> User {
        let own = Account::default();
        User {
            threads: Arc::clone(threads),
            account: Arc::clone(&own),
            own,
            is_over: false,
            last: 0,
            permit: None,
            paid: 0,
            waiting: None,
        }
    }

    /// Has its polls charged to another account, the one under way included; whether
    /// that may go on: it needs no permit, or there is one.
    pub(crate) fn charge_to(&mut self, account: &Account) -> bool {
        self.is_over = false;
        if Arc::ptr_eq(&self.account, account) {
            return true;
        }
        self.account = Arc::clone(account);
        self.last = 0;
        if self.permit.is_some() || !self.needs_permit() {
            return true;
        }
        let is_free = self.threads.queue.lock().take_free();
        if is_free {
            self.pay();
        }
        is_free
    }

    /// Has the polls behind the one under way charged to its own account again.
    pub(crate) fn charge_to_own(&mut self) {
        self.is_over = true;
    }

    fn needs_permit(&self) -> bool {
        // What was not used while it was idle is no credit.
        let clock = self.threads.clock.load(Ordering::Relaxed);
        let before = self.account.fetch_max(clock, Ordering::Relaxed);
        before.max(clock) + self.last >= clock + FREE
    }

    /// Has the permit that was taken for it, or given back.
    fn pay(&mut self) {
        let used = used(&self.account);
        self.threads.clock.fetch_max(used, Ordering::Relaxed);
        self.permit = Some(Permit(Arc::clone(&self.threads)));
        self.paid = FREE;
        self.account.fetch_add(FREE, Ordering::Relaxed);
    }

    /// Begins a poll, with a permit if it needs one.
    pub(crate) fn begin(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.waiting.is_none() && !self.needs_permit() {
            return Poll::Ready(());
        }
        let mut queue = self.threads.queue.lock();
        match self.waiting {
            None if queue.take_free() => {}
            None => {
                let waker = context.waker().clone();
                self.waiting = Some(queue.push(&self.account, waker));
                return Poll::Pending;
            }
            Some(at) => {
                if let Some((_, waker)) = queue.waiting.get_mut(&at) {
                    waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                // It was given back for this one.
            }
        }
        drop(queue);
        self.waiting = None;
        self.pay();
        Poll::Ready(())
    }

    /// Charges a poll, which is over.
    pub(crate) fn end(&mut self, took: Duration) {
        self.last = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let left = self.last.saturating_sub(std::mem::take(&mut self.paid));
        self.account.fetch_add(left, Ordering::Relaxed);
        // Whoever is next is found by what was charged.
        self.permit = None;
        if std::mem::take(&mut self.is_over) && !Arc::ptr_eq(&self.account, &self.own) {
            self.account = Arc::clone(&self.own);
            self.last = 0;
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let Some(at) = self.waiting else {
            return;
        };
        let removed = self.threads.queue.lock().remove(at);
        if removed.is_none() {
            self.threads.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    const LONG: Duration = Duration::from_millis(1);
    const LITTLE: Duration = Duration::from_micros(10);

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A user, and whether its turn has come.
    struct Asking(User, Arc<Woken>);

    impl Asking {
        /// One that has used so much since it came.
        fn who_used(threads: &Arc<Threads>, used: Duration) -> Asking {
            let mut asking = Asking(User::new(threads), Arc::default());
            asking.0.end(used);
            asking
        }

        fn is_ready(&mut self) -> bool {
            let waker = Waker::from(Arc::clone(&self.1));
            let begun = self.0.begin(&Context::from_waker(&waker));
            // Kept.
            std::mem::forget(self.0.permit.take());
            begun.is_ready()
        }

        fn is_woken(&self) -> bool {
            self.1.0.load(Ordering::Relaxed) > 0
        }
    }

    #[test]
    fn who_used_least_is_first_and_who_used_little_does_not_wait() {
        let threads = Threads::new(1);
        let asking = |used| Asking::who_used(&threads, used);
        let mut busy = asking(LONG);
        assert!(busy.is_ready(), "a permit is free");
        let [mut most, mut less, mut little] = [3 * LONG, 2 * LONG, LITTLE].map(asking);
        assert!(!most.is_ready() && !less.is_ready());
        assert!(little.is_ready());
        threads.give_back();
        assert!(less.is_woken() && !most.is_woken());
        assert!(less.is_ready() && !most.is_ready());
        threads.give_back();
        assert!(most.is_woken() && most.is_ready());
        // Nobody has credit for having been idle: this one is not before the others for
        // as long as they were busy without it.
        let mut idle = asking(LITTLE);
        assert!(idle.is_ready());
        idle.0.end(LONG);
        assert!(!idle.is_ready());
    }

    #[test]
    fn who_all_use_much_and_alike_need_permits() {
        let threads = Threads::new(1);
        let alike = [(), (), ()].map(|()| Asking::who_used(&threads, LONG));
        let are_ready = alike.map(|mut one| one.is_ready());
        assert_eq!(are_ready, [true, false, false]);
    }

    #[test]
    fn many_connections_of_one_key_are_one_user() {
        let threads = Threads::new(1);
        let key = Account::default();
        let many = [(), (), ()].map(|()| {
            let mut one = Asking::who_used(&threads, LONG);
            one.0.charge_to(&key);
            one.0.end(LONG);
            one
        });
        let are_ready = many.map(|mut one| one.is_ready());
        assert_eq!(are_ready, [true, false, false]);
        let mut other = Asking::who_used(&threads, 2 * LONG);
        assert!(!other.is_ready());
        threads.give_back();
        assert!(other.is_woken());
    }

    #[test]
    fn a_key_that_uses_much_waits_on_each_new_connection_too() {
        let threads = Threads::new(1);
        let [busy, idle] = [(); 2].map(|()| Account::default());
        let shows = |key: &Account| {
            let mut one = Asking::who_used(&threads, LITTLE);
            assert!(one.is_ready());
            let may_go_on = one.0.charge_to(key);
            one.0.end(LONG);
            (may_go_on, one)
        };
        // For the second there is the permit, which it has again for its next poll.
        let ((first, _one), (second, mut again)) = (shows(&busy), shows(&busy));
        assert!(first && second && again.is_ready());
        assert!(!shows(&busy).0 && shows(&idle).0);
    }

    #[test]
    fn who_asks_next_on_a_connection_does_not_wait_by_who_asked_before() {
        let threads = Threads::new(1);
        let mut one = Asking::who_used(&threads, LITTLE);
        let mut other = Asking::who_used(&threads, LONG);
        assert!(other.is_ready() && one.0.charge_to(&Account::default()));
        one.0.end(LONG);
        assert!(!one.is_ready());
        threads.give_back();
        assert!(one.is_ready());
        one.0.charge_to_own();
        one.0.end(LONG);
        assert!(one.is_ready());
    }

    proptest! {
        /// Whoever is first is found without looking at all who wait.
        #[test]
        fn who_is_first_has_used_least_of_all(
            steps in prop::collection::vec((0_u8..4, 0_usize..6, 0_u64..5), 1..200),
        ) {
            let accounts: Vec<Account> = (0..6).map(|_| Account::default()).collect();
            let (mut queue, mut all) = (Queue::default(), Vec::new());
            for (step, account, more) in steps {
                match step {
                    0 | 1 => {
                        let at = queue.push(&accounts[account], Waker::noop().clone());
                        all.push((account, at));
                    }
                    2 => _ = accounts[account].fetch_add(more, Ordering::Relaxed),
                    _ if more == 0 && account < all.len() => {
                        let (_, at) = all.remove(account);
                        queue.remove(at);
                    }
                    _ => {
                        let least = all.iter().map(|&(it, _)| used(&accounts[it])).min();
                        prop_assert_eq!(queue.pop().map(|(used, _)| used), least);
                        all.retain(|(_, at)| queue.waiting.contains_key(at));
                    }
                }
                prop_assert_eq!(queue.waiting.len(), all.len());
                // Nothing is kept of accounts of which none waits.
                let accounts: BTreeSet<_> = all.iter().map(|(_, at)| at.0).collect();
                prop_assert_eq!(queue.order.len(), accounts.len());
                prop_assert_eq!(queue.turns.len(), accounts.len());
            }
        }
    }

    #[test]
    fn who_goes_leaves_its_permit_to_others() {
        let threads = Threads::new(1);
        let [mut first, mut second, mut third] =
            [1, 2, 3].map(|used| Asking::who_used(&threads, used * LONG));
        assert!(first.is_ready() && !second.is_ready() && !third.is_ready());
        threads.give_back();
        assert!(second.is_woken());
        drop(second);
        assert!(third.is_woken());
        drop(third);
        assert_eq!(threads.queue.lock().free, 1);
    }
}
