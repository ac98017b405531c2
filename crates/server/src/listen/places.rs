//! How many connections there may be: in all, and from one address.

use super::strangers::Strangers;
use super::turned::Turned;
use crate::metrics::Metrics;
use crate::share::{Claimant, Kind, Permit, Resource};
use parking_lot::Mutex;
use prometheus::IntCounter;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Of an IPv6 address so many bits name the network of one host: it has all
/// addresses behind them.
const IPV6_HOST_BITS: u32 = 64;

/// So many are told at the same time that there is no place for them.
const TURNED_AT_ONCE: usize = 64;

/// Of the connections that are refused one is logged in so long.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The connections of one listener.
pub struct Places {
    free: Arc<Semaphore>,
    addresses: Resource<IpAddr>,
    per_address: u64,
    /// Where callers have keys, those that have shown none.
    strangers: Option<Arc<Strangers<Held>>>,
    turning: Arc<Semaphore>,
    given_up: IntCounter,
    logged: Mutex<Option<Instant>>,
}

/// A connection that came.
pub enum Accepted {
    /// It has a place.
    Placed(TcpStream, Place),
    /// Its address has as many as it may: it is to be told so.
    Turned(TcpStream, Turned),
}

/// What a connection holds.
struct Held {
    of_all: OwnedSemaphorePermit,
    _of_address: Permit<IpAddr>,
}

/// The place of a connection, as long as this lives.
pub struct Place {
    held: Mutex<Option<Held>>,
    stranger: Option<Stranger>,
}

/// The place of a connection that had shown no key when it came.
struct Stranger {
    among: Arc<Strangers<Held>>,
    number: u64,
    is_known: AtomicBool,
    given_up: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Place {
    /// Whether another connection may get this place.
    pub(crate) fn is_strangers(&self) -> bool {
        let stranger = self.stranger.as_ref();
        stranger.is_some_and(|it| !it.is_known.load(Ordering::Relaxed))
    }

    /// Keeps the place: a key was shown.
    pub fn keep(&self) {
        if let Some(stranger) = &self.stranger
            && !stranger.is_known.swap(true, Ordering::Relaxed)
        {
            *self.held.lock() = stranger.among.take(stranger.number);
        }
    }

    /// Waits until the place is another connection's; for ever, if it is kept.
    pub fn given_up(&self) -> impl Future<Output = ()> + Send + use<> {
        let stranger = self.stranger.as_ref();
        let told = stranger.and_then(|it| it.given_up.lock().take());
        async move {
            let is_given_up = match told {
                Some(told) => told.await.is_ok(),
                None => false,
            };
            if !is_given_up {
                pending().await
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(stranger) = &self.stranger {
            drop(stranger.among.take(stranger.number));
        }
    }
}

impl Places {
    /// So many in all, and so many from one address. Where callers have keys, those
    /// that have shown none give up their places to others.
    pub fn new(all: usize, per_address: usize, has_keys: bool, metrics: &Metrics) -> Places {
        Places {
            free: Arc::new(Semaphore::new(all)),
            addresses: Resource::new("connections", Kind::Lent, u64::MAX, 100, metrics),
            per_address: per_address as u64,
            strangers: has_keys.then(Arc::default),
            turning: Arc::new(Semaphore::new(TURNED_AT_ONCE)),
            given_up: metrics.connections_given_up.clone(),
            logged: Mutex::new(None),
        }
    }

    /// Waits for a free place, or one that a stranger gives up, then for a
    /// connection: a flood waits in the kernel's queue instead of in our memory. One
    /// from an address that has as many as it may is closed at once where many are
    /// being told so.
    ///
    /// # Errors
    /// There is no memory or no descriptor for it.
    pub async fn accept(&self, listener: &TcpListener) -> io::Result<Accepted> {
        let mut of_all = match &self.strangers {
            Some(strangers) if !strangers.is_empty() => {
                Arc::clone(&self.free).try_acquire_owned().ok()
            }
            _ => Some(self.acquire().await?),
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(of_address) = self.of_address(peer.ip()) else {
                        match self.turn_away() {
                            Some(turned) => return Ok(Accepted::Turned(stream, turned)),
                            None => continue,
                        }
                    };
                    let of_all = match of_all.take().or_else(|| self.make_room()) {
                        Some(of_all) => of_all,
                        // The last stranger has shown its key meanwhile, or left.
                        None => self.acquire().await?,
                    };
                    let place = self.place(peer.ip(), of_all, of_address);
                    return Ok(Accepted::Placed(stream, place));
                }
                // The client was gone before we came: no fault of ours.
                Err(error) if is_client_fault(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A place for a connection from there, if there is one now.
    pub fn try_take(&self, address: IpAddr) -> Option<Place> {
        let of_address = self.of_address(address)?;
        let of_all = Arc::clone(&self.free).try_acquire_owned().ok();
        let of_all = of_all.or_else(|| self.make_room())?;
        Some(self.place(address, of_all, of_address))
    }

    /// One more connection that is told that there is no place for it; `None`: it is
    /// closed without a word.
    pub fn turn_away(&self) -> Option<Turned> {
        let one = Arc::clone(&self.turning).try_acquire_owned().ok();
        one.map(Turned)
    }

    async fn acquire(&self) -> io::Result<OwnedSemaphorePermit> {
        let free = Arc::clone(&self.free).acquire_owned();
        free.await.map_err(io::Error::other)
    }

    fn place(
        &self,
        address: IpAddr,
        of_all: OwnedSemaphorePermit,
        of_address: Permit<IpAddr>,
    ) -> Place {
        let held = Held {
            of_all,
            _of_address: of_address,
        };
        let Some(strangers) = &self.strangers else {
            return Place {
                held: Mutex::new(Some(held)),
                stranger: None,
            };
        };
        let (number, given_up) = strangers.add(host_of(address), held);
        Place {
            held: Mutex::new(None),
            stranger: Some(Stranger {
                among: Arc::clone(strangers),
                number,
                is_known: AtomicBool::new(false),
                given_up: Mutex::new(Some(given_up)),
            }),
        }
    }

    /// A place that a stranger gives up.
    fn make_room(&self) -> Option<OwnedSemaphorePermit> {
        let (address, held) = self.strangers.as_ref()?.give_up()?;
        self.given_up.inc();
        if self.may_log(Instant::now()) {
            tracing::warn!(%address, "all connections are taken: those that have shown no key are closed for new ones");
        }
        Some(held.of_all)
    }

    /// Whether something is to be said, once in a while.
    fn may_log(&self, now: Instant) -> bool {
        let mut logged = self.logged.lock();
        let may = logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY);
        if may {
            *logged = Some(now);
        }
        may
    }

    fn of_address(&self, address: IpAddr) -> Option<Permit<IpAddr>> {
        let mut by = Claimant::of(host_of(address), false);
        by.terms.most = Some(self.per_address);
        let taken = self.addresses.try_take(Some(&by), 1).ok();
        if taken.is_none() && self.may_log(Instant::now()) {
            let most = self.per_address;
            tracing::warn!(%address, most, "connections are turned away: their address has as many as it may");
        }
        taken
    }
}

/// What stands for all addresses of a host.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> IPV6_HOST_BITS << IPV6_HOST_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

fn is_client_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_host_count_together() {
        let host = |text: &str| host_of(text.parse().unwrap());
        assert_eq!(host("2001:db8::1"), host("2001:db8::ffff:1:2:3"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
        assert_ne!(host("192.0.2.1"), host("192.0.2.2"));
        assert_eq!(host("192.0.2.1"), host("::ffff:192.0.2.1"));
    }

    #[test]
    fn refusals_are_logged_once_a_minute() {
        let places = Places::new(2, 1, false, &Metrics::new().unwrap());
        let start = Instant::now();
        let logged = [0, 1, 59, 61, 62, 122]
            .map(|second| places.may_log(start + Duration::from_secs(second)));
        assert_eq!(logged, [true, false, false, true, false, true]);
    }
}
