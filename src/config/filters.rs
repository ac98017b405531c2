//! The parameters of filters that are created without them, and bounds of filters.

use super::errors::ConfigErrors;
use super::size::ByteSize;
use crate::chain::params::{
    Defaults, FilterParams, FilterRequest, LayoutKind, MAX_CHAIN_LENGTH, ParamsError,
};
use clap::{Args, ValueEnum};

/// Defaults and bounds of filters.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct FilterConfig {
    /// Capacity of a filter created without one, in items, 1 to 2^40.
    #[arg(long, env = "CUCKOOD_DEFAULT_CAPACITY", default_value_t = Defaults::default().capacity)]
    pub default_capacity: u64,

    /// Layout of a filter whose fields do not imply one: paged or classic.
    #[arg(long, env = "CUCKOOD_DEFAULT_LAYOUT", value_enum, default_value_t = DefaultLayout::Paged)]
    pub default_layout: DefaultLayout,

    /// False-positive rate of a paged filter created without error_rate, 2e-8 to 0.5.
    #[arg(long, env = "CUCKOOD_DEFAULT_ERROR_RATE", default_value_t = Defaults::default().error_rate)]
    pub default_error_rate: f64,

    /// Slots per bucket of a classic filter created without bucket_size, 1 to 255.
    #[arg(long, env = "CUCKOOD_DEFAULT_BUCKET_SIZE", default_value_t = Defaults::default().bucket_size)]
    pub default_bucket_size: u64,

    /// Longest kick-out path of a classic filter created without max_iterations, 1 to 65535.
    #[arg(long, env = "CUCKOOD_DEFAULT_MAX_ITERATIONS", default_value_t = Defaults::default().max_iterations)]
    pub default_max_iterations: u64,

    /// Growth factor of a filter created without expansion, 0 to 32768; 0: it never grows [default: 2 for paged, 1 for classic].
    #[arg(long, env = "CUCKOOD_DEFAULT_EXPANSION")]
    pub default_expansion: Option<u64>,

    /// Most expansions of a filter created without max_expansions; --max-chain-length leaves one less than its value.
    #[arg(long, env = "CUCKOOD_DEFAULT_MAX_EXPANSIONS", default_value_t = Defaults::default().max_expansions)]
    pub default_max_expansions: u64,

    /// Sub-filters of one filter, the first included, 1 to 65536: what max_expansions of new and restored filters may ask for, and one more.
    #[arg(long, env = "CUCKOOD_MAX_CHAIN_LENGTH", default_value_t = Defaults::default().max_chain_length)]
    pub max_chain_length: u64,

    /// Bytes of one filter, all its sub-filters together; stored with each filter when it is created.
    #[arg(long, env = "CUCKOOD_MAX_FILTER_BYTES", default_value = "16GiB")]
    pub max_filter_bytes: ByteSize,

    /// Bytes of all filters together when another is created; more are answered 507 [default: no bound].
    #[arg(long, env = "CUCKOOD_MAX_TOTAL_BYTES")]
    pub max_total_bytes: Option<ByteSize>,

    /// Filters in all when another is created; more are answered 507 [default: no bound].
    #[arg(long, env = "CUCKOOD_MAX_FILTERS")]
    pub max_filters: Option<u64>,

    /// Filters that each API key may have created; more are answered 507. Filters that were created without a key do not count [default: no bound].
    #[arg(long, env = "CUCKOOD_MAX_FILTERS_PER_KEY")]
    pub max_filters_per_key: Option<u64>,

    /// Bytes of all filters that each API key created, when one is created, and when items are added after they have grown beyond it; more are answered 507 [default: no bound].
    #[arg(long, env = "CUCKOOD_MAX_BYTES_PER_KEY")]
    pub max_bytes_per_key: Option<ByteSize>,

    /// Filters open at the same time, from --max-lookup-filters; more can exist.
    #[arg(long, env = "CUCKOOD_MAX_OPEN_FILTERS", default_value_t = 10_000)]
    pub max_open_filters: usize,

    /// Deleted items, in percent of a filter's items, 0 to 100, above which the filter is compacted in the background; 0: only on request.
    #[arg(long, env = "CUCKOOD_COMPACTION_THRESHOLD", default_value_t = 10, value_parser = clap::value_parser!(u8).range(..=100))]
    pub compaction_threshold: u8,
}

/// See [`LayoutKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DefaultLayout {
    /// One page per question, and a false-positive rate that holds while the filter grows.
    Paged,
    /// Bit-compatible with RedisBloom and Apache Kvrocks.
    Classic,
}

impl FilterConfig {
    pub(super) fn defaults(&self) -> Defaults {
        Defaults {
            capacity: self.default_capacity,
            layout: match self.default_layout {
                DefaultLayout::Paged => LayoutKind::Paged,
                DefaultLayout::Classic => LayoutKind::Classic,
            },
            error_rate: self.default_error_rate,
            bucket_size: self.default_bucket_size,
            max_iterations: self.default_max_iterations,
            expansion: self.default_expansion,
            max_expansions: self.default_max_expansions,
            max_chain_length: self.max_chain_length,
            max_filter_bytes: self.max_filter_bytes.0,
            max_total_bytes: self.max_total_bytes.map(|bytes| bytes.0),
            max_filters: self.max_filters,
            max_filters_per_key: self.max_filters_per_key,
            max_bytes_per_key: self.max_bytes_per_key.map(|bytes| bytes.0),
        }
    }

    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        errors.refuse_zeros(&[("--max-open-filters", self.max_open_filters)]);
        if !(1..=MAX_CHAIN_LENGTH).contains(&self.max_chain_length) {
            errors.add(format!(
                "--max-chain-length is {}, allowed is 1 to {MAX_CHAIN_LENGTH}",
                self.max_chain_length
            ));
        }
        let defaults = self.defaults();
        // The defaults of both layouts: a request may ask for either.
        let mut refused: Vec<ParamsError> = Vec::new();
        for layout in LayoutKind::ALL {
            let request = FilterRequest {
                layout: Some(layout),
                ..FilterRequest::default()
            };
            let wrong = FilterParams::resolve(&request, &defaults).err();
            refused.extend(wrong.into_iter().flatten());
        }
        refused.sort_by_key(|error| error.field);
        refused.dedup_by_key(|error| error.field);
        for error in refused {
            let flag = error.field.replace('_', "-");
            let (given, allowed) = (error.given, error.allowed);
            errors.add(format!("--default-{flag} is {given}, allowed is {allowed}"));
        }
    }
}
