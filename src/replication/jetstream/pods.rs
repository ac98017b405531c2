//! The pods of a cluster, as they announce themselves: each under its address in
//! the cluster's bucket, with a lifetime, so that those that are gone are not
//! listed.

use super::bucket::Bucket;
use super::connect::Connection;
use super::error::JetStreamError;
use super::leases::Holder;
use super::name::ClusterName;
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
    /// Which founding of the cluster it belongs to.
    #[serde(default)]
    pub founding: String,
    /// The newest feature level of records that it can apply.
    #[serde(default)]
    pub level: u16,
    /// Its time, in milliseconds since 1970; 0: it does not know it yet.
    #[serde(default)]
    pub now_ms: u64,
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
    bucket: Bucket,
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
    ) -> Result<Announcements, JetStreamError> {
        Ok(Announcements {
            bucket: Bucket::open(connection, &founding.cluster).await?,
            start: format!("pod.{}.", founding.epoch),
        })
    }

    /// Announces a pod, until it is announced again or has said nothing for a few
    /// seconds.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn announce(&self, pod: &PodState) -> Result<(), JetStreamError> {
        const DOING: &str = "announcing this pod";
        let value = serde_json::to_vec(pod).map_err(JetStreamError::while_doing(DOING))?;
        let key = self.key(&pod.address);
        let put = self.bucket.put(&key, value.into(), Some(TTL), None).await;
        put.map_err(JetStreamError::while_doing(DOING))?;
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
        let Some((first, _)) = newest(&self.bucket, &key).await? else {
            return Ok(());
        };
        while started.elapsed() < WATCHED {
            sleep(ANNOUNCE_EVERY / 4).await;
            match newest(&self.bucket, &key).await? {
                None => return Ok(()),
                Some((revision, _)) if revision == first => {}
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
    /// it said.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn find(
        connection: &Connection,
        cluster: &ClusterName,
        address: &str,
    ) -> Result<Option<(u64, u64, PodState)>, JetStreamError> {
        let bucket = Bucket::open(connection, cluster).await?;
        let end = format!(".{}", hex::encode(address));
        let mut found: Option<(u64, u64, PodState)> = None;
        for key in bucket.keys("pod.", DOING).await? {
            let epoch = key
                .strip_suffix(&end)
                .and_then(|it| it.strip_prefix("pod."));
            if let Some(epoch) = epoch.and_then(|it| it.parse().ok())
                && let Some((revision, pod)) = newest(&bucket, &key).await?
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
/// ran out.
async fn newest(bucket: &Bucket, key: &str) -> Result<Option<(u64, PodState)>, JetStreamError> {
    let newest = bucket.newest(key, "looking at a pod").await?;
    Ok(newest.and_then(|it| {
        let pod = serde_json::from_slice(&it.value?).ok()?;
        Some((it.revision, pod))
    }))
}
