//! A lean client: one thread, many connections, requests made beforehand.
//! What it costs is taken from the same two cores as what it measures, so it
//! does as little as can be done.

use crate::wire::{Wire, WireError};
use mio::event::Event;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Why a round could not be driven.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
    /// The timer of an open round could not be made.
    #[error("no timer: {0}")]
    Timer(#[from] rustix::io::Errno),
    /// What came is no answer, or a refusal.
    #[error(transparent)]
    Answer(#[from] WireError),
    /// The server closed a connection with a question open.
    #[error("the server closed a connection")]
    Closed,
}

/// Some connections, to each server as many as to the next.
pub(crate) struct Client {
    wire: Wire,
    poll: Poll,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    /// The request under way, and how much of it is written.
    request: usize,
    written: usize,
    /// What the request's latency is counted from.
    since: Instant,
    came: Vec<u8>,
    filled: usize,
}

/// How a round went.
pub(crate) struct Round {
    /// Requests answered.
    pub(crate) requests: usize,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    /// Of each request, unsorted.
    pub(crate) latencies: Vec<Duration>,
}

impl Round {
    /// Requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }

    /// The latency below which `share` of the answers came, in microseconds.
    pub(crate) fn percentile(&mut self, share: f64) -> f64 {
        self.latencies.sort_unstable();
        let at = (self.latencies.len() as f64 * share) as usize;
        let found = self.latencies.get(at.min(self.latencies.len() - 1));
        found.map_or(f64::NAN, |it| it.as_secs_f64() * 1e6)
    }
}

impl Client {
    /// Connects.
    pub(crate) fn new(
        wire: Wire,
        servers: &[SocketAddr],
        count: usize,
    ) -> Result<Client, ClientError> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(count);
        for (token, server) in servers.iter().cycle().take(count).enumerate() {
            let stream = std::net::TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut stream, Token(token), interest)?;
            connections.push(Connection {
                stream,
                request: IDLE,
                written: 0,
                since: Instant::now(),
                came: vec![0; 16 << 10],
                filled: 0,
            });
        }
        Ok(Client {
            wire,
            poll,
            connections,
        })
    }

    /// Sends `total` requests, on each connection the next as soon as the one
    /// before is answered; those given are taken in turn.
    pub(crate) fn closed(
        &mut self,
        requests: &[Vec<u8>],
        total: usize,
    ) -> Result<Round, ClientError> {
        let mut latencies = Vec::with_capacity(total);
        let mut events = Events::with_capacity(1024);
        let started = Instant::now();
        let mut sent = 0;
        for connection in &mut self.connections {
            if sent < total {
                connection.send(requests, sent, Instant::now())?;
                sent += 1;
            }
        }
        while latencies.len() < total {
            wait(&mut self.poll, &mut events)?;
            for event in &events {
                let Some((connection, latency)) = self.hear(event, requests)? else {
                    continue;
                };
                latencies.push(latency);
                if sent < total {
                    connection.send(requests, sent, Instant::now())?;
                    sent += 1;
                }
            }
        }
        Ok(Round {
            requests: total,
            took: started.elapsed(),
            latencies,
        })
    }

    /// Goes on with the connection of an event. Says its latency if an answer is
    /// whole now.
    fn hear(
        &mut self,
        event: &Event,
        requests: &[Vec<u8>],
    ) -> Result<Option<(&mut Connection, Duration)>, ClientError> {
        let Some(connection) = self.connections.get_mut(event.token().0) else {
            return Ok(None);
        };
        if event.is_writable() {
            connection.write(requests)?;
        }
        if event.is_readable() && connection.read(self.wire)? {
            let latency = connection.since.elapsed();
            return Ok(Some((connection, latency)));
        }
        Ok(None)
    }

    /// Sends `total` requests at moments given by a rate, whether or not the
    /// ones before are answered. A latency counts from the moment at which the
    /// request was due, so a server that falls behind can't hide it.
    pub(crate) fn open(
        &mut self,
        requests: &[Vec<u8>],
        rate: f64,
        total: usize,
    ) -> Result<Round, ClientError> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        let raw = timer.as_raw_fd();
        let token = Token(self.connections.len());
        self.poll
            .registry()
            .register(&mut SourceFd(&raw), token, Interest::READABLE)?;
        let outcome = self.open_with(&timer, requests, rate, total);
        self.poll.registry().deregister(&mut SourceFd(&raw))?;
        outcome
    }

    fn open_with(
        &mut self,
        timer: &OwnedFd,
        requests: &[Vec<u8>],
        rate: f64,
        total: usize,
    ) -> Result<Round, ClientError> {
        let mut latencies = Vec::with_capacity(total);
        let mut events = Events::with_capacity(1024);
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let started = Instant::now();
        let due = |number: usize| started + Duration::from_secs_f64(number as f64 / rate);
        let mut sent = 0;
        while latencies.len() < total {
            while sent < total && due(sent) <= Instant::now() {
                let Some(free) = idle.pop_front() else { break };
                if let Some(connection) = self.connections.get_mut(free) {
                    connection.send(requests, sent, due(sent))?;
                }
                sent += 1;
            }
            if sent < total && !idle.is_empty() {
                wake_after(timer, due(sent).saturating_duration_since(Instant::now()))?;
            }
            wait(&mut self.poll, &mut events)?;
            for event in &events {
                if let Some((_, latency)) = self.hear(event, requests)? {
                    latencies.push(latency);
                    idle.push_back(event.token().0);
                }
            }
        }
        Ok(Round {
            requests: total,
            took: started.elapsed(),
            latencies,
        })
    }
}

fn wake_after(timer: &OwnedFd, pause: Duration) -> Result<(), ClientError> {
    let at_once = Duration::from_nanos(1);
    let pause = pause.max(at_once);
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let once = Itimerspec {
        it_interval: none,
        it_value: Timespec {
            tv_sec: pause.as_secs() as i64,
            tv_nsec: pause.subsec_nanos().into(),
        },
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}

/// No request is under way.
const IDLE: usize = usize::MAX;

/// Waits for something to happen. That the process was stopped for a while and
/// goes on is nothing.
fn wait(poll: &mut Poll, events: &mut Events) -> std::io::Result<()> {
    loop {
        match poll.poll(events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

impl Connection {
    fn send(
        &mut self,
        requests: &[Vec<u8>],
        number: usize,
        since: Instant,
    ) -> Result<(), ClientError> {
        self.request = number % requests.len();
        self.written = 0;
        self.filled = 0;
        self.since = since;
        self.write(requests)
    }

    fn write(&mut self, requests: &[Vec<u8>]) -> Result<(), ClientError> {
        let Some(request) = requests.get(self.request) else {
            return Ok(());
        };
        while let Some(rest) = request.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the answer is there.
    fn read(&mut self, wire: Wire) -> Result<bool, ClientError> {
        loop {
            if self.filled == self.came.len() {
                self.came.resize(2 * self.filled, 0);
            }
            let room = self.came.get_mut(self.filled..).unwrap_or_default();
            let space = room.len();
            let count = match self.stream.read(room) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            self.filled += count;
            let came = self.came.get(..self.filled).unwrap_or_default();
            // What did not fill the buffer is all there is for now.
            let is_drained = count < space;
            if self.request != IDLE && wire.is_whole(came)? {
                self.request = IDLE;
                return Ok(true);
            }
            if is_drained {
                return Ok(false);
            }
        }
    }
}
