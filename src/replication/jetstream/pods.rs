//! The pods of a cluster, as they announce themselves: each under its address in
//! the cluster's bucket, with a lifetime, so that those that are gone are not
//! listed. What nobody of the cluster has sealed is passed over.

use super::bucket::{Bucket, SealedBucket};
use super::connect::Connection;
use super::error::JetStreamError;
use super::leases::Holder;
use super::name::ClusterName;
use super::seal::{Said, Seals, unsealed};
use super::stream::Founding;
use crate::replication::record::{HistoryHash, Position};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const DOING: &str = "listing the pods";

/// How often a pod announces itself.
pub const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// How long an announcement lives, in whole seconds.
const TTL: Duration = Duration::from_secs(5);

/// How long an announcement of somebody else is watched before its address is
/// taken over: one who lives renews it meanwhile.
const WATCHED: Duration = Duration::from_secs(3);

/// What a pod says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodState {
    /// Where others reach it; no two pods have the same.
    pub address: String,
    /// This life of it.
    pub writer: String,
    /// Its program.
    pub version: String,
    /// The newest record that it has applied, of each lane.
    pub positions: Vec<u64>,
    /// The hash of the history up to it, of each lane.
    #[serde(default)]
    pub histories: Vec<HistoryHash>,
    /// Lanes that stand still for good.
    #[serde(default)]
    pub stopped: Vec<u32>,
    /// Those of them that lack what others have applied.
    #[serde(default)]
    pub lacking: Vec<u32>,
    /// Which founding of the cluster it belongs to.
    #[serde(default)]
    pub founding: String,
    /// The newest feature level of records that it can apply.
    #[serde(default)]
    pub level: u16,
    /// Its time, in milliseconds since 1970; 0: it does not know it yet.
    #[serde(default)]
    pub now_ms: u64,
    /// The same by its machine's uptime alone, since it began: stamps do not move it.
    #[serde(default)]
    pub reckoned_ms: u64,
    /// Whether it is ready, so that lanes may be given to it.
    #[serde(default)]
    pub is_ready: bool,
    /// Whether it applies nothing, and waits for the state of another pod.
    #[serde(default)]
    pub is_waiting: bool,
    /// The newest record that is on its disk, of each lane; empty: it has not said.
    #[serde(default)]
    pub held: Vec<u64>,
}

impl PodState {
    /// Where each of its lanes stands; `None`: it does not say so.
    pub fn lanes(&self) -> Option<Vec<Position>> {
        let lanes = self.positions.iter().zip(&self.histories);
        let lanes = lanes.map(|(&sequence, &history)| Position { sequence, history });
        (self.histories.len() == self.positions.len()).then(|| lanes.collect())
    }

    /// Who it is, as leases name it.
    pub fn holder(&self) -> Holder {
        Holder {
            writer: self.writer.clone(),
            address: self.address.clone(),
        }
    }
}

/// The announcements of a cluster's pods.
#[derive(Clone)]
pub struct Announcements {
    bucket: SealedBucket,
    /// What all of their keys begin with.
    start: String,
}

impl Announcements {
    /// Those of a cluster.
    ///
    /// # Errors
    /// There is no bucket.
    pub async fn new(
        connection: &Connection,
        founding: &Founding,
        seals: &Seals,
    ) -> Result<Announcements, JetStreamError> {
        Ok(Announcements {
            bucket: SealedBucket::open(connection, &founding.cluster, seals).await?,
            start: format!("pod.{}.", founding.epoch),
        })
    }

    /// Announces a pod, until it is announced again or has said nothing for a few
    /// seconds.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn announce(&self, pod: &PodState) -> Result<(), JetStreamError> {
        let key = self.key(&pod.address);
        self.bucket.say(&key, pod, Some(TTL), None).await?;
        Ok(())
    }

    /// Says that a pod is gone.
    ///
    /// # Errors
    /// The broker did not answer: it is listed until its time is over.
    pub async fn withdraw(&self, address: &str) -> Result<(), JetStreamError> {
        let deleted = self.bucket.delete(&self.key(address), None).await;
        deleted.map_err(JetStreamError::while_doing("withdrawing this pod"))?;
        Ok(())
    }

    /// Makes sure that no other pod that lives has this address. Takes a few
    /// seconds if one had it that did not say that it goes.
    ///
    /// # Errors
    /// [`JetStreamError::AddressTaken`], or the broker did not answer.
    pub async fn claim(&self, address: &str) -> Result<(), JetStreamError> {
        let key = self.key(address);
        let started = Instant::now();
        // One that lives need not have said something new since this one looks.
        let Some((first, _)) = last_said(&self.bucket, &key).await? else {
            return Ok(());
        };
        while started.elapsed() < WATCHED {
            sleep(ANNOUNCE_EVERY / 4).await;
            match last_said(&self.bucket, &key).await? {
                None => return Ok(()),
                Some((revision, said)) if revision == first || !said.is_fresh => {}
                Some(_) => {
                    return Err(JetStreamError::AddressTaken {
                        address: address.to_owned(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The pod at an address, whatever its epoch, with that and the revision of what
    /// it said. `seals` are those of the founding that it says it is of.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn find(
        connection: &Connection,
        cluster: &ClusterName,
        address: &str,
        seals: impl Fn(&[u8; 16]) -> Option<Seals>,
    ) -> Result<Option<(u64, u64, PodState)>, JetStreamError> {
        let bucket = Bucket::open(connection, cluster).await?;
        let end = format!(".{}", hex::encode(address));
        let mut found: Option<(u64, u64, PodState)> = None;
        for key in bucket.keys("pod.", DOING).await?.0 {
            let epoch = key
                .strip_suffix(&end)
                .and_then(|it| it.strip_prefix("pod."));
            let Some(epoch) = epoch.and_then(|it| it.parse().ok()) else {
                continue;
            };
            let newest = bucket.newest(&key, DOING).await?;
            let pod = newest.and_then(|it| {
                let value = it.value?;
                let claimed: PodState = serde_json::from_slice(&unsealed(&value)?).ok()?;
                let mut founding = [0; 16];
                hex::decode_to_slice(&claimed.founding, &mut founding).ok()?;
                seals(&founding)?.open(&key, it.revision, &value)?;
                Some((it.revision, claimed))
            });
            if let Some((revision, pod)) = pod
                && found.as_ref().is_none_or(|(newest, ..)| epoch > *newest)
            {
                found = Some((epoch, revision, pod));
            }
        }
        Ok(found)
    }

    /// All pods that are there.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn all(&self) -> Result<Vec<PodState>, JetStreamError> {
        let keys = self.bucket.keys(&self.start, DOING).await?;
        let newest = try_join_all(keys.iter().map(|key| newest(&self.bucket, key))).await?;
        let mut pods: Vec<PodState> = newest.into_iter().flatten().map(|(_, pod)| pod).collect();
        pods.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(pods)
    }

    fn key(&self, address: &str) -> String {
        format!("{}{}", self.start, hex::encode(address))
    }
}

/// What was announced last under a key, with its revision, unless it was withdrawn or
/// ran out, or is a copy of the past.
async fn newest(
    bucket: &SealedBucket,
    key: &str,
) -> Result<Option<(u64, PodState)>, JetStreamError> {
    let said = last_said(bucket, key).await?;
    Ok(said.and_then(|(revision, said)| {
        let pod = serde_json::from_slice(&said.bytes).ok()?;
        said.is_fresh.then_some((revision, pod))
    }))
}

/// The same, even if it is a copy.
async fn last_said(
    bucket: &SealedBucket,
    key: &str,
) -> Result<Option<(u64, Said)>, JetStreamError> {
    let said = bucket.last_said(key, "looking at a pod").await?;
    Ok(said.and_then(|it| Some((it.revision, it.value?))))
}
