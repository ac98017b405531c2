//! The limits of requests, as the flags of the server set them, and what is left
//! of them.

use super::budget::{Budget, Held, Holder};
use super::threads::{Threads, cores};
use super::throttle::Throttle;
use crate::access::Scope;
use crate::engine::EngineError;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::used_up::Scarce;
use prometheus::IntCounter;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest that the server can be told to work on a request.
pub const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// Answers may take one part in so many of what bodies may, besides.
const ANSWERS_PART: usize = 4;

/// Merges may take one part in so many of what bodies may.
const MERGES_PART: usize = 4;

/// Memory that an import may take: the lines of a commit, as they came and as
/// they are committed, the line that is not complete, and what the connection
/// holds.
const IMPORT_BYTES: usize = 4 << 20;

/// Answers that are streamed at the same time, and as many filters that are
/// restored; each has a thread.
const MAX_STREAMS: usize = 16;

/// Filters that are handed out part by part at the same time. They have no thread,
/// but hold their filter open.
const MAX_SCAN_DUMPS: usize = 256;

/// Percent of what can be held that one API key gets while there are others.
const DEFAULT_SHARE_PERCENT: u8 = 50;

/// A request with a body of more bytes waits for its turn: it takes milliseconds of
/// a core, and more such requests at once than there are cores only keep the small
/// ones waiting. Changes, and questions, one for each core; and two at least, so
/// that a key which has one leaves one.
const LARGE_BODY_BYTES: usize = 64 << 10;
const LEAST_LARGE: usize = 2;

/// Bounds of what one request may bring. Each is a flag of the server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request body, before and after decompression.
    pub max_body_bytes: usize,
    /// Bytes of all request bodies held in memory at the same time. Large answers
    /// may take a quarter of that besides.
    pub max_buffered_bytes: usize,
    /// Items of one batch.
    pub max_batch_items: usize,
    /// Requests that are worked on at the same time.
    pub max_in_flight: usize,
    /// Percent of what requests can hold that one API key gets while there are
    /// others, 1 to 100.
    pub key_share_percent: u8,
    /// Filters of one lookup.
    pub max_lookup_filters: usize,
    /// Longest time for a request, from its head to its answer.
    pub request_timeout: Duration,
    /// Longest pause between two pieces of a request body.
    pub body_idle_timeout: Duration,
    /// Longest time for a whole request body.
    pub body_timeout: Duration,
    /// Longest time for one request of an import.
    pub import_timeout: Duration,
    /// Bytes of a dump a second that a client must send on average while it is
    /// waited for; 0: any.
    pub min_restore_rate: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_body_bytes: 32 << 20,
            max_buffered_bytes: 256 << 20,
            max_batch_items: 250_000,
            max_in_flight: 1024,
            key_share_percent: DEFAULT_SHARE_PERCENT,
            max_lookup_filters: 1000,
            request_timeout: Duration::from_secs(60),
            body_idle_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(300),
            import_timeout: Duration::from_secs(3600),
            min_restore_rate: 16 << 10,
        }
    }
}

/// The place of a request among all, and among the changes if it is one; free again when
/// this is dropped.
pub type Place = (Held, Option<Held>);

/// Of so many places those that changes may take: three quarters.
fn places_of_changes(places: usize) -> usize {
    (places - places / 4).max(1)
}

/// What is left of the limits.
pub struct Admission {
    /// As they were given.
    pub limits: Limits,
    /// Bytes for request bodies, and for what is made of them.
    pub bodies: Budget,
    /// Bytes of request bodies that came.
    pub body_bytes: IntCounter,
    /// Bytes for large answers.
    pub answers: Budget,
    /// Imports, as many as take half of `bodies`: they last as long as their
    /// clients like, and must leave room for others.
    imports: Budget,
    /// Bytes of `bodies` for merges.
    merges: Budget,
    pub(crate) requests: Budget,
    /// Of these, what changes something: changes wait for the disk, and leave
    /// places for questions that do not.
    pub(crate) changes: Budget,
    /// Requests with large bodies whose items are parsed, and questions whose items
    /// are looked for. Changes are not among them while they wait for a lane or the
    /// disk.
    large_changes: Budget,
    large_questions: Budget,
    /// Answers that are made while they are sent.
    pub downloads: Budget,
    /// Filters that are restored while they come.
    pub restores: Budget,
    /// Filters that are handed out part by part, as their clients ask.
    pub scan_dumps: Budget,
    /// Turns of long work.
    pub throttle: Arc<Throttle>,
    /// Who works on the threads that never block.
    pub threads: Arc<Threads>,
}

impl Admission {
    /// All of it is free.
    pub fn new(limits: Limits, metrics: &Metrics) -> Admission {
        let bytes = limits.max_buffered_bytes;
        let share = limits.key_share_percent;
        let budget = |what, bound| Budget::of(what, bound, share, metrics);
        let requests = budget(Scarce::Requests, limits.max_in_flight);
        let cores = cores();
        let large = cores.max(LEAST_LARGE);
        Admission {
            bodies: budget(Scarce::Bodies, bytes),
            body_bytes: metrics.http_request_body_bytes.clone(),
            answers: budget(Scarce::Answers, (bytes / ANSWERS_PART).max(1)),
            merges: budget(Scarce::Bodies, bytes / MERGES_PART),
            imports: budget(Scarce::Imports, (bytes / 2 / IMPORT_BYTES).max(1)),
            large_changes: budget(Scarce::LargeRequests, large),
            large_questions: budget(Scarce::LargeRequests, large),
            downloads: budget(Scarce::Downloads, MAX_STREAMS),
            restores: budget(Scarce::Restores, MAX_STREAMS),
            scan_dumps: budget(Scarce::ScanDumps, MAX_SCAN_DUMPS),
            throttle: Arc::new(Throttle::new(cores, requests.clone())),
            threads: Threads::new(cores),
            changes: budget(Scarce::Changes, places_of_changes(limits.max_in_flight)),
            requests,
            limits,
        }
    }

    /// The turn of a request whose body, of so many bytes, is there; small ones need
    /// none. It ends when this is dropped.
    ///
    /// # Errors
    /// It does not come before the request's deadline.
    pub async fn turn(
        &self,
        by: Option<&Holder>,
        deadline: Instant,
        body_bytes: usize,
        is_change: bool,
    ) -> Result<Option<Held>, Refusal> {
        if body_bytes <= LARGE_BODY_BYTES {
            return Ok(None);
        }
        let large = match is_change {
            true => &self.large_changes,
            false => &self.large_questions,
        };
        let longest = deadline.saturating_duration_since(Instant::now());
        let turn = Box::pin(large.take_one_within(by, longest)).await;
        turn.map(Some)
            .map_err(|error| match deadline <= Instant::now() {
                true => Refusal::Engine(EngineError::DeadlineExceeded),
                false => error,
            })
    }

    /// A place among the requests that are worked on.
    ///
    /// # Errors
    /// There is none left, or none for this key.
    pub async fn place(&self, scope: Scope, by: Option<&Holder>) -> Result<Place, Refusal> {
        let of_changes = match scope {
            Scope::Read => None,
            Scope::Write | Scope::Admin => Some(self.changes.take_one(by).await?),
        };
        Ok((self.requests.take_one(by).await?, of_changes))
    }

    /// The place of an import, and its memory.
    ///
    /// # Errors
    /// There is none left, or none for this key.
    pub fn import(&self, by: Option<&Holder>) -> Result<[Held; 2], Refusal> {
        let place = self.imports.try_take(by, 1)?;
        Ok([place, self.bodies.try_take(by, IMPORT_BYTES)?])
    }

    /// Memory for a merge.
    ///
    /// # Errors
    /// [`EngineError::MergeTooLarge`], or there is not so much left, or not for this key.
    pub fn merge(&self, by: Option<&Holder>, bytes: u64) -> Result<[Held; 2], EngineError> {
        if bytes > self.merges.bound() as u64 {
            return Err(EngineError::MergeTooLarge { bytes });
        }
        Ok([self.merges.lend(by, bytes)?, self.bodies.lend(by, bytes)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Terms;

    /// One key takes turns until it waits for one; how long it waited in vain, and
    /// whether another gets one meanwhile.
    async fn turns_beside_one_that_takes_all(key_share_percent: u8) -> (usize, Duration, bool) {
        let limits = Limits {
            key_share_percent,
            ..Limits::default()
        };
        let admission = Admission::new(limits, &Metrics::new().unwrap());
        let [greedy, modest] = ["greedy", "modest"].map(|key| Holder {
            holder: key.into(),
            terms: Terms {
                has_rivals: true,
                most: None,
            },
        });
        let turn = |by, wait| {
            let deadline = Instant::now() + wait;
            admission.turn(Some(by), deadline, LARGE_BODY_BYTES + 1, false)
        };
        let moment = Duration::from_millis(100);
        let mut held = Vec::new();
        let waited = loop {
            let started = Instant::now();
            match turn(&greedy, moment).await {
                Ok(taken) => held.extend(taken),
                Err(Refusal::Engine(EngineError::DeadlineExceeded)) => break started.elapsed(),
                Err(other) => panic!("{other}"),
            }
        };
        let (waiting, served) = tokio::join!(turn(&greedy, 2 * moment), turn(&modest, moment));
        assert!(waiting.is_err());
        (held.len(), waited, served.is_ok())
    }

    #[tokio::test]
    async fn a_key_that_takes_its_turns_leaves_one_to_another() {
        let (held, waited, is_served) = turns_beside_one_that_takes_all(50).await;
        assert!(held > 0 && is_served, "{held} held");
        assert!(waited >= Duration::from_millis(100), "{waited:?}");
        // It is the share that leaves it.
        let (all, _, is_served) = turns_beside_one_that_takes_all(100).await;
        assert!(all > held && !is_served, "{all} held");
    }

    #[tokio::test]
    async fn a_large_request_waits_for_its_turn_until_its_deadline() {
        let admission = Admission::new(Limits::default(), &Metrics::new().unwrap());
        let turn = |wait: Duration| {
            let deadline = Instant::now() + wait;
            admission.turn(None, deadline, LARGE_BODY_BYTES + 1, true)
        };
        let mut held = Vec::new();
        for _ in 0..admission.large_changes.bound() {
            held.push(turn(Duration::from_secs(20)).await.unwrap());
        }
        let started = Instant::now();
        let refused = turn(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(
            refused,
            Refusal::Engine(EngineError::DeadlineExceeded)
        ));
        assert!(started.elapsed() >= Duration::from_millis(50));
        // One whose deadline is later waits for longer than a moment.
        let later = async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            drop(held.pop());
        };
        let (turn, ()) = tokio::join!(turn(Duration::from_secs(20)), later);
        assert!(turn.unwrap().is_some());
    }
}
