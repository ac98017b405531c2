//! Two listeners: one for callers, one for those who run the server.

use crate::server::{Answer, Server, Setup};
use cuckood::access::keys::ApiKeys;
use cuckood::access::{Scope, file};
use reqwest::{Client, Method};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

struct Both {
    server: Server,
    client: Client,
    key: String,
}

impl Both {
    /// With keys; the one that is known may do everything.
    async fn start() -> Both {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let name = "root".parse().unwrap();
        let key = file::add(&path, file::NewKey::new(name, Scope::Admin), UNIX_EPOCH).unwrap();
        let server = Server::with(Setup {
            keys: Some(Arc::new(ApiKeys::open(&path, None).unwrap())),
            has_operations: true,
            ..Setup::default()
        })
        .await;
        Both {
            server,
            client: Client::new(),
            key: key.as_str().to_owned(),
        }
    }

    async fn operations(&self, method: Method, path: &str, key: Option<&str>) -> Answer {
        let address = self.server.operations.unwrap();
        let mut request = self
            .client
            .request(method, format!("http://{address}{path}"));
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        Answer::of(request).await
    }
}

#[tokio::test]
async fn metrics_need_a_key_unless_they_are_asked_for_where_operations_are() {
    let both = Both::start().await;
    both.server
        .get("/metrics")
        .await
        .problem(401, "api_key_missing");
    let scraped = both.operations(Method::GET, "/metrics", None).await;
    assert_eq!(scraped.status, 200);
    assert!(scraped.text().contains("cuckood_api_keys"));
    for path in ["/livez", "/readyz", "/openapi.json"] {
        assert_eq!(both.server.get(path).await.status, 200, "{path}");
        assert_eq!(
            both.operations(Method::GET, path, None).await.status,
            200,
            "{path}"
        );
    }
}

#[tokio::test]
async fn backups_are_served_where_operations_are_and_nowhere_else() {
    let both = Both::start().await;
    let key = Some(both.key.as_str());
    let request = both.server.request(Method::GET, "/admin/backups");
    Answer::of(request.bearer_auth(&both.key))
        .await
        .problem(404, "unknown_route");
    both.operations(Method::GET, "/admin/backups", None)
        .await
        .problem(401, "api_key_missing");
    // It gets as far as it can without a directory for them.
    both.operations(Method::GET, "/admin/backups", key)
        .await
        .problem(403, "backups_off");
}

#[tokio::test]
async fn filters_are_not_served_where_operations_are() {
    let both = Both::start().await;
    let key = Some(both.key.as_str());
    for path in [
        "/filters",
        "/filters/a",
        "/filters/a/exists?item=x",
        "/docs/",
    ] {
        both.operations(Method::GET, path, key)
            .await
            .problem(404, "unknown_route");
    }
    let request = both.server.request(Method::GET, "/filters");
    assert_eq!(Answer::of(request.bearer_auth(&both.key)).await.status, 200);
}

#[tokio::test]
async fn operations_are_served_while_callers_have_taken_every_connection() {
    let mut setup = Setup::default();
    setup.server.max_connections = 1;
    setup.has_operations = true;
    let server = Server::with(setup).await;
    let _taken = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let url = format!("http://{}/metrics", server.operations.unwrap());
    assert_eq!(Client::new().get(url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn both_listeners_are_closed_by_a_stop() {
    let setup = Setup {
        has_operations: true,
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let (filters, operations) = (server.address, server.operations.unwrap());
    assert_eq!(server.stop().await, 0);
    for address in [filters, operations] {
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    }
}

#[tokio::test]
async fn one_address_leaves_half_of_the_places_for_operations_to_others() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let both = Both::start().await;
    let address = both.server.operations.unwrap();
    let probe = async |from: &str| {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(format!("{from}:0").parse().unwrap())?;
        let mut stream = socket.connect(address).await?;
        let livez = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(livez).await?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await?;
        std::io::Result::Ok((status == *b"HTTP/1.1 200").then_some(stream))
    };
    let mut quiet = Vec::new();
    for _ in 0..64 {
        quiet.extend(probe("127.0.0.2").await.ok().flatten());
    }
    assert_eq!(quiet.len(), 32);
    let other = tokio::time::timeout(std::time::Duration::from_secs(10), probe("127.0.0.3"));
    let other = other.await.expect("a free place");
    assert!(other.unwrap().is_some());
}
