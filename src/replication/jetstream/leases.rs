//! Who leads a lane: a key of the cluster's bucket, with the leader as its value
//! and a lifetime. Leases are for speed; nothing that must hold rests on them.
//!
//! A lease is renewed by a publish to its key's subject with its lifetime and
//! the revision that is expected: the bucket's own update would forget the
//! lifetime.

use super::connect::Connection;
use super::error::JetStreamError;
use super::stream::Founding;
use crate::replication::lease::Renewal;
use crate::replication::record::Writer;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{Context, message::StreamMessage};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a bucket says of a key that ran out or was taken back.
const MARKERS: [&str; 2] = ["Nats-Marker-Reason", "KV-Operation"];

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
    context: Context,
    stream: Stream<()>,
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
        holder: Holder,
        ttl: Duration,
    ) -> Result<Leases, JetStreamError> {
        let context = &connection.context;
        let name = format!("KV_{}", founding.cluster.bucket());
        let found = context.get_stream(&name).await;
        found.map_err(JetStreamError::while_doing("looking for the leases"))?;
        let stream = context.get_stream_no_info(name).await;
        Ok(Leases {
            context: context.clone(),
            stream: stream.map_err(JetStreamError::while_doing("looking for the leases"))?,
            founding,
            holder,
            ttl,
        })
    }

    /// Who takes them.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Takes a lease if nobody has it, or this pod. Returns its revision; `None`:
    /// somebody else has it, or was faster.
    ///
    /// # Errors
    /// The broker did not answer: the lease may be taken.
    pub async fn take(&self, lane: u32) -> Result<Option<u64>, JetStreamError> {
        let newest = self.newest(lane).await?;
        if let Some(message) = newest.as_ref().filter(|it| !is_marker(it)) {
            // The own one is there if the answer to an earlier attempt was lost.
            let is_own = lease(message)?.holder == self.holder;
            if !is_own {
                return Ok(None);
            }
        }
        let expected = newest.map_or(0, |it| it.sequence);
        match self.put(lane, expected).await {
            Renewal::Held { revision } => Ok(Some(revision)),
            Renewal::Lost => Ok(None),
            Renewal::Unknown => Err(JetStreamError::Broker {
                doing: "taking a lease",
                source: "there was no answer".into(),
            }),
        }
    }

    /// Renews a lease.
    pub async fn renew(&self, lane: u32, revision: u64) -> Renewal {
        match self.put(lane, revision).await {
            // A renewal whose answer was lost may have taken place.
            Renewal::Lost => match self.held(lane).await {
                Ok(Some(lease)) if lease.holder == self.holder => Renewal::Held {
                    revision: lease.revision,
                },
                Ok(_) => Renewal::Lost,
                Err(_) => Renewal::Unknown,
            },
            renewal => renewal,
        }
    }

    /// Gives a lease back, so that another pod need not wait.
    ///
    /// # Errors
    /// It stays until it runs out.
    pub async fn give_back(&self, lane: u32, revision: u64) -> Result<(), JetStreamError> {
        let message = PublishMessage::build()
            .header("KV-Operation", "DEL")
            .expected_last_subject_sequence(revision);
        let doing = "giving a lease back";
        let sent = self.context.send_publish(self.subject(lane), message).await;
        let sent = sent.map_err(JetStreamError::while_doing(doing))?;
        sent.await.map_err(JetStreamError::while_doing(doing))?;
        Ok(())
    }

    /// Who holds a lane's lease, if anybody does.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn held(&self, lane: u32) -> Result<Option<Lease>, JetStreamError> {
        let newest = self.newest(lane).await?.filter(|it| !is_marker(it));
        newest.map(|it| lease(&it)).transpose()
    }

    async fn put(&self, lane: u32, expected: u64) -> Renewal {
        let Ok(value) = serde_json::to_vec(&self.holder) else {
            return Renewal::Unknown;
        };
        let message = PublishMessage::build()
            .payload(value.into())
            .ttl(self.ttl)
            .expected_last_subject_sequence(expected);
        let sent = async {
            let answer = self.context.send_publish(self.subject(lane), message);
            answer.await?.await
        };
        match sent.await {
            Ok(ack) => Renewal::Held {
                revision: ack.sequence,
            },
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Renewal::Lost,
            Err(_) => Renewal::Unknown,
        }
    }

    /// What the bucket has of a lane's lease, a marker perhaps.
    async fn newest(&self, lane: u32) -> Result<Option<StreamMessage>, JetStreamError> {
        let subject = self.subject(lane);
        match self.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(JetStreamError::while_doing("looking at a lease")(error)),
        }
    }

    fn subject(&self, lane: u32) -> String {
        let bucket = self.founding.cluster.bucket();
        format!("$KV.{bucket}.lease.{}.{lane}", self.founding.epoch)
    }
}

fn lease(message: &StreamMessage) -> Result<Lease, JetStreamError> {
    let holder = serde_json::from_slice(&message.payload);
    Ok(Lease {
        holder: holder.map_err(JetStreamError::while_doing("reading a lease"))?,
        revision: message.sequence,
    })
}

fn is_marker(message: &StreamMessage) -> bool {
    MARKERS.iter().any(|it| message.headers.get(*it).is_some())
}
