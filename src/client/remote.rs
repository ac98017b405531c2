//! How a server elsewhere is reached: its address, the API key that it wants,
//! the certificates on both sides.
//!
//! Knows HTTP, nothing of what a cuckood means by it.

use clap::Args;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::tls::{Certificate, Identity};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;

/// The variable that names the server.
pub const SERVER: &str = "CUCKOOD_SERVER";

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// Longest answer that is read.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Text that is not shown where settings are printed.
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

/// What the client shows to the server, and which certificates of servers it
/// accepts. TLS is spoken where the server's URL begins with https.
#[derive(Clone, Debug, Default, Args)]
pub struct Credentials {
    /// API key [default: none]. Prefer the variable or a file: other users of this machine can read command lines.
    #[arg(long, global = true, env = "CUCKOOD_API_KEY", hide_env_values = true)]
    pub api_key: Option<Secret>,

    /// File with the API key in its first line, in place of --api-key [default: none].
    #[arg(long, global = true, env = "CUCKOOD_API_KEY_FILE")]
    pub api_key_file: Option<PathBuf>,

    /// Certificate authorities, in PEM; one of them must have signed the server's certificate [default: those that this system trusts].
    #[arg(long, global = true, env = "CUCKOOD_CA_FILE")]
    pub ca_file: Option<PathBuf>,

    /// Certificate of this client, in PEM, for a server with --tls-client-ca; needs --client-key [default: none].
    #[arg(long, global = true, env = "CUCKOOD_CLIENT_CERT")]
    pub client_cert: Option<PathBuf>,

    /// Private key of --client-cert, in PEM.
    #[arg(long, global = true, env = "CUCKOOD_CLIENT_KEY")]
    pub client_key: Option<PathBuf>,
}

/// Which server is asked, and what it is shown.
#[derive(Clone, Debug, Args)]
pub struct ServerAddress {
    /// Host name or address of the server with its port, or its URL; of several with commas between them the first.
    #[arg(long, global = true, env = SERVER, default_value = "127.0.0.1:8080")]
    pub server: String,

    /// API key and certificates.
    #[command(flatten)]
    pub credentials: Credentials,
}

impl ServerAddress {
    /// The server.
    ///
    /// # Errors
    /// As [`Remote::new`].
    pub fn remote(&self) -> Result<Remote> {
        Remote::named(&self.server, &self.credentials)
    }
}

/// What comes of a request.
type Result<T, E = RemoteError> = std::result::Result<T, E>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is none.
    #[error("{url} is not the address of a server: {reason}; write it like http://127.0.0.1:8080")]
    BadUrl {
        /// The given value.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key or certificate can't be used.
    #[error("{path} can't be used: {reason}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The credentials make no sense.
    #[error("{0}")]
    BadCredentials(&'static str),
    /// The certificates can't be used together, or the system trusts no authority.
    #[error("TLS can't be spoken: {0}; see --ca-file, --client-cert and --client-key")]
    BadCertificates(String),
    /// There is no answer, or no longer.
    #[error("{server} does not answer: {reason}")]
    Unreachable {
        /// Address of the server.
        server: String,
        /// What happened.
        reason: String,
    },
    /// The answer is no.
    #[error("{server} answers {status}: {detail}")]
    Refused {
        /// Address of the server.
        server: String,
        /// HTTP status.
        status: u16,
        /// What programs tell the cause by.
        code: String,
        /// The server's own words.
        detail: String,
    },
    /// What answers at this address does not speak HTTP.
    #[error("{0} does not answer like a cuckood server")]
    NotUnderstood(String),
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// When the server wants to be asked again, if it says so.
    pub retry_after: Option<Duration>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Why it refuses, as far as it says.
    pub fn problem(&self) -> Problem {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The body of a refusal (RFC 9457).
#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// What programs tell the cause by.
    pub code: String,
    /// What people read.
    pub detail: String,
}

impl Default for Problem {
    fn default() -> Problem {
        Problem {
            code: String::new(),
            detail: "it does not say why; is a cuckood server there?".to_owned(),
        }
    }
}

/// A server elsewhere.
#[derive(Clone)]
pub struct Remote {
    base: Url,
    client: Client,
}

impl Remote {
    /// A server at this address: `http://…` or `https://…`.
    ///
    /// # Errors
    /// The address is none, or a file can't be used.
    pub fn new(url: &str, credentials: &Credentials) -> Result<Remote> {
        let base = address(url)?;
        let mut client = client().default_headers(authorization(credentials)?);
        client = match (&credentials.ca_file, base.scheme()) {
            (Some(path), _) => client.tls_certs_only(certificates(path)?),
            (None, "https") => client,
            // Nothing is verified, so a system without authorities is no error.
            (None, _) => client.tls_certs_only([]),
        };
        if let Some(identity) = identity(credentials)? {
            client = client.identity(identity);
        }
        Remote::built(base, client)
    }

    /// A server by its host name or address with its port, or by its URL.
    ///
    /// # Errors
    /// As [`new`](Remote::new).
    pub fn named(server: &str, credentials: &Credentials) -> Result<Remote> {
        // Clients take several pods there.
        let server = server.split(',').next().unwrap_or_default().trim();
        match server.contains("://") {
            true => Remote::new(server, credentials),
            false => Remote::new(&format!("http://{server}"), credentials),
        }
    }

    /// A server on this very machine. Its certificate is not verified, since
    /// nothing secret is sent to it.
    ///
    /// # Errors
    /// The address is none.
    pub fn on_this_machine(url: &str) -> Result<Remote> {
        let client = client().tls_danger_accept_invalid_certs(true);
        Remote::built(address(url)?, client)
    }

    fn built(base: Url, client: ClientBuilder) -> Result<Remote> {
        let client = client.build();
        let client = client.map_err(|error| RemoteError::BadCertificates(cause(&error)))?;
        Ok(Remote { base, client })
    }

    /// The server's address, for messages.
    pub fn name(&self) -> String {
        // A port that was forgotten is seen by the one that is asked.
        let port = self.base.port_or_known_default();
        let host = self.base.host_str().unwrap_or_default();
        port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Says which server is asked, before work that takes its time.
    pub fn announce(&self) {
        let url = self.base.as_str().trim_end_matches('/');
        eprintln!("cuckood: server {url}");
    }

    /// A request for a path below the server's address, whose parts are encoded.
    pub fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        self.client.request(method, url)
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// There is no answer, at least not within the request's own timeout.
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer> {
        self.read(self.begin(request).await?).await
    }

    /// Sends a request and hands out the body of a good answer piece by piece.
    ///
    /// # Errors
    /// There is no answer, it ends early or is no, or a piece can't be taken.
    pub async fn download<E: From<RemoteError>>(
        &self,
        request: RequestBuilder,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut response = self.begin(request).await?;
        if !response.status().is_success() {
            return Ok(self.granted(self.read(response).await?).map(|_| ())?);
        }
        let broken = |error: reqwest::Error| self.unreachable(&error);
        while let Some(piece) = response.chunk().await.map_err(broken)? {
            take(&piece)?;
        }
        Ok(())
    }

    async fn begin(&self, request: RequestBuilder) -> Result<Response> {
        let sent = request.send().await;
        sent.map_err(|error| match is_no_http(&error) {
            true => self.not_understood(),
            false => self.unreachable(&error),
        })
    }

    async fn read(&self, mut response: Response) -> Result<Answer> {
        let broken = |error: reqwest::Error| self.unreachable(&error);
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(self.not_understood());
            }
        }
        Ok(Answer {
            status: response.status(),
            retry_after: retry_after(response.headers()),
            body,
        })
    }

    /// Sends a request and returns the body of a good answer.
    ///
    /// # Errors
    /// There is no answer, or it is no.
    pub async fn ask(&self, request: RequestBuilder) -> Result<Vec<u8>> {
        self.granted(self.send(request).await?)
    }

    /// The body of a good answer.
    ///
    /// # Errors
    /// It is no.
    pub fn granted(&self, answer: Answer) -> Result<Vec<u8>> {
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => {
                let Problem { code, detail } = answer.problem();
                Err(RemoteError::Refused {
                    server: self.name(),
                    status: answer.status.as_u16(),
                    code,
                    detail,
                })
            }
        }
    }

    /// What a good answer says.
    ///
    /// # Errors
    /// It is not a cuckood's.
    pub fn understood<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        serde_json::from_slice(body).map_err(|_| self.not_understood())
    }

    /// The error for an answer that is not a cuckood's.
    pub fn not_understood(&self) -> RemoteError {
        RemoteError::NotUnderstood(self.name())
    }

    fn unreachable(&self, error: &reqwest::Error) -> RemoteError {
        RemoteError::Unreachable {
            server: self.name(),
            reason: match error.is_timeout() {
                true => "it takes too long".to_owned(),
                false => cause(error),
            },
        }
    }
}

/// A text that can be a part of a path by itself: of others a URL keeps nothing.
///
/// # Errors
/// It can't.
pub fn path_part(text: &str) -> Result<String, &'static str> {
    match text {
        "" | "." | ".." => Err("the key of a filter is neither empty nor . nor .."),
        _ => Ok(text.to_owned()),
    }
}

/// Has all clients of this process do their cryptography with *ring*. Without a
/// choice `reqwest` builds none.
pub fn choose_cryptography() {
    // A choice that was made before stays.
    let _ = ring::default_provider().install_default();
}

fn address(url: &str) -> Result<Url> {
    let bad_url = |reason: &str| RemoteError::BadUrl {
        url: url.to_owned(),
        reason: reason.to_owned(),
    };
    let base = Url::parse(url).map_err(|error| bad_url(&error.to_string()))?;
    if !["http", "https"].contains(&base.scheme()) {
        return Err(bad_url("only http and https are spoken"));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(bad_url("it takes an API key, no user and password"));
    }
    Ok(base)
}

fn client() -> ClientBuilder {
    choose_cryptography();
    Client::builder()
        .connect_timeout(CONNECT)
        .redirect(Policy::none())
        .no_proxy()
        // One connection a request: a restart of the server breaks only the
        // requests that it cuts off.
        .pool_max_idle_per_host(0)
}

/// Whether the first bytes that came were no answer in HTTP.
fn is_no_http(error: &reqwest::Error) -> bool {
    sources(error)
        .filter_map(|source| source.downcast_ref::<hyper::Error>())
        .any(|source| source.is_parse() || source.is_incomplete_message())
}

/// The innermost error: those around it only say what was tried.
fn cause(error: &reqwest::Error) -> String {
    sources(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// The error and what is behind it.
pub fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn authorization(credentials: &Credentials) -> Result<HeaderMap> {
    let key = secret(
        credentials.api_key.as_ref(),
        credentials.api_key_file.as_deref(),
        "--api-key and --api-key-file are both given: leave one of them out",
    )?;
    let Some(key) = key else {
        return Ok(HeaderMap::new());
    };
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
        RemoteError::BadCredentials("the API key has characters that no API key has")
    })?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// A secret that is given, or stands in the first line of a file.
///
/// # Errors
/// `both` where both are given; the file can't be used.
pub(super) fn secret(
    given: Option<&Secret>,
    file: Option<&Path>,
    both: &'static str,
) -> Result<Option<String>> {
    match (given, file) {
        (None, None) => Ok(None),
        (Some(given), None) => Ok(Some(given.0.clone())),
        (None, Some(path)) => first_line(path).map(Some),
        (Some(_), Some(_)) => Err(RemoteError::BadCredentials(both)),
    }
}

fn first_line(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|error| bad_file(path, error))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(bad_file(path, "its first line is empty")),
    }
}

/// The certificates in a file, of which there must be one.
///
/// # Errors
/// The file can't be read, or holds none; the path is named.
pub fn certificates(path: &Path) -> Result<Vec<Certificate>> {
    let pem = std::fs::read(path).map_err(|error| bad_file(path, error))?;
    let found =
        Certificate::from_pem_bundle(&pem).map_err(|error| bad_file(path, cause(&error)))?;
    match found.is_empty() {
        true => Err(bad_file(path, "it holds no certificate in PEM")),
        false => Ok(found),
    }
}

/// The client's certificate with its key.
fn identity(credentials: &Credentials) -> Result<Option<Identity>> {
    let (certificate, key) = match (&credentials.client_cert, &credentials.client_key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => {
            return Err(RemoteError::BadCredentials(
                "--client-cert and --client-key belong together: give both",
            ));
        }
    };
    certificates(certificate)?;
    let read = |path: &Path| std::fs::read(path).map_err(|error| bad_file(path, error));
    let pem = [read(key)?, b"\n".to_vec(), read(certificate)?].concat();
    Identity::from_pem(&pem)
        .map(Some)
        .map_err(|error| bad_file(key, cause(&error)))
}

fn bad_file(path: &Path, reason: impl ToString) -> RemoteError {
    RemoteError::BadFile {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
