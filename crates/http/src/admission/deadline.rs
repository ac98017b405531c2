//! Until when a request is worked on: as long as the server allows, or less if
//! the request says so, with the preference `wait` of RFC 7240.

use crate::headers::listed;
use crate::problem::{HttpError, Result, excerpt};
use crate::server::admission::limits::{Limits, MAX_REQUEST_TIMEOUT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use std::time::{Duration, Instant};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const WAIT: &str = "wait";

/// When the work on a request ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub(crate) Instant);

impl Deadline {
    /// That of a request whose head has just come.
    ///
    /// # Errors
    /// The header makes no sense.
    pub(crate) fn of(headers: &HeaderMap, longest: Duration) -> Result<Deadline> {
        let wanted = wanted(headers)?.unwrap_or(longest);
        Ok(Deadline(Instant::now() + wanted.min(longest)))
    }

    /// That of work that begins now, on a request that had no bound so far.
    pub(crate) fn from_now(limits: &Limits) -> Deadline {
        Deadline(Instant::now() + limits.request_timeout)
    }

    /// That of a request that is being handled.
    pub(crate) fn of_parts(parts: &Parts) -> Option<Deadline> {
        parts.extensions.get::<Deadline>().copied()
    }
}

/// How long the client waits, if it says so.
fn wanted(headers: &HeaderMap) -> Result<Option<Duration>> {
    // Preferences that we do not know are nothing to us.
    for preference in listed(headers, &PREFER) {
        let preference = preference.split(';').next().unwrap_or_default();
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        // The first one counts.
        if name.trim().eq_ignore_ascii_case(WAIT) {
            return seconds(value.trim()).map(Some);
        }
    }
    Ok(None)
}

fn seconds(given: &str) -> Result<Duration> {
    let unquoted = given
        .strip_prefix('"')
        .and_then(|it| it.strip_suffix('"'))
        .unwrap_or(given);
    let is_decimal = unquoted
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = unquoted.parse::<f64>().ok().filter(|_| is_decimal);
    match seconds {
        Some(seconds) if seconds >= 0.001 => {
            // What is longer than the server allows is cut later.
            Ok(Duration::try_from_secs_f64(seconds).unwrap_or(MAX_REQUEST_TIMEOUT))
        }
        _ => Err(HttpError::InvalidDeadline {
            given: excerpt(given),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn given(values: &[&'static str]) -> Result<Option<Duration>, HttpError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, HeaderValue::from_static(value));
        }
        wanted(&headers)
    }

    #[test]
    fn a_request_says_how_long_it_waits() {
        for (values, milliseconds) in [
            (&["wait=10"][..], Some(10_000)),
            (&["wait=0.25"], Some(250)),
            (&["WAIT = \"2\""], Some(2_000)),
            (&["return=minimal, wait=3; foo=bar"], Some(3_000)),
            (&["respond-async", "wait=4"], Some(4_000)),
            (&["wait=1, wait=2"], Some(1_000)),
            (&["waiting=10"], None),
            (&[], None),
        ] {
            let wanted = given(values).unwrap();
            assert_eq!(
                wanted,
                milliseconds.map(Duration::from_millis),
                "{values:?}"
            );
        }
        let long = given(&["wait=99999999999999999999999999"]).unwrap();
        assert_eq!(long, Some(MAX_REQUEST_TIMEOUT));
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for value in [
            "wait",
            "wait=",
            "wait=0",
            "wait=0.0001",
            "wait=-1",
            "wait=1s",
            "wait=inf",
            "wait=1e3",
            "wait=NaN",
            "wait=1.2.3",
        ] {
            assert!(given(&[value]).is_err(), "{value}");
        }
    }

    #[test]
    fn nobody_is_worked_for_longer_than_the_server_allows() {
        let longest = Duration::from_secs(60);
        for (value, seconds) in [("wait=3000", 60), ("wait=5", 5), ("other=1", 60)] {
            let mut headers = HeaderMap::new();
            headers.append(PREFER, HeaderValue::from_static(value));
            let Deadline(at) = Deadline::of(&headers, longest).unwrap();
            let left = at.saturating_duration_since(Instant::now()).as_secs_f64();
            assert!((left - f64::from(seconds)).abs() < 2.0, "{value}: {left}");
        }
    }
}
