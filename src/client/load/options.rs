//! What is asked of `load`.

use crate::client::remote::{Credentials, path_part};
use clap::Args;
use std::path::PathBuf;

/// What to load, and where.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// Address of the server.
    #[arg(long, env = "CUCKOOD_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,

    /// API key and certificates.
    #[command(flatten)]
    pub credentials: Credentials,

    /// Key of the filter; it must exist.
    #[arg(long, value_parser = path_part)]
    pub filter: String,

    /// Name of the import, for one file only [default: one for each file, from its path, size and time of change].
    #[arg(long)]
    pub import_id: Option<String>,

    /// Do not add items that the filter already contains.
    #[arg(long)]
    pub only_if_absent: bool,

    /// Lines are JSON: strings or integers, or objects with item and value where items have values, with item and attributes where they have rows. Without it, a line is an item, and there a TAB and a value follow, or a TAB and a value for each attribute of the filter.
    #[arg(long)]
    pub ndjson: bool,

    /// Seconds without progress, from 0, after which the command gives up.
    #[arg(long, default_value_t = 60)]
    pub patience_seconds: u64,

    /// Files, gzipped or not; - is standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}
