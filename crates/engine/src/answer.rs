//! What the engine takes and answers: plain values, no I/O.

use super::match_bits::MatchBitSet;
use super::name::FilterName;
use crate::chain::forecast::Forecast;
use crate::chain::meta::Chain;
pub use crate::chain::meta::FullReason;
use crate::chain::meta::{Epochs, Table};
use crate::chain::params::{Difference, FilterParams, FilterRequest};
pub use crate::chain::plan::{AddMode, AddResult};
use crate::store::Expiry;

/// The description of a filter.
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
    /// Those of them since it was last compacted.
    pub deletions_since_compaction: u64,
    /// The sub-filters, oldest first; `paged` has one.
    pub sub_filters: Vec<SubFilterInfo>,
    /// Bits of slots per item; `None` while the filter is empty.
    pub bits_per_item: Option<f64>,
    /// Bytes that its slots take when every page is written.
    pub slot_bytes: u64,
    /// Bytes of its pages in memory, with what is counted beside them.
    pub memory_bytes: u64,
    /// Bytes of its page images in the store, an estimate.
    pub disk_bytes: u64,
    /// Expected false-positive rate now: the probability that a never-added
    /// item is found.
    pub expected_false_positive_rate: f64,
    /// The same once it has grown as far as its promise goes; `classic`: with
    /// [`PROMISED_SUB_FILTERS`](crate::chain::params::PROMISED_SUB_FILTERS), or
    /// one if it never grows, all of them full.
    pub full_false_positive_rate: f64,
    /// Whether the expected rate is no larger than promised, or none was
    /// promised.
    pub keeps_promise: bool,
    /// How often it has grown: sub-filters appended, doublings completed.
    pub expansions: u32,
    /// `paged`: how far the current doubling is.
    pub growth: Option<GrowthInfo>,
    /// Where items expire: how many were seen last in each epoch.
    pub epochs: Option<Vec<EpochInfo>>,
    /// Estimated number of adds before it takes more pages.
    pub adds_before_expansion: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When it ends, if ever.
    pub expiry: Option<Expiry>,
}

/// Bytes of a filter, found out for an answer before its lane gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FilterSizes {
    /// Of its pages in memory.
    pub(crate) memory_bytes: u64,
    /// Of its page images in the store, an estimate.
    pub(crate) disk_bytes: u64,
}

impl FilterInfo {
    /// Describes a filter.
    pub(crate) fn of(
        name: &FilterName,
        chain: &Chain,
        expiry: Option<Expiry>,
        sizes: FilterSizes,
    ) -> FilterInfo {
        let growth = |Table { layout, known, .. }: &Table| GrowthInfo {
            pages_split: u64::from(layout.pointer()),
            pages_to_split: u64::from(layout.pages_of_level() - layout.pointer()),
            entries_by_level: known.iter().map(|(_, entries)| entries).collect(),
        };
        let (items, slot_bytes) = (chain.items(), chain.slot_bytes());
        let epochs = chain.table().and_then(|it| it.epochs.as_ref());
        FilterInfo {
            name: name.clone(),
            params: chain.params().clone(),
            items,
            deletions: chain.deletions(),
            deletions_since_compaction: chain.deletions_since_compaction(),
            sub_filters: chain
                .sub_filters()
                .map(|sub| SubFilterInfo {
                    buckets: sub.layout.buckets(),
                    pages: u64::from(sub.layout.pages()),
                    bytes: sub.layout.bytes(),
                    items: sub.items,
                    counted: sub.counted,
                    load: sub.load(),
                    expected_false_positive_rate: chain.rate_in(&sub),
                })
                .collect(),
            bits_per_item: (items > 0).then(|| slot_bytes as f64 * 8.0 / items as f64),
            slot_bytes,
            memory_bytes: sizes.memory_bytes,
            disk_bytes: sizes.disk_bytes,
            expected_false_positive_rate: chain.false_positive_rate(),
            full_false_positive_rate: chain.full_false_positive_rate(),
            keeps_promise: chain.keeps_promise(),
            expansions: chain.expansions(),
            growth: chain.table().map(growth),
            epochs: epochs.map(EpochInfo::all),
            adds_before_expansion: chain.adds_before_expansion(),
            created_at_ms: chain.created_at_ms(),
            expiry,
        }
    }
}

/// How far the current doubling of a filter that splits pages is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthInfo {
    /// Pages of this doubling that are split.
    pub pages_split: u64,
    /// Pages that are still to be split until it is complete.
    pub pages_to_split: u64,
    /// Entries by the splits that their page had gone through when they were
    /// added: none or one, two, three, and so on.
    pub entries_by_level: Vec<u64>,
}

/// The items that were seen last in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochInfo {
    /// When the epoch began, in milliseconds since 1970.
    pub from_ms: u64,
    /// So many items.
    pub items: u64,
}

impl EpochInfo {
    /// All of a window, the newest first.
    fn all(epochs: &Epochs) -> Vec<EpochInfo> {
        let by_age = (0..).zip(&epochs.by_age);
        let epoch = |(age, &items): (u64, &u64)| EpochInfo {
            from_ms: epochs.window.begin_of(epochs.since(age)),
            items,
        };
        by_age.map(epoch).collect()
    }
}

/// One sub-filter.
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
    /// Expected false-positive rate of this sub-filter.
    pub expected_false_positive_rate: f64,
}

/// The preview of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPreview {
    /// Its parameters, defaults filled in.
    pub params: FilterParams,
    /// Seconds after which it would end; `None`: never.
    pub ttl_seconds: Option<u64>,
    /// How large, how full and how often wrong it would be.
    pub forecast: Forecast,
}

/// A page of the list of filters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilterPage {
    /// Its lines, by name.
    pub filters: Vec<FilterSummary>,
    /// Behind which name the next page begins; `None`: this is the last one.
    pub next: Option<FilterName>,
}

/// A line of the list of filters.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterSummary {
    /// Its name.
    pub name: FilterName,
    /// What it was created with.
    pub params: FilterParams,
    /// Items in it.
    pub items: u64,
    /// Bytes that its slots take when every page is written.
    pub slot_bytes: u64,
    /// Sub-filters.
    pub sub_filters: usize,
    /// Share of its slots in use, 0 to 1.
    pub load: f64,
    /// Expected false-positive rate: the probability that a never-added item is found.
    pub expected_false_positive_rate: f64,
    /// Whether the expected rate is no larger than promised, or none was
    /// promised.
    pub keeps_promise: bool,
    /// When it was created, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When it ends, if ever.
    pub expiry: Option<Expiry>,
}

/// What a filter is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewFilter {
    /// Its parameters.
    pub params: FilterRequest,
    /// Seconds after which it ends, 1 to
    /// [`MAX_TTL_SECONDS`](super::MAX_TTL_SECONDS); `None`: never.
    pub ttl_seconds: Option<u64>,
    /// The filter with which it can be merged: what that was asked to be, with the same
    /// key of its hash.
    pub sibling_of: Option<FilterName>,
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
    /// The filter was created.
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

/// Answer of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupAnswer {
    /// The filters that were asked, in order.
    pub filters: Vec<FilterName>,
    /// Filters that were named and are not there.
    pub missing: Vec<FilterName>,
    /// For each item the filters that contain it: positions in `filters`.
    pub matches: MatchBitSet,
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
