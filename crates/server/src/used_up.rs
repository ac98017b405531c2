//! What requests can use up, and how that is said.

use crate::codes::Code;
use crate::engine::{EngineError, bound_reached};
use crate::share::UsedUp;

/// A resource of which requests hold something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// Places among the requests that are worked on.
    Requests,
    /// Turns of requests with large bodies.
    LargeRequests,
    /// Places among those that requests with changes may have.
    Changes,
    /// Bytes of bodies.
    Bodies,
    /// Bytes of large answers.
    Answers,
    /// Imports that run.
    Imports,
    /// Answers that are made while they are sent.
    Downloads,
    /// Dumps that are taken in.
    Restores,
    /// Filters that are handed out part by part.
    ScanDumps,
}

impl Scarce {
    /// How metrics name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scarce::Requests => "requests",
            Scarce::LargeRequests => "large_requests",
            Scarce::Changes => "changes",
            Scarce::Bodies => "bodies",
            Scarce::Answers => "answers",
            Scarce::Imports => "imports",
            Scarce::Downloads => "downloads",
            Scarce::Restores => "restores",
            Scarce::ScanDumps => "scandumps",
        }
    }

    /// What so much of it is.
    pub(crate) fn held(self) -> &'static str {
        match self {
            Scarce::Requests => "requests in flight",
            Scarce::LargeRequests => "requests with bodies of more than 64 KiB in progress",
            Scarce::Changes => "requests with changes in flight",
            Scarce::Bodies => "bytes of request bodies in memory",
            Scarce::Answers => "bytes of answers that its clients have not read",
            Scarce::Imports => "imports in progress",
            Scarce::Downloads => "downloads of dumps and backups in progress",
            Scarce::Restores => "restores in progress",
            Scarce::ScanDumps => "dumps by CF.SCANDUMP in progress",
        }
    }
}

/// A bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", bound_of(*what, *used_up))]
pub struct Exhausted {
    /// Of what.
    pub what: Scarce,
    /// Which.
    pub used_up: UsedUp,
}

impl Exhausted {
    /// The kind of error that it is.
    pub fn code(&self) -> Code {
        bound_reached(self.used_up)
    }
}

/// What is said of a bound that was reached.
fn bound_of(what: Scarce, used_up: UsedUp) -> String {
    let bound = match used_up {
        UsedUp::All { bound } => bound,
        UsedUp::Share { .. } | UsedUp::Most { .. } => {
            let what = what.held();
            return EngineError::OverShare { what, used_up }.to_string();
        }
    };
    match what {
        Scarce::Requests => format!(
            "{bound} requests are in flight, the bound of the server (--max-in-flight); try again in a moment"
        ),
        Scarce::LargeRequests => format!(
            "{bound} requests with large bodies are in progress already; try again later, with smaller batches or fewer at a time"
        ),
        Scarce::Changes => format!(
            "{bound} requests with changes are in flight, the bound of the server (three quarters of --max-in-flight); try again in a moment"
        ),
        Scarce::Bodies => "the request bodies in memory have reached their bound (--max-buffered-bytes); try again in a moment".to_owned(),
        Scarce::Answers => "the answers that clients have not read have reached their bound (a quarter of --max-buffered-bytes); try again in a moment, or send fewer items at once".to_owned(),
        Scarce::Imports => format!(
            "{bound} imports are in progress, the bound of the server (it follows --max-buffered-bytes); try again in a moment"
        ),
        Scarce::Downloads | Scarce::Restores | Scarce::ScanDumps => format!(
            "{bound} streams of this kind are in flight, the bound of the server; try again in a moment"
        ),
    }
}
