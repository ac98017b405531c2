//! One connection under the clocks that the HTTP library does not keep:
//! how long a request's head may take, how long a connection may idle between
//! requests, how long a client may leave an answer unread. And what the library
//! answers by itself, before there is a request, is held back, so that it can
//! be said in our words.

use crate::server::listen::patience::{Patience, after};
use crate::server::listen::polls::charge_to_task;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What a connection is doing, as far as its clocks are concerned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase(Arc<Now>);

#[derive(Debug, Default)]
struct Now {
    phase: AtomicU8,
    /// Status with which the library refused a head; 0 if it did not.
    refused: AtomicU16,
}

/// Nothing came yet since the connection.
const FRESH: u8 = 0;
/// Nothing came yet since the last answer.
const IDLE: u8 = 1;
/// Part of a request's head came.
const HEAD: u8 = 2;
/// A request is being answered; its own bounds apply.
const BUSY: u8 = 3;

impl Phase {
    /// A request's head is complete.
    pub(crate) fn begin_answer(&self) -> Answering {
        self.set(BUSY);
        Answering(self.clone())
    }

    /// Whether a request's head has begun and is not complete.
    pub(crate) fn in_head(&self) -> bool {
        self.get() == HEAD
    }

    /// The status with which the library refused a head, if it did. Its own
    /// answer was held back.
    pub(crate) fn refused(&self) -> Option<u16> {
        Some(self.0.refused.load(Ordering::Acquire)).filter(|&status| status != 0)
    }

    fn get(&self) -> u8 {
        self.0.phase.load(Ordering::Acquire)
    }

    fn set(&self, phase: u8) {
        self.0.phase.store(phase, Ordering::Release);
    }

    /// Holds back what the library itself answers to a head.
    fn holds_back(&self, bytes: &[u8]) -> bool {
        // Answers are mostly none of these, and are taken no further apart.
        if self.get() == BUSY || bytes.get(9) != Some(&b'4') {
            return false;
        }
        let Some(status) = bodiless_refusal(bytes) else {
            return false;
        };
        self.0.refused.store(status, Ordering::Release);
        true
    }
}

/// The status of an answer that refuses and says no more. Ours are told from
/// it by their request id.
fn bodiless_refusal(bytes: &[u8]) -> Option<u16> {
    /// Of the library's own answers none is longer.
    const LONGEST: usize = 256;
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(LONGEST))?).ok()?;
    let status = text.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let is_refusal = (400..500).contains(&status) && text.ends_with("\r\n\r\n");
    (is_refusal && !text.contains("\r\nx-request-id:")).then_some(status)
}

/// Lives while a request is answered, its answer's body included.
pub(crate) struct Answering(Phase);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.set(IDLE);
        // Whoever asks next may be somebody else.
        charge_to_task();
    }
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For a request's head, from its first byte, and from the connection to the
    /// first byte.
    pub(crate) head: Duration,
    /// Between an answer and the next request.
    pub(crate) idle: Duration,
    /// For the client to take more of an answer.
    pub(crate) write: Duration,
    /// Bytes of an answer a second that it must take on average, while it is
    /// waited for; 0: any.
    pub(crate) write_bytes_per_second: u64,
}

/// Whether bytes came that are not handed on yet: with TLS a part of a record
/// is nothing to read, and yet the client has begun to say something.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadProbe(Arc<AtomicBool>);

impl ReadProbe {
    /// Says that bytes came, if any did.
    pub(crate) fn mark(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Forgets what came; says whether there was anything.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// A stream that fails with [`io::ErrorKind::TimedOut`] when its client
/// is slower than it may be.
pub(crate) struct TimedStream<S> {
    stream: S,
    timeouts: Timeouts,
    phase: Phase,
    /// What came below the stream; never anything where there is nothing below.
    probe: ReadProbe,
    /// The clock of waiting for the client, once there is one, and the phase
    /// that it was set for. It is set anew and not made anew: that is cheap as
    /// long as it only runs on for longer.
    clock: Option<Pin<Box<Sleep>>>,
    timed: Option<u8>,
    /// The clock of an answer that is not read on, and since when that is so.
    writing: Option<(Pin<Box<Sleep>>, Instant)>,
    patience: Patience,
}

impl<S> TimedStream<S> {
    pub(crate) fn new(stream: S, timeouts: Timeouts, phase: Phase, probe: ReadProbe) -> Self {
        TimedStream {
            stream,
            timeouts,
            phase,
            probe,
            clock: None,
            timed: None,
            writing: None,
            patience: Patience::new(timeouts.write, timeouts.write_bytes_per_second),
        }
    }

    /// The stream without its clocks.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// The first bytes after silence begin a head.
    fn begin_head(&mut self) {
        if self.writing.is_none() && [FRESH, IDLE].contains(&self.phase.get()) {
            // It is another head than the one that was timed before.
            self.timed = None;
            self.phase.set(HEAD);
        }
    }

    /// The next silence is another one. What is written ends one, too, also of a client
    /// that sent several requests at once and so has said nothing since.
    fn end_silence(&mut self) {
        if self.timed == Some(IDLE) {
            self.timed = None;
        }
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let phase = self.phase.get();
        let time = match phase {
            IDLE if self.writing.is_none() => self.timeouts.idle,
            FRESH | HEAD if self.writing.is_none() => self.timeouts.head,
            // While the client has an answer to read, the clock of writes runs alone.
            _ => {
                self.timed = None;
                return Poll::Pending;
            }
        };
        let is_set = self.timed.replace(phase) == Some(phase);
        let clock = match &mut self.clock {
            Some(clock) => {
                if !is_set {
                    clock.as_mut().reset(after(time));
                }
                clock
            }
            none => none.insert(Box::pin(sleep(time))),
        };
        clock.as_mut().poll(cx)
    }

    /// Hands on the outcome of a write, or that the client took too long.
    fn poll_written<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes_of: impl Fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(outcome) = &written {
            let bytes = outcome.as_ref().map_or(0, bytes_of);
            let waited = self.writing.take().map(|(_, since)| since.elapsed());
            self.patience.spend(waited.unwrap_or_default(), bytes);
            return written;
        }
        let left = self.patience.left();
        let clock = || (Box::pin(sleep(left)), Instant::now());
        let (clock, _) = self.writing.get_or_insert_with(clock);
        ready!(clock.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(outcome) => {
                this.probe.take();
                if buffer.filled().len() > before {
                    this.end_silence();
                    this.begin_head();
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                if this.probe.take() {
                    this.begin_head();
                }
                ready!(this.poll_silence(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.phase.holds_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        this.end_silence();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.poll_written(cx, written, |&bytes| bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(bytes) = slices.iter().find(|slice| !slice.is_empty())
            && this.phase.holds_back(bytes)
        {
            return Poll::Ready(Ok(bytes.len()));
        }
        this.end_silence();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.poll_written(cx, written, |&bytes| bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With TLS this is where most is written.
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        ready!(this.poll_written(cx, flushed, |()| 0))?;
        // The answer is out. The library may have asked for the next request
        // while it was made, and may not ask again until something comes.
        if this.phase.get() == IDLE && this.poll_silence(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The answer is still to come.
        if this.phase.refused().is_some() {
            return Poll::Ready(Ok(()));
        }
        let shut = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.poll_written(cx, shut, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn each_answer_begins_a_new_silence() {
        let timeouts = Timeouts {
            head: Duration::from_secs(10),
            idle: Duration::from_millis(200),
            write: Duration::from_secs(10),
            write_bytes_per_second: 0,
        };
        let (ours, _client) = tokio::io::duplex(1024);
        let phase = Phase::default();
        let mut stream = TimedStream::new(ours, timeouts, phase.clone(), ReadProbe::default());
        // As for requests that all came at once: nothing is read in between.
        for _ in 0..4 {
            let answering = phase.begin_answer();
            sleep(Duration::from_millis(120)).await;
            drop(answering);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            stream.flush().await.unwrap();
        }
        let silence = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
    }

    /// Writes much to a client that takes a little every 10 ms, for a while.
    async fn written_to_one_that_trickles(bytes_per_second: u64) -> io::Result<()> {
        let timeouts = Timeouts {
            head: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            write: Duration::from_secs(1),
            write_bytes_per_second: bytes_per_second,
        };
        let (ours, mut client) = tokio::io::duplex(64);
        let mut stream = TimedStream::new(ours, timeouts, Phase::default(), ReadProbe::default());
        let trickling = async {
            loop {
                sleep(Duration::from_millis(10)).await;
                client.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        tokio::select! {
            written = stream.write_all(&[0; 1 << 20]) => written,
            () = trickling => Ok(()),
            () = sleep(Duration::from_secs(5)) => Ok(()),
        }
    }

    #[tokio::test]
    async fn a_client_that_trickles_is_waited_for_as_long_as_one_that_pauses() {
        // It takes 800 bytes a second, and never pauses.
        let (slow, quick, any) = tokio::join!(
            written_to_one_that_trickles(80_000),
            written_to_one_that_trickles(100),
            written_to_one_that_trickles(0),
        );
        assert_eq!(slow.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(quick.is_ok() && any.is_ok());
    }
}
