//! What people do with filters on the command line.
//!
//! | file | what it owns |
//! |---|---|
//! | `options`, `error` | what is asked, and why it failed |
//! | `items` | adding, asking for, counting, deleting and replacing items, in batches |
//! | `batches` | items from arguments or lines, as batches in JSON |
//! | `entries` | items with a value or a row behind them |
//! | `dumps` | a filter into a file and back |
//! | `in_file` | questions that a file answers |
//! | `table` | descriptions as tables; any field that a server has |

mod batches;
mod dumps;
mod entries;
mod error;
mod in_file;
mod items;
mod options;
mod table;

pub use error::FilterError;
pub use items::Verdict;
pub use options::{Columns, Entries, Field, FilterCommand, FilterOptions, Items, Lifetime};

use super::patience::{PatientRemote, fresh_key};
use super::remote::{Remote, RemoteError};
use entries::Shape;
use error::Result;
use items::{ItemCommand, Line, Work};
use reqwest::header::{CONTENT_TYPE, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::time::Duration;
use table::{Description, List};

/// Filters on one page of the list.
const PAGE: &str = "500";

/// Does what is asked, and prints what the server answers.
///
/// # Errors
/// See [`FilterError`]. What was done before stays.
pub async fn run(options: &FilterOptions) -> Result<Verdict> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = execute(options, &mut out).await;
    let done = done.map_err(|error| in_words_of_the_shell(error, &options.command));
    match (done, out.flush()) {
        // Whoever reads has seen enough.
        (Err(FilterError::Io(error)), _) | (_, Err(error))
            if error.kind() == ErrorKind::BrokenPipe =>
        {
            Ok(Verdict::Yes)
        }
        (done, flushed) => {
            let verdict = done?;
            flushed?;
            Ok(verdict)
        }
    }
}

/// Says what to type, where the server says what to send.
fn in_words_of_the_shell(mut error: FilterError, command: &FilterCommand) -> FilterError {
    if let FilterError::Remote(RemoteError::Refused { code, detail, .. }) = &mut error {
        *detail = match (command, code.as_str()) {
            (FilterCommand::Add { of: entries, .. }, "filter_not_found") => {
                let key = entries.of.key();
                let fields = match (entries.values, &entries.attributes) {
                    (true, _) => " value_bits=12",
                    (false, Some(_)) => " attributes='[…]'",
                    (false, None) => "",
                };
                let create = format!("cuckood filter create {key}{fields}");
                format!("the filter {key} does not exist: `{create}` creates it")
            }
            (FilterCommand::Restore { key, .. }, "filter_taken") => {
                format!("the filter {key} exists: --replace replaces it, or name another key")
            }
            (FilterCommand::Restore { file, .. }, "corrupt_dump") => {
                format!("{}: {detail}", file.display())
            }
            _ => return error,
        };
    }
    error
}

async fn execute(options: &FilterOptions, out: &mut dyn Write) -> Result<Verdict> {
    if let Some(file) = &options.in_file {
        return in_file::run(file, options, out);
    }
    if options.key_file.is_some() {
        return Err(FilterError::KeyWithoutFile);
    }
    let filters = Filters {
        server: PatientRemote {
            remote: options.server.remote()?,
            patience: Duration::from_secs(options.patience_seconds),
        },
        json: options.json,
    };
    if io::stderr().is_terminal() {
        filters.server.remote.announce();
    }
    match &options.command {
        FilterCommand::Ls { prefix } => filters.list(prefix, out).await,
        FilterCommand::Create {
            key,
            fields,
            only_new,
        } => filters.show(&create(&filters.server, key, fields, *only_new).await?, out),
        FilterCommand::Info { key } => {
            let key = key.as_deref().unwrap_or_default();
            let get = |remote: &Remote| remote.request(Method::GET, &["filters", key]);
            filters.show(&filters.ask(get).await?, out)
        }
        FilterCommand::Rm { keys } => filters.remove(keys).await,
        FilterCommand::Expire { key, after } => {
            let fields = json!({"ttl_seconds": after.0});
            let answer = change(&filters.server, Method::PATCH, key, &fields, false).await?;
            filters.show(&answer, out)
        }
        FilterCommand::Dump {
            key,
            file,
            without_key,
        } => {
            let (remote, file) = (&filters.server.remote, file.as_deref());
            dumps::dump(remote, key, *without_key, file, out).await?;
            Ok(Verdict::Yes)
        }
        FilterCommand::Restore { key, file, replace } => {
            let restored = dumps::restore(&filters.server.remote, key, file, *replace).await?;
            filters.show(&restored, out)
        }
        FilterCommand::Lookup {
            filters: asked,
            prefix,
            first,
            items,
        } => {
            let work = Work::Lookup {
                filters: asked,
                prefix: prefix.as_deref(),
                first: *first,
            };
            filters.work("", items, work, None, out).await
        }
        FilterCommand::Add { of, only_if_absent } => {
            let work = Work::Add {
                only_if_absent: *only_if_absent,
            };
            filters.entries(of, work, out).await
        }
        FilterCommand::Exists {
            of,
            quiet,
            within_seconds,
            condition,
        } => {
            let work = Work::Exists {
                within_seconds: *within_seconds,
                condition: condition.as_ref(),
            };
            match *quiet {
                true => filters.entries(of, work, &mut io::sink()).await,
                false => filters.entries(of, work, out).await.map(|_| Verdict::Yes),
            }
        }
        FilterCommand::Count(of) => filters.items(of, Work::Count, out).await,
        FilterCommand::Delete(of) => filters.entries(of, Work::Delete, out).await,
        FilterCommand::Replace { of, attributes } => {
            let entries = Some(Shape {
                attributes: attributes.as_ref().map(|it| it.0.as_slice()),
                is_replacement: true,
            });
            filters
                .work(of.key(), &of.items, Work::Replace, entries, out)
                .await
        }
        FilterCommand::Values(of) => filters.items(of, Work::Values, out).await,
    }
}

/// Creates a filter; its description. One that exists is as good as created, if it has
/// these parameters, or refused where `only_new` is asked for.
pub(super) async fn create(
    server: &PatientRemote,
    key: &str,
    fields: &[Field],
    only_new: bool,
) -> Result<Vec<u8>> {
    let fields = fields.iter().map(|it| (it.name.clone(), it.value.clone()));
    let fields: Map<String, Value> = fields.collect();
    change(server, Method::PUT, key, &fields.into(), only_new).await
}

/// Changes what a filter is; its description.
async fn change(
    server: &PatientRemote,
    method: Method,
    key: &str,
    fields: &Value,
    only_new: bool,
) -> Result<Vec<u8>> {
    let idempotency_key = fresh_key()?;
    let change = |remote: &Remote| {
        let request = remote
            .request(method.clone(), &["filters", key])
            .header(CONTENT_TYPE, "application/json")
            .body(fields.to_string());
        let request = server.once(request, &idempotency_key);
        match only_new {
            true => request.header(IF_NONE_MATCH, "*"),
            false => request,
        }
    };
    Ok(server.remote.granted(server.send(change).await?)?)
}

/// The filters of a server, and how they are shown.
struct Filters {
    server: PatientRemote,
    json: bool,
}

impl Filters {
    async fn list(&self, prefix: &str, out: &mut dyn Write) -> Result<Verdict> {
        let mut list = List::new(io::stdout().is_terminal());
        let mut cursor: Option<String> = None;
        loop {
            let body = self
                .ask(|remote| {
                    let request = remote
                        .request(Method::GET, &["filters"])
                        .query(&[("prefix", prefix), ("limit", PAGE)]);
                    request.query(&cursor.iter().map(|it| ("cursor", it)).collect::<Vec<_>>())
                })
                .await?;
            let page: table::Page = self.server.remote.understood(&body)?;
            match self.json {
                true => page.filters.iter().try_for_each(|it| it.write_json(out))?,
                false => list.write(&page.filters, out)?,
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(Verdict::Yes);
            }
        }
    }

    async fn remove(&self, keys: &[String]) -> Result<Verdict> {
        for key in keys {
            let idempotency_key = fresh_key()?;
            self.ask(|remote| {
                let request = remote.request(Method::DELETE, &["filters", key]);
                self.server.once(request, &idempotency_key)
            })
            .await?;
        }
        Ok(Verdict::Yes)
    }

    async fn items(&self, of: &Items, work: Work<'_>, out: &mut dyn Write) -> Result<Verdict> {
        self.work(of.key(), &of.items, work, None, out).await
    }

    async fn entries(&self, of: &Entries, work: Work<'_>, out: &mut dyn Write) -> Result<Verdict> {
        let attributes = of.attributes.as_ref().map(|it| it.0.as_slice());
        let shape = Shape {
            attributes,
            is_replacement: false,
        };
        let entries = (of.values || attributes.is_some()).then_some(shape);
        self.work(of.of.key(), &of.of.items, work, entries, out)
            .await
    }

    async fn work(
        &self,
        key: &str,
        items: &[OsString],
        work: Work<'_>,
        entries: Option<Shape<'_>>,
        out: &mut dyn Write,
    ) -> Result<Verdict> {
        let command = ItemCommand {
            server: &self.server,
            key,
            line: Line {
                work,
                entries,
                json: self.json,
            },
        };
        command.run(items, out).await
    }

    async fn ask(&self, request: impl Fn(&Remote) -> RequestBuilder) -> Result<Vec<u8>> {
        let answer = self.server.send(request).await?;
        Ok(self.server.remote.granted(answer)?)
    }

    fn show(&self, body: &[u8], out: &mut dyn Write) -> Result<Verdict> {
        let description: Description = self.server.remote.understood(body)?;
        match self.json {
            true => description.write_json(out)?,
            false => description.write(out)?,
        }
        Ok(Verdict::Yes)
    }
}
