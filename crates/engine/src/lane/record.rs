//! What a record of the commit log says by itself, whatever it is applied to: read by the
//! pods that follow, and by the one that leads before it sends it. What others could not
//! apply is not sent, so nobody is told that it is done.

use crate::filters::{decode, stored_name};
use crate::page::{FilterId, Ordinal, Sequence};
use crate::pages::PageGeometry;
use crate::store::redo::RedoReader;
use crate::store::{Commit, Expiry, FilterChange, StoreError, commit_bytes};
use std::collections::BTreeMap;

/// What a commit makes of one filter.
#[derive(Default)]
pub(super) struct After {
    /// Its name, if the commit makes it.
    pub(super) made: Option<String>,
    pub(super) is_removed: bool,
    pub(super) meta: Option<Vec<u8>>,
    pub(super) dropped: Vec<Ordinal>,
    pub(super) expiry: Option<Option<Expiry>>,
    pub(super) owner: Option<String>,
}

/// The commit of a record.
///
/// # Errors
/// Its bytes are none.
pub(super) fn read(bytes: &[u8]) -> Result<Commit, StoreError> {
    match bytes.is_empty() {
        // A barrier.
        true => Ok(Commit::default()),
        false => commit_bytes::decode(bytes, Sequence(0)),
    }
}

/// Makes sure that the pods that follow can apply the commit of these bytes.
///
/// # Errors
/// They can't.
pub(super) fn verify(bytes: &[u8], record: u64) -> Result<(), StoreError> {
    let read = read(bytes)?;
    let mut chains = BTreeMap::new();
    for (id, after) in after_each(&read) {
        if let Some(name) = after.made {
            stored_name(id, &name)?;
        }
        if let Some(meta) = after.meta {
            chains.insert(id, decode(id, &meta)?);
        }
    }
    let mut last: Option<(FilterId, Ordinal, PageGeometry)> = None;
    for write in RedoReader::new(&read.redo) {
        let write = write.map_err(|error| error.in_record(Sequence(record)))?;
        let page = write.page();
        let (filter, ordinal) = (page.filter, page.ordinal);
        let geometry = match last {
            Some((a, b, geometry)) if (a, b) == (filter, ordinal) => geometry,
            _ => {
                let chain = chains.get(&filter);
                let sub = chain.and_then(|it| it.sub_filters().find(|it| it.ordinal == ordinal));
                let sub = sub.ok_or_else(|| unfit(record, "it writes to what it does not name"))?;
                PageGeometry::of(&sub.layout)
            }
        };
        if !geometry.fits(&write) {
            return Err(unfit(record, "it writes what such a page can't have"));
        }
        last = Some((filter, ordinal, geometry));
    }
    Ok(())
}

/// What a commit makes of each filter.
pub(super) fn after_each(commit: &Commit) -> BTreeMap<FilterId, After> {
    let mut all: BTreeMap<FilterId, After> = BTreeMap::new();
    for change in &commit.filters {
        match change {
            FilterChange::Create { id, name, meta }
            | FilterChange::Restore { id, name, meta, .. } => {
                let after = all.entry(*id).or_default();
                after.made = Some(name.clone());
                after.meta = Some(meta.clone());
            }
            FilterChange::Update { id, meta, dropped } => {
                let after = all.entry(*id).or_default();
                after.meta = Some(meta.clone());
                after.dropped.clone_from(dropped);
            }
            FilterChange::Remove { id, .. } => all.entry(*id).or_default().is_removed = true,
            FilterChange::Own { id, owner } => {
                all.entry(*id).or_default().owner = Some(owner.clone());
            }
            FilterChange::Expire { id, after, .. } => {
                all.entry(*id).or_default().expiry = Some(*after);
            }
            // They have no name yet, and nobody can ask for them.
            FilterChange::Stage { .. } | FilterChange::GiveUp { .. } => {}
        }
    }
    all
}

pub(super) fn unfit(record: u64, reason: &str) -> StoreError {
    StoreError::corrupt(format!("record {record} of the commit log"), reason)
}
