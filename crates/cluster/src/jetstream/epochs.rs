//! Which epoch of a cluster is the current one, and how another begins after the
//! log was lost or rewound.
//!
//! An epoch has a stream of its own. Its first record of each lane is a barrier
//! that follows the record at which the chosen pod stood, by number and history.
//! So a pod that stood there, too, goes on by the rules for any record; one that
//! had less finds that what comes next is not there any more; one that had more, or
//! something else, stops. Numbers go on above all of the epoch before.

use super::bucket::{Bucket, Put};
use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::name::ClusterName;
use super::stream::{FOUNDING, Founding, get, is_taken};
use crate::engine::Position;
use crate::record::{FIRST_EPOCH, Record, Writer};
use async_nats::jetstream::Context;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Config;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

const KEY: &str = "epoch";

/// What a stream says of who made it.
const ATTEMPT: &str = "cuckood_attempt";

const DOING: &str = "looking for the current epoch";

/// Numbers of an epoch begin at a multiple of this, and at least so far above the
/// chosen pod's: no pod of the epoch before has reached them.
pub const NUMBERS_BETWEEN: u64 = 1 << 32;

/// Whether a record of this number is of the epoch that began with these records: those
/// before it were left to people, who have decided.
pub fn is_of_epoch(began: &[Position], lane: u32, sequence: u64) -> bool {
    match began.get(lane as usize) {
        None => sequence > 0,
        Some(began) => sequence >= began.sequence.saturating_add(NUMBERS_BETWEEN),
    }
}

/// The current epoch of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: u64,
    /// Where each lane stood in the epoch before when it began; none for the first
    /// epoch.
    pub began: Vec<Position>,
    /// What a change of it expects.
    #[serde(skip)]
    revision: u64,
}

/// The current epoch of a cluster: the first one, unless another was begun.
///
/// # Errors
/// The broker did not answer, or what it says makes no sense.
pub async fn current_epoch(connection: &Connection, cluster: &ClusterName) -> Result<Epoch> {
    let first = Epoch {
        epoch: FIRST_EPOCH,
        began: Vec::new(),
        revision: 0,
    };
    let Some(bucket) = Bucket::find(connection, cluster).await? else {
        return Ok(first);
    };
    let Some(entry) = bucket.newest(KEY, DOING).await? else {
        return Ok(first);
    };
    let bad = |reason: String| JetStreamError::BadEpoch {
        bucket: cluster.bucket(),
        reason,
    };
    let Some(value) = entry.value else {
        return Err(bad("deleted".to_owned()));
    };
    let stored: Epoch =
        serde_json::from_slice(&value).map_err(|error| bad(format!("not readable ({error})")))?;
    // Only later epochs have the key, and each of them began somewhere.
    if stored.epoch <= FIRST_EPOCH || stored.began.is_empty() {
        return Err(bad("not readable".to_owned()));
    }
    let revision = entry.revision;
    Ok(Epoch { revision, ..stored })
}

/// An epoch that is made and is not the current one yet. Its stream is its own: another
/// attempt takes another number, so that none ever writes to what another one makes,
/// or removes it.
pub struct NewEpoch {
    connection: Connection,
    /// What will be fixed of it.
    pub founding: Founding,
    writer: Writer,
    /// Of the epoch before it.
    revision: u64,
}

/// An epoch that did not begin has a barrier a lane at most. One with more was in use:
/// with the bucket the brokers lose which one is the current one.
///
/// # Errors
/// It has more, or the broker did not answer.
async fn refuse_changes(context: &Context, founding: &Founding) -> Result<()> {
    let found = context.get_stream(founding.stream()).await;
    let found = found.map_err(JetStreamError::while_doing(
        "looking at an unfinished epoch",
    ))?;
    let state = &found.cached_info().state;
    let numbers = state.last_sequence.saturating_sub(state.first_sequence);
    match numbers >= u64::from(founding.lanes) {
        true => Err(JetStreamError::EpochInUse {
            stream: founding.stream(),
            epoch: founding.epoch,
        }),
        false => Ok(()),
    }
}

impl NewEpoch {
    /// Makes the bucket of a cluster anew if it was lost: then pods announce themselves
    /// there. Returns whether it was.
    ///
    /// # Errors
    /// The brokers refuse.
    pub async fn make_bucket(
        connection: &Connection,
        cluster: &ClusterName,
        copies: usize,
    ) -> Result<bool> {
        let is_lost = Bucket::find(connection, cluster).await?.is_none();
        if is_lost {
            Bucket::make(connection, cluster, copies).await?;
        }
        Ok(is_lost)
    }

    /// Which founding the stream of an epoch belongs to, if it is there.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn founding_of(
        connection: &Connection,
        cluster: &ClusterName,
        epoch: u64,
    ) -> Result<Option<String>> {
        let found = get(&connection.context, &cluster.stream(epoch)).await?;
        Ok(found.map(|it| it.metadata.get(FOUNDING).cloned().unwrap_or_default()))
    }

    /// Makes the stream of an epoch behind `current`, and the bucket if that was lost.
    /// It gets the number of `founding`, or the first one after it that no other
    /// attempt has. `furthest` is the largest number that the chosen pod has.
    ///
    /// # Errors
    /// The brokers refuse; nothing changed for any pod.
    pub async fn make(
        connection: &Connection,
        mut founding: Founding,
        current: &Epoch,
        furthest: u64,
        writer: Writer,
    ) -> Result<NewEpoch> {
        NewEpoch::make_bucket(connection, &founding.cluster, founding.copies).await?;
        let context = &connection.context;
        loop {
            if get(context, &founding.stream()).await?.is_some() {
                // What another attempt has left, or is making at this moment.
                refuse_changes(context, &founding).await?;
                founding.epoch += 1;
                continue;
            }
            let first = (furthest / NUMBERS_BETWEEN + 2) * NUMBERS_BETWEEN;
            let mut config = Config {
                first_sequence: Some(first),
                ..founding.config()
            };
            // An equal one would be no error to the broker.
            let attempt = (ATTEMPT.to_owned(), writer.to_string());
            config.metadata.extend([attempt]);
            match context.create_stream(config).await {
                Ok(_) => break,
                Err(error) if is_taken(&error) => {}
                Err(error) => {
                    const DOING: &str = "making the stream of the epoch";
                    return Err(JetStreamError::while_doing(DOING)(error));
                }
            }
        }
        Ok(NewEpoch {
            connection: connection.clone(),
            founding,
            writer,
            revision: current.revision,
        })
    }

    /// Takes it back.
    ///
    /// # Errors
    /// The brokers refuse: it is left, and nobody uses it.
    pub async fn give_up(self) -> Result<()> {
        let deleted = self
            .connection
            .context
            .delete_stream(self.founding.stream());
        deleted
            .await
            .map_err(JetStreamError::while_doing("taking the stream back"))?;
        Ok(())
    }

    /// Makes sure that nobody writes to the epoch before it any more, if its stream
    /// is still there.
    ///
    /// # Errors
    /// The brokers refuse.
    pub async fn seal(&self, before: u64) -> Result<()> {
        let context = &self.connection.context;
        let stream = self.founding.cluster.stream(before);
        let Some(config) = get(context, &stream).await? else {
            return Ok(());
        };
        if !config.sealed {
            let sealed = Config {
                sealed: true,
                ..config
            };
            const DOING: &str = "sealing the stream of the epoch before";
            if let Err(error) = context.update_stream(sealed).await {
                // Another attempt may have sealed it meanwhile, which is an error here.
                if get(context, &stream).await?.is_some_and(|it| !it.sealed) {
                    return Err(JetStreamError::while_doing(DOING)(error));
                }
            }
        }
        Ok(())
    }

    /// Begins it from where each lane of the chosen pod stands, and makes it the
    /// current one.
    ///
    /// # Errors
    /// The brokers refuse, or somebody else was faster: then it is not the current
    /// one.
    pub async fn begin(self, lanes: &[Position], stamp_ms: u64) -> Result<Epoch> {
        for (lane, &before) in (0..).zip(lanes) {
            self.barrier(lane, before, stamp_ms).await?;
        }
        let epoch = Epoch {
            epoch: self.founding.epoch,
            began: lanes.to_vec(),
            revision: self.revision,
        };
        const DOING: &str = "making the epoch the current one";
        let value = serde_json::to_vec(&epoch).map_err(JetStreamError::while_doing(DOING))?;
        let bucket = Bucket::open(&self.connection, &self.founding.cluster).await?;
        let put = bucket.put(KEY, value.into(), None, Some(self.revision));
        match put.await.map_err(JetStreamError::while_doing(DOING))? {
            Put::Overtaken => {
                // It may as well be left.
                let _ = self.give_up().await;
                Err(JetStreamError::EpochOvertaken)
            }
            Put::Stored(revision) => Ok(Epoch { revision, ..epoch }),
        }
    }

    /// Appends the first record of a lane.
    async fn barrier(&self, lane: u32, before: Position, stamp_ms: u64) -> Result<()> {
        const DOING: &str = "writing the first records of the epoch";
        let record = Record {
            level: 1,
            epoch: self.founding.epoch,
            lane,
            previous: before,
            writer: self.writer,
            number: 1,
            stamp_ms,
            commit: Bytes::new(),
        };
        let subject = self.founding.cluster.subject(self.founding.epoch, lane);
        let message = PublishMessage::build()
            .payload(record.encode().unwrap_or_default())
            .expected_stream(self.founding.stream())
            .expected_last_subject_sequence(0);
        let sent = self.connection.context.send_publish(subject, message);
        let sent = sent.await.map_err(JetStreamError::while_doing(DOING))?;
        sent.await.map_err(JetStreamError::while_doing(DOING))?;
        Ok(())
    }
}
