//! The pods of a cluster, as they announce themselves: each under its address in
//! the cluster's bucket, with a lifetime, so that those that are gone are not
//! listed.

use super::connect::Connection;
use super::error::JetStreamError;
use super::stream::Founding;
use async_nats::jetstream::Context;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How often a pod announces itself.
pub const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// How long an announcement lives, in whole seconds.
const TTL: Duration = Duration::from_secs(5);

/// How long an announcement of somebody else is watched before its address is
/// taken over: one who lives renews it meanwhile.
const WATCHED: Duration = Duration::from_secs(3);

/// What a pod says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodState {
    /// Where others reach it; no two pods have the same.
    pub address: String,
    /// This life of it.
    pub writer: String,
    /// Its program.
    pub version: String,
    /// The newest record that it has applied, of each lane.
    pub positions: Vec<u64>,
}

/// The announcements of a cluster's pods.
pub struct Announcements {
    context: Context,
    stream: Stream<()>,
    /// What all of their subjects begin with.
    prefix: String,
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
        let bucket = founding.cluster.bucket();
        let stream = connection
            .context
            .get_stream_no_info(format!("KV_{bucket}"));
        let stream = stream.await;
        Ok(Announcements {
            context: connection.context.clone(),
            stream: stream.map_err(JetStreamError::while_doing("looking for the pods"))?,
            prefix: format!("$KV.{bucket}.pod.{}", founding.epoch),
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
        let message = PublishMessage::build().payload(value.into()).ttl(TTL);
        self.publish(&pod.address, message, DOING).await
    }

    /// Says that a pod is gone.
    ///
    /// # Errors
    /// The broker did not answer: it is listed until its time is over.
    pub async fn withdraw(&self, address: &str) -> Result<(), JetStreamError> {
        let message = PublishMessage::build().header("KV-Operation", "DEL");
        self.publish(address, message, "withdrawing this pod").await
    }

    async fn publish(
        &self,
        address: &str,
        message: PublishMessage,
        doing: &'static str,
    ) -> Result<(), JetStreamError> {
        let sent = self.context.send_publish(self.subject(address), message);
        let sent = sent.await.map_err(JetStreamError::while_doing(doing))?;
        sent.await.map_err(JetStreamError::while_doing(doing))?;
        Ok(())
    }

    /// Makes sure that no other pod that lives has this address. Takes a few
    /// seconds if one had it that did not say that it goes.
    ///
    /// # Errors
    /// [`JetStreamError::AddressTaken`], or the broker did not answer.
    pub async fn claim(&self, address: &str) -> Result<(), JetStreamError> {
        let subject = self.subject(address);
        let started = Instant::now();
        let Some((first, _)) = self.newest(&subject).await? else {
            return Ok(());
        };
        while started.elapsed() < WATCHED {
            sleep(ANNOUNCE_EVERY / 4).await;
            match self.newest(&subject).await? {
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

    /// All pods that are there.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn all(&self) -> Result<Vec<PodState>, JetStreamError> {
        const DOING: &str = "listing the pods";
        let of_pods = format!("{}.*", self.prefix);
        let subjects = self.stream.info_with_subjects(of_pods).await;
        let subjects = subjects.map_err(JetStreamError::while_doing(DOING))?;
        let subjects: Vec<(String, usize)> = subjects
            .try_collect()
            .await
            .map_err(JetStreamError::while_doing(DOING))?;
        let mut pods = Vec::new();
        for (subject, _) in subjects {
            pods.extend(self.newest(&subject).await?.map(|(_, pod)| pod));
        }
        pods.sort_by(|a: &PodState, b| a.address.cmp(&b.address));
        Ok(pods)
    }

    /// What was announced last, with its revision, unless it was withdrawn or ran
    /// out.
    async fn newest(&self, subject: &str) -> Result<Option<(u64, PodState)>, JetStreamError> {
        const DOING: &str = "looking at a pod";
        match self.stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => {
                // A marker of what is gone is no announcement.
                let pod = serde_json::from_slice(&message.payload).ok();
                Ok(pod.map(|pod| (message.sequence, pod)))
            }
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(JetStreamError::while_doing(DOING)(error)),
        }
    }

    fn subject(&self, address: &str) -> String {
        format!("{}.{}", self.prefix, hex::encode(address))
    }
}
