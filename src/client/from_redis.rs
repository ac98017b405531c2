//! Fetches a filter of RedisBloom from a running Redis and hands it to a
//! server: the walk of `CF.SCANDUMP`, chunk by chunk, neither of them held
//! whole.
//!
//! Redis does not hold still during the walk: what is written to the filter
//! meanwhile may be torn, which the server notices by the counts and refuses.

use super::remote::{Remote, RemoteError, Secret, ServerAddress, path_part, secret};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use redis::{
    Connection, ConnectionInfo, ErrorKind, IntoConnectionInfo as _, RedisError, RedisResult,
};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Method, StatusCode};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;

const SCANDUMP: &str = "application/vnd.redisbloom.scandump";

/// How long Redis may take to connect, and for one chunk.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done first.
const CONNECTING: &str = "connecting";

/// What to fetch, and where to.
#[derive(Clone, Debug, Args)]
pub struct RedisImport {
    /// Address of Redis: redis://USER@HOST:PORT/DATABASE, of which only the host is needed; rediss:// speaks TLS.
    #[arg(long = "url", default_value = "redis://127.0.0.1:6379")]
    pub redis: String,

    /// Password of Redis [default: none]. Prefer the variable or a file: other users of this machine can read command lines.
    #[arg(long, env = "CUCKOOD_REDIS_PASSWORD", hide_env_values = true)]
    pub redis_password: Option<Secret>,

    /// File with the password of Redis in its first line, in place of --redis-password [default: none].
    #[arg(long, env = "CUCKOOD_REDIS_PASSWORD_FILE")]
    pub redis_password_file: Option<PathBuf>,

    /// Key of the filter in Redis.
    #[arg(long)]
    pub key: String,

    /// The server.
    #[command(flatten)]
    pub server: ServerAddress,

    /// Key of the filter to create.
    #[arg(long, value_parser = path_part)]
    pub filter: String,

    /// Replace a filter that exists. With API keys this needs one of the scope admin.
    #[arg(long)]
    pub replace: bool,
}

/// Why nothing was taken in.
#[derive(Debug, thiserror::Error)]
pub enum RedisImportError {
    /// The address of Redis is none. It is not shown: it may hold a password.
    #[error(
        "--url is not the address of a Redis: {0}; write it like redis://USER@127.0.0.1:6379/0, or rediss:// for TLS"
    )]
    BadUrl(#[source] RedisError),
    /// Redis does not answer, or refuses.
    #[error("redis at {redis}: {doing} failed: {source}{advice}")]
    Redis {
        /// Address of Redis, with its port.
        redis: String,
        /// What was asked of it.
        doing: &'static str,
        /// What it said.
        #[source]
        source: RedisError,
        /// What to do about it, behind a semicolon.
        advice: String,
    },
    /// There is a filter of this key where the new one is to be.
    #[error(
        "there is a filter {0} on the server: replace it with --replace, or choose another --filter"
    )]
    Taken(String),
    /// The filter of this key is empty.
    #[error(
        "{0} is empty, and RedisBloom cannot dump an empty filter: create an empty filter instead"
    )]
    Empty(String),
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// Fetches the filter and hands it over; returns how many items it has. Shows a
/// progress bar on a terminal.
///
/// # Errors
/// See [`RedisImportError`]; nothing was changed.
pub async fn import(options: &RedisImport) -> Result<u64, RedisImportError> {
    let remote = options.server.remote()?;
    let walk = options.walk()?;
    remote.announce();
    options.make_room(&remote).await?;
    let (chunks, body) = channel(2);
    let walk = tokio::task::spawn_blocking(move || {
        let walked = walk.run(&chunks);
        if walked.is_err() {
            // Breaks the body off, so that the server takes nothing in. It may
            // have refused it already.
            let _ = chunks.blocking_send(Err(io::Error::other("the walk broke off")));
        }
        walked
    });
    let request = remote
        .request(Method::PUT, &["filters", &options.filter, "dump"])
        .query(&options.replace.then_some([("replace", true)]))
        .header(CONTENT_TYPE, SCANDUMP)
        .body(Body::wrap_stream(ReceiverStream::new(body)));
    let answer = remote.ask(request).await;
    // What Redis said comes before what the server made of it.
    if let Ok(walked) = walk.await {
        walked?;
    }
    let said: Value = serde_json::from_slice(&answer?).unwrap_or_default();
    Ok(said.get("items").and_then(Value::as_u64).unwrap_or(0))
}

/// Where the chunks of the filter go: the body of the request.
type Chunks = Sender<io::Result<Vec<u8>>>;

impl RedisImport {
    /// What there is to fetch.
    ///
    /// # Errors
    /// The address of Redis is none, or its password can't be used.
    fn walk(&self) -> Result<Walk, RedisImportError> {
        let redis = self.redis.as_str().into_connection_info();
        let mut redis = redis.map_err(RedisImportError::BadUrl)?;
        let password = secret(
            self.redis_password.as_ref(),
            self.redis_password_file.as_deref(),
            "--redis-password and --redis-password-file are both given: leave one of them out",
        )?;
        if let Some(password) = password {
            let settings = redis.redis_settings().clone().set_password(password);
            redis = redis.set_redis_settings(settings);
        }
        Ok(Walk {
            redis,
            key: self.key.clone(),
        })
    }

    /// Makes sure that the server may have the filter, before Redis is asked for it.
    async fn make_room(&self, remote: &Remote) -> Result<(), RedisImportError> {
        let asked = remote.request(Method::GET, &["filters", &self.filter]);
        let answer = remote.send(asked).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(()),
            status if status.is_success() && !self.replace => {
                Err(RedisImportError::Taken(self.filter.clone()))
            }
            _ => Ok(remote.granted(answer).map(drop)?),
        }
    }
}

/// A filter in Redis.
struct Walk {
    redis: ConnectionInfo,
    key: String,
}

impl Walk {
    /// Sends every chunk.
    fn run(&self, chunks: &Chunks) -> Result<(), RedisImportError> {
        let mut connection = self
            .connect()
            .map_err(|source| self.failed(CONNECTING, source))?;
        let bar = self.bar(&mut connection)?;
        let mut iterator = 0i64;
        loop {
            let (next, chunk): (i64, Option<Vec<u8>>) = redis::cmd("CF.SCANDUMP")
                .arg(&self.key)
                .arg(iterator)
                .query(&mut connection)
                .map_err(|source| self.failed("CF.SCANDUMP", source))?;
            let Some(chunk) = chunk.filter(|_| next != 0) else {
                break;
            };
            let mut frame = Vec::with_capacity(12 + chunk.len());
            frame.extend_from_slice(&next.to_le_bytes());
            frame.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            frame.extend_from_slice(&chunk);
            if chunks.blocking_send(Ok(frame)).is_err() {
                // The server has made up its mind; it says why.
                return Ok(());
            }
            bar.inc(chunk.len() as u64);
            iterator = next;
        }
        bar.finish_and_clear();
        match iterator {
            0 => Err(RedisImportError::Empty(self.key.clone())),
            _ => Ok(()),
        }
    }

    fn connect(&self) -> RedisResult<Connection> {
        let client = redis::Client::open(self.redis.clone())?;
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// A bar as long as the filter is large. It shows itself on a terminal only.
    fn bar(&self, connection: &mut Connection) -> Result<ProgressBar, RedisImportError> {
        let info: HashMap<String, u64> = redis::cmd("CF.INFO")
            .arg(&self.key)
            .query(connection)
            .map_err(|source| self.failed("CF.INFO", source))?;
        let bar = ProgressBar::new(info.get("Size").copied().unwrap_or_default());
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}") {
            bar.set_style(style);
        }
        Ok(bar)
    }

    fn failed(&self, doing: &'static str, source: RedisError) -> RedisImportError {
        RedisImportError::Redis {
            redis: self.redis.addr().to_string(),
            doing,
            advice: self.advice(doing, &source),
            source,
        }
    }

    /// What to do about an error, behind a semicolon.
    fn advice(&self, doing: &str, error: &RedisError) -> String {
        let (key, detail) = (&self.key, error.detail().unwrap_or_default());
        let is_silent = error.is_timeout() || error.is_connection_dropped();
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH")) => "; give its password in CUCKOOD_REDIS_PASSWORD or with --redis-password-file, and the name of the user in --url".to_owned(),
            (_, Some("WRONGTYPE")) => format!("; {key} is something else than a cuckoo filter (CF.*), and only those can be copied"),
            (_, Some("ERR")) if detail.starts_with("unknown command") => {
                "; this Redis has no RedisBloom: give the address of one that has in --url".to_owned()
            }
            (_, Some("ERR")) if detail == "not found" => format!(
                "; there is no {key} in database {}: see --key, and the number at the end of --url",
                self.redis.redis_settings().db()
            ),
            (ErrorKind::Parse, _) => "; is this a Redis server?".to_owned(),
            _ if is_silent && doing == CONNECTING => {
                "; is this a Redis server, and does it want TLS (rediss://)?".to_owned()
            }
            _ => String::new(),
        }
    }
}
