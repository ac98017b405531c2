//! Sends the chunks of one file, again if need be, until all are committed.

use super::error::LoadError;
use super::options::LoadOptions;
use super::source::Chunk;
use crate::client::patience::say_again;
use crate::client::remote::{Answer, Remote, RemoteError};
use indicatif::ProgressBar;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;

/// Bytes that are kept because the server has not said that they are
/// committed; nothing more is read meanwhile.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// How often the server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Longest time for the answer to that.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request waits for what is to be read; the server waits longer.
/// Then the request is ended, and the next one goes on.
const QUIET: Duration = Duration::from_secs(10);

/// Shortest and longest pause before the next attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// What the server says about an import.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Import {
    pub(super) committed_lines: u64,
    pub(super) added: u64,
    pub(super) exists: u64,
    pub(super) full: u64,
    pub(super) full_reason: Option<String>,
    pub(super) blank_lines: u64,
    pub(super) bad_lines: u64,
    pub(super) first_bad_lines: Vec<BadLine>,
    /// Lines that were committed before the first of them was sent.
    #[serde(skip)]
    pub(super) before: u64,
}

/// A line that the server left out.
#[derive(Debug, Deserialize)]
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) reason: String,
}

/// One file on its way.
pub(super) struct Upload<'a> {
    pub(super) remote: &'a Remote,
    pub(super) import_id: &'a str,
    pub(super) options: &'a LoadOptions,
    /// The file's name in messages.
    pub(super) file: &'a str,
    pub(super) bar: &'a ProgressBar,
}

/// What the server has not said to be committed.
#[derive(Default)]
struct Kept {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
    /// Lines that were read.
    read: u64,
    /// Lines that are committed.
    committed: u64,
    /// The same before anything was sent.
    before: Option<u64>,
}

impl Kept {
    /// Lets go of what is committed.
    fn let_go(&mut self, lines: u64) {
        self.committed = self.committed.max(lines);
        let is_in = |chunk: &mut Arc<Chunk>| chunk.last_line() <= self.committed;
        while let Some(chunk) = self.chunks.pop_front_if(is_in) {
            self.bytes -= chunk.bytes.len();
        }
    }
}

/// How an attempt ended, if it was not refused.
enum Ended {
    /// All is in.
    Done(Import),
    /// All that could be read so far is in.
    Paused,
    /// It may go better the next time; why.
    Broken(String),
}

/// What an answer means, if it is no refusal.
enum Meaning {
    /// How far the import is.
    Import(Import),
    /// The server knows nothing of it.
    Unknown,
    /// Not now; why.
    Later(String),
}

impl Upload<'_> {
    /// Sends everything; returns what the server made of it.
    pub(super) async fn run(
        &self,
        mut lines: Receiver<io::Result<Chunk>>,
    ) -> Result<Import, LoadError> {
        let [shortest, longest] = PAUSES;
        let mut kept = Kept::default();
        let mut pause = shortest;
        let mut broken_since: Option<Instant> = None;
        loop {
            let before = kept.committed;
            let ended = self.attempt(&mut lines, &mut kept).await?;
            if kept.committed > before {
                (pause, broken_since) = (shortest, None);
            }
            let reason = match ended {
                Ended::Done(import) => {
                    let before = kept.before.unwrap_or_default();
                    return Ok(Import { before, ..import });
                }
                Ended::Paused => continue,
                Ended::Broken(reason) => reason,
            };
            let patience = Duration::from_secs(self.options.patience_seconds);
            let is_hidden = self.bar.is_hidden();
            let since = *broken_since.get_or_insert_with(|| {
                if is_hidden && !patience.is_zero() {
                    say_again(&reason, patience);
                }
                Instant::now()
            });
            if since.elapsed() >= patience {
                return Err(LoadError::GaveUp {
                    file: self.file.to_owned(),
                    seconds: patience.as_secs(),
                    reason,
                    committed: kept.committed,
                });
            }
            self.bar
                .set_message(format!("waiting for the server: {reason}"));
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// One request, from the first line that is not committed.
    async fn attempt(
        &self,
        lines: &mut Receiver<io::Result<Chunk>>,
        kept: &mut Kept,
    ) -> Result<Ended, LoadError> {
        if let Some(reason) = self.ask(kept).await? {
            return Ok(Ended::Broken(reason));
        }
        kept.before.get_or_insert(kept.committed);
        let mut again = kept.chunks.clone();
        let mut next = again.pop_front();
        let mut is_read = false;
        while next.is_none() && !is_read {
            next = self.read(lines.recv().await, kept, &mut is_read)?;
        }
        let first_line = next
            .as_ref()
            .map_or(kept.committed + 1, |next| next.first_line);
        let (sender, body) = mpsc::channel(1);
        let mut answer = pin!(self.import(first_line, body));
        let mut sender: Option<Sender<Piece>> = Some(sender);
        let mut ticks = interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_sent = Instant::now();
        loop {
            if next.is_none() {
                next = again.pop_front();
            }
            if next.is_none() && is_read {
                // The end of the body: now the answer comes.
                sender = None;
            }
            let may_read = next.is_none() && kept.bytes < MAX_KEPT_BYTES;
            let mut is_quiet = false;
            tokio::select! {
                answer = &mut answer => return self.answered(answer, kept, is_read),
                chunk = lines.recv(), if may_read && !is_read => {
                    next = self.read(chunk, kept, &mut is_read)?;
                }
                place = place(sender.as_ref()), if next.is_some() && sender.is_some() => {
                    match (place, next.take()) {
                        (Some(place), Some(chunk)) => {
                            place.send(Ok(chunk.bytes.clone()));
                            last_sent = Instant::now();
                        }
                        // The connection is gone; why, the answer says.
                        _ => return self.answered(answer.await, kept, is_read),
                    }
                }
                () = sleep_until(last_sent + QUIET), if next.is_none() && sender.is_some() => {
                    is_quiet = true;
                }
                _ = ticks.tick() => {
                    // Should it break, the request will, too.
                    self.ask(kept).await?;
                }
            }
            if is_quiet {
                sender = None;
            }
        }
    }

    /// Keeps a chunk that was read, unless all of it is committed.
    fn read(
        &self,
        chunk: Option<io::Result<Chunk>>,
        kept: &mut Kept,
        is_read: &mut bool,
    ) -> Result<Option<Arc<Chunk>>, LoadError> {
        let Some(chunk) = chunk else {
            *is_read = true;
            let committed = kept.before.unwrap_or_default();
            return match kept.read < committed {
                false => Ok(None),
                true => Err(LoadError::OtherList {
                    file: self.file.to_owned(),
                    lines: kept.read,
                    committed,
                    import_id: self.import_id.to_owned(),
                }),
            };
        };
        let is_first = kept.committed == 0 && kept.chunks.is_empty();
        let file = || self.file.to_owned();
        let chunk = Arc::new(chunk.map_err(|reason| match is_first {
            true => LoadError::Unreadable {
                file: file(),
                reason,
            },
            false => LoadError::CutShort {
                file: file(),
                reason,
                import_id: self.import_id.to_owned(),
            },
        })?);
        kept.read = chunk.last_line();
        if chunk.last_line() <= kept.committed {
            return Ok(None);
        }
        kept.bytes += chunk.bytes.len();
        kept.chunks.push_back(Arc::clone(&chunk));
        Ok(Some(chunk))
    }

    async fn import(&self, first_line: u64, body: Receiver<Piece>) -> Result<Answer, RemoteError> {
        let media_type = match self.options.ndjson {
            true => "application/x-ndjson",
            false => "text/plain",
        };
        let request = self
            .request(Method::POST, &["import"])
            .query(&[("import_id", self.import_id)])
            .query(&[("from_line", first_line)])
            .query(&[("only_if_absent", self.options.only_if_absent)])
            .header(CONTENT_TYPE, media_type)
            .body(Body::wrap_stream(ReceiverStream::new(body)));
        self.remote.send(request).await
    }

    /// A request for a path below the filter's.
    fn request(&self, method: Method, parts: &[&str]) -> RequestBuilder {
        let filter = ["filters", self.options.filter.as_str()];
        self.remote.request(method, &[&filter, parts].concat())
    }

    /// Asks how far the import is and lets go of what is committed; returns why
    /// there is no answer, if there is none.
    async fn ask(&self, kept: &mut Kept) -> Result<Option<String>, LoadError> {
        let request = self.request(Method::GET, &["imports", self.import_id]);
        let answer = self.remote.send(request.timeout(ASK_TIMEOUT)).await;
        match self.understood(answer)? {
            Meaning::Import(import) => {
                kept.let_go(import.committed_lines);
                self.bar.set_message(format!("{} lines", kept.committed));
                Ok(None)
            }
            Meaning::Unknown => Ok(None),
            Meaning::Later(reason) => Ok(Some(reason)),
        }
    }

    /// What the answer to the import itself means.
    fn answered(
        &self,
        answer: Result<Answer, RemoteError>,
        kept: &mut Kept,
        is_read: bool,
    ) -> Result<Ended, LoadError> {
        Ok(match self.understood(answer)? {
            Meaning::Import(import) => {
                kept.let_go(import.committed_lines);
                match is_read && kept.chunks.is_empty() {
                    true => Ended::Done(import),
                    false => Ended::Paused,
                }
            }
            Meaning::Unknown => Ended::Broken("the import is unknown".to_owned()),
            Meaning::Later(reason) => Ended::Broken(reason),
        })
    }

    fn understood(&self, answer: Result<Answer, RemoteError>) -> Result<Meaning, LoadError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Ok(Meaning::Later(error.to_string())),
        };
        let status = answer.status;
        if status == StatusCode::OK {
            return Ok(match serde_json::from_slice(&answer.body) {
                Ok(import) => Meaning::Import(import),
                Err(_) => Meaning::Later("an answer makes no sense".to_owned()),
            });
        }
        let problem = answer.problem();
        let passes = status.is_server_error()
            || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
        match problem.code.as_str() {
            "import_not_found" => Ok(Meaning::Unknown),
            // What it advises to others would have lines added twice.
            "import_running" => Ok(Meaning::Later(
                "another request of this import is running".to_owned(),
            )),
            _ if passes => Ok(Meaning::Later(format!("{status} {}", problem.detail))),
            _ => Err(LoadError::Refused {
                file: self.file.to_owned(),
                status: status.as_u16(),
                detail: match problem.code.as_str() {
                    "filter_not_found" => {
                        format!("{}; --create capacity=100000 creates it", problem.detail)
                    }
                    _ => problem.detail,
                },
            }),
        }
    }
}

/// What a request's body is made of.
type Piece = io::Result<Vec<u8>>;

/// Waits until the connection takes more; `None` once it is gone.
async fn place(sender: Option<&Sender<Piece>>) -> Option<mpsc::Permit<'_, Piece>> {
    sender?.reserve().await.ok()
}
