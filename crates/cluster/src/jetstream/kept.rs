//! How far each lane is, kept outside of the log: a pod that starts while no other one is
//! there finds out that the log has lost its end.
//!
//! A position takes the place of another one only if it goes on from it. It is written
//! about once a second, so what it lacks is as old as that.
//!
//! The first pod of an epoch seals it, even if there is no position yet. So it also tells
//! which key is that of the cluster: who can't open it takes no part, and leaves it as it
//! is.

use super::bucket::{Put, SealedBucket};
use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::seal::Seals;
use super::stream::Founding;
use crate::engine::Position;

/// Where the positions of an epoch are kept.
#[derive(Clone)]
pub struct KeptPositions {
    bucket: SealedBucket,
    key: String,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// By lane; none if nothing is kept yet. `None`: nobody with this cluster key has
    /// written what is there.
    pub lanes: Option<Vec<Position>>,
    /// Whether it is to be sealed: nothing is there, or its key is being replaced.
    pub lacks_seal: bool,
    /// What a change of it expects.
    revision: u64,
}

impl KeptPositions {
    /// Those of a cluster's epoch.
    ///
    /// # Errors
    /// There is no bucket.
    pub async fn new(
        connection: &Connection,
        founding: &Founding,
        seals: &Seals,
    ) -> Result<KeptPositions> {
        Ok(KeptPositions {
            bucket: SealedBucket::open(connection, &founding.cluster, seals).await?,
            key: format!("kept.{}", founding.in_keys()),
        })
    }

    /// What is kept.
    ///
    /// # Errors
    /// The broker did not answer, or what it says makes no sense.
    pub async fn read(&self) -> Result<Kept> {
        const DOING: &str = "looking for how far the lanes were";
        let said = self.bucket.last_said(&self.key, DOING).await?;
        let revision = said.as_ref().map_or(0, |it| it.revision);
        let (lanes, lacks_seal) = match said.and_then(|it| it.value) {
            None => (Some(Vec::new()), true),
            Some(None) => (None, true),
            Some(Some(said)) => {
                let lanes = serde_json::from_slice(&said.bytes);
                let lanes = lanes.map_err(JetStreamError::while_doing(DOING))?;
                (Some(lanes), !said.has_first_key)
            }
        };
        Ok(Kept {
            lanes,
            lacks_seal,
            revision,
        })
    }

    /// What is kept, which is sealed from then on. `None`: it is with another key, and
    /// left as it is.
    ///
    /// # Errors
    /// The broker did not answer, or what it says makes no sense.
    pub async fn open(&self) -> Result<Option<Vec<Position>>> {
        loop {
            let kept = self.read().await?;
            let Some(lanes) = &kept.lanes else {
                return Ok(None);
            };
            // Of two pods that begin an epoch at once, with two keys, one is the first.
            if !kept.lacks_seal || self.keep(&kept, lanes).await? {
                return Ok(kept.lanes);
            }
        }
    }

    /// Keeps these in place of what was read, unless somebody else was faster. Returns
    /// whether they are kept.
    ///
    /// # Errors
    /// The broker did not answer: they may be kept.
    pub async fn keep(&self, before: &Kept, lanes: &[Position]) -> Result<bool> {
        let said = self
            .bucket
            .say(&self.key, &lanes, None, Some(before.revision));
        Ok(matches!(said.await?, Put::Stored(_)))
    }
}
