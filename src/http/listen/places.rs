//! How many connections there may be: in all, and from one address.

use crate::metrics::Metrics;
use crate::share::{Claimant, Kind, Permit, Resource, Terms};
use parking_lot::Mutex;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Of an IPv6 address so many bits name the network of one host: it has all
/// addresses behind them.
const IPV6_HOST_BITS: u32 = 64;

/// Of the connections that are refused one is logged in so long.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The connections of one listener.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    addresses: Resource<IpAddr>,
    per_address: u64,
    logged: Mutex<Option<Instant>>,
}

/// The place of a connection, as long as this lives.
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: Permit<IpAddr>,
}

impl Places {
    /// So many in all, and so many from one address.
    pub(crate) fn new(all: usize, per_address: usize, metrics: &Metrics) -> Places {
        Places {
            free: Arc::new(Semaphore::new(all)),
            addresses: Resource::new("connections", Kind::Lent, u64::MAX, 100, metrics),
            per_address: per_address as u64,
            logged: Mutex::new(None),
        }
    }

    /// Waits for a free place, then for a connection: a flood waits in the
    /// kernel's queue instead of in our memory. A connection from an address
    /// that has as many as it may is closed at once.
    ///
    /// # Errors
    /// There is no memory or no descriptor for it.
    pub(super) async fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, Place)> {
        let free = Arc::clone(&self.free).acquire_owned();
        let of_all = free.await.map_err(io::Error::other)?;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => match self.of_address(peer.ip()) {
                    Some(of_address) => {
                        let place = Place {
                            _of_all: of_all,
                            _of_address: of_address,
                        };
                        return Ok((stream, place));
                    }
                    None => drop(stream),
                },
                // The client was gone before we came: no fault of ours.
                Err(error) if is_client_fault(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A place for a connection from there, if there is one now.
    pub(crate) fn try_take(&self, address: IpAddr) -> Option<Place> {
        let of_all = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(Place {
            _of_all: of_all,
            _of_address: self.of_address(address)?,
        })
    }

    /// Says who is refused, unless that was said lately; returns whether it did.
    fn log_refusal(&self, address: IpAddr, now: Instant) -> bool {
        let mut logged = self.logged.lock();
        if logged.is_some_and(|last| now.duration_since(last) < LOG_EVERY) {
            return false;
        }
        *logged = Some(now);
        drop(logged);
        let most = self.per_address;
        tracing::warn!(%address, most, "connections are closed: their address has as many as it may");
        true
    }

    fn of_address(&self, address: IpAddr) -> Option<Permit<IpAddr>> {
        let by = Claimant {
            holder: host_of(address),
            terms: Terms {
                has_rivals: false,
                most: Some(self.per_address),
            },
        };
        let taken = self.addresses.try_take(Some(&by), 1).ok();
        if taken.is_none() {
            self.log_refusal(address, Instant::now());
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
        let places = Places::new(2, 1, &Metrics::new().unwrap());
        let address = "192.0.2.1".parse().unwrap();
        let start = Instant::now();
        let logged = [0, 1, 59, 61, 62, 122]
            .map(|second| places.log_refusal(address, start + Duration::from_secs(second)));
        assert_eq!(logged, [true, false, false, true, false, true]);
    }
}
