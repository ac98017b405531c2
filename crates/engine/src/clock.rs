//! What time it is. Callers ask here, before a command exists; lanes do for nothing but
//! when a filter was changed.
//!
//! The wall clock can be set by anybody who may, and by mistake far into the
//! future, where every filter has ended. So it is held against a clock that
//! nobody can set, the time since the machine's start: while the wall clock runs
//! far ahead of that, it is not believed until somebody confirms it.
//!
//! In a cluster time is what its log says: each record has a stamp, and every pod
//! goes on from the newest one by the time since the machine's start. The wall clock
//! only says what the next stamp is, as long as it is not far ahead of that, nor of what
//! this pod reckons: where it began, and the time since the machine's start. No stamp
//! moves that, neither its own nor another pod's, which may only follow its own: a clock
//! that runs too fast, or steps a little again and again, gets no further than that. So
//! all pods agree on what has ended, and no pod's clock can end it early.

use arc_swap::{ArcSwap, ArcSwapOption};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How far the wall clock may get ahead of where it was when it was looked at,
/// measured by the time since the machine's start, and is still believed. In
/// the long run, too, it gets no further ahead than this and a thousandth of the
/// time that has passed: clocks drift.
const LEEWAY_MS: i64 = 60_000;
const LEEWAY_PART: i64 = 1000;

/// Where the engine takes the time from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system.
    #[default]
    System,
    /// Milliseconds since 1970 that are set from outside and always believed:
    /// for tests.
    Set(Arc<AtomicU64>),
    /// Both clocks, set from outside: for tests.
    Both {
        /// Milliseconds since 1970.
        wall_ms: Arc<AtomicU64>,
        /// Milliseconds since the machine's start.
        since_boot_ms: Arc<AtomicU64>,
    },
}

/// What time it is elsewhere, for an engine that shares its lanes: each in milliseconds
/// since 1970, as of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeElsewhere {
    /// That of the other engines that are there.
    pub engines: Option<(u64, Instant)>,
    /// The same by what they reckon, whatever they have stamped.
    pub reckoned: Option<(u64, Instant)>,
    /// That of the brokers, against which the own clock is held where there are no
    /// others; `None`: it is believed as it is.
    pub brokers: Option<(u64, Instant)>,
    /// The newest stamp of what was applied before.
    pub stamp_ms: Option<u64>,
}

impl Clock {
    fn read(&self) -> Reading {
        match self {
            Clock::System => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
                let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Reading {
                    wall_ms: since_1970.map_or(0, |since| since.as_millis() as i64),
                    // It goes on while the machine sleeps.
                    since_boot_ms: since_boot.tv_sec * 1000 + since_boot.tv_nsec / 1_000_000,
                }
            }
            Clock::Set(now_ms) => Reading {
                wall_ms: now_ms.load(Ordering::SeqCst) as i64,
                since_boot_ms: now_ms.load(Ordering::SeqCst) as i64,
            },
            Clock::Both {
                wall_ms,
                since_boot_ms,
            } => Reading {
                wall_ms: wall_ms.load(Ordering::SeqCst) as i64,
                since_boot_ms: since_boot_ms.load(Ordering::SeqCst) as i64,
            },
        }
    }
}

/// Both clocks at one moment, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    wall_ms: i64,
    since_boot_ms: i64,
}

impl Reading {
    fn difference(&self) -> i64 {
        self.wall_ms.saturating_sub(self.since_boot_ms)
    }
}

/// What is believed of the wall clock. A plain value: what it says follows from
/// readings alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Belief {
    /// What the clocks were when the wall clock was believed whatever it said.
    confirmed: Reading,
    /// The difference of the clocks when the wall clock was last believed.
    last_difference: i64,
    /// The greatest difference that was believed since.
    furthest_difference: i64,
}

/// The time, and how far the wall clock is ahead of it if that is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    now_ms: i64,
    jump_ms: Option<i64>,
}

impl Belief {
    /// Believes the wall clock.
    fn confirmed(reading: Reading) -> Belief {
        Belief {
            confirmed: reading,
            last_difference: reading.difference(),
            furthest_difference: reading.difference(),
        }
    }

    /// What time it is at a reading.
    fn tell(&self, reading: Reading) -> Told {
        let passed = reading.since_boot_ms - self.confirmed.since_boot_ms;
        let ahead = reading.difference() - self.confirmed.difference();
        let believed = Told {
            now_ms: reading.wall_ms,
            jump_ms: None,
        };
        // Where it has been before it may come back to.
        let step = reading.difference() - self.furthest_difference;
        if step <= LEEWAY_MS && ahead <= LEEWAY_MS + passed / LEEWAY_PART {
            return believed;
        }
        let now_ms = reading.since_boot_ms + self.last_difference;
        Told {
            now_ms,
            jump_ms: Some(reading.wall_ms - now_ms),
        }
    }

    /// The belief after a reading: from where time goes on should the next one
    /// not be believed.
    fn after(self, reading: Reading) -> Belief {
        match self.tell(reading).jump_ms {
            Some(_) => self,
            None => Belief {
                last_difference: reading.difference(),
                furthest_difference: self.furthest_difference.max(reading.difference()),
                ..self
            },
        }
    }
}

/// The time, as the engine and its callers are told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Milliseconds since 1970, by which filters end.
    pub now_ms: u64,
    /// Milliseconds since 1970, as the system says.
    pub wall_ms: u64,
    /// How many milliseconds the wall clock has jumped ahead; `None`: it is
    /// believed.
    pub jump_ms: Option<u64>,
}

/// A stamp of the cluster's log, and what the other clock was when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard(Reading);

impl Heard {
    /// What time it is at a reading. The wall clock may be ahead of it by as much as
    /// it may otherwise.
    fn tell(&self, reading: Reading) -> Told {
        let passed = self.passed(reading);
        let now_ms = self.0.wall_ms + passed;
        let ahead = reading.wall_ms - now_ms;
        let is_jump = ahead > LEEWAY_MS + passed / LEEWAY_PART;
        Told {
            now_ms,
            jump_ms: is_jump.then_some(ahead),
        }
    }

    /// The least that it may be. What this pod's clock has passed too fast is made
    /// good bit by bit, so that clocks that run too fast do not add up.
    fn least(&self, reading: Reading) -> i64 {
        let passed = self.passed(reading);
        self.0.wall_ms + passed - passed / LEEWAY_PART
    }

    fn passed(&self, reading: Reading) -> i64 {
        reading.since_boot_ms - self.0.since_boot_ms
    }
}

/// The time of one engine.
pub(super) struct EngineClock {
    clock: Clock,
    belief: ArcSwap<Belief>,
    /// Nothing yet, or the engine is in no cluster.
    heard: ArcSwapOption<Heard>,
    /// From where it is reckoned, in a cluster, how far the wall clock may get.
    reckoned: ArcSwap<Reading>,
}

impl EngineClock {
    /// Believes the wall clock as it is now.
    pub(super) fn start(clock: Clock) -> EngineClock {
        let reading = clock.read();
        EngineClock {
            clock,
            belief: ArcSwap::from_pointee(Belief::confirmed(reading)),
            heard: ArcSwapOption::empty(),
            reckoned: ArcSwap::from_pointee(reading),
        }
    }

    /// What time it is, in milliseconds since 1970, by where the pod began and the time
    /// since the machine's start alone.
    pub(super) fn reckoned_ms(&self) -> u64 {
        u64::try_from(self.reckoned_at(self.clock.read())).unwrap_or_default()
    }

    fn reckoned_at(&self, reading: Reading) -> i64 {
        let from = self.reckoned.load();
        from.wall_ms + reading.since_boot_ms - from.since_boot_ms
    }

    /// Reckons from this time on.
    pub(super) fn reckon_from(&self, now_ms: u64) {
        let reading = self.clock.read();
        let wall_ms = i64::try_from(now_ms).unwrap_or(i64::MAX / 4);
        self.reckoned
            .store(Arc::new(Reading { wall_ms, ..reading }));
    }

    /// The most that the wall clock is believed at a reading.
    fn most(&self, reading: Reading) -> i64 {
        let passed = reading.since_boot_ms - self.reckoned.load().since_boot_ms;
        self.reckoned_at(reading) + LEEWAY_MS + passed / LEEWAY_PART
    }

    fn tell(&self, reading: Reading) -> Told {
        match &*self.heard.load() {
            Some(heard) => heard.tell(reading),
            None => self.belief.load().tell(reading),
        }
    }

    /// What a record of the cluster's log is to be stamped with, in milliseconds since
    /// 1970.
    pub(super) fn stamp_ms(&self) -> u64 {
        let reading = self.clock.read();
        let told = self.tell(reading);
        let stamp = match &*self.heard.load() {
            Some(heard) if told.jump_ms.is_none() => {
                let most = self.most(reading).max(told.now_ms);
                reading.wall_ms.min(most).max(heard.least(reading))
            }
            _ => told.now_ms,
        };
        u64::try_from(stamp).unwrap_or_default()
    }

    /// Goes on from a stamp of the cluster's log. One that is older than what was
    /// heard already says nothing; nor does one that may have been written long ago,
    /// unless it is ahead all the same.
    pub(super) fn hear(&self, stamp_ms: u64, is_of_now: bool) {
        let reading = self.clock.read();
        let stamp = i64::try_from(stamp_ms).unwrap_or(i64::MAX / 4);
        let believed = self.belief.load().tell(reading).now_ms;
        // The first thing that is heard of now: this pod's clock may have been ahead.
        if is_of_now && self.heard.load().is_none() && stamp < self.reckoned_at(reading) {
            self.reckon_from(stamp_ms);
        }
        self.heard.rcu(|heard| {
            let is_new = match heard {
                Some(heard) => stamp >= heard.least(reading),
                None => is_of_now || stamp > believed,
            };
            match is_new {
                true => Some(Arc::new(Heard(Reading {
                    wall_ms: stamp,
                    ..reading
                }))),
                false => heard.clone(),
            }
        });
    }

    /// From where time goes on: where others are, and never from before what was
    /// stamped. An engine that is alone believes its clock as long as that of the brokers
    /// does not say that it is far ahead.
    pub(super) fn go_on_from(&self, time: &TimeElsewhere) {
        let now = |(time_ms, as_of): (u64, Instant)| {
            time_ms + u64::try_from(as_of.elapsed().as_millis()).unwrap_or_default()
        };
        if let Some(engines) = time.engines {
            self.hear(now(engines), true);
            self.reckon_from(now(time.reckoned.unwrap_or(engines)));
        } else if let Some(brokers) = time.brokers {
            self.hear(now(brokers).min(self.state().wall_ms), true);
            if let Some(ahead_ms) = self.state().jump_ms {
                tracing::warn!(
                    seconds = ahead_ms / 1000,
                    "no other pod is there to ask for the time, and this machine's clock is ahead of the brokers': time goes on from theirs until one of the clocks is put right, or this one is confirmed (POST /admin/clock/confirm)"
                );
            }
        }
        if let Some(stamp_ms) = time.stamp_ms {
            self.hear(stamp_ms, false);
        }
    }

    /// Milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.state().now_ms
    }

    /// What both clocks say.
    pub(super) fn state(&self) -> ClockState {
        let reading = self.clock.read();
        let told = self.tell(reading);
        let number = |ms: i64| u64::try_from(ms).unwrap_or_default();
        ClockState {
            now_ms: number(told.now_ms),
            wall_ms: number(reading.wall_ms),
            jump_ms: told.jump_ms.map(number),
        }
    }

    /// Looks at the clocks, to be done every now and then: time goes on from
    /// here, should the wall clock jump.
    pub(super) fn look(&self) -> ClockState {
        let reading = self.clock.read();
        self.belief.rcu(|belief| belief.after(reading));
        self.state()
    }

    /// Believes the wall clock as it is now.
    pub(super) fn confirm(&self) {
        let reading = self.clock.read();
        self.belief.store(Arc::new(Belief::confirmed(reading)));
        self.reckoned.store(Arc::new(reading));
        self.heard
            .rcu(|heard| heard.as_ref().map(|_| Arc::new(Heard(reading))));
    }
}

#[cfg(test)]
mod tests;
