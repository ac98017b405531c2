//! TLS, and that nothing which bounds a connection is weaker under it.

use crate::pki::Authority;
use crate::server::{Server, Setup};
use cuckood::client::remote::{Credentials, Remote, RemoteError};
use cuckood::server::{ClientCertPolicy, Tls, TlsFiles};
use reqwest::{Method, StatusCode};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
const PATIENCE: Duration = Duration::from_secs(10);

struct Secured {
    server: Server,
    tls: Arc<Tls>,
}

async fn secured(files: TlsFiles, mut setup: Setup) -> Secured {
    let tls = Arc::new(Tls::open(files).unwrap());
    setup.tls = Some(Arc::clone(&tls));
    let server = Server::with(setup).await;
    Secured { server, tls }
}

fn remote(server: &Server, credentials: &Credentials) -> Remote {
    let url = format!("https://localhost:{}", server.address.port());
    Remote::new(&url, credentials).unwrap()
}

async fn asked(server: &Server, credentials: &Credentials) -> Result<StatusCode, RemoteError> {
    let remote = remote(server, credentials);
    let request = remote.request(Method::GET, &["filters"]).timeout(PATIENCE);
    Ok(remote.send(request).await?.status)
}

/// A connection on which TLS is spoken and nothing was asked yet.
async fn connected(server: &Server, authority: &Authority) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(authority.path("ca.pem")).unwrap();
    roots.add(ca).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

/// Reads until the server has closed the connection, however it does.
async fn rest(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    // Whether it says goodbye or not.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("it stays open");
    String::from_utf8(bytes).unwrap()
}

async fn until_nobody_is_connected(server: &Server) {
    let deadline = Instant::now() + PATIENCE;
    while server.metrics.http_connections.get() > 0 {
        assert!(Instant::now() < deadline, "a connection stays open");
        sleep(Duration::from_millis(20)).await;
    }
}

fn impatient() -> Setup {
    let mut setup = Setup::default();
    setup.server.header_timeout = Duration::from_millis(200);
    setup.server.idle_timeout = Duration::from_secs(8);
    setup.server.write_timeout = Duration::from_millis(300);
    setup
}

#[tokio::test]
async fn who_believes_the_authority_is_answered_and_others_hang_up() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let Secured { server, .. } = secured(authority.server(), Setup::default()).await;
    assert_eq!(asked(&server, &authority.believer()).await.unwrap(), 200);
    let refused = asked(&server, &stranger.believer()).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    // Who speaks no TLS is not answered.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(LIVEZ).await.unwrap();
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .unwrap();
    assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
    assert_eq!(server.metrics.tls_handshake_failures.get(), 2);
}

#[tokio::test]
async fn where_operations_are_backups_ask_for_a_certificate_and_probes_do_not() {
    let (servers, callers) = (Authority::new(), Authority::new());
    let mut files = servers.server();
    files.client_authorities = Some(callers.path("ca.pem"));
    let tls = Tls::open_for(files.clone(), ClientCertPolicy::OptionalForScrapers).unwrap();
    let setup = Setup {
        has_operations: true,
        operations_tls: Some(Arc::new(tls)),
        ..Setup::default()
    };
    let Secured { server, .. } = secured(files, setup).await;
    let url = format!("https://localhost:{}", server.operations.unwrap().port());
    let ask = async |credentials: &Credentials, path: &[&str]| {
        let remote = Remote::new(&url, credentials).unwrap();
        let request = remote.request(Method::GET, path).timeout(PATIENCE);
        let answer = remote.send(request).await;
        answer.map(|answer| {
            let text = String::from_utf8(answer.body).unwrap();
            (answer.status.as_u16(), text)
        })
    };
    let ca = servers.path("ca.pem");
    let (stranger, caller) = (servers.believer(), callers.client(&ca));
    for path in [&["livez"][..], &["readyz"], &["metrics"]] {
        assert_eq!(ask(&stranger, path).await.unwrap().0, 200, "{path:?}");
        assert_eq!(ask(&caller, path).await.unwrap().0, 200, "{path:?}");
    }
    for path in [&["admin", "backups"][..], &["admin", "backups", "x"]] {
        let (status, text) = ask(&stranger, path).await.unwrap();
        assert_eq!(status, 403);
        assert!(text.contains("\"certificate_missing\""), "{text}");
    }
    // It gets as far as it can without a directory for them.
    let (status, text) = ask(&caller, &["admin", "backups"]).await.unwrap();
    assert_eq!(status, 403);
    assert!(text.contains("\"backups_off\""), "{text}");
    // A certificate of somebody else is worse than none.
    assert!(ask(&servers.client(&ca), &["livez"]).await.is_err());
}

#[tokio::test]
async fn callers_show_certificates_where_that_is_asked_for() {
    let (servers, callers) = (Authority::new(), Authority::new());
    let mut files = servers.server();
    files.client_authorities = Some(callers.path("ca.pem"));
    let Secured { server, .. } = secured(files, Setup::default()).await;
    let ca = servers.path("ca.pem");
    assert_eq!(asked(&server, &callers.client(&ca)).await.unwrap(), 200);
    for wrong in [servers.believer(), servers.client(&ca)] {
        assert!(asked(&server, &wrong).await.is_err());
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections() {
    let (one, two) = (Authority::new(), Authority::new());
    let files = one.server();
    let Secured { server, tls } = secured(files.clone(), Setup::default()).await;
    let mut open = connected(&server, &one).await;
    two.sign("server");
    // Half of the change, and nonsense: what was there stays.
    fs::copy(two.path("server.pem"), &files.certificate).unwrap();
    assert!(tls.reload().is_err());
    assert_eq!(asked(&server, &one.believer()).await.unwrap(), 200);
    fs::write(&files.key, "no key").unwrap();
    assert!(tls.reload().is_err());
    fs::copy(two.path("server.key"), &files.key).unwrap();
    tls.reload().unwrap();
    assert_eq!(asked(&server, &two.believer()).await.unwrap(), 200);
    assert!(asked(&server, &one.believer()).await.is_err());
    open.write_all(LIVEZ).await.unwrap();
    let mut begin = [0; 12];
    open.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[test]
fn files_that_can_not_be_used_are_told() {
    let authority = Authority::new();
    let good = authority.server();
    fs::write(authority.path("empty.pem"), "").unwrap();
    authority.sign("other");
    for (files, words) in [
        (
            TlsFiles {
                certificate: authority.path("none.pem"),
                ..good.clone()
            },
            "none.pem can't be read",
        ),
        (
            TlsFiles {
                certificate: authority.path("empty.pem"),
                ..good.clone()
            },
            "holds no certificate",
        ),
        (
            TlsFiles {
                key: authority.path("server.pem"),
                ..good.clone()
            },
            "server.pem can't be read",
        ),
        (
            TlsFiles {
                key: authority.path("other.key"),
                ..good.clone()
            },
            "can't be used with its key",
        ),
        (
            TlsFiles {
                client_authorities: Some(authority.path("empty.pem")),
                ..good.clone()
            },
            "empty.pem holds no certificate",
        ),
    ] {
        let error = Tls::open(files).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_ended() {
    let authority = Authority::new();
    let Secured { server, .. } = secured(authority.server(), impatient()).await;
    let started = Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    // The head of a record, and never the rest of it.
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    assert_eq!(rest(&mut half).await, "");
    assert!(started.elapsed() < Duration::from_secs(4));
    assert_eq!(server.metrics.tls_handshake_failures.get(), 2);
    until_nobody_is_connected(&server).await;
}

#[tokio::test]
async fn a_head_that_never_ends_is_answered_408_under_tls_too() {
    let authority = Authority::new();
    let Secured { server, .. } = secured(authority.server(), impatient()).await;
    let mut stream = connected(&server, &authority).await;
    stream.write_all(LIVEZ).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
    // Silence between requests is another matter.
    sleep(Duration::from_millis(600)).await;
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nhost: lo")
        .await
        .unwrap();
    let started = Instant::now();
    let text = rest(&mut stream).await;
    assert!(
        text.starts_with("HTTP/1.1 408 ") && text.contains("head_timeout"),
        "{text}"
    );
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_record_that_drips_is_a_head_that_never_ends() {
    let authority = Authority::new();
    let Secured { server, .. } = secured(authority.server(), impatient()).await;
    let mut stream = connected(&server, &authority).await;
    stream.write_all(LIVEZ).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
    // A record of 16 KiB of which a byte comes now and then: nothing that
    // could be deciphered, and yet no silence.
    let (raw, _) = stream.get_mut();
    raw.write_all(&[23, 3, 3, 0x40, 0]).await.unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(4) {
        if raw.write_all(&[0]).await.is_err() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "it is still open"
    );
    until_nobody_is_connected(&server).await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off_under_tls_too() {
    let authority = Authority::new();
    let Secured { server, .. } = secured(authority.server(), impatient()).await;
    let mut stream = connected(&server, &authority).await;
    // More than the buffers of both sides hold.
    let ask = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    stream.write_all(&ask).await.unwrap();
    until_nobody_is_connected(&server).await;
}

#[tokio::test]
async fn connections_over_the_limit_wait_under_tls_too() {
    let authority = Authority::new();
    let mut setup = Setup::default();
    setup.server.max_connections = 1;
    let Secured { server, .. } = secured(authority.server(), setup).await;
    let first = connected(&server, &authority).await;
    let second = timeout(Duration::from_millis(300), connected(&server, &authority)).await;
    assert!(second.is_err(), "it was served beside the first");
    drop(first);
    timeout(PATIENCE, connected(&server, &authority))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_under_tls_too() {
    let authority = Authority::new();
    let mut setup = Setup::default();
    setup.server.max_connections_per_address = 1;
    let Secured { server, .. } = secured(authority.server(), setup).await;
    let mut first = connected(&server, &authority).await;
    let mut second = connected(&server, &authority).await;
    second.write_all(LIVEZ).await.unwrap();
    let text = rest(&mut second).await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    first.write_all(LIVEZ).await.unwrap();
    let mut status = [0; 12];
    first.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
}
