//! What a write was answered, as it is kept should the request come again.
//! `docs/format.md` tabulates the bytes.

use super::exactly;
use crate::answer::{AddResult, FilterInfo, FilterSizes};
use crate::chain::meta::Chain;
use crate::chain::plan::ReplaceResult;
use crate::name::FilterName;
use crate::store::Expiry;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An answer that can be given again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StoredResponse {
    /// To an add: one result an item.
    Added(Runs<AddResult>),
    /// To a delete: one result an item.
    Deleted(Runs<bool>),
    /// To a replacement of values: one result an item.
    Replaced(Runs<ReplaceResult>),
    /// To the removal of a filter.
    Removed,
    /// A filter as it was.
    Filter(Box<StoredFilterInfo>),
    /// To a compaction: sub-filters that are to be emptied.
    CompactionBegun(u32),
}

/// See [`StoredResponse::Filter`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFilterInfo {
    /// Whether the request made it.
    pub(crate) origin: Origin,
    /// Its description.
    #[serde(serialize_with = "chain_bytes", deserialize_with = "chain_of")]
    pub(crate) chain: Chain,
    /// When it was to end.
    pub(crate) expiry: Option<Expiry>,
    /// Its sizes.
    pub(crate) sizes: FilterSizes,
}

impl StoredFilterInfo {
    /// The filter as it was when the answer was given.
    pub(crate) fn info(&self, name: &FilterName) -> FilterInfo {
        FilterInfo::of(name, &self.chain, self.expiry, self.sizes)
    }
}

/// Whether a filter is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// The request made it.
    New,
    /// It was there.
    Existing,
}

/// Results in order: each, and how often it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs<T>(Vec<(T, u32)>);

impl<T: Copy + PartialEq> Runs<T> {
    /// These results.
    pub(crate) fn of(results: &[T]) -> Runs<T> {
        let runs = results.chunk_by(|one, next| one == next);
        let run = |run: &[T]| Some((*run.first()?, u32::try_from(run.len()).ok()?));
        Runs(runs.filter_map(run).collect())
    }

    fn all(self) -> Vec<T> {
        let runs = self.0.into_iter();
        let each = runs.flat_map(|(result, times)| std::iter::repeat_n(result, times as usize));
        each.collect()
    }

    fn has_at_most(&self, most: usize) -> bool {
        let times = self.0.iter().map(|&(_, times)| u64::from(times));
        times.sum::<u64>() <= most as u64
    }
}

fn chain_bytes<S: Serializer>(chain: &Chain, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(&chain.encode())
}

fn chain_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Chain, D::Error> {
    let bytes = <&serde_bytes::Bytes>::deserialize(deserializer)?;
    Chain::decode(bytes).map_err(D::Error::custom)
}

impl StoredResponse {
    /// The results of an add, if it was one.
    pub(crate) fn added(self) -> Option<Vec<AddResult>> {
        match self {
            StoredResponse::Added(results) => Some(results.all()),
            _ => None,
        }
    }

    /// The results of a delete, if it was one.
    pub(crate) fn deleted(self) -> Option<Vec<bool>> {
        match self {
            StoredResponse::Deleted(results) => Some(results.all()),
            _ => None,
        }
    }

    /// The results of a replacement, if it was one.
    pub(crate) fn replaced(self) -> Option<Vec<ReplaceResult>> {
        match self {
            StoredResponse::Replaced(results) => Some(results.all()),
            _ => None,
        }
    }

    /// Most bytes that the answer about so many items takes: a run of one result
    /// has three, where it says why there was no room.
    pub(crate) fn most_bytes(items: usize) -> usize {
        6 + 3 * items
    }

    /// Bytes that a filter's answer may take; that of a chain of many
    /// sub-filters takes more.
    pub(crate) const FILTER_BYTES: usize = 560;

    /// Bytes that the answer to a compaction takes at most.
    pub(crate) const COMPACTION_BYTES: usize = 6;

    /// The answer as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Nothing that an answer has can't be written; nothing reads no bytes.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads a stored answer; `None` if it makes no sense, or has more results
    /// than there can be.
    pub(crate) fn decode(bytes: &[u8], most_results: usize) -> Option<StoredResponse> {
        let response = exactly(bytes)?;
        let is_bounded = match &response {
            StoredResponse::Added(results) => results.has_at_most(most_results),
            StoredResponse::Deleted(results) => results.has_at_most(most_results),
            StoredResponse::Replaced(results) => results.has_at_most(most_results),
            _ => true,
        };
        is_bounded.then_some(response)
    }
}

#[cfg(test)]
mod tests;
