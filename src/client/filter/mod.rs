//! What people do with filters on the command line.
//!
//! | file | what it owns |
//! |---|---|
//! | `options`, `error` | what is asked, and why it failed |
//! | `items` | adding, asking for, counting, deleting and replacing items, in batches |
//! | `batches` | items from arguments or lines, as batches in JSON |
//! | `entries` | items with a value or a row behind them |
//! | `table` | descriptions as tables; any field that a server has |

mod batches;
mod entries;
mod error;
mod items;
mod options;
mod table;

pub use error::FilterError;
pub use items::Verdict;
pub use options::{Columns, Entries, Field, FilterCommand, FilterOptions, Items};

use super::patience::{IDEMPOTENCY_KEY, PatientRemote, fresh_key};
use super::remote::Remote;
use entries::Shape;
use items::{Given, ItemCommand, Work};
use reqwest::header::{CONTENT_TYPE, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value};
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::time::Duration;
use table::{Description, List};

/// Filters on one page of the list.
const PAGE: &str = "500";

/// Does what is asked, and prints what the server answers.
///
/// # Errors
/// See [`FilterError`]. What was done before stays.
pub async fn run(options: &FilterOptions) -> Result<Verdict, FilterError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = execute(options, &mut out).await;
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

async fn execute(options: &FilterOptions, out: &mut dyn Write) -> Result<Verdict, FilterError> {
    let filters = Filters {
        server: PatientRemote {
            remote: Remote::named(&options.server, &options.credentials)?,
            patience: Duration::from_secs(options.patience_seconds),
        },
        json: options.json,
    };
    match &options.command {
        FilterCommand::Ls { prefix } => filters.list(prefix, out).await,
        FilterCommand::Create {
            key,
            fields,
            only_new,
        } => filters.create(key, fields, *only_new, out).await,
        FilterCommand::Info { key } => filters.describe(key, out).await,
        FilterCommand::Rm { keys } => filters.remove(keys).await,
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
            let given = Given::Entries(Shape {
                attributes: attributes.as_ref().map(|it| it.0.as_slice()),
                is_replacement: true,
            });
            filters.work(of, Work::Replace, given, out).await
        }
        FilterCommand::Values(of) => filters.items(of, Work::Values, out).await,
    }
}

/// The filters of a server, and how they are shown.
struct Filters {
    server: PatientRemote,
    json: bool,
}

impl Filters {
    async fn list(&self, prefix: &str, out: &mut dyn Write) -> Result<Verdict, FilterError> {
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
            let page: table::Page = self.read(&body)?;
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

    async fn create(
        &self,
        key: &str,
        fields: &[Field],
        only_new: bool,
        out: &mut dyn Write,
    ) -> Result<Verdict, FilterError> {
        let fields: Map<String, Value> = fields
            .iter()
            .map(|field| (field.name.clone(), field.value.clone()))
            .collect();
        let body = Value::Object(fields).to_string();
        let idempotency_key = fresh_key()?;
        let answer = self
            .ask(|remote| {
                let request = remote
                    .request(Method::PUT, &["filters", key])
                    .header(CONTENT_TYPE, "application/json")
                    .header(IDEMPOTENCY_KEY, &idempotency_key)
                    .body(body.clone());
                match only_new {
                    true => request.header(IF_NONE_MATCH, "*"),
                    false => request,
                }
            })
            .await?;
        self.show(&answer, out)
    }

    async fn describe(&self, key: &str, out: &mut dyn Write) -> Result<Verdict, FilterError> {
        let answer = self
            .ask(|remote| remote.request(Method::GET, &["filters", key]))
            .await?;
        self.show(&answer, out)
    }

    async fn remove(&self, keys: &[String]) -> Result<Verdict, FilterError> {
        for key in keys {
            let idempotency_key = fresh_key()?;
            self.ask(|remote| {
                remote
                    .request(Method::DELETE, &["filters", key])
                    .header(IDEMPOTENCY_KEY, &idempotency_key)
            })
            .await?;
        }
        Ok(Verdict::Yes)
    }

    async fn items(
        &self,
        of: &Items,
        work: Work<'_>,
        out: &mut dyn Write,
    ) -> Result<Verdict, FilterError> {
        self.work(of, work, Given::Items, out).await
    }

    async fn entries(
        &self,
        of: &Entries,
        work: Work<'_>,
        out: &mut dyn Write,
    ) -> Result<Verdict, FilterError> {
        let attributes = of.attributes.as_ref().map(|it| it.0.as_slice());
        let given = match of.values || attributes.is_some() {
            true => Given::Entries(Shape {
                attributes,
                is_replacement: false,
            }),
            false => Given::Items,
        };
        self.work(&of.of, work, given, out).await
    }

    async fn work(
        &self,
        of: &Items,
        work: Work<'_>,
        given: Given<'_>,
        out: &mut dyn Write,
    ) -> Result<Verdict, FilterError> {
        let command = ItemCommand {
            server: &self.server,
            key: &of.key,
            work,
            given,
            json: self.json,
        };
        command.run(&of.items, out).await
    }

    async fn ask(
        &self,
        request: impl Fn(&Remote) -> RequestBuilder,
    ) -> Result<Vec<u8>, FilterError> {
        let answer = self.server.send(request).await?;
        Ok(self.server.remote.granted(answer)?)
    }

    fn show(&self, body: &[u8], out: &mut dyn Write) -> Result<Verdict, FilterError> {
        let description: Description = self.read(body)?;
        match self.json {
            true => description.write_json(out)?,
            false => description.write(out)?,
        }
        Ok(Verdict::Yes)
    }

    fn read<T: serde::de::DeserializeOwned>(&self, body: &[u8]) -> Result<T, FilterError> {
        serde_json::from_slice(body).map_err(|_| self.server.remote.not_understood().into())
    }
}
