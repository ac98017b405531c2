//! Sends a request again while it makes sense: after a broken connection, and
//! after answers that pass. A change needs its `Idempotency-Key` for that.

use super::remote::{Answer, Remote, RemoteError};
use reqwest::{RequestBuilder, StatusCode};
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The header by which a change is made once, however often it is sent.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The one that says for how many seconds it may be sent again, and how many
/// servers take at most.
const IDEMPOTENCY_KEY_LIFETIME: &str = "idempotency-key-lifetime";
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Longest pause after the first attempt; it doubles with each.
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause at all, beside what the server asks for.
const LONGEST: Duration = Duration::from_secs(5);
/// How long one attempt may take: longer than a server works by default.
const ATTEMPT: Duration = Duration::from_secs(65);

/// A server that is asked again, for a while.
pub(super) struct PatientRemote {
    pub(super) remote: Remote,
    /// How long after the first attempt others may begin.
    pub(super) patience: Duration,
}

impl PatientRemote {
    /// Has a change be made once, for as long as this may send it again.
    pub(super) fn once(&self, change: RequestBuilder, key: &str) -> RequestBuilder {
        let lifetime = LONGEST_LIFETIME.min(self.patience + ATTEMPT);
        change
            .header(IDEMPOTENCY_KEY, key)
            .header(IDEMPOTENCY_KEY_LIFETIME, lifetime.as_secs())
    }

    /// Sends a request until it is answered. Says so once if that takes a
    /// second attempt.
    ///
    /// # Errors
    /// There was no answer. An answer may be a refusal.
    pub(super) async fn send(
        &self,
        request: impl Fn(&Remote) -> RequestBuilder,
    ) -> Result<Answer, RemoteError> {
        let began = Instant::now();
        let mut longest = FIRST;
        loop {
            let sent = request(&self.remote).timeout(ATTEMPT);
            let answered = self.remote.send(sent).await;
            let Some((wanted, reason)) = passes(&answered) else {
                return answered;
            };
            // A random part of it, so that many clients do not come back at once.
            let chance = f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX);
            let pause = wanted + longest.mul_f64(chance);
            if began.elapsed() + pause > self.patience {
                return answered;
            }
            if longest == FIRST {
                say_again(&reason, self.patience);
            }
            sleep(pause).await;
            longest = LONGEST.min(longest * 2);
        }
    }
}

/// Says that and why there is more than one attempt.
pub(super) fn say_again(reason: &str, patience: Duration) {
    let seconds = patience.as_secs();
    eprintln!("cuckood: {reason}; trying again for up to {seconds} s");
}

/// An `Idempotency-Key` for one change.
///
/// # Errors
/// The system has no randomness.
pub(super) fn fresh_key() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex::encode(bytes))
}

/// Whether another attempt makes sense: after how long at the earliest, and why.
fn passes(answered: &Result<Answer, RemoteError>) -> Option<(Duration, String)> {
    match answered {
        Err(error @ RemoteError::Unreachable { .. }) => Some((Duration::ZERO, error.to_string())),
        Err(_) => None,
        Ok(answer) => {
            let problem = answer.problem();
            let passing_status = [
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::BAD_GATEWAY,
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::GATEWAY_TIMEOUT,
            ];
            let passing_code = ["idempotency_in_flight", "outcome_unknown"];
            let passes = passing_status.contains(&answer.status)
                || passing_code.contains(&problem.code.as_str());
            passes.then(|| (answer.retry_after.unwrap_or_default(), problem.detail))
        }
    }
}
