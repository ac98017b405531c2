//! What is asked of `load`.

use crate::client::filter::Field;
use crate::client::remote::{ServerAddress, path_part};
use clap::Args;
use std::path::PathBuf;

/// What to load, and where.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// The server.
    #[command(flatten)]
    pub server: ServerAddress,

    /// Key of the filter; it must exist, or be created with --create.
    #[arg(long, value_parser = path_part)]
    pub filter: String,

    /// Create the filter first, with this parameter, such as capacity=100000; may be given several times. Nothing changes if it exists with these parameters.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub create: Vec<Field>,

    /// Name of the import, for one file only: a run goes on behind the lines that were committed under it [default: one for each file, from its path, size and time of change, and another one for each run that reads standard input].
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
