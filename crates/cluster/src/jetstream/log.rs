//! [`JetStreamLog`]: the commit log in a stream.

use super::connect::Connection;
use super::cursor::Cursor;
use super::error::Cause;
use super::stream::Founding;
use crate::commit_log::{Answer, Append, CommitLog, Found, LogError, Stored};
use crate::trimming::LogExtent;
use async_nats::jetstream::context::PublishError;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{RawMessageError, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context, ContextBuilder, ErrorCode};
use parking_lot::Mutex;
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long a log is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the answer to an append.
    pub append: Duration,
    /// For the answer to a question.
    pub ask: Duration,
    /// How long a leader must have said the same for a record to be absent: a
    /// broker that was cut off believes for some 10 s that it leads.
    pub absence: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            append: Duration::from_secs(5),
            ask: Duration::from_secs(5),
            absence: Duration::from_secs(15),
        }
    }
}

/// How often a leader is asked again for a record that is absent.
const ABSENCE_INTERVAL: Duration = Duration::from_millis(500);

/// The commit log of one epoch of a cluster. Those of its methods that are not async
/// block: call them from threads of their own.
pub struct JetStreamLog {
    context: Context,
    stream: Stream<()>,
    founding: Founding,
    patience: Patience,
    runtime: Handle,
    /// By lane.
    cursors: Vec<Mutex<Option<Cursor>>>,
}

/// What a leader says is under a number.
enum Said {
    Record(bytes::Bytes),
    /// By the leader of this name.
    Absent {
        newest: u64,
        leader: Option<String>,
    },
}

impl JetStreamLog {
    /// The log of a cluster that was opened.
    pub async fn new(
        connection: &Connection,
        founding: Founding,
        patience: Patience,
    ) -> Result<JetStreamLog, LogError> {
        let context = ContextBuilder::new()
            .timeout(patience.ask)
            .ack_timeout(patience.append)
            .build(connection.client.clone());
        let stream = context.get_stream_no_info(founding.stream()).await;
        let stream = stream.map_err(|error| LogError::new("opened", error))?;
        let cursors = (0..founding.lanes).map(|_| Mutex::new(None)).collect();
        Ok(JetStreamLog {
            context,
            stream,
            founding,
            patience,
            runtime: Handle::current(),
            cursors,
        })
    }

    /// How much it has, of all lanes together. May be old.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn extent(&self) -> Result<LogExtent, LogError> {
        let info = self.stream.get_info().await;
        let info = info.map_err(|error| LogError::new("measured", error))?;
        Ok(LogExtent {
            bytes: info.state.bytes,
            records: info.state.messages,
            newest: info.state.last_sequence,
        })
    }

    /// What [`newest`](CommitLog::newest) says, for tasks, which must not block.
    ///
    /// # Errors
    /// The broker did not answer.
    pub async fn end(&self, lane: u32) -> Result<u64, LogError> {
        let newest = self.ask_newest(lane).await;
        newest.map_err(|error| LogError::new("asked for its end", error))
    }

    fn subject(&self, lane: u32) -> String {
        self.founding.cluster.subject(self.founding.epoch, lane)
    }

    async fn publish(&self, lane: u32, append: &Append) -> Answer {
        let message = PublishMessage::build()
            .payload(append.bytes.clone())
            .message_id(append.id.to_string())
            .expected_stream(self.founding.stream())
            .expected_last_subject_sequence(append.expected);
        let sent = async {
            let answer = self.context.send_publish(self.subject(lane), message);
            answer.await?.await
        };
        // The client has a limit of its own for the answer; this one is for
        // everything before it, too.
        match timeout(self.patience.append, sent).await {
            Ok(Ok(ack)) => Answer::Stored {
                sequence: ack.sequence,
                is_duplicate: ack.duplicate,
            },
            Ok(Err(error)) if is_overtaken(&error) => Answer::Refused,
            Ok(Err(_)) | Err(_) => Answer::Unknown,
        }
    }

    async fn ask_newest(&self, lane: u32) -> Result<u64, RawMessageError> {
        let subject = self.subject(lane);
        let newest = self.stream.get_last_raw_message_by_subject(&subject);
        match newest.await {
            Ok(message) => Ok(message.sequence),
            Err(error) if is_no_message(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    async fn ask(&self, lane: u32, sequence: u64) -> Result<Said, Cause> {
        let leader = match self.stream.get_info().await {
            Ok(info) => match info.cluster {
                // One broker alone has no cluster.
                None => None,
                Some(cluster) => Some(cluster.leader.ok_or("the stream has no leader")?),
            },
            Err(error) if code(&error) == Some(ErrorCode::STREAM_NOT_FOUND) => None,
            Err(error) => return Err(error.into()),
        };
        match self.stream.get_raw_message(sequence).await {
            Ok(message) if message.subject.as_str() == self.subject(lane) => {
                return Ok(Said::Record(message.payload));
            }
            Ok(_) => {}
            Err(error) if is_no_message(&error) || is_no_stream(&error) => {}
            Err(error) => return Err(error.into()),
        }
        match self.ask_newest(lane).await {
            Ok(newest) => Ok(Said::Absent { newest, leader }),
            Err(error) if is_no_stream(&error) => Ok(Said::Absent { newest: 0, leader }),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks until a record is found, or one leader has said for long enough that
    /// there is none.
    async fn find(&self, lane: u32, sequence: u64) -> Found {
        let started = Instant::now();
        let mut before = None;
        loop {
            match self.ask(lane, sequence).await {
                Ok(Said::Record(bytes)) => return Found::Record(bytes),
                Ok(Said::Absent { newest, leader }) => {
                    // That it has newer ones can't be old news.
                    if newest > sequence {
                        return Found::Absent { newest };
                    }
                    if before.get_or_insert_with(|| leader.clone()) != &leader {
                        return Found::Unsure;
                    }
                    if started.elapsed() >= self.patience.absence {
                        return Found::Absent { newest };
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, lane, sequence, "the commit log could not be asked");
                    return Found::Unsure;
                }
            }
            tokio::time::sleep(ABSENCE_INTERVAL).await;
        }
    }

    async fn read_on(
        &self,
        cursor: &mut Option<Cursor>,
        lane: u32,
        after: u64,
        wait: Duration,
    ) -> Result<Vec<Stored>, Cause> {
        if !cursor.as_ref().is_some_and(|it| it.leads_to(after)) {
            *cursor = None;
            let stream = self.founding.stream();
            let opened = Cursor::open(&self.context, &stream, self.subject(lane), after);
            *cursor = Some(timeout(self.patience.ask, opened).await??);
        }
        let Some(open) = cursor else {
            return Ok(Vec::new());
        };
        let mut read = open.next(after, wait).await;
        // Nothing has come for so long that it is asked whether nothing was to come.
        if read.as_ref().is_ok_and(Vec::is_empty) && open.is_silent() {
            let newest = self.ask_newest(lane).await?;
            open.end_silence();
            if newest > after {
                read = Err("the records that there are do not come".into());
            }
        }
        if read.is_err() {
            *cursor = None;
        }
        read
    }
}

impl CommitLog for JetStreamLog {
    fn append(&self, lane: u32, append: &Append) -> Answer {
        self.runtime.block_on(self.publish(lane, append))
    }

    fn read(&self, lane: u32, after: u64, wait: Duration) -> Result<Vec<Stored>, LogError> {
        let cursor = self.cursors.get(lane as usize);
        let none = || LogError::new("read", "it has no such lane");
        let mut cursor = cursor.ok_or_else(none)?.lock();
        let reading = self.read_on(&mut cursor, lane, after, wait);
        let read = self.runtime.block_on(reading);
        read.map_err(|error| LogError::new("read", error))
    }

    fn newest(&self, lane: u32) -> Result<u64, LogError> {
        self.runtime.block_on(self.end(lane))
    }

    fn look(&self, lane: u32, sequence: u64) -> Found {
        self.runtime.block_on(self.find(lane, sequence))
    }

    fn trim(&self, lane: u32, before: u64) -> Result<(), LogError> {
        // The newest record stays whatever is asked for: without it the fence
        // would be 0.
        let before = before.min(self.newest(lane)?);
        if before == 0 {
            return Ok(());
        }
        let purge = self.stream.purge().filter(self.subject(lane));
        let purged = async { purge.sequence(before).await };
        let purged = self.runtime.block_on(purged);
        purged.map_err(|error| LogError::new("trimmed", error))?;
        Ok(())
    }
}

/// What a refusal says. There are two for the fence, and the client knows one:
/// the other says that a record of the lane is in process, which a lone writer
/// is told, too.
pub(super) fn is_overtaken(error: &PublishError) -> bool {
    let refused = [
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE,
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT,
    ];
    code(error).is_some_and(|it| refused.contains(&it))
}

/// The broker's own number of an error.
fn code(error: &dyn Error) -> Option<ErrorCode> {
    let cause = error.source()?.downcast_ref::<jetstream::Error>();
    cause.map(jetstream::Error::error_code)
}

fn is_no_message(error: &RawMessageError) -> bool {
    error.kind() == RawMessageErrorKind::NoMessageFound
}

fn is_no_stream(error: &RawMessageError) -> bool {
    let RawMessageErrorKind::JetStream(cause) = error.kind() else {
        return false;
    };
    cause.error_code() == ErrorCode::STREAM_NOT_FOUND
}
