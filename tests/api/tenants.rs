//! A server with two keys, one of which takes all that it can; and requests as
//! they lie on the wire, so that some of them stay unfinished.

use crate::no_shares;
use crate::server::{Server, Setup};
use cuckood::access::keys::ApiKeys;
use cuckood::access::token::Token;
use cuckood::access::{Scope, file};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// When a request that was not refused counts as one that holds something.
const HOLDS: Duration = Duration::from_millis(400);

/// Within which time the other key is served; a busy machine needs some of it.
pub(crate) const SERVED: Duration = Duration::from_secs(3);

/// A server with two keys for different people.
pub(crate) struct Tenants {
    pub(crate) server: Server,
    pub(crate) greedy: Token,
    pub(crate) modest: Token,
    _folder: TempDir,
}

impl Tenants {
    pub(crate) async fn with(mut setup: Setup) -> Tenants {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let [greedy, modest] = ["greedy", "modest"].map(|name| {
            let name = name.parse().unwrap();
            file::add(&path, file::NewKey::new(name, Scope::Admin), UNIX_EPOCH).unwrap()
        });
        setup.keys = Some(Arc::new(ApiKeys::open(&path, None).unwrap()));
        Tenants {
            server: Server::with(shared(setup)).await,
            greedy,
            modest,
            _folder: folder,
        }
    }

    /// Sends a request that is not to be answered, and the answer if it is
    /// refused.
    pub(crate) async fn ask(
        &self,
        key: &Token,
        request: &Raw,
        resource: &str,
    ) -> Result<Reply, TcpStream> {
        let mut stream = send(&self.server, key, request).await;
        let started = Instant::now();
        while started.elapsed() < HOLDS {
            if self.refusals(resource, "share") > 0 {
                // The rest of its body is waited for.
                return Ok(Reply::read(&mut stream).await);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Err(stream)
    }

    pub(crate) async fn answered(&self, key: &Token, request: &Raw) -> Reply {
        let mut stream = send(&self.server, key, request).await;
        let reply = timeout(Duration::from_secs(60), Reply::read(&mut stream)).await;
        reply.expect("an answer in time")
    }

    pub(crate) fn refusals(&self, resource: &str, by: &str) -> u64 {
        let family = &self.server.metrics.resource_refusals;
        family.with_label_values(&[resource, by]).get()
    }
}

/// A request, of which maybe not all is sent.
pub(crate) struct Raw {
    line: String,
    media_type: &'static str,
    length: usize,
    sent: Vec<u8>,
}

impl Raw {
    pub(crate) fn whole(
        line: &str,
        media_type: &'static str,
        body: &(impl AsRef<[u8]> + ?Sized),
    ) -> Raw {
        let body = body.as_ref();
        Raw::part(line, media_type, body, body.len())
    }

    pub(crate) fn part(
        line: &str,
        media_type: &'static str,
        sent: &(impl AsRef<[u8]> + ?Sized),
        length: usize,
    ) -> Raw {
        Raw {
            line: line.to_owned(),
            media_type,
            length,
            sent: sent.as_ref().to_owned(),
        }
    }
}

pub(crate) async fn send(server: &Server, key: &Token, request: &Raw) -> TcpStream {
    // A small buffer: what is not read stays with the server.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    let text = format!(
        "{} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
        request.line,
        key.as_str(),
        request.media_type,
        request.length
    );
    let bytes = [text.as_bytes(), &request.sent].concat();
    stream.write_all(&bytes).await.unwrap();
    stream
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    /// As much of it as came with the head.
    pub(crate) body: String,
}

impl Reply {
    pub(crate) async fn read(stream: &mut TcpStream) -> Reply {
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            let read = stream.read_buf(&mut bytes).await.unwrap();
            assert!(read > 0, "closed without an answer");
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let is_problem = head.contains("application/problem+json");
        let body_at = head.len() + 4;
        while is_problem && !bytes[body_at..].ends_with(b"\n") {
            let read = stream.read_buf(&mut bytes).await.unwrap();
            assert!(read > 0, "closed in the middle of an answer");
        }
        let body = String::from_utf8_lossy(&bytes[body_at..]);
        Reply {
            status: head[9..12].parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.into_owned(),
        }
    }

    #[track_caller]
    /// Seconds after which it is to be asked for again.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let (_, seconds) = self.head.split_once("\r\nretry-after: ")?;
        seconds.lines().next()?.parse().ok()
    }

    pub(crate) fn is_refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{} {}", self.head, self.body);
        let problem: Value = serde_json::from_str(self.body.trim()).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(self.retry_after().is_some(), status != 507, "{}", self.head);
    }
}

/// With the share of a key that this run of the tests has.
fn shared(mut setup: Setup) -> Setup {
    if let Some(percent) = no_shares::percent() {
        setup.limits.key_share_percent = percent;
        setup.engine.key_share_percent = percent;
    }
    setup
}

/// With the keys and the store of before.
pub(crate) async fn restarted(tenants: Tenants, setup: Setup) -> Tenants {
    let Tenants {
        server,
        greedy,
        modest,
        _folder,
    } = tenants;
    server.stop().await;
    let keys = ApiKeys::open(&_folder.path().join("keys.json"), None).unwrap();
    let keys = Some(Arc::new(keys));
    Tenants {
        server: Server::with(shared(Setup { keys, ..setup })).await,
        greedy,
        modest,
        _folder,
    }
}

/// A request that makes a filter of slots of 12 bits.
pub(crate) fn create(name: &str, capacity: u64) -> Raw {
    let fields = format!(r#"{{"capacity": {capacity}, "fingerprint_bits": 12}}"#);
    Raw::whole(&format!("PUT /filters/{name}"), "application/json", &fields)
}
