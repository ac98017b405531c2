//! One connection: reads commands, writes replies, and sees that neither takes
//! more time or memory than it may.
//!
//! Nothing is done while replies wait for their client: they are written as a
//! whole before the next command is looked at, once there are many.

use super::clocks::{Clocks, KeyWatch};
use super::protocol::decode::{Bounds, Decoded, Decoder, Dropped};
use super::protocol::malformed::Malformed;
use super::service::{Connected, Refused, Service};
use super::session::Session;
use crate::server::admission::budget::Held;
use crate::server::listen::drain::Draining;
use crate::server::listen::places::Place;
use crate::server::listen::polls::{COPIED_AT_ONCE, give_way};
use crate::server::listen::turned::say_last;
use bytes::BufMut as _;
use prometheus::IntCounter;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{timeout, timeout_at};

/// Bytes of replies that are written before the next command is worked on.
const REPLY_BYTES: usize = 64 << 10;

/// How long replies wait for those behind them. What is sent to a client that is gone
/// tells of that, before all that it asked for is done.
const UNSENT: Duration = Duration::from_millis(20);

/// Bytes that are read, and taken apart, before others have the thread.
const READ_AT_ONCE: usize = 256 << 10;

/// Bytes of a command beyond which they count against the memory of all.
const FREE_BYTES: usize = 128 << 10;

/// What a client may send that has not said who it is: redis' own numbers.
const UNKNOWN_WORDS: usize = 10;
const UNKNOWN_WORD_BYTES: usize = 16 << 10;

/// Time for a client to take the last reply.
const LATE_REPLY: Duration = Duration::from_secs(1);

/// A connection that was accepted.
pub(super) struct Connection {
    pub(super) connected: Connected,
    pub(super) service: Arc<Service>,
    pub(super) clocks: Clocks,
    pub(super) draining: Draining,
}

/// A connection ends without a last reply: its client is gone, or there is nothing to say.
struct Silent;

/// A connection that is spoken on.
struct Speaking<S> {
    stream: S,
    decoder: Decoder,
    session: Session,
    service: Arc<Service>,
    clocks: Clocks,
    draining: Draining,
    /// Memory of the command under way.
    held: Option<Held>,
    /// When it began.
    begun: Option<Instant>,
    /// Waits for the end of the caller's key.
    key: Option<KeyWatch>,
    known: Bounds,
    bytes_in: IntCounter,
    bytes_out: IntCounter,
}

impl Connection {
    /// Serves it to its end.
    pub(super) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin, place: &Place) {
        let limits = &self.service.app.admission.limits;
        let bytes = &self.service.app.metrics.redis_bytes;
        let mut speaking = Speaking {
            known: Bounds::of_known(limits.max_batch_items, limits.max_body_bytes),
            bytes_in: bytes.with_label_values(&["in"]),
            bytes_out: bytes.with_label_values(&["out"]),
            session: Session::new(Arc::clone(&self.service), Arc::clone(&self.connected.info)),
            stream,
            decoder: Decoder::new(),
            service: self.service,
            clocks: self.clocks,
            draining: self.draining.clone(),
            held: None,
            begun: None,
            key: None,
        };
        let mut draining = self.draining;
        let stopped = pin!(draining.begun());
        let peer = self.connected.info.peer;
        if speaking.speak(stopped, peer, place).await.is_ok() {
            // A client that reads nothing must not hold its place by that.
            let _ = timeout(LATE_REPLY, say_last(&mut speaking.stream, &[])).await;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Speaking<S> {
    /// Goes on to the last reply, which is written.
    ///
    /// # Errors
    /// There is none.
    async fn speak(
        &mut self,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
        peer: SocketAddr,
        place: &Place,
    ) -> Result<(), Silent> {
        let mut first = Instant::now() + self.clocks.first;
        let mut was_known = false;
        loop {
            // Its client may send, and read, as quickly as this goes on.
            give_way().await;
            let is_known = self.session.is_known();
            if was_known && !is_known {
                first = Instant::now() + self.clocks.first;
            }
            if is_known && !was_known {
                place.keep();
            }
            was_known = is_known;
            // Who says who it is may send more behind that at once.
            let (bounds, most) = match is_known {
                true => (self.known, usize::MAX),
                false => (self.unknown(), 1),
            };
            match self.decoder.decode(&bounds, most) {
                Decoded::Commands(pipeline) => {
                    // To take a large one apart took long enough.
                    give_way().await;
                    self.begun = None;
                    let (mut next, mut flushed) = (0, Instant::now());
                    while next < pipeline.len() && !self.session.is_over {
                        if self.draining.has_begun() {
                            self.session.is_over = true;
                            break;
                        }
                        if !self.session.look_at_key() {
                            self.session.refuse_ended();
                            break;
                        }
                        next = self.session.go_on(&pipeline, next).await;
                        let is_due = flushed.elapsed() >= UNSENT;
                        if is_due || self.session.replies.len() >= REPLY_BYTES {
                            self.flush().await?;
                            flushed = Instant::now();
                        }
                        give_way().await;
                    }
                    self.decoder.recycle(pipeline);
                    self.held = None;
                }
                Decoded::Dropped(why) => {
                    self.session.refuse_dropped(why);
                    (self.held, self.begun) = (None, None);
                }
                Decoded::Malformed(malformed) => {
                    return self.refuse(malformed, peer).await;
                }
                Decoded::Incomplete => {
                    self.flush().await?;
                    if !self.hold() {
                        // What came of it is forgotten before more is read.
                        continue;
                    }
                    if self.decoder.copied_for_room() > COPIED_AT_ONCE {
                        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new());
                        let held = self.held.take();
                        let growing = tokio::task::spawn_blocking(move || {
                            decoder.room();
                            (decoder, held)
                        });
                        (self.decoder, self.held) = growing.await.map_err(|_| Silent)?;
                    }
                    let has_ended = !self.read(first, &mut stopped).await?;
                    if has_ended && !self.decoder.is_within_command() {
                        // Nobody asked for anything that could be refused.
                        return Err(Silent);
                    }
                    if has_ended {
                        self.session.refuse_ended();
                        self.held = None;
                    }
                }
            }
            if self.session.is_over {
                return self.flush().await;
            }
        }
    }

    fn unknown(&self) -> Bounds {
        Bounds {
            words: UNKNOWN_WORDS,
            word_bytes: UNKNOWN_WORD_BYTES.min(self.known.kept_bytes),
            is_known: false,
            ..self.known
        }
    }

    /// Holds memory for what the command under way takes; `false`: there is none, and it
    /// is dropped.
    fn hold(&mut self) -> bool {
        let bytes = self.decoder.memory();
        if bytes <= FREE_BYTES {
            // One that is dropped may have held more.
            self.held = None;
            return true;
        }
        let bodies = &self.service.app.admission.bodies;
        let bytes = bytes.min(bodies.bound());
        let held = bodies.grow(self.session.holder(), &mut self.held, bytes);
        if held.is_err() {
            self.decoder.drop_command(Dropped::NoMemory);
            self.held = None;
        }
        // Between two commands there is nothing that could be dropped.
        held.is_ok() || self.decoder.memory() > 0
    }

    /// Reads on; `false`: it is over with the key of the caller.
    ///
    /// # Errors
    /// Nothing comes any more, or it took too long.
    async fn read(
        &mut self,
        first: Instant,
        stopped: &mut Pin<&mut impl Future<Output = ()>>,
    ) -> Result<bool, Silent> {
        let until = self.until(first);
        KeyWatch::follow(&mut self.key, self.session.key());
        let mut room = self.decoder.room().limit(READ_AT_ONCE);
        let reading = self.stream.read_buf(&mut room);
        let read = tokio::select! {
            biased;
            read = within(until, reading) => read,
            // Maybe it is still one, with which something else is allowed.
            () = KeyWatch::ended(&mut self.key) => return Ok(self.session.look_at_key()),
            () = stopped => return Err(Silent),
        };
        match read {
            Some(Ok(0) | Err(_)) => Err(Silent),
            Some(Ok(bytes)) => {
                self.decoder.adapt_to_read(bytes);
                self.bytes_in.inc_by(bytes as u64);
                Ok(true)
            }
            None => {
                self.service.count_refused(Refused::Timeout);
                Err(Silent)
            }
        }
    }

    /// Until when it waits for its client; `None`: for ever.
    fn until(&mut self, first: Instant) -> Option<Instant> {
        if !self.session.is_known() {
            return Some(first);
        }
        let whole = self.clocks.whole;
        let next = match self.decoder.is_within_command() {
            true => {
                let now = Instant::now();
                let begun = *self.begun.get_or_insert(now);
                Some((now + self.clocks.within).min(begun + whole))
            }
            false => self.clocks.between.map(|it| Instant::now() + it),
        };
        let transaction = self.session.transaction_since().map(|since| since + whole);
        // Whichever there is, or the earlier one.
        next.into_iter().chain(transaction).min()
    }

    /// Writes the replies that there are.
    ///
    /// # Errors
    /// The client is gone, or reads nothing.
    async fn flush(&mut self) -> Result<(), Silent> {
        let bytes = self.session.replies.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len();
        // Nearly always the kernel takes all at once, and no clock is needed.
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let Ok(written) = timeout(self.clocks.write_of(length), writing).await else {
            self.service.count_refused(Refused::Timeout);
            return Err(Silent);
        };
        written.map_err(|_| Silent)?;
        self.bytes_out.inc_by(length as u64);
        self.session.forget_replies();
        Ok(())
    }

    /// Says what was wrong, unless it was another protocol: then nothing may be
    /// said that a browser could take for an answer.
    async fn refuse(&mut self, malformed: Malformed, peer: SocketAddr) -> Result<(), Silent> {
        if malformed == Malformed::Foreign {
            self.service.count_foreign(peer);
            // What came before was a client of this protocol.
            let _ = self.flush().await;
            return Err(Silent);
        }
        self.service.count_refused(Refused::Protocol);
        let words = format!("ERR Protocol error: {malformed}");
        self.session.replies.error(&words);
        self.flush().await
    }
}

/// Waits no longer than that; `None`: it was too long.
async fn within<T>(until: Option<Instant>, waiting: impl Future<Output = T>) -> Option<T> {
    match until {
        None => Some(waiting.await),
        Some(until) => timeout_at(until.into(), waiting).await.ok(),
    }
}
