//! What a cluster is called, and what belongs to it.

use super::error::{JetStreamError, Result};
use std::fmt;

/// The name of a cluster: a part of subjects and of names of streams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterName(String);

impl ClusterName {
    /// Checks one.
    ///
    /// # Errors
    /// [`JetStreamError::BadName`].
    pub fn new(name: &str) -> Result<ClusterName> {
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        match (1..=32).contains(&name.len()) && name.chars().all(fits) {
            true => Ok(ClusterName(name.to_owned())),
            false => Err(JetStreamError::BadName {
                name: name.to_owned(),
            }),
        }
    }

    /// The stream of one of its epochs.
    pub(super) fn stream(&self, epoch: u64) -> String {
        format!("CUCKOOD_{self}_{epoch}")
    }

    /// The subject of a lane.
    pub(super) fn subject(&self, epoch: u64, lane: u32) -> String {
        format!("cuckood.{self}.{epoch}.{lane}")
    }

    /// The bucket of what pods tell each other.
    pub(super) fn bucket(&self) -> String {
        format!("cuckood_{self}")
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
