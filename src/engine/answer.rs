//! What the engine takes and answers: plain values, no I/O.

use super::clock::moment;
use super::matches::Matches;
use crate::chain::forecast::Forecast;
pub use crate::chain::meta::FullReason;
use crate::chain::params::{Difference, FilterParams, FilterRequest, ParamsError};
pub use crate::chain::plan::{AddMode, AddResult};
use crate::store::disk::DiskShort;
use crate::store::{Expiry, StoreError};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Most characters of a filter's name.
pub const MAX_NAME_LENGTH: usize = 255;

/// Name of a filter, the key in the URL: 1 to 255 characters of
/// `A-Z a-z 0-9 . _ : ~ -`. Valid by construction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterName(String);

/// A text that can't name a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a filter key has 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -; this one {problem}")]
pub struct InvalidName {
    /// What is wrong with it.
    pub problem: String,
}

impl FilterName {
    /// Checks a text that names a filter.
    ///
    /// # Errors
    /// Says which character or length is refused.
    pub fn parse(text: &str) -> Result<FilterName, InvalidName> {
        FilterName::of(text.to_owned())
    }

    /// [`parse`](Self::parse), keeping the text.
    ///
    /// # Errors
    /// As there.
    pub fn of(text: String) -> Result<FilterName, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName {
                problem: "is empty".to_owned(),
            });
        }
        if text.len() > MAX_NAME_LENGTH {
            return Err(InvalidName {
                problem: format!("has {} bytes", text.len()),
            });
        }
        match text.chars().find(|&c| !is_name_character(c)) {
            None => Ok(FilterName(text)),
            Some(refused) => Err(InvalidName {
                problem: format!("has {refused:?}"),
            }),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '~' | '-')
}

impl fmt::Display for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Everything there is to know about a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterInfo {
    /// Its name.
    pub name: FilterName,
    /// What it was asked to be.
    pub params: FilterParams,
    /// Items in it: adds less deletes.
    pub items: u64,
    /// Deletes that found their item, since creation.
    pub deletions: u64,
    /// The chain, oldest sub-filter first.
    pub sub_filters: Vec<SubFilterInfo>,
    /// Bits of slots per item; `None` while the filter is empty.
    pub bits_per_item: Option<f64>,
    /// Bytes that its slots take when every page is written.
    pub slot_bytes: u64,
    /// Bytes of its pages in memory.
    pub memory_bytes: u64,
    /// Bytes of its page images in the store, an estimate.
    pub disk_bytes: u64,
    /// Probability that an item which was never added is found, from the
    /// load as it is.
    pub expected_false_positive_rate: f64,
    /// The same with as many sub-filters as an error rate is promised for, all
    /// of them full: [`PROMISED_SUB_FILTERS`](crate::chain::params::PROMISED_SUB_FILTERS),
    /// or one for a filter that never grows.
    pub full_false_positive_rate: f64,
    /// Whether it has no more sub-filters than that, or no error rate was
    /// promised.
    pub keeps_promise: bool,
    /// Adds left before the next expansion, an estimate.
    pub adds_before_expansion: u64,
    /// When it was created.
    pub created_at: SystemTime,
    /// When it ends, if ever.
    pub expiry: Option<Ends>,
}

/// When a filter ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The seconds that were asked for.
    pub ttl_seconds: u64,
    /// From then on it is gone.
    pub at: SystemTime,
}

impl From<Expiry> for Ends {
    fn from(expiry: Expiry) -> Ends {
        Ends {
            ttl_seconds: expiry.ttl_seconds,
            at: moment(expiry.at_ms),
        }
    }
}

/// One link of the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct SubFilterInfo {
    /// Buckets.
    pub buckets: u64,
    /// Pages that hold the buckets.
    pub pages: u64,
    /// Bytes of slots.
    pub bytes: u64,
    /// Items in it.
    pub items: u64,
    /// Those of them that are further copies of hot items, counted beside the
    /// pages.
    pub counted: u64,
    /// Share of its slots in use, 0 to 1.
    pub load: f64,
    /// Probability that it finds an item which was never added.
    pub expected_false_positive_rate: f64,
}

/// What a filter would be.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPreview {
    /// Its parameters, defaults filled in.
    pub params: FilterParams,
    /// Seconds after which it would end; `None`: never.
    pub ttl_seconds: Option<u64>,
    /// How large, how full and how often wrong it would be.
    pub forecast: Forecast,
}

/// A line of the list of filters.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterSummary {
    /// Its name.
    pub name: FilterName,
    /// What it was asked to be.
    pub params: FilterParams,
    /// Items in it.
    pub items: u64,
    /// Bytes that its slots take when every page is written.
    pub slot_bytes: u64,
    /// Sub-filters.
    pub sub_filters: usize,
    /// Share of its slots in use, 0 to 1.
    pub load: f64,
    /// Probability that an item which was never added is found.
    pub expected_false_positive_rate: f64,
    /// Whether it has no more sub-filters than its error rate is promised for,
    /// or none was promised.
    pub keeps_promise: bool,
    /// When it was created.
    pub created_at: SystemTime,
    /// When it ends, if ever.
    pub expiry: Option<Ends>,
}

/// What a filter is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewFilter {
    /// Its parameters.
    pub params: FilterRequest,
    /// Seconds after which it ends, 1 to
    /// [`MAX_TTL_SECONDS`](super::MAX_TTL_SECONDS); `None`: never.
    pub ttl_seconds: Option<u64>,
    /// Whether one that is there is of no use: that answer is not kept for
    /// retries.
    pub must_be_new: bool,
}

impl From<FilterRequest> for NewFilter {
    /// A filter without an end.
    fn from(params: FilterRequest) -> NewFilter {
        NewFilter {
            params,
            ..NewFilter::default()
        }
    }
}

/// Answer of a creation.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// It is new.
    New(FilterInfo),
    /// It was there and has what was asked for.
    Existing(FilterInfo),
    /// It was there and differs in these fields; nothing was changed.
    Differs(FilterInfo, Vec<Difference>),
}

/// Which filters a lookup asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupFilters {
    /// These, in this order. Each is named once.
    Named(Vec<FilterName>),
    /// All whose names start with this, in byte order of their names.
    Prefix(String),
}

/// How far a lookup goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookupMode {
    /// Every filter that contains the item.
    #[default]
    All,
    /// The first one alone.
    First,
}

/// How much one lookup may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupBounds {
    /// Filters.
    pub max_filters: usize,
    /// Items times filters.
    pub max_probes: usize,
}

/// Answer of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupAnswer {
    /// The filters that were asked, in order.
    pub filters: Vec<FilterName>,
    /// Filters that were named and are not there.
    pub missing: Vec<FilterName>,
    /// For each item the filters that contain it: positions in `filters`.
    pub matches: Matches,
}

impl LookupAnswer {
    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let names = self.filters.iter().chain(&self.missing);
        let of_name = |name: &FilterName| size_of::<FilterName>() + name.as_str().len();
        self.matches.bytes() + names.map(of_name).sum::<usize>()
    }
}

/// How items are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddOptions {
    /// What to do with an item that is found already.
    pub mode: AddMode,
    /// What the filter is to be if it is missing; `None`: missing is an error.
    pub create: Option<NewFilter>,
}

/// Why the engine did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// There is no filter of this name.
    #[error("there is no filter {name}")]
    NotFound {
        /// The name.
        name: FilterName,
    },
    /// The parameters break limits.
    #[error("the parameters are refused")]
    InvalidParams(Vec<ParamsError>),
    /// A batch touches more pages than a request may hold in memory.
    #[error(
        "the batch touches {needed} pages, a request may touch {bound}: send fewer items at once"
    )]
    TooManyPages {
        /// Pages it touches.
        needed: usize,
        /// Pages it may touch.
        bound: usize,
    },
    /// There are as many filters as there may be.
    #[error(
        "there are {bound} filters, and there may be no more (--max-filters); delete filters that nobody asks"
    )]
    TooManyFiltersInAll {
        /// How many there may be.
        bound: u64,
    },
    /// All filters together would take more bytes than they may.
    #[error(
        "the filter needs {needed} bytes, all filters together take {used} and may take {bound}: ask for less, delete filters, or start the server with a larger --max-total-bytes"
    )]
    OverQuota {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are taken.
        used: u64,
        /// Bytes that may be.
        bound: u64,
    },
    /// The disk is too full for changes.
    #[error(transparent)]
    DiskShort(#[from] DiskShort),
    /// A lookup asks more filters than it may.
    #[error(
        "the lookup asks more than {bound} filters: name fewer, or a longer prefix, or start the server with a larger --max-lookup-filters"
    )]
    TooManyFilters {
        /// Filters it may ask.
        bound: usize,
    },
    /// A lookup asks more filters about more items than it may.
    #[error(
        "the lookup asks {filters} filters about {items} items, the product of both may be up to {bound}: send fewer items at once, or start the server with a larger --max-lookup-probes"
    )]
    TooManyProbes {
        /// Items it asks about.
        items: usize,
        /// Filters it asks.
        filters: usize,
        /// Items times filters it may ask.
        bound: usize,
    },
    /// A queue or the open filters are at their bound; try again later.
    #[error("overloaded: {what}")]
    Overloaded {
        /// Which bound.
        what: &'static str,
    },
    /// A request with this key is on its way; its answer will be kept.
    #[error("a request with this key is still being worked on: send it again in a moment")]
    RetryInFlight,
    /// The key was used for another request.
    #[error("the key was used for another request: use a new one for each")]
    RetryConflict,
    /// No more answers can be kept.
    #[error("as many answers are kept for retries as may be")]
    RetriesFull,
    /// The filter is being compacted already.
    #[error("the filter is being compacted already: ask for its compaction to see how far it is")]
    CompactionRunning,
    /// The filter was not compacted.
    #[error("the filter was not compacted since the server was started")]
    CompactionNotFound,
    /// This import is being worked on for somebody else.
    #[error("a request for this import is being worked on")]
    ImportRunning,
    /// Nothing is known of this import.
    #[error("nothing of this import is committed, or it was more than a week ago")]
    ImportNotFound,
    /// No more imports can be begun.
    #[error("the progress of as many imports is kept as may be")]
    ImportsFull,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// A commit failed; whether it took place shows after the next one.
    #[error("the outcome of the commit is unknown")]
    OutcomeUnknown(#[source] Arc<StoreError>),
    /// The store could not be read; nothing was changed.
    #[error("the store could not be read")]
    Store(#[source] Arc<StoreError>),
}
