//! Reads the records of a lane in order, through an ordered consumer: the
//! broker keeps nothing of it, and it is made anew on another one when that one
//! is gone.

use super::error::{Cause, JetStreamError};
use crate::replication::commit_log::Stored;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a request for records stands at most. A broker's host that dies
/// silently is noticed after two of them.
const MAX_EXPIRES: Duration = Duration::from_secs(2);

/// How many records, and bytes, are handed over at once.
const MAX_RECORDS: usize = 256;
const MAX_BYTES: usize = 4 << 20;

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
    /// When something came last, or it was found out that nothing was to come.
    heard_at: Instant,
    records: Ordered,
}

impl Cursor {
    /// Reads what is behind `after`.
    pub(super) async fn open(
        context: &Context,
        stream: &str,
        subject: String,
        after: u64,
    ) -> Result<Cursor, JetStreamError> {
        let config = OrderedConfig {
            filter_subject: subject,
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: after + 1,
            },
            replay_policy: ReplayPolicy::Instant,
            max_expires: MAX_EXPIRES,
            ..OrderedConfig::default()
        };
        let consumer = context.create_consumer_on_stream(config, stream).await;
        let consumer = consumer.map_err(JetStreamError::while_doing("asking for records"))?;
        let records = consumer.messages().await;
        let records = records.map_err(JetStreamError::while_doing("asking for records"))?;
        Ok(Cursor {
            at: after,
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

    /// Says that the log was asked whether there is more.
    pub(super) fn note_asked(&mut self) {
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
            let sequence = message.info()?.stream_sequence;
            // A consumer that was made anew before its first record begins at the
            // beginning, and all of the lane would come before what is wanted.
            if sequence <= self.at {
                return Err("the reading began anew at an old record".into());
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
