//! A commit as bytes, for those who are to make the same one in a store of
//! their own. Its sequence is not in it: every store has its own.
//!
//! The redo record is taken as it is. Numbers are varints, and whatever has a
//! length begins with it; `docs/format.md` has the table.

use super::commit::{Commit, FilterChange, PageImage, SideRecordChange};
use super::error::StoreError;
use super::format;
use super::values::{Expiry, Garbage, SideRecord};
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::varint;
use std::sync::Arc;

/// Version of these bytes, the first of them.
const VERSION: u8 = 1;

const CREATE: u8 = 1;
const UPDATE: u8 = 2;
const REMOVE: u8 = 3;
const RESTORE: u8 = 4;
const OWN: u8 = 5;
const EXPIRE: u8 = 6;
const STAGE: u8 = 7;
const GIVE_UP: u8 = 8;

/// What there is of two values that may be missing, one bit each.
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

/// The bytes of a commit, but for its sequence.
pub fn encode(commit: &Commit) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_bytes(&mut out, &commit.redo);
    varint::put(&mut out, commit.filters.len() as u64);
    for change in &commit.filters {
        put_filter_change(&mut out, change);
    }
    varint::put(&mut out, commit.side_records.len() as u64);
    for SideRecordChange { key, before, after } in &commit.side_records {
        put_bytes(&mut out, &format::side_record_key(key));
        out.push(presence(before.is_some(), after.is_some()));
        for record in before.iter().chain(after) {
            put_side_record(&mut out, record);
        }
    }
    out
}

/// The commit of these bytes, with this sequence.
///
/// # Errors
/// They are anything but exactly one commit, or of a newer program.
pub fn decode(bytes: &[u8], sequence: Sequence) -> Result<Commit, StoreError> {
    let mut input = Input(bytes);
    match input.byte()? {
        VERSION => {}
        0 => return Err(nonsense()),
        found => {
            return Err(StoreError::NewerFormat {
                what: "a commit".to_owned(),
                found: u32::from(found),
                supported: u32::from(VERSION),
            });
        }
    }
    let redo = input.bytes()?.to_vec();
    let filters = input.many(filter_change)?;
    let side_records = input.many(|input| {
        let key = format::read_side_record_key(input.bytes()?).ok_or_else(nonsense)?;
        let (before, after) = input.pair(side_record)?;
        Ok(SideRecordChange { key, before, after })
    })?;
    match input.0.is_empty() {
        false => Err(nonsense()),
        true => Ok(Commit {
            sequence,
            redo,
            filters,
            side_records,
        }),
    }
}

fn put_filter_change(out: &mut Vec<u8>, change: &FilterChange) {
    let mut begin = |kind: u8, id: FilterId| {
        out.push(kind);
        varint::put(out, id.0);
    };
    match change {
        FilterChange::Create { id, name, meta } => {
            begin(CREATE, *id);
            put_bytes(out, name.as_bytes());
            put_bytes(out, meta);
        }
        FilterChange::Update { id, meta, dropped } => {
            begin(UPDATE, *id);
            put_bytes(out, meta);
            varint::put(out, dropped.len() as u64);
            for ordinal in dropped {
                varint::put(out, u64::from(ordinal.0));
            }
        }
        FilterChange::Remove { id, name } => {
            begin(REMOVE, *id);
            put_bytes(out, name.as_bytes());
        }
        FilterChange::Restore {
            id,
            name,
            meta,
            reclaimed,
        } => {
            begin(RESTORE, *id);
            put_bytes(out, name.as_bytes());
            put_bytes(out, meta);
            varint::put(out, reclaimed.len() as u64);
            for garbage in reclaimed {
                put_garbage(out, garbage);
            }
        }
        FilterChange::Own { id, owner } => {
            begin(OWN, *id);
            put_bytes(out, owner.as_bytes());
        }
        FilterChange::Expire { id, before, after } => {
            begin(EXPIRE, *id);
            out.push(presence(before.is_some(), after.is_some()));
            for expiry in before.iter().chain(after) {
                varint::put(out, expiry.at_ms);
                varint::put(out, expiry.ttl_seconds);
            }
        }
        FilterChange::Stage { id, pages } => {
            begin(STAGE, *id);
            varint::put(out, pages.len() as u64);
            for (page, image) in pages.iter() {
                varint::put(out, u64::from(page.ordinal.0));
                varint::put(out, u64::from(page.page.0));
                put_bytes(out, &format::encode_page(image));
            }
        }
        FilterChange::GiveUp { id } => begin(GIVE_UP, *id),
    }
}

fn filter_change(input: &mut Input<'_>) -> Result<FilterChange, StoreError> {
    let kind = input.byte()?;
    let id = FilterId(input.number()?);
    Ok(match kind {
        CREATE => FilterChange::Create {
            id,
            name: input.text()?,
            meta: input.bytes()?.to_vec(),
        },
        UPDATE => FilterChange::Update {
            id,
            meta: input.bytes()?.to_vec(),
            dropped: input.many(Input::ordinal)?,
        },
        REMOVE => FilterChange::Remove {
            id,
            name: input.text()?,
        },
        RESTORE => FilterChange::Restore {
            id,
            name: input.text()?,
            meta: input.bytes()?.to_vec(),
            reclaimed: input.many(garbage)?,
        },
        OWN => FilterChange::Own {
            id,
            owner: input.text()?,
        },
        EXPIRE => {
            let (before, after) = input.pair(|input| {
                Ok(Expiry {
                    at_ms: input.number()?,
                    ttl_seconds: input.number()?,
                })
            })?;
            FilterChange::Expire { id, before, after }
        }
        STAGE => FilterChange::Stage {
            id,
            pages: input.many(|input| input.page_image(id))?.into(),
        },
        GIVE_UP => FilterChange::GiveUp { id },
        _ => return Err(nonsense()),
    })
}

fn put_garbage(out: &mut Vec<u8>, garbage: &Garbage) {
    let (id, ordinal) = match garbage {
        Garbage::Filter(id) => (id, None),
        Garbage::SubFilter(id, ordinal) => (id, Some(ordinal)),
    };
    out.push(u8::from(ordinal.is_some()));
    varint::put(out, id.0);
    if let Some(ordinal) = ordinal {
        varint::put(out, u64::from(ordinal.0));
    }
}

fn garbage(input: &mut Input<'_>) -> Result<Garbage, StoreError> {
    let kind = input.byte()?;
    let id = FilterId(input.number()?);
    match kind {
        0 => Ok(Garbage::Filter(id)),
        1 => Ok(Garbage::SubFilter(id, input.ordinal()?)),
        _ => Err(nonsense()),
    }
}

fn put_side_record(out: &mut Vec<u8>, record: &SideRecord) {
    varint::put(out, record.ends_at_ms);
    out.push(u8::from(record.owner.is_some()));
    if let Some(owner) = &record.owner {
        put_bytes(out, owner.as_bytes());
    }
    put_bytes(out, &record.payload);
}

fn side_record(input: &mut Input<'_>) -> Result<SideRecord, StoreError> {
    let ends_at_ms = input.number()?;
    let owner = match input.byte()? {
        0 => None,
        1 => Some(Arc::from(input.text()?)),
        _ => return Err(nonsense()),
    };
    Ok(SideRecord {
        ends_at_ms,
        owner,
        payload: input.bytes()?.to_vec(),
    })
}

fn presence(before: bool, after: bool) -> u8 {
    u8::from(before) * BEFORE + u8::from(after) * AFTER
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn nonsense() -> StoreError {
    StoreError::Corrupt {
        what: "a commit".to_owned(),
        reason: "its bytes make no sense".to_owned(),
    }
}

/// What has not been read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, StoreError> {
        let (&byte, rest) = self.0.split_first().ok_or_else(nonsense)?;
        self.0 = rest;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, StoreError> {
        varint::take(&mut self.0).ok_or_else(nonsense)
    }

    fn ordinal(&mut self) -> Result<Ordinal, StoreError> {
        let ordinal = u32::try_from(self.number()?);
        ordinal.map(Ordinal).map_err(|_| nonsense())
    }

    fn page_image(&mut self, filter: FilterId) -> Result<PageImage, StoreError> {
        let ordinal = self.ordinal()?;
        let page = u32::try_from(self.number()?).map_err(|_| nonsense())?;
        let mut scratch = Vec::new();
        let image = format::decode_page(self.bytes()?, &mut scratch).map_err(|_| nonsense())?;
        let id = PageId {
            filter,
            ordinal,
            page: PageIndex(page),
        };
        Ok((id, image.to_vec()))
    }

    fn bytes(&mut self) -> Result<&'a [u8], StoreError> {
        let length = usize::try_from(self.number()?).map_err(|_| nonsense())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(nonsense)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, StoreError> {
        let text = str::from_utf8(self.bytes()?).map_err(|_| nonsense())?;
        Ok(text.to_owned())
    }

    /// As many as a number says that comes first. Memory grows with what is
    /// read, not with what is said.
    fn many<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let count = self.number()?;
        (0..count).map(|_| one(self)).collect()
    }

    /// Two values that may be missing.
    fn pair<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<(Option<T>, Option<T>), StoreError> {
        let present = self.byte()?;
        if present & !(BEFORE | AFTER) != 0 {
            return Err(nonsense());
        }
        let mut if_present = |bit: u8| (present & bit != 0).then(|| one(self)).transpose();
        Ok((if_present(BEFORE)?, if_present(AFTER)?))
    }
}

#[cfg(test)]
mod tests;
