//! How far each lane is, kept outside of the log: a pod that starts while no other one is
//! there finds out that the log has lost its end.
//!
//! A position takes the place of another one only if it goes on from it. It is written
//! about once a second, so what it lacks is as old as that.

use super::bucket::SealedBucket;
use super::connect::Connection;
use super::error::JetStreamError;
use super::seal::Seals;
use super::stream::Founding;
use crate::replication::record::Position;

/// Where the positions of an epoch are kept.
#[derive(Clone)]
pub struct KeptPositions {
    bucket: SealedBucket,
    key: String,
}

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// By lane; none if nothing is kept yet.
    pub lanes: Vec<Position>,
    /// Whether it is to be sealed anew, since its key is being replaced.
    pub has_old_key: bool,
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
    ) -> Result<KeptPositions, JetStreamError> {
        Ok(KeptPositions {
            bucket: SealedBucket::open(connection, &founding.cluster, seals).await?,
            // A cluster of this name may have been founded before.
            key: format!("kept.{}.{}", founding.epoch, hex::encode(founding.founding)),
        })
    }

    /// What is kept.
    ///
    /// # Errors
    /// The broker did not answer, or what it says makes no sense.
    pub async fn read(&self) -> Result<Kept, JetStreamError> {
        const DOING: &str = "looking for how far the lanes were";
        let Some(entry) = self.bucket.last_said(&self.key, DOING).await? else {
            return Ok(Kept::default());
        };
        let has_old_key = entry.value.as_ref().is_some_and(|it| !it.has_first_key);
        let lanes = match entry.value {
            None => Vec::new(),
            Some(said) => {
                serde_json::from_slice(&said.bytes).map_err(JetStreamError::while_doing(DOING))?
            }
        };
        Ok(Kept {
            lanes,
            has_old_key,
            revision: entry.revision,
        })
    }

    /// Keeps these in place of what was read, unless somebody else was faster.
    ///
    /// # Errors
    /// The broker did not answer: they may be kept.
    pub async fn keep(&self, before: &Kept, lanes: &[Position]) -> Result<(), JetStreamError> {
        let said = self
            .bucket
            .say(&self.key, &lanes, None, Some(before.revision));
        said.await?;
        Ok(())
    }
}
