//! What may be held at the same time of a bounded resource: in all, and by each
//! of those who hold it.
//!
//! One rule for everything that callers can take from each other: places of
//! requests, memory, streams, queues, filters. A holder may hold no more than a
//! part of what it leaves free. At 50 percent the only holder gets half of the
//! bound; if it has that, the next one gets up to a quarter, and so on: whoever
//! comes is left something, however many take all they can. A holder that holds
//! nothing gets what it asks for as long as there is so much, so that a share is
//! never too small for one request.
//!
//! Nothing is known here of what is held, nor of who holds it: API keys by their
//! names, connections by their addresses.

use cuckood_metrics::Metrics;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use prometheus::IntCounter;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Who asks for a part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant<H> {
    /// To whose account it goes.
    pub holder: H,
    /// What it may have.
    pub terms: Terms,
}

impl<H> Claimant<H> {
    /// One of whom nothing is known but whether there are others whom it could crowd
    /// out.
    pub fn of(holder: H, has_rivals: bool) -> Claimant<H> {
        let most = None;
        Claimant {
            holder,
            terms: Terms { has_rivals, most },
        }
    }
}

/// What a claimant may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Whether there are others whom it could crowd out; it has its share of all
    /// then, and all of it otherwise.
    pub has_rivals: bool,
    /// How much at most, whatever there is.
    pub most: Option<u64>,
}

/// How long what is taken is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For the time of a request or so: who holds nothing gets what it asks for.
    Lent,
    /// For hours, or for good: the share bounds also the first.
    Kept,
}

/// Why nothing was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedUp {
    /// The resource as a whole is used up.
    All {
        /// Its bound.
        bound: u64,
    },
    /// There is some, but the holder has what it may.
    Share {
        /// What it holds.
        held: u64,
        /// The bound of the resource as a whole.
        bound: u64,
    },
    /// The holder has the most that it may have, whatever there is.
    Most {
        /// What it holds.
        held: u64,
        /// How much that is.
        most: u64,
    },
}

/// Whom something may be taken before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    Nobody,
    ThoseWhoWait,
}

/// A resource of which no more than its bound is held, and of that no more than
/// its share by one holder. Cheap to clone; all clones are the same.
pub struct Resource<H: Holder>(Arc<Inner<H>>);

/// Who may hold something.
pub trait Holder: Hash + Eq + Clone {}

impl<H: Hash + Eq + Clone> Holder for H {}

struct Inner<H: Holder> {
    bound: u64,
    share_percent: u64,
    kind: Kind,
    state: Mutex<State<H>>,
    refused_all: IntCounter,
    refused_share: IntCounter,
}

struct State<H: Holder> {
    held: u64,
    /// Those who hold something or wait; nobody in particular is one of them.
    accounts: HashMap<Option<H>, Account<H>, RandomState>,
    /// Those who wait, in the order in which they are served next.
    turns: VecDeque<Option<H>>,
}

struct Account<H: Holder> {
    held: u64,
    waiting: VecDeque<Waiter<H>>,
}

impl<H: Holder> Default for Account<H> {
    fn default() -> Self {
        Account {
            held: 0,
            waiting: VecDeque::new(),
        }
    }
}

struct Waiter<H: Holder> {
    amount: u64,
    terms: Terms,
    granted: oneshot::Sender<Permit<H>>,
}

impl<H: Holder> Resource<H> {
    /// A resource of this bound, `share_percent` of which the only holder gets
    /// while there are rivals; 100: all of it. `name` is its name in metrics.
    pub fn new(
        name: &str,
        kind: Kind,
        bound: u64,
        share_percent: u8,
        metrics: &Metrics,
    ) -> Resource<H> {
        let refused = |by| metrics.resource_refusals.with_label_values(&[name, by]);
        Resource(Arc::new(Inner {
            bound,
            share_percent: u64::from(share_percent.min(100)),
            kind,
            state: Mutex::new(State {
                held: 0,
                accounts: HashMap::default(),
                turns: VecDeque::new(),
            }),
            refused_all: refused("bound"),
            refused_share: refused("share"),
        }))
    }

    /// All there is.
    pub fn bound(&self) -> u64 {
        self.0.bound
    }

    /// What is held.
    pub fn held(&self) -> u64 {
        self.0.state.lock().held
    }

    /// What one holder holds.
    pub fn held_by(&self, holder: &H) -> u64 {
        let state = self.0.state.lock();
        let account = state.accounts.get(&Some(holder.clone()));
        account.map_or(0, |account| account.held)
    }

    /// Takes so much, or nothing.
    ///
    /// # Errors
    /// There is not so much, or not for this claimant.
    pub fn try_take(&self, by: Option<&Claimant<H>>, amount: u64) -> Result<Permit<H>, UsedUp> {
        let taken = self.take_now(by, amount, Past::ThoseWhoWait);
        taken.inspect_err(|used_up| self.0.count(*used_up))
    }

    /// Takes so much, and waits for it up to so long. Those who wait are served
    /// holder by holder in turn, and of one holder in the order in which they
    /// came.
    ///
    /// # Errors
    /// As [`try_take`](Self::try_take).
    pub async fn take(
        &self,
        by: Option<&Claimant<H>>,
        amount: u64,
        longest: Duration,
    ) -> Result<Permit<H>, UsedUp> {
        // Not past those who wait: what is large would wait for ever. But what
        // never will be there is not to be waited for: it would block the others.
        if let Ok(permit) = self.take_now(by, amount, Past::Nobody) {
            return Ok(permit);
        }
        if amount > self.bound() {
            return self.try_take(by, amount);
        }
        let mut waiting = self.wait(by, amount);
        let granted = timeout(longest, &mut waiting.granted).await;
        drop(waiting);
        match granted {
            Ok(Ok(permit)) => Ok(permit),
            // The sender lives in the queue until it sends.
            Ok(Err(_)) | Err(_) => self.try_take(by, amount),
        }
    }

    fn take_now(
        &self,
        by: Option<&Claimant<H>>,
        amount: u64,
        past: Past,
    ) -> Result<Permit<H>, UsedUp> {
        let holder = by.map(|by| by.holder.clone());
        let terms = by.map_or_else(Terms::default, |by| by.terms);
        let mut state = self.0.state.lock();
        if past == Past::Nobody && !state.turns.is_empty() {
            let bound = self.bound();
            return Err(UsedUp::All { bound });
        }
        self.0.check(&state, &holder, terms, 0, amount)?;
        state.add(&holder, amount);
        let is_waiting = state.accounts.get(&holder);
        let is_waiting = is_waiting.is_some_and(|it| !it.waiting.is_empty());
        drop(state);
        let permit = self.permit(holder, terms, amount);
        // It held nothing, perhaps, and what came back was kept for it.
        if is_waiting {
            self.serve();
        }
        Ok(permit)
    }

    /// What was added to the account of a holder.
    fn permit(&self, holder: Option<H>, terms: Terms, amount: u64) -> Permit<H> {
        Permit {
            resource: self.clone(),
            holder,
            terms,
            amount,
        }
    }

    fn wait(&self, by: Option<&Claimant<H>>, amount: u64) -> Waiting<'_, H> {
        let holder = by.map(|by| by.holder.clone());
        let (sender, granted) = oneshot::channel();
        let mut state = self.0.state.lock();
        let account = state.accounts.entry(holder.clone()).or_default();
        account.waiting.push_back(Waiter {
            amount,
            terms: by.map_or_else(Terms::default, |by| by.terms),
            granted: sender,
        });
        if account.waiting.len() == 1 {
            state.turns.push_back(holder.clone());
        }
        drop(state);
        let waiting = Waiting {
            resource: self,
            holder,
            granted,
        };
        // Something may have been given back since it was looked at.
        self.serve();
        waiting
    }

    /// Has a holder hold so much instead of so much, whatever the bounds
    /// say: what is there already, and grows or shrinks.
    pub fn adjust(&self, holder: Option<&H>, before: u64, after: u64) {
        let holder = holder.cloned();
        let mut state = self.0.state.lock();
        state.add(&holder, after);
        state.remove(&holder, before);
        drop(state);
        self.serve();
    }

    fn give_back(&self, holder: &Option<H>, amount: u64) {
        let mut state = self.0.state.lock();
        state.remove(holder, amount);
        let nobody_waits = state.turns.is_empty();
        drop(state);
        if !nobody_waits {
            self.serve();
        }
    }

    /// Gives those who wait what there is.
    fn serve(&self) {
        let mut state = self.0.state.lock();
        let mut served = Vec::new();
        let mut passed = 0;
        while passed < state.turns.len() {
            let Some(holder) = state.turns.pop_front() else {
                break;
            };
            let front = state
                .accounts
                .get(&holder)
                .and_then(|it| it.waiting.front());
            let Some(&Waiter { amount, terms, .. }) = front else {
                continue;
            };
            match self.0.check(&state, &holder, terms, 0, amount) {
                Ok(()) => {}
                // It holds nothing, or has no rivals. What comes back is kept for
                // it, or it would wait for ever.
                Err(UsedUp::All { .. }) => {
                    state.turns.push_front(holder);
                    break;
                }
                Err(UsedUp::Share { .. } | UsedUp::Most { .. }) => {
                    state.turns.push_back(holder);
                    passed += 1;
                    continue;
                }
            }
            state.add(&holder, amount);
            if let Some(account) = state.accounts.get_mut(&holder)
                && let Some(waiter) = account.waiting.pop_front()
            {
                let waits_on = !account.waiting.is_empty();
                let permit = self.permit(holder.clone(), terms, amount);
                served.push((waiter.granted, permit));
                if waits_on {
                    state.turns.push_back(holder);
                }
            }
            passed = 0;
        }
        drop(state);
        for (waiter, permit) in served {
            // Of one that is gone it comes back, and is given to the next.
            let _ = waiter.send(permit);
        }
    }
}

impl<H: Holder> Clone for Resource<H> {
    fn clone(&self) -> Self {
        Resource(Arc::clone(&self.0))
    }
}

impl<H: Holder> Inner<H> {
    /// Whether a holder may have so much more; `own` is what it has by the very
    /// permit that is to grow.
    fn check(
        &self,
        state: &State<H>,
        holder: &Option<H>,
        terms: Terms,
        own: u64,
        amount: u64,
    ) -> Result<(), UsedUp> {
        let bound = self.bound;
        let free = bound.checked_sub(state.held.saturating_add(amount));
        let held = state.accounts.get(holder).map_or(0, |it| it.held);
        let after = held.saturating_add(amount);
        if let Some(most) = terms.most.filter(|&most| after > most) {
            return Err(UsedUp::Most { held, most });
        }
        // The share comes before the bound: who has too much already is not to
        // have others wait until there is more.
        let is_first = match self.kind {
            Kind::Lent => held <= own,
            Kind::Kept => held == 0 && free.is_none(),
        };
        let part = |whole: u64, percent: u64| u128::from(whole) * u128::from(percent);
        let is_over =
            part(after, 100 - self.share_percent) > part(free.unwrap_or(0), self.share_percent);
        if terms.has_rivals && !is_first && is_over {
            return Err(UsedUp::Share { held, bound });
        }
        free.map(|_| ()).ok_or(UsedUp::All { bound })
    }

    fn count(&self, used_up: UsedUp) {
        match used_up {
            UsedUp::All { .. } => self.refused_all.inc(),
            UsedUp::Share { .. } | UsedUp::Most { .. } => self.refused_share.inc(),
        }
    }
}

impl<H: Holder> State<H> {
    fn add(&mut self, holder: &Option<H>, amount: u64) {
        self.held = self.held.saturating_add(amount);
        let account = self.accounts.entry(holder.clone()).or_default();
        account.held = account.held.saturating_add(amount);
    }

    fn remove(&mut self, holder: &Option<H>, amount: u64) {
        self.held = self.held.saturating_sub(amount);
        if let Some(account) = self.accounts.get_mut(holder) {
            account.held = account.held.saturating_sub(amount);
            if account.held == 0 && account.waiting.is_empty() {
                self.accounts.remove(holder);
            }
        }
    }
}

/// A place in the queue, left when this is dropped.
struct Waiting<'a, H: Holder> {
    resource: &'a Resource<H>,
    holder: Option<H>,
    granted: oneshot::Receiver<Permit<H>>,
}

impl<H: Holder> Drop for Waiting<'_, H> {
    fn drop(&mut self) {
        self.granted.close();
        // What came in the last moment goes back when the receiver is dropped.
        let mut state = self.resource.0.state.lock();
        let Some(account) = state.accounts.get_mut(&self.holder) else {
            return;
        };
        account.waiting.retain(|waiter| !waiter.granted.is_closed());
        if account.waiting.is_empty() {
            let is_needless = account.held == 0;
            let holder = &self.holder;
            state.turns.retain(|waiting| waiting != holder);
            if is_needless {
                state.accounts.remove(holder);
            }
        }
        let nobody_waits = state.turns.is_empty();
        drop(state);
        // What was kept for it is for those behind it.
        if !nobody_waits {
            self.resource.serve();
        }
    }
}

/// What is held of a resource; given back when this is dropped.
pub struct Permit<H: Holder> {
    resource: Resource<H>,
    holder: Option<H>,
    terms: Terms,
    amount: u64,
}

impl<H: Holder> Permit<H> {
    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Has it hold so much; one that holds more stays as it is. Never waits,
    /// since what waits for others to end still holds what it has.
    ///
    /// # Errors
    /// There is not so much more, or not for this holder; it holds what it held.
    pub fn try_grow_to(&mut self, amount: u64) -> Result<(), UsedUp> {
        let more = amount.saturating_sub(self.amount);
        if more == 0 {
            return Ok(());
        }
        let resource = &self.resource.0;
        let mut state = resource.state.lock();
        resource
            .check(&state, &self.holder, self.terms, self.amount, more)
            .inspect_err(|used_up| resource.count(*used_up))?;
        state.add(&self.holder, more);
        self.amount = amount;
        Ok(())
    }

    /// Gives back what is more than so much.
    pub fn shrink_to(&mut self, amount: u64) {
        let less = self.amount.saturating_sub(amount);
        if less > 0 {
            self.amount = amount;
            self.resource.give_back(&self.holder, less);
        }
    }
}

impl<H: Holder> Drop for Permit<H> {
    fn drop(&mut self) {
        self.resource.give_back(&self.holder, self.amount);
    }
}

impl<H: Holder> std::fmt::Debug for Permit<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Permit({})", self.amount)
    }
}

#[cfg(test)]
mod tests;
