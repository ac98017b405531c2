//! What a write was answered, as it is kept should the request come again.
//! `docs/format.md` tabulates the bytes.

use crate::chain::meta::Chain;
use crate::chain::plan::ReplaceResult;
use crate::engine::answer::{AddResult, FilterInfo, FilterSizes, FullReason};
use crate::engine::name::FilterName;
use crate::store::Expiry;

/// An answer that can be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredResponse {
    /// To an add: one result an item.
    Added(Vec<AddResult>),
    /// To a delete: one result an item.
    Deleted(Vec<bool>),
    /// To a replacement of values: one result an item.
    Replaced(Vec<ReplaceResult>),
    /// To the removal of a filter.
    Removed,
    /// A filter as it was.
    Filter(Box<StoredFilterInfo>),
    /// To a compaction: sub-filters that are to be emptied.
    CompactionBegun(u32),
}

/// See [`StoredResponse::Filter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredFilterInfo {
    /// Whether the request made it.
    pub(crate) origin: Origin,
    /// Its description.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The request made it.
    New,
    /// It was there.
    Existing,
}

const ADDED: u8 = 1;
const DELETED: u8 = 2;
const REMOVED: u8 = 3;
const FILTER_NEW: u8 = 4;
const FILTER_EXISTING: u8 = 5;
const COMPACTION_BEGUN: u8 = 6;
const REPLACED: u8 = 7;

/// One byte a result follows.
const PLAIN: u8 = 0;
/// Pairs follow: a result, and how often it comes, four bytes.
const RUNS: u8 = 1;
const RUN_BYTES: usize = 5;

/// Bytes of a filter's answer before its description.
const FILTER_HEAD_BYTES: usize = 32;

impl StoredResponse {
    /// The results of an add, if it was one.
    pub(crate) fn added(self) -> Option<Vec<AddResult>> {
        match self {
            StoredResponse::Added(results) => Some(results),
            _ => None,
        }
    }

    /// The results of a delete, if it was one.
    pub(crate) fn deleted(self) -> Option<Vec<bool>> {
        match self {
            StoredResponse::Deleted(results) => Some(results),
            _ => None,
        }
    }

    /// The results of a replacement, if it was one.
    pub(crate) fn replaced(self) -> Option<Vec<ReplaceResult>> {
        match self {
            StoredResponse::Replaced(results) => Some(results),
            _ => None,
        }
    }

    /// Most bytes that the answer about so many items takes.
    pub(crate) fn most_bytes(items: usize) -> usize {
        2 + items
    }

    /// Bytes that a filter's answer may take; that of a chain of many
    /// sub-filters takes more.
    pub(crate) const FILTER_BYTES: usize = 1 + FILTER_HEAD_BYTES + 512;

    /// Bytes that the answer to a compaction takes.
    pub(crate) const COMPACTION_BYTES: usize = 5;

    /// The answer as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            StoredResponse::Added(results) => {
                let codes = results.iter().map(|&result| code_of(result));
                coded(ADDED, codes.collect())
            }
            StoredResponse::Deleted(results) => coded(
                DELETED,
                results.iter().map(|&found| u8::from(found)).collect(),
            ),
            StoredResponse::Replaced(results) => {
                let codes = results.iter().map(|&result| code_of_replacement(result));
                coded(REPLACED, codes.collect())
            }
            StoredResponse::Removed => vec![REMOVED],
            StoredResponse::CompactionBegun(closed) => {
                let [a, b, c, d] = closed.to_le_bytes();
                vec![COMPACTION_BEGUN, a, b, c, d]
            }
            StoredResponse::Filter(filter) => {
                let expiry = filter
                    .expiry
                    .map_or((0, 0), |it| (it.at_ms, it.ttl_seconds));
                let mut bytes = vec![match filter.origin {
                    Origin::New => FILTER_NEW,
                    Origin::Existing => FILTER_EXISTING,
                }];
                for number in [
                    filter.sizes.memory_bytes,
                    filter.sizes.disk_bytes,
                    expiry.0,
                    expiry.1,
                ] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                bytes.extend_from_slice(&filter.chain.encode());
                bytes
            }
        }
    }

    /// Reads a stored answer; `None` if it makes no sense, or has more results
    /// than there can be.
    pub(crate) fn decode(bytes: &[u8], most_results: usize) -> Option<StoredResponse> {
        let (&kind, rest) = bytes.split_first()?;
        match kind {
            ADDED => {
                let results = codes(rest, most_results)?.into_iter().map(result_of);
                results.collect::<Option<_>>().map(StoredResponse::Added)
            }
            DELETED => {
                let found = codes(rest, most_results)?
                    .into_iter()
                    .map(|code| match code {
                        0 => Some(false),
                        1 => Some(true),
                        _ => None,
                    });
                found.collect::<Option<_>>().map(StoredResponse::Deleted)
            }
            REPLACED => {
                let results = codes(rest, most_results)?.into_iter().map(replacement_of);
                results.collect::<Option<_>>().map(StoredResponse::Replaced)
            }
            REMOVED if rest.is_empty() => Some(StoredResponse::Removed),
            FILTER_NEW => filter_response(Origin::New, rest),
            FILTER_EXISTING => filter_response(Origin::Existing, rest),
            COMPACTION_BEGUN => {
                let closed = u32::from_le_bytes(rest.try_into().ok()?);
                Some(StoredResponse::CompactionBegun(closed))
            }
            _ => None,
        }
    }
}

fn filter_response(origin: Origin, bytes: &[u8]) -> Option<StoredResponse> {
    let (head, meta) = bytes.split_at_checked(FILTER_HEAD_BYTES)?;
    let mut numbers = head.chunks_exact(8).map(|chunk| {
        let chunk = <[u8; 8]>::try_from(chunk).ok()?;
        Some(u64::from_le_bytes(chunk))
    });
    let mut number = || numbers.next().flatten();
    let sizes = FilterSizes {
        memory_bytes: number()?,
        disk_bytes: number()?,
    };
    let (at_ms, ttl_seconds) = (number()?, number()?);
    Some(StoredResponse::Filter(Box::new(StoredFilterInfo {
        origin,
        chain: Chain::decode(meta).ok()?,
        // A time to live of nothing is refused, so 0 is none.
        expiry: (ttl_seconds > 0).then_some(Expiry { at_ms, ttl_seconds }),
        sizes,
    })))
}

fn code_of(result: AddResult) -> u8 {
    match result {
        AddResult::Added => 0,
        AddResult::Exists => 1,
        AddResult::Full(reason) => 1 + code_of_reason(reason),
        AddResult::Refreshed => REFRESHED,
    }
}

/// Far from the codes of reasons.
const REFRESHED: u8 = 64;

fn result_of(code: u8) -> Option<AddResult> {
    match code {
        0 => Some(AddResult::Added),
        1 => Some(AddResult::Exists),
        REFRESHED => Some(AddResult::Refreshed),
        _ => reason_of(code - 1).map(AddResult::Full),
    }
}

/// As of an add, with `absent` in place of `exists`.
fn code_of_replacement(result: ReplaceResult) -> u8 {
    code_of(match result {
        ReplaceResult::Replaced => AddResult::Added,
        ReplaceResult::Absent => AddResult::Exists,
        ReplaceResult::Full(reason) => AddResult::Full(reason),
    })
}

fn replacement_of(code: u8) -> Option<ReplaceResult> {
    match result_of(code)? {
        AddResult::Added => Some(ReplaceResult::Replaced),
        AddResult::Exists => Some(ReplaceResult::Absent),
        AddResult::Full(reason) => Some(ReplaceResult::Full(reason)),
        AddResult::Refreshed => None,
    }
}

/// The byte that stands for a reason; 0 is none.
pub(super) fn code_of_reason(reason: FullReason) -> u8 {
    match reason {
        FullReason::ExpansionOff => 1,
        FullReason::MaxExpansions => 2,
        FullReason::MaxFilterBytes => 3,
        FullReason::GrowthLimit => 4,
        FullReason::MaxValuesPerItem => 5,
    }
}

/// The reason that a byte stands for.
pub(super) fn reason_of(code: u8) -> Option<FullReason> {
    match code {
        1 => Some(FullReason::ExpansionOff),
        2 => Some(FullReason::MaxExpansions),
        3 => Some(FullReason::MaxFilterBytes),
        4 => Some(FullReason::GrowthLimit),
        5 => Some(FullReason::MaxValuesPerItem),
        _ => None,
    }
}

/// The codes, one by one or as runs: whichever is shorter.
fn coded(kind: u8, codes: Vec<u8>) -> Vec<u8> {
    let mut runs = vec![kind, RUNS];
    for run in codes.chunk_by(|a, b| a == b) {
        if let (Some(&code), Ok(length)) = (run.first(), u32::try_from(run.len())) {
            runs.push(code);
            runs.extend_from_slice(&length.to_le_bytes());
        }
        if runs.len() > codes.len() {
            let mut plain = vec![kind, PLAIN];
            plain.extend_from_slice(&codes);
            return plain;
        }
    }
    runs
}

fn codes(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    match bytes.split_first()? {
        (&PLAIN, codes) => (codes.len() <= most).then(|| codes.to_vec()),
        (&RUNS, runs) => {
            let mut codes = Vec::new();
            let (runs, []) = runs.as_chunks::<RUN_BYTES>() else {
                return None;
            };
            for &[code, a, b, c, d] in runs {
                let length = u32::from_le_bytes([a, b, c, d]) as usize;
                if codes.len().saturating_add(length) > most {
                    return None;
                }
                codes.resize(codes.len() + length, code);
            }
            Some(codes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
