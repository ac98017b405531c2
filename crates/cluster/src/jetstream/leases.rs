//! Who leads a lane: a key of the cluster's bucket, with the leader as its value
//! and a lifetime. Leases are for speed; nothing that must hold rests on them. One that
//! is not sealed by a pod of the cluster, or is a copy of one of the past, is nobody's.

use super::bucket::{Put, SealedBucket, Watch};
use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::seal::Seals;
use super::stream::Founding;
use crate::lease::Renewal;
use crate::record::Writer;
use async_nats::Client;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::time::Duration;

const DOING: &str = "looking at a lease";

/// Who holds a lease, and where to reach them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The life of the pod, as [`Writer`] prints it.
    pub writer: String,
    /// Where other pods reach it.
    pub address: String,
}

impl Holder {
    /// A pod at an address.
    pub fn new(writer: Writer, address: String) -> Holder {
        Holder {
            writer: writer.to_string(),
            address,
        }
    }
}

/// A lease that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who.
    pub holder: Holder,
    /// Its revision: every renewal makes a new one.
    pub revision: u64,
}

/// The leases of a cluster's epoch.
pub struct Leases {
    client: Client,
    bucket: SealedBucket,
    founding: Founding,
    holder: Holder,
    ttl: Duration,
}

impl Leases {
    /// Leases of `ttl`, whole seconds, that `holder` takes.
    ///
    /// # Errors
    /// There is no bucket.
    pub async fn new(
        connection: &Connection,
        founding: Founding,
        seals: &Seals,
        holder: Holder,
        ttl: Duration,
    ) -> Result<Leases> {
        Ok(Leases {
            client: connection.client.clone(),
            bucket: SealedBucket::open(connection, &founding.cluster, seals).await?,
            founding,
            holder,
            ttl,
        })
    }

    /// Whether it is this pod, in this life or, as it has its address to itself, in an
    /// earlier one.
    pub fn is_own(&self, holder: &Holder) -> bool {
        let Holder { writer, address } = holder;
        *writer == self.holder.writer || !address.is_empty() && *address == self.holder.address
    }

    /// How often a broker was connected to.
    pub fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Takes a lease if nobody has it, or this pod. Returns its revision; `None`:
    /// somebody else has it, or was faster.
    ///
    /// # Errors
    /// The broker did not answer: the lease may be taken.
    pub async fn take(&self, lane: u32) -> Result<Option<u64>> {
        let newest = self.bucket.newest(&self.key(lane), DOING).await?;
        let expected = newest.as_ref().map_or(0, |it| it.revision);
        if let Some(value) = newest.and_then(|it| it.value) {
            // The own one is there if the answer to an earlier attempt was lost, or if
            // another pod has handed it over.
            if !self.is_own(&holder(&value)?) {
                return Ok(None);
            }
        }
        match self.put(lane, &self.holder, expected).await? {
            Put::Stored(revision) => Ok(Some(revision)),
            Put::Overtaken => Ok(None),
        }
    }

    /// Renews a lease.
    pub async fn renew(&self, lane: u32, revision: u64) -> Renewal {
        match self.put(lane, &self.holder, revision).await {
            Ok(Put::Stored(revision)) => Renewal::Held { revision },
            Err(_) => Renewal::Unknown,
            // A renewal whose answer was lost may have taken place.
            Ok(Put::Overtaken) => match self.held(lane).await {
                // It may be in process.
                Ok(Some(lease)) if lease.revision == revision => Renewal::Unknown,
                Ok(Some(lease)) if lease.holder == self.holder => Renewal::Held {
                    revision: lease.revision,
                },
                Ok(_) => Renewal::Lost,
                Err(_) => Renewal::Unknown,
            },
        }
    }

    /// Gives a lease back, so that another pod need not wait.
    ///
    /// # Errors
    /// It stays until it runs out.
    pub async fn give_back(&self, lane: u32, revision: u64) -> Result<()> {
        let given = self
            .bucket
            .unsealed
            .delete(&self.key(lane), Some(revision))
            .await;
        given.map_err(JetStreamError::while_doing("giving a lease back"))?;
        Ok(())
    }

    /// Gives a lease to another pod, which need not take it: it finds out that it
    /// has it.
    pub async fn hand_over(&self, lane: u32, revision: u64, to: &Holder) {
        drop(self.put(lane, to, revision).await);
    }

    /// Who holds a lane's lease, if anybody does.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn held(&self, lane: u32) -> Result<Option<Lease>> {
        let newest = self.bucket.newest(&self.key(lane), DOING).await?;
        let Some((revision, value)) = newest.and_then(|it| Some((it.revision, it.value?))) else {
            return Ok(None);
        };
        let holder = holder(&value)?;
        Ok(Some(Lease { holder, revision }))
    }

    /// Watches the leases, from now on.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn watch(&self) -> Result<LeaseWatch> {
        let watch = self.bucket.watch(&self.key_start()).await;
        Ok(LeaseWatch(watch?))
    }

    async fn put(&self, lane: u32, holder: &Holder, expected: u64) -> Result<Put> {
        let (key, ttl) = (self.key(lane), Some(self.ttl));
        self.bucket.say(&key, holder, ttl, Some(expected)).await
    }

    fn key(&self, lane: u32) -> String {
        format!("{}{lane}", self.key_start())
    }

    fn key_start(&self) -> String {
        format!("lease.{}.", self.founding.in_keys())
    }
}

/// What is said of leases, as it is said.
pub struct LeaseWatch(Watch);

impl LeaseWatch {
    /// The next lane of which something is said, and who has its lease; nobody, if
    /// it ran out or was given back. `None`: it has to be watched anew.
    pub async fn next(&mut self) -> Option<(u32, Option<Holder>)> {
        loop {
            let (lane, value) = self.0.next().await?;
            let holder = value.map(|it| holder(&it)).transpose();
            if let (Ok(lane), Ok(holder)) = (lane.parse(), holder) {
                return Some((lane, holder));
            }
        }
    }
}

fn holder(value: &Bytes) -> Result<Holder> {
    let holder = serde_json::from_slice(value);
    holder.map_err(JetStreamError::while_doing("reading a lease"))
}
