//! The commands that work on items: taken apart, and answered.

use super::errors::{self, NOT_FOUND};
use super::table::{Spec, Verb};
use crate::chain::params::{FilterRequest, LayoutKind};
use crate::engine::{AddMode, AddResult, FullReason, ItemOp, ItemResult, NewFilter};
use crate::redis::protocol::batch::Words;
use crate::redis::protocol::encode::{Replies, Version};
use crate::redis::protocol::number::integer;
use std::ops::Range;

/// Longest item, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 64 << 10;

/// A filter with less than so many slots has no second bucket.
const MIN_CAPACITY: i64 = 4;

/// Most capacity of a filter.
pub(crate) const MAX_CAPACITY: i64 = 1 << 40;

/// What is asked for, a kind for each kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemVerb {
    /// `CF.EXISTS`.
    Exists,
    /// `CF.MEXISTS`.
    MExists,
    /// `CF.COUNT`.
    Count,
    /// `CF.ADD`, `CF.ADDNX`.
    Add(AddMode),
    /// `CF.INSERT`, `CF.INSERTNX`.
    Insert(AddMode),
    /// `CF.DEL`.
    Delete,
}

impl ItemVerb {
    /// Of a command that works on items.
    #[inline]
    pub(crate) fn of(verb: Verb) -> Option<ItemVerb> {
        Some(match verb {
            Verb::CfExists => ItemVerb::Exists,
            Verb::CfMExists => ItemVerb::MExists,
            Verb::CfCount => ItemVerb::Count,
            Verb::CfAdd => ItemVerb::Add(AddMode::Always),
            Verb::CfAddNx => ItemVerb::Add(AddMode::OnlyIfAbsent),
            Verb::CfInsert => ItemVerb::Insert(AddMode::Always),
            Verb::CfInsertNx => ItemVerb::Insert(AddMode::OnlyIfAbsent),
            Verb::CfDel => ItemVerb::Delete,
            _ => return None,
        })
    }

    /// Whether it changes nothing.
    pub(crate) fn is_question(self) -> bool {
        matches!(self, ItemVerb::Exists | ItemVerb::MExists | ItemVerb::Count)
    }

    /// What is done with each item.
    pub(crate) fn op(self) -> ItemOp {
        match self {
            ItemVerb::Exists | ItemVerb::MExists => ItemOp::Exists(None),
            ItemVerb::Count => ItemOp::Count,
            ItemVerb::Add(mode) | ItemVerb::Insert(mode) => ItemOp::Add(mode),
            ItemVerb::Delete => ItemOp::Delete,
        }
    }
}

/// What a filter is to be that is made for its first items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstItems {
    /// `None`: the server's default.
    pub(crate) capacity: Option<u64>,
}

impl FirstItems {
    /// For the engine. What is made on this port has RedisBloom's geometry.
    pub(crate) fn filter(self) -> NewFilter {
        NewFilter::from(FilterRequest {
            capacity: self.capacity,
            capacity_in_slots: true,
            ..FilterRequest::default()
        })
    }
}

/// A command taken apart: its key is the word behind its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemCommand {
    /// What is asked for.
    pub(crate) verb: ItemVerb,
    /// Which of its words are items.
    pub(crate) items: Range<usize>,
    /// What is made if there is no filter; `None`: nothing.
    pub(crate) creates: Option<FirstItems>,
}

/// Takes a command apart.
///
/// # Errors
/// In the words of RedisBloom.
#[inline]
pub(crate) fn parse(
    spec: &Spec,
    verb: ItemVerb,
    words: Words<'_>,
    max_items: usize,
) -> Result<ItemCommand, String> {
    if !spec.takes(words.len()) {
        return Err(errors::arity(spec));
    }
    let (items, creates) = match verb {
        ItemVerb::Insert(_) => insert(spec, words)?,
        ItemVerb::Add(_) => (2..3, Some(FirstItems::default())),
        _ => (2..words.len(), None),
    };
    if items.len() > max_items {
        return Err(format!(
            "ERR the command has {} items, {max_items} are allowed (--max-batch-items)",
            items.len()
        ));
    }
    let places = words.places().get(items.clone()).unwrap_or_default();
    if let Some(long) = places.iter().find(|place| place.len() > MAX_ITEM_BYTES) {
        return Err(format!(
            "ERR an item has {} bytes, {MAX_ITEM_BYTES} are allowed",
            long.len()
        ));
    }
    Ok(ItemCommand {
        verb,
        items,
        creates,
    })
}

/// The items of `CF.INSERT`, and what is made for them.
fn insert(spec: &Spec, words: Words<'_>) -> Result<(Range<usize>, Option<FirstItems>), String> {
    let mut creates = Some(FirstItems::default());
    let mut capacity = None;
    let mut at = 2;
    while at < words.len() {
        let word = words.get(at);
        at += 1;
        if word.eq_ignore_ascii_case(b"items") {
            if at == words.len() {
                return Err(errors::arity(spec));
            }
            if let Some(creates) = &mut creates {
                creates.capacity = capacity;
            }
            return Ok((at..words.len(), creates));
        } else if word.eq_ignore_ascii_case(b"nocreate") {
            creates = None;
        } else if word.eq_ignore_ascii_case(b"capacity") {
            if at == words.len() {
                return Err(errors::arity(spec));
            }
            capacity = Some(insert_capacity(words.get(at))?);
            at += 1;
        } else {
            return Err("Unknown argument received".to_owned());
        }
    }
    Err(errors::arity(spec))
}

fn insert_capacity(word: &[u8]) -> Result<u64, String> {
    let capacity = integer(word).ok_or("Bad capacity")?;
    match (MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity) {
        true => Ok(capacity.unsigned_abs()),
        false => Err(format!(
            "Capacity must be in the range [cf-bucket-size * 2, {MAX_CAPACITY}]"
        )),
    }
}

/// Writes the reply to a command that was done; whether it is one of success.
#[inline]
pub(crate) fn reply(verb: ItemVerb, results: &[ItemResult], replies: &mut Replies) -> bool {
    match (verb, results) {
        (ItemVerb::MExists | ItemVerb::Insert(_), results) => {
            replies.array(results.len());
            for result in results {
                one_of_many(verb, *result, replies);
            }
            true
        }
        (_, [result]) => single(*result, replies),
        // There always is one.
        (_, _) => {
            replies.error("ERR no result");
            false
        }
    }
}

#[inline]
fn single(result: ItemResult, replies: &mut Replies) -> bool {
    match result {
        ItemResult::Found(yes) | ItemResult::Deleted(yes) => replies.boolean(yes),
        ItemResult::Counted(copies) => replies.count(copies),
        ItemResult::Added(AddResult::Added | AddResult::Refreshed) => replies.boolean(true),
        ItemResult::Added(AddResult::Exists) => replies.boolean(false),
        ItemResult::Added(AddResult::Full(reason)) => {
            replies.error(match reason {
                FullReason::ExpansionOff | FullReason::MaxValuesPerItem => "Filter is full",
                FullReason::MaxExpansions | FullReason::GrowthLimit => "Maximum expansions reached",
                FullReason::MaxFilterBytes => "ERR Insufficient memory",
            });
            return false;
        }
    }
    true
}

/// Whether an item was added, or seen again.
fn is_in(result: AddResult) -> bool {
    matches!(result, AddResult::Added | AddResult::Refreshed)
}

fn one_of_many(verb: ItemVerb, result: ItemResult, replies: &mut Replies) {
    let is_integer = matches!(verb, ItemVerb::Insert(AddMode::OnlyIfAbsent))
        || replies.version() == Version::Resp2;
    match result {
        ItemResult::Added(AddResult::Full(_)) if is_integer => replies.integer(-1),
        ItemResult::Added(result) if is_integer => replies.integer(i64::from(is_in(result))),
        ItemResult::Added(result) => replies.boolean(is_in(result)),
        ItemResult::Found(yes) | ItemResult::Deleted(yes) => replies.boolean(yes),
        ItemResult::Counted(copies) => replies.count(copies),
    }
}

/// Writes the reply to a command for which there is no filter.
pub(crate) fn reply_missing(verb: ItemVerb, items: usize, replies: &mut Replies) -> bool {
    match verb {
        ItemVerb::Exists => replies.boolean(false),
        ItemVerb::Count => replies.integer(0),
        ItemVerb::MExists => {
            replies.array(items);
            (0..items).for_each(|_| replies.boolean(false));
        }
        ItemVerb::Delete => {
            replies.error("Not found");
            return false;
        }
        ItemVerb::Add(_) | ItemVerb::Insert(_) => {
            replies.error(NOT_FOUND);
            return false;
        }
    }
    true
}

/// Which layout a name of it means.
pub(crate) fn layout(word: &[u8]) -> Option<LayoutKind> {
    [LayoutKind::Paged, LayoutKind::Classic]
        .into_iter()
        .find(|kind| word.eq_ignore_ascii_case(kind.name().as_bytes()))
}
