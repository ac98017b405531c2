//! The pods of a cluster, as they announce themselves: each under its address in
//! the cluster's bucket, with a lifetime, so that those that are gone are not
//! listed. What nobody of the cluster has sealed is passed over.

use super::bucket::{Bucket, Entry, SealedBucket};
use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::leases::Holder;
use super::name::ClusterName;
use super::seal::{Said, Seals};
use super::stream::Founding;
use crate::engine::{HistoryHash, Position};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const DOING: &str = "listing the pods";
const LOOKING: &str = "looking at a pod";

/// What the keys of all announcements begin with.
const KEYS: &str = "pod.";

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
    /// The newest feature level of records that it can apply.
    #[serde(default)]
    pub level: u16,
    /// Its time, in milliseconds since 1970; 0: it does not know it yet.
    #[serde(default)]
    pub now_ms: u64,
    /// The same by its machine's uptime alone, since it began: stamps do not move it.
    #[serde(default)]
    pub reckoned_ms: u64,
    /// Whether lanes may be given to it: it is ready, and its disk takes changes.
    #[serde(default)]
    pub may_lead: bool,
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

/// What a pod has announced, and where.
pub struct Announced {
    /// The epoch, as its number.
    pub epoch: u64,
    /// Which founding of the cluster it belongs to.
    pub founding: [u8; 16],
    /// Each announcement has another one.
    pub revision: u64,
    /// What it says.
    pub pod: PodState,
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
    ) -> Result<Announcements> {
        Ok(Announcements {
            bucket: SealedBucket::open(connection, &founding.cluster, seals).await?,
            start: format!("{KEYS}{}.", founding.in_keys()),
        })
    }

    /// Announces a pod, until it is announced again or has said nothing for a few
    /// seconds.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn announce(&self, pod: &PodState) -> Result<()> {
        let key = self.key(&pod.address);
        self.bucket.say(&key, pod, Some(TTL), None).await?;
        Ok(())
    }

    /// Says that a pod is gone.
    ///
    /// # Errors
    /// The broker did not answer: it is listed until its time is over.
    pub async fn withdraw(&self, address: &str) -> Result<()> {
        let deleted = self.bucket.unsealed.delete(&self.key(address), None).await;
        deleted.map_err(JetStreamError::while_doing("withdrawing this pod"))?;
        Ok(())
    }

    /// How much was found that no pod with this cluster key has said.
    pub fn refused(&self) -> u64 {
        self.bucket.seals.news()
    }

    /// Makes sure that no other pod that lives has this address. Takes a few
    /// seconds if one had it that did not say that it goes.
    ///
    /// # Errors
    /// [`JetStreamError::AddressTaken`], or the broker did not answer.
    pub async fn claim(&self, address: &str) -> Result<()> {
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

    /// What the pod at an address has announced in the newest epoch. `seals` are those of
    /// a founding.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn find(
        connection: &Connection,
        cluster: &ClusterName,
        address: &str,
        seals: impl Fn(&[u8; 16]) -> Option<Seals>,
    ) -> Result<Option<Announced>> {
        let bucket = Bucket::open(connection, cluster).await?;
        let mut found: Option<Announced> = None;
        for key in bucket.keys(KEYS, DOING).await?.0 {
            let Some((epoch, founding, _)) = parts(&key).filter(|it| it.2 == address) else {
                continue;
            };
            let newest = bucket.newest(&key, DOING).await?;
            let announced = newest.and_then(|it| {
                let said = seals(&founding)?.open(&key, it.revision, &it.value?)?;
                Some(Announced {
                    epoch,
                    founding,
                    revision: it.revision,
                    pod: serde_json::from_slice(&said.bytes).ok()?,
                })
            });
            if announced.is_some() && found.as_ref().is_none_or(|it| epoch > it.epoch) {
                found = announced;
            }
        }
        Ok(found)
    }

    /// The address of a pod that is of another founding of a cluster of this name, if one
    /// is there.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn of_other_founding(&self) -> Result<Option<String>> {
        let own = parts(&self.key("")).map(|(_, founding, _)| founding);
        for key in self.bucket.keys(KEYS, DOING).await? {
            if let Some((_, founding, address)) = parts(&key)
                && Some(founding) != own
                && self.bucket.is_there(&key, DOING).await?
            {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    /// All pods that are there.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn all(&self) -> Result<Vec<PodState>> {
        let keys = self.bucket.keys(&self.start, DOING).await?;
        let newest = keys.iter().map(|key| self.bucket.newest(key, LOOKING));
        let newest = try_join_all(newest).await?.into_iter().flatten();
        let pod = |it: Entry| serde_json::from_slice(&it.value?).ok();
        let mut pods: Vec<PodState> = newest.filter_map(pod).collect();
        pods.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(pods)
    }

    fn key(&self, address: &str) -> String {
        format!("{}{}", self.start, hex::encode(address))
    }
}

/// The epoch, the founding and the address in the key of an announcement.
fn parts(key: &str) -> Option<(u64, [u8; 16], String)> {
    let mut parts = key.strip_prefix(KEYS)?.split('.');
    let (epoch, mut founding) = (parts.next()?.parse().ok()?, [0; 16]);
    hex::decode_to_slice(parts.next()?, &mut founding).ok()?;
    let address = hex::decode(parts.next()?).ok()?;
    Some((epoch, founding, String::from_utf8(address).ok()?))
}

/// The same, even if it is a copy.
async fn last_said(bucket: &SealedBucket, key: &str) -> Result<Option<(u64, Said)>> {
    let said = bucket.last_said(key, LOOKING).await?;
    Ok(said.and_then(|it| Some((it.revision, it.value??))))
}
