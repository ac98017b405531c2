//! How a server elsewhere is reached: its address, the API key that it wants,
//! the certificates on both sides. One connection a request: whoever uses this
//! asks now and then, or sends one long stream.
//!
//! Knows HTTP, nothing of what a cuckood means by it.

mod tls;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::Url;

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// Longest answer that is read.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// What a request carries.
pub type Body = BoxBody<Bytes, io::Error>;

/// Something that is not to be seen where settings are printed.
#[derive(Clone)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.to_owned())
    }
}

/// Who we are, and whom we believe.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The API key.
    pub api_key: Option<Secret>,
    /// A file that holds it.
    pub api_key_file: Option<PathBuf>,
    /// Authorities, in PEM, one of which must have signed the server's
    /// certificate; `None`: those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// Our own certificate, in PEM.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is none.
    #[error("{url} is no address of a server: {reason}; write it like http://127.0.0.1:8080")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key or certificate can't be used.
    #[error("{path} can't be used: {reason}")]
    BadFile {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The credentials make no sense.
    #[error("{0}")]
    BadCredentials(&'static str),
    /// Nobody answers there, or no longer.
    #[error("{server} does not answer: {reason}")]
    Unreachable {
        /// Who was asked.
        server: String,
        /// What happened.
        reason: String,
    },
    /// What answers does not speak HTTP.
    #[error("{server} does not answer as a cuckood does")]
    NotUnderstood {
        /// Who was asked.
        server: String,
    },
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Bytes,
}

/// A server elsewhere.
#[derive(Clone)]
pub struct Remote {
    base: Url,
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Whose certificates are believed.
enum Trust<'a> {
    /// That of a server that an authority has signed for.
    Signed(&'a Credentials),
    /// Any: for questions without secrets, to this machine itself.
    Anybody,
}

impl Remote {
    /// A server at this address: `http://…` or `https://…`.
    ///
    /// # Errors
    /// The address is none, or a file can't be used.
    pub fn new(url: &str, credentials: &Credentials) -> Result<Remote, RemoteError> {
        let mut remote = Remote::to(url, &Trust::Signed(credentials))?;
        remote.authorization = authorization(credentials)?;
        Ok(remote)
    }

    /// A server on this very machine, whose certificate is not looked at, since
    /// nothing secret is said to it.
    ///
    /// # Errors
    /// The address is none.
    pub fn on_this_machine(url: &str) -> Result<Remote, RemoteError> {
        Remote::to(url, &Trust::Anybody)
    }

    fn to(url: &str, trust: &Trust<'_>) -> Result<Remote, RemoteError> {
        let bad_url = |reason: String| RemoteError::BadUrl {
            url: url.to_owned(),
            reason,
        };
        let base = Url::parse(url).map_err(|error| bad_url(error.to_string()))?;
        if !["http", "https"].contains(&base.scheme()) {
            return Err(bad_url("only http and https are spoken".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(bad_url(
                "it takes an API key, no user and password".to_owned(),
            ));
        }
        let (Some(host), Some(port)) = (base.host_str(), base.port_or_known_default()) else {
            return Err(bad_url("it names no host".to_owned()));
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let tls = match base.scheme() {
            "https" => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|error| bad_url(error.to_string()))?;
                Some((TlsConnector::from(tls::config(trust)?), name))
            }
            _ => None,
        };
        Ok(Remote {
            base,
            host,
            port,
            authorization: None,
            tls,
        })
    }

    /// An address below the server's own; the parts are encoded.
    pub fn url(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// The server, for those who read errors.
    pub fn name(&self) -> String {
        match self.base.port() {
            Some(port) => format!("{}:{port}", self.base.host_str().unwrap_or_default()),
            None => self.base.host_str().unwrap_or_default().to_owned(),
        }
    }

    /// Asks something.
    ///
    /// # Errors
    /// There is no answer, at least not in time.
    pub async fn ask(
        &self,
        method: Method,
        url: &Url,
        patience: Duration,
    ) -> Result<Answer, RemoteError> {
        let nothing = Empty::new().map_err(|never| match never {}).boxed();
        let asking = self.send(method, url, None, nothing);
        timeout(patience, asking)
            .await
            .unwrap_or_else(|_| Err(self.lost("it takes too long")))
    }

    /// Sends something, however long that takes.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        media_type: Option<&'static str>,
        body: Body,
    ) -> Result<Answer, RemoteError> {
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let is_empty_post = method == Method::POST && media_type.is_none();
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|_| self.lost("its path is none"))?;
        let headers = request.headers_mut();
        let host = HeaderValue::try_from(self.name());
        headers.insert(HOST, host.map_err(|_| self.lost("its name is none"))?);
        if let Some(media_type) = media_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        if is_empty_post {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let stream = timeout(CONNECT, self.connect())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.lost(error))?;
        match (&self.tls, stream) {
            (None, stream) => self.exchange(stream, request).await,
            (Some((connector, name)), stream) => {
                let handshake = connector.connect(name.clone(), stream);
                let stream = timeout(CONNECT, handshake)
                    .await
                    .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                    .map_err(|error| self.lost(error))?;
                self.exchange(stream, request).await
            }
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn exchange<S>(&self, stream: S, request: Request<Body>) -> Result<Answer, RemoteError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let failed = |error: hyper::Error| match error.is_parse() || error.is_incomplete_message() {
            true => RemoteError::NotUnderstood {
                server: self.name(),
            },
            false => self.lost(causes(&error)),
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // Whoever gives up on the answer gives up the connection.
        let _driven = Driven(tokio::spawn(connection).abort_handle());
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
        let body = body
            .collect()
            .await
            .map_err(|error| match error.is::<LengthLimitError>() {
                true => RemoteError::NotUnderstood {
                    server: self.name(),
                },
                false => self.lost(causes(&*error)),
            })?;
        Ok(Answer {
            status,
            body: body.to_bytes(),
        })
    }

    fn lost(&self, reason: impl ToString) -> RemoteError {
        RemoteError::Unreachable {
            server: self.name(),
            reason: reason.to_string(),
        }
    }
}

struct Driven(AbortHandle);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The error and what is behind it: the outermost says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn authorization(credentials: &Credentials) -> Result<Option<HeaderValue>, RemoteError> {
    let key = match (&credentials.api_key, &credentials.api_key_file) {
        (Some(key), None) => key.0.clone(),
        (None, Some(path)) => first_line(path)?,
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(RemoteError::BadCredentials(
                "--api-key and --api-key-file are both given: leave one of them out",
            ));
        }
    };
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
        RemoteError::BadCredentials("the API key has characters that no API key has")
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn first_line(path: &Path) -> Result<String, RemoteError> {
    let bad_file = |reason: String| RemoteError::BadFile {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad_file(error.to_string()))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(bad_file("its first line is empty".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url() {
        let name = |url: &str| Remote::new(url, &Credentials::default()).map(|it| it.name());
        for (url, expected) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("https://filters.example.org/", "filters.example.org"),
            ("http://[::1]:80", "[::1]"),
        ] {
            assert_eq!(name(url).unwrap(), expected);
        }
        for url in [
            "",
            "a",
            "localhost:8080",
            "ftp://a",
            "http://",
            "http://u:p@a",
            "http://a:99999",
        ] {
            assert!(name(url).is_err(), "{url}");
        }
    }

    #[test]
    fn parts_of_a_path_are_encoded() {
        let of = |base: &str| {
            let remote = Remote::new(base, &Credentials::default()).unwrap();
            remote.url(&["filters", "a/b c:d"]).to_string()
        };
        assert_eq!(of("http://a"), "http://a/filters/a%2Fb%20c:d");
        assert_eq!(
            of("http://a/behind/"),
            "http://a/behind/filters/a%2Fb%20c:d"
        );
    }

    #[test]
    fn a_key_is_never_shown() {
        let credentials = Credentials {
            api_key: Some("cuckood_secret".into()),
            ..Credentials::default()
        };
        assert!(!format!("{credentials:?}").contains("secret"));
        let remote = Remote::new("http://a", &credentials).unwrap();
        let header = remote.authorization.unwrap();
        assert_eq!(header.as_bytes(), b"Bearer cuckood_secret");
        assert!(!format!("{header:?}").contains("secret"));
    }

    #[test]
    fn a_key_comes_from_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "cuckood_k\n").unwrap();
        let mut credentials = Credentials {
            api_key_file: Some(path.clone()),
            ..Credentials::default()
        };
        let header = authorization(&credentials).unwrap().unwrap();
        assert_eq!(header.as_bytes(), b"Bearer cuckood_k");
        credentials.api_key = Some("cuckood_l".into());
        assert!(authorization(&credentials).is_err());
        credentials.api_key = None;
        std::fs::write(&path, "\n").unwrap();
        assert!(authorization(&credentials).is_err());
    }
}
