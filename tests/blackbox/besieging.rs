//! Clients that are slow on purpose: they send a byte at a time, or nothing, or ask
//! for much and read nothing of it. They come from an address of their own.
//!
//! `CUCKOOD_TEST_SLOW` names those that there are (`Head,Deaf`; default all of
//! them), to find out which of them others notice.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Where they come from: the loopback network has many addresses.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 2], 0);

/// How a client is slow.
#[derive(Clone, Copy, Debug)]
enum Slow {
    /// A byte of a head at a time.
    Head,
    /// A byte of a batch at a time.
    Batch,
    /// A byte of an import at a time.
    Import,
    /// A byte of a dump at a time.
    Restore,
    /// It connects, and that is all.
    Silent,
    /// It asks for much, and reads nothing.
    Deaf,
}

const SLOW: [(Slow, usize); 6] = [
    (Slow::Head, 100),
    (Slow::Batch, 60),
    (Slow::Import, 40),
    (Slow::Restore, 20),
    (Slow::Silent, 60),
    (Slow::Deaf, 20),
];

/// Slow clients of one server, 300 to a hundredth of that.
pub(crate) struct Siege {
    address: SocketAddr,
    /// The API key that they have, and what their filters' keys begin with: one
    /// is called `seen`, and one, that is large, `big`.
    key: String,
    prefix: &'static str,
    clients: Vec<Slow>,
}

impl Siege {
    /// So many hundredths of all of them.
    pub(crate) fn of(port: u16, key: &str, prefix: &'static str, hundredths: usize) -> Siege {
        let wanted = std::env::var("CUCKOOD_TEST_SLOW").ok();
        let is_wanted = |slow: &Slow| match &wanted {
            None => true,
            Some(wanted) => wanted.split(',').any(|name| name == format!("{slow:?}")),
        };
        let kinds = SLOW.into_iter().filter(|(slow, _)| is_wanted(slow));
        Siege {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            key: key.to_owned(),
            prefix,
            clients: kinds
                .flat_map(|(slow, number)| vec![slow; (number * hundredths).div_ceil(100)])
                .collect(),
        }
    }

    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Keeps all of them going until it is told to stop; one whose connection is
    /// closed comes again. Counts connections.
    pub(crate) fn go_on(&self, stop: &AtomicBool, connections: &AtomicU64) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let clients = self.clients.iter().map(|&slow| (slow, None));
        let mut clients: Vec<(Slow, Option<TcpStream>)> = clients.collect();
        while !stop.load(Ordering::Relaxed) {
            for (slow, stream) in &mut clients {
                let alive = stream.as_mut().is_some_and(|stream| {
                    let gone = match slow {
                        Slow::Deaf => false,
                        _ => stream.read(&mut [0; 512]).is_ok(),
                    };
                    !gone && stream.write_all(slow.goes_on()).is_ok()
                });
                if !alive && !stop.load(Ordering::Relaxed) {
                    connections.fetch_add(1, Ordering::Relaxed);
                    *stream = runtime.block_on(self.connect(*slow));
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Connects with a small buffer, so that what is not read stays with the
    /// server.
    async fn connect(&self, slow: Slow) -> Option<TcpStream> {
        let socket = tokio::net::TcpSocket::new_v4().ok()?;
        socket.set_recv_buffer_size(4096).ok()?;
        socket.bind(SocketAddr::from(ADDRESS)).ok()?;
        let connecting = tokio::time::timeout(Duration::from_secs(1), socket.connect(self.address));
        let mut stream = connecting.await.ok()?.ok()?.into_std().ok()?;
        stream.set_nonblocking(true).ok()?;
        stream.write_all(self.begin(slow).as_bytes()).ok()?;
        Some(stream)
    }

    fn begin(&self, slow: Slow) -> String {
        let Siege { prefix, key, .. } = self;
        let line = match slow {
            Slow::Head | Slow::Deaf => format!("GET /filters/{prefix}big/dump"),
            Slow::Silent => return String::new(),
            Slow::Batch => format!("POST /filters/{prefix}seen/exists"),
            Slow::Import => format!("POST /filters/{prefix}seen/import?import_id=slow"),
            Slow::Restore => format!("PUT /filters/{prefix}slow/dump"),
        };
        let rest = match slow {
            Slow::Head => "x: ".to_owned(),
            Slow::Deaf => "\r\n".to_owned(),
            _ => {
                let media_type = match slow {
                    Slow::Restore => "application/octet-stream",
                    _ => "text/plain",
                };
                format!("content-type: {media_type}\r\ncontent-length: 1000000\r\n\r\n")
            }
        };
        format!("{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{rest}")
    }
}

impl Slow {
    fn goes_on(self) -> &'static [u8] {
        match self {
            Slow::Head | Slow::Batch | Slow::Import | Slow::Restore => b"y",
            Slow::Silent | Slow::Deaf => b"",
        }
    }
}
