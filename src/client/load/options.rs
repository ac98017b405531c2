//! What is asked of `load`.

use crate::client::remote::Credentials;
use std::path::PathBuf;
use std::time::Duration;

/// What to load, and where.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Where the server is, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// API key and certificates.
    pub credentials: Credentials,
    /// Key of the filter.
    pub filter: String,
    /// Files of one item a line, gzipped or not; `-` is the standard input.
    pub files: Vec<PathBuf>,
    /// Name of the import; `None`: one for each file, from its path, size and
    /// time of change.
    pub import_id: Option<String>,
    /// Whether items that are found already are left.
    pub only_if_absent: bool,
    /// Whether lines are JSON strings or integers.
    pub ndjson: bool,
    /// How long the server may be away, or not get on, before this gives up.
    pub patience: Duration,
}
