//! Counting the names of filters, and listing them where nothing else is wanted of
//! the filters. Names are chosen on the threads that read them.

use crate::cuckoo::hash::{HashKey, siphash13};
use crate::error::Result;
use crate::name::FilterName;
use crate::page::FilterId;
use crate::state::Engine;
use crate::store::{NamedEnd, StoreError};
use crate::ttl;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names that are read at once where all of them are.
const AT_ONCE: usize = 4096;

/// Chooses names.
pub type Chosen = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Engine {
    /// How many filters there are whose names start with `prefix`; those that
    /// ended a moment ago may count. Reads all of these names.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn count_filters(&self, prefix: &str) -> Result<u64> {
        let (mut count, mut after) = (0, None);
        loop {
            let prefix = prefix.to_owned();
            let names = self.read(move |store| store.names(&prefix, after.as_deref(), AT_ONCE));
            let names = names.await?;
            count += names.len() as u64;
            after = match names.len() < AT_ONCE {
                true => return Ok(count),
                false => names.into_iter().next_back(),
            };
        }
    }

    /// Names by the numbers of their filters, which are never used again: those that are
    /// chosen of up to `limit` behind `after`; and the last number that was looked at,
    /// `None` at the end.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn names_by_number(
        &self,
        after: u64,
        limit: usize,
        chosen: Chosen,
    ) -> Result<(Vec<FilterName>, Option<u64>)> {
        let (from, now_ms) = (after.saturating_add(1), self.state.clock.now_ms());
        self.read(move |store| {
            let (found, last) = store.named_ends_by_number(FilterId(from), limit)?;
            Ok((live(found, now_ms, &chosen)?, last.map(|last| last.0)))
        })
        .await
    }

    /// Names in byte order: those that are chosen of up to `limit` that start with
    /// `prefix` and are greater than `after`; and the last that was looked at, `None`
    /// at the end.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn names_after(
        &self,
        prefix: &str,
        after: Option<String>,
        limit: usize,
        chosen: Chosen,
    ) -> Result<(Vec<FilterName>, Option<String>)> {
        let (prefix, now_ms) = (prefix.to_owned(), self.state.clock.now_ms());
        self.read(move |store| {
            let found = store.named_ends(&prefix, after.as_deref(), limit)?;
            let last = found.last().filter(|_| found.len() == limit);
            let last = last.map(|(name, _)| name.clone());
            Ok((live(found, now_ms, &chosen)?, last))
        })
        .await
    }

    /// Names by their hashes, of which nobody learns anything of other names: those
    /// that are chosen of some `limit` that start with `prefix` and have a greater
    /// hash than `after`; and the greatest that was looked at, `None` at the end.
    /// Reads all names that start so.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn names_by_hash(
        &self,
        prefix: &str,
        after: u64,
        limit: usize,
        chosen: Chosen,
    ) -> Result<(Vec<FilterName>, Option<u64>)> {
        // Names of the same hash belong together.
        let mut least: BTreeMap<u64, Vec<NamedEnd>> = BTreeMap::new();
        let (mut last, mut is_all) = (None, true);
        let now_ms = self.state.clock.now_ms();
        loop {
            let prefix = prefix.to_owned();
            (least, last, is_all) = self
                .read(move |store| {
                    let found = store.named_ends(&prefix, last.as_deref(), AT_ONCE)?;
                    let end = found.last().filter(|_| found.len() == AT_ONCE);
                    let end = end.map(|(name, _)| name.clone());
                    for (hash, named) in found.into_iter().map(|it| (hash_of(&it.0), it)) {
                        if hash > after {
                            least.entry(hash).or_default().push(named);
                        }
                        if least.len() > limit {
                            least.pop_last();
                            is_all = false;
                        }
                    }
                    Ok((least, end, is_all))
                })
                .await?;
            if last.is_none() {
                break;
            }
        }
        let greatest = least.last_key_value().map(|(&hash, _)| hash);
        self.read(move |_| {
            let found = least.into_values().flatten().collect();
            Ok((live(found, now_ms, &chosen)?, greatest.filter(|_| !is_all)))
        })
        .await
    }
}

/// The names that are chosen of filters that have not ended.
fn live(found: Vec<NamedEnd>, now_ms: u64, chosen: &Chosen) -> Result<Vec<FilterName>, StoreError> {
    let live = found
        .into_iter()
        .filter(|(name, end)| !ttl::has_ended(*end, now_ms) && chosen(name));
    live.map(|(name, _)| {
        FilterName::of(name)
            .map_err(|refused| StoreError::corrupt("the list of filter names", refused))
    })
    .collect()
}

/// Of 53 bits, which every client can keep, and not zero.
fn hash_of(name: &str) -> u64 {
    let hash = siphash13(name.as_bytes(), HashKey([0; 16])) as u64;
    (hash >> 11).max(1)
}
