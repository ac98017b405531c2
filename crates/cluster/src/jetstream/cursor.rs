//! Reads the records of a lane in order, through a consumer of its own: the broker
//! keeps it in memory while somebody asks it. Whatever becomes of it, the cursor ends,
//! and another one goes on behind the newest record that came.
//!
//! The client has an ordered consumer, which asks for 500 records at once, whatever their
//! bytes. This one asks for bytes: a pod that catches up in all lanes at once has to have
//! room for that many times the lanes.

use super::error::{Cause, JetStreamError, Result};
use crate::commit_log::Stored;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::{Config, Stream};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, ReplayPolicy};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a request for records stands at most. A broker's host that dies
/// silently is noticed after two of them.
const MAX_EXPIRES: Duration = Duration::from_secs(2);

/// How often a broker that has no records says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How long a broker keeps a consumer that nobody asks.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// How many records, and bytes, are asked for at once, and handed over. The largest
/// record fits, with all that the broker counts of a message. The client asks again when
/// half of it has come, so half as much may wait in addition.
const MAX_RECORDS: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// By how much what is wanted may be ahead of what comes, before it is asked for
/// anew instead of passing over what lies between.
const MAX_PASSED_OVER: u64 = 1000;

/// A reader that hears nothing for so long asks whether there is something: what
/// comes by itself may stop to come without a word.
const SILENCE: Duration = Duration::from_secs(5);

/// Where the reading of a lane is.
pub(super) struct Cursor {
    /// The newest record that came.
    at: u64,
    /// How many came.
    came: u64,
    /// When something came last, or it was found out that nothing was to come.
    heard_at: Instant,
    records: Stream,
}

impl Cursor {
    /// Reads what is behind `after`.
    pub(super) async fn open(
        context: &Context,
        stream: &str,
        subject: String,
        after: u64,
    ) -> Result<Cursor> {
        let config = Config {
            filter_subject: subject,
            ack_policy: AckPolicy::None,
            memory_storage: true,
            num_replicas: 1,
            inactive_threshold: FORGOTTEN_AFTER,
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: after + 1,
            },
            replay_policy: ReplayPolicy::Instant,
            ..Config::default()
        };
        let consumer = context.create_consumer_on_stream(config, stream).await;
        let consumer = consumer.map_err(JetStreamError::while_doing("asking for records"))?;
        let records = consumer
            .stream()
            .max_messages_per_batch(MAX_RECORDS)
            .max_bytes_per_batch(MAX_BYTES)
            .expires(MAX_EXPIRES)
            .heartbeat(HEARTBEAT)
            .messages()
            .await;
        let records = records.map_err(JetStreamError::while_doing("asking for records"))?;
        Ok(Cursor {
            at: after,
            came: 0,
            heard_at: Instant::now(),
            records,
        })
    }

    /// Whether the next records behind `after` come from here, and soon.
    pub(super) fn leads_to(&self, after: u64) -> bool {
        (self.at..=self.at.saturating_add(MAX_PASSED_OVER)).contains(&after)
    }

    /// Whether nothing has come for long.
    pub(super) fn is_silent(&self) -> bool {
        self.heard_at.elapsed() > SILENCE
    }

    /// Ends the silence: the log was asked whether there is more.
    pub(super) fn end_silence(&mut self) {
        self.heard_at = Instant::now();
    }

    /// Waits for a record behind `after`, and hands over all that are at hand.
    pub(super) async fn next(&mut self, after: u64, wait: Duration) -> Result<Vec<Stored>, Cause> {
        let until = Instant::now() + wait;
        let mut records = Vec::new();
        let mut bytes = 0;
        loop {
            let next = match records.is_empty() {
                true => timeout_at(until, self.records.next()).await.ok(),
                false => self.records.next().now_or_never(),
            };
            let Some(message) = next else {
                return Ok(records);
            };
            let message = message.ok_or("the consumer ended")??;
            let info = message.info()?;
            let sequence = info.stream_sequence;
            self.came += 1;
            if info.consumer_sequence != self.came {
                return Err("records were lost on their way".into());
            }
            self.heard_at = Instant::now();
            self.at = sequence;
            if sequence > after {
                bytes += message.payload.len();
                let bytes = message.payload.clone();
                records.push(Stored { sequence, bytes });
            }
            if records.len() >= MAX_RECORDS || bytes >= MAX_BYTES {
                return Ok(records);
            }
        }
    }
}
