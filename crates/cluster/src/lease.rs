//! When a pod takes, renews and loses a lane's lease: a state machine without
//! I/O. The clock is handed in.
//!
//! A lease counts from before it was asked for, so a pod stops to lead before
//! anybody else may begin, as long as clocks run equally fast. Where they do not,
//! two pods lead for a while, which the fence makes harmless.

use super::replica::Event;
use std::time::{Duration, Instant};

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is held on, as of this revision.
    Held {
        /// What the next renewal expects.
        revision: u64,
    },
    /// It is another's, or ran out.
    Lost,
    /// There was no answer: it is held until its lifetime is over.
    Unknown,
}

/// What is to be done about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Take it, if nobody has it; tell with [`LeaseKeeper::asked`].
    Take,
    /// Renew it; tell with [`LeaseKeeper::renewed`].
    Renew {
        /// What is expected.
        revision: u64,
    },
    /// Nothing before this moment.
    Rest {
        /// The moment.
        until: Instant,
    },
}

/// A lane whose lease is kept: it says whether it may be led here, and is told what
/// becomes of the lease.
pub trait KeptLane: Send + Sync {
    /// Whether the pod may lead it: it stands still for good, or lacks records,
    /// otherwise.
    fn may_lead(&self) -> bool;

    /// Waits until it has applied what the log had a moment ago, since its start, or
    /// applies nothing any more.
    fn caught_up(&self) -> impl Future<Output = ()> + Send;

    /// Tells it of its lease, or to look at the log.
    fn tell(&self, event: Event);
}

/// The lease of one lane, as one pod has it.
#[derive(Debug)]
pub struct LeaseKeeper {
    ttl: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Without {
        look_at: Instant,
    },
    Held {
        /// The revision at which it was taken.
        since: u64,
        /// That of the last renewal.
        revision: u64,
        /// When that was asked for.
        renewed_at: Instant,
        renew_at: Instant,
    },
}

impl LeaseKeeper {
    /// Of a pod that has no lease. Leases live for `ttl`.
    pub fn new(ttl: Duration, now: Instant) -> LeaseKeeper {
        LeaseKeeper {
            ttl,
            state: State::Without { look_at: now },
        }
    }

    /// The revision at which the lease was taken, while it is held: what a
    /// replica is told with [`Event::Lease`].
    pub fn held(&self, now: Instant) -> Option<u64> {
        match self.state {
            State::Held {
                since, renewed_at, ..
            } if now < renewed_at + self.ttl => Some(since),
            State::Held { .. } | State::Without { .. } => None,
        }
    }

    /// What is to be done now.
    pub fn duty(&self, now: Instant) -> Duty {
        match self.state {
            State::Without { look_at } if now < look_at => Duty::Rest { until: look_at },
            State::Without { .. } => Duty::Take,
            State::Held { .. } if self.held(now).is_none() => Duty::Take,
            State::Held { renew_at, .. } if now < renew_at => Duty::Rest { until: renew_at },
            State::Held { revision, .. } => Duty::Renew { revision },
        }
    }

    /// It was asked for at this moment; it is this pod's as of this revision, or
    /// is not.
    pub fn asked(&mut self, at: Instant, taken: Option<u64>) {
        self.state = match taken {
            Some(revision) => State::Held {
                since: revision,
                revision,
                renewed_at: at,
                renew_at: at + self.ttl / 3,
            },
            None => State::Without {
                look_at: at + self.ttl / 4,
            },
        };
    }

    /// It was renewed at this moment, or was not.
    pub fn renewed(&mut self, at: Instant, renewal: Renewal) {
        let State::Held {
            revision: current,
            renewed_at,
            renew_at,
            ..
        } = &mut self.state
        else {
            return;
        };
        match renewal {
            Renewal::Held { revision } => {
                *current = revision;
                *renewed_at = at;
                *renew_at = at + self.ttl / 3;
            }
            Renewal::Lost => self.asked(at, None),
            // There is time for another try or two.
            Renewal::Unknown => *renew_at = at + self.ttl / 6,
        }
    }

    /// Something was said of it: it is looked at without waiting, unless it is held.
    pub fn look_now(&mut self, now: Instant) {
        if let State::Without { look_at } = &mut self.state {
            *look_at = now.min(*look_at);
        }
    }

    /// Gives it up. Returns the revision to give back; others have time to take
    /// it.
    pub fn give_up(&mut self, now: Instant) -> Option<u64> {
        let revision = match self.state {
            State::Held { revision, .. } => self.held(now).map(|_| revision),
            State::Without { .. } => None,
        };
        self.state = State::Without {
            look_at: now + self.ttl,
        };
        revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(12);

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_is_renewed_after_a_third_of_its_life_and_keeps_its_first_revision() {
        let start = Instant::now();
        let mut keeper = LeaseKeeper::new(TTL, start);
        assert_eq!(keeper.duty(start), Duty::Take);
        assert_eq!(keeper.held(start), None);
        keeper.asked(start, Some(7));
        let until = after(start, 4);
        assert_eq!(keeper.duty(after(start, 3)), Duty::Rest { until });
        assert_eq!(keeper.duty(until), Duty::Renew { revision: 7 });
        keeper.renewed(until, Renewal::Held { revision: 9 });
        assert_eq!(keeper.held(after(start, 15)), Some(7));
        assert_eq!(keeper.duty(after(start, 8)), Duty::Renew { revision: 9 });
    }

    #[test]
    fn a_lease_that_could_not_be_renewed_ends_where_its_last_renewal_was_asked_for() {
        let start = Instant::now();
        let mut keeper = LeaseKeeper::new(TTL, start);
        keeper.asked(start, Some(7));
        keeper.renewed(after(start, 4), Renewal::Unknown);
        // It is tried again sooner.
        assert_eq!(keeper.duty(after(start, 6)), Duty::Renew { revision: 7 });
        keeper.renewed(after(start, 11), Renewal::Unknown);
        assert_eq!(keeper.held(after(start, 11)), Some(7));
        assert_eq!(keeper.held(after(start, 12)), None);
        assert_eq!(keeper.duty(after(start, 12)), Duty::Take);
        // Taken again, it is another one.
        keeper.asked(after(start, 12), Some(20));
        assert_eq!(keeper.held(after(start, 13)), Some(20));
    }

    #[test]
    fn a_lease_of_another_is_looked_at_again_and_one_given_up_left_to_others() {
        let start = Instant::now();
        let mut keeper = LeaseKeeper::new(TTL, start);
        keeper.asked(start, None);
        let until = after(start, 3);
        assert_eq!(keeper.duty(start), Duty::Rest { until });
        keeper.asked(until, Some(1));
        keeper.renewed(after(start, 7), Renewal::Lost);
        assert_eq!(keeper.held(after(start, 7)), None);
        assert_eq!(keeper.duty(after(start, 10)), Duty::Take);
        keeper.asked(after(start, 10), Some(5));
        assert_eq!(keeper.give_up(after(start, 11)), Some(5));
        let until = after(start, 23);
        assert_eq!(keeper.duty(after(start, 11)), Duty::Rest { until });
        assert_eq!(keeper.give_up(after(start, 11)), None);
        // Unless it is said that somebody has it now, or nobody.
        keeper.look_now(after(start, 12));
        assert_eq!(keeper.duty(after(start, 12)), Duty::Take);
        keeper.asked(after(start, 12), Some(9));
        keeper.look_now(after(start, 13));
        let until = after(start, 16);
        assert_eq!(keeper.duty(after(start, 13)), Duty::Rest { until });
    }
}
