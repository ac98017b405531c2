//! The flags of commands that work on files of filters, without a server.

use clap::Args;
use std::path::PathBuf;

/// Which files become one.
#[derive(Debug, Args)]
pub struct MergeOptions {
    /// Files of siblings: built with --sibling-of, or dumps of filters that were.
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// File to write, which appears when it is complete.
    #[arg(long, short)]
    pub output: PathBuf,
}

/// What a file is built of, and how.
#[derive(Debug, Args)]
pub struct BuildOptions {
    /// Lists of items, gzipped or not, one item a line; - is standard input, with --capacity.
    #[arg(required = true, value_name = "LIST")]
    pub lists: Vec<PathBuf>,

    /// File to write, which appears when it is complete.
    #[arg(long, short)]
    pub output: PathBuf,

    /// Probability that an item that is not in the lists is found [default: 0.001].
    #[arg(long, conflicts_with = "bits")]
    pub error_rate: Option<f64>,

    /// Bits of a slot in place of an error rate: 12, 16, 21 or 32.
    #[arg(long)]
    pub bits: Option<u64>,

    /// How many times its items the filter may have and keep the error rate, where a server goes on to add some.
    #[arg(long, default_value_t = 1)]
    pub promised_growth: u64,

    /// Items that the filter is made for [default: the lines of the lists, which are read twice then].
    #[arg(long)]
    pub capacity: Option<u64>,

    /// Take the secret key of the hash from this file, and the time of its creation: the same lists then make a file of the same digest.
    #[arg(long, value_name = "FILE")]
    pub key_of: Option<PathBuf>,

    /// Make the filter a sibling of that of this file: of its key, size and slots, so that both can be merged.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["error_rate", "bits", "promised_growth", "capacity", "key_of", "value_bits", "values_per_item"])]
    pub sibling_of: Option<PathBuf>,

    /// Leave out items that are there already; without it each copy counts.
    #[arg(long)]
    pub only_if_absent: bool,

    /// Items have values of so many bits, 1 to 16: behind each come a TAB and a value, in JSON "value" beside "item".
    #[arg(long, value_name = "BITS")]
    pub value_bits: Option<u64>,

    /// Values that an item is expected to have.
    #[arg(long, requires = "value_bits")]
    pub values_per_item: Option<u64>,

    /// Lines are JSON: strings or integers, or objects with item and value where items have values.
    #[arg(long)]
    pub ndjson: bool,
}
