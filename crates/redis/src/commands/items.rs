//! The commands that work on items: taken apart, and answered. Those of Bloom filters
//! are those of cuckoo filters in other words: to add is to add what is not there.

use super::errors::{self, NOT_FOUND};
use super::table::{Spec, Verb};
use crate::chain::params::{FilterRequest, LayoutKind, MIN_ERROR_RATE};
use crate::engine::{AddMode, AddResult, FullReason, ItemOp, ItemResult, NewFilter};
use crate::protocol::encode::{Replies, Version};
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;
use std::ops::{Range, RangeInclusive};

/// Longest item, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 64 << 10;

/// A filter with less than so many slots has no second bucket.
const MIN_CAPACITY: i64 = 4;

/// Most capacity of a filter.
pub(crate) const MAX_CAPACITY: i64 = 1 << 40;

/// Growth factors that clients may ask for.
pub(crate) const EXPANSIONS: RangeInclusive<i64> = 0..=32768;

/// Of an option that there is none of.
pub(crate) const UNKNOWN_ARGUMENT: &str = "Unknown argument received";

/// What is asked for, a kind for each kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemVerb {
    /// `CF.EXISTS`, `BF.EXISTS`.
    Exists,
    /// `CF.MEXISTS`, `BF.MEXISTS`.
    MExists,
    /// `CF.COUNT`.
    Count,
    /// `CF.ADD`, `CF.ADDNX`.
    Add(AddMode),
    /// `CF.INSERT`, `CF.INSERTNX`.
    Insert(AddMode),
    /// `CF.DEL`.
    Delete,
    /// `BF.ADD`.
    BloomAdd,
    /// `BF.MADD`, `BF.INSERT`.
    BloomInsert,
}

impl ItemVerb {
    /// Of a command that works on items.
    #[inline]
    pub(crate) fn of(verb: Verb) -> Option<ItemVerb> {
        Some(match verb {
            Verb::CfExists | Verb::BfExists => ItemVerb::Exists,
            Verb::CfMExists | Verb::BfMExists => ItemVerb::MExists,
            Verb::CfCount => ItemVerb::Count,
            Verb::CfAdd => ItemVerb::Add(AddMode::Always),
            Verb::CfAddNx => ItemVerb::Add(AddMode::OnlyIfAbsent),
            Verb::CfInsert => ItemVerb::Insert(AddMode::Always),
            Verb::CfInsertNx => ItemVerb::Insert(AddMode::OnlyIfAbsent),
            Verb::CfDel => ItemVerb::Delete,
            Verb::BfAdd => ItemVerb::BloomAdd,
            Verb::BfMAdd | Verb::BfInsert => ItemVerb::BloomInsert,
            _ => return None,
        })
    }

    /// Whether it changes nothing.
    pub(crate) fn is_question(self) -> bool {
        matches!(self, ItemVerb::Exists | ItemVerb::MExists | ItemVerb::Count)
    }

    /// Whether its reply is a list, of an entry for each item.
    pub(crate) fn has_list(self) -> bool {
        matches!(
            self,
            ItemVerb::MExists | ItemVerb::Insert(_) | ItemVerb::BloomInsert
        )
    }

    /// What is done with each item.
    pub(crate) fn op(self) -> ItemOp {
        match self {
            ItemVerb::Exists | ItemVerb::MExists => ItemOp::Exists(None),
            ItemVerb::Count => ItemOp::Count,
            ItemVerb::Add(mode) | ItemVerb::Insert(mode) => ItemOp::Add(mode),
            ItemVerb::BloomAdd | ItemVerb::BloomInsert => ItemOp::Add(AddMode::OnlyIfAbsent),
            ItemVerb::Delete => ItemOp::Delete,
        }
    }
}

/// What a filter is to be that is made for its first items.
/// `None`: the server's default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FirstItems {
    pub(crate) capacity: Option<u64>,
    pub(crate) layout: Option<LayoutKind>,
    pub(crate) error_rate: Option<f64>,
    pub(crate) expansion: Option<u64>,
}

impl FirstItems {
    /// In place of a Bloom filter: `classic` would not keep a rate.
    const BLOOM: FirstItems = FirstItems {
        capacity: None,
        layout: Some(LayoutKind::Paged),
        error_rate: None,
        expansion: None,
    };

    /// For the engine. What is made on this port has RedisBloom's geometry.
    pub(crate) fn filter(self) -> NewFilter {
        NewFilter::from(FilterRequest {
            capacity: self.capacity,
            capacity_in_slots: true,
            layout: self.layout,
            error_rate: self.error_rate,
            expansion: self.expansion,
            ..FilterRequest::default()
        })
    }
}

/// A command taken apart: its key is the word behind its name.
#[derive(Clone, Debug, PartialEq)]
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
        ItemVerb::Insert(_) => insert(spec, words, FirstItems::default())?,
        ItemVerb::BloomInsert if spec.verb == Verb::BfInsert => {
            insert(spec, words, FirstItems::BLOOM)?
        }
        ItemVerb::Add(_) => (2..3, Some(FirstItems::default())),
        ItemVerb::BloomAdd | ItemVerb::BloomInsert => (2..words.len(), Some(FirstItems::BLOOM)),
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

/// The items of `CF.INSERT` or `BF.INSERT`, and what is made for them.
fn insert(
    spec: &Spec,
    words: Words<'_>,
    mut first: FirstItems,
) -> Result<(Range<usize>, Option<FirstItems>), String> {
    let is_bloom = spec.verb == Verb::BfInsert;
    let (mut creates, mut scales) = (true, true);
    let mut at = 2;
    while at < words.len() {
        let word = words.get(at);
        at += 1;
        if word.eq_ignore_ascii_case(b"items") {
            if at == words.len() {
                return Err(errors::arity(spec));
            }
            if !scales {
                first.expansion = Some(0);
            }
            return Ok((at..words.len(), creates.then_some(first)));
        }
        let value = words.get(at);
        match word.to_ascii_lowercase().as_slice() {
            b"nocreate" => {
                creates = false;
                continue;
            }
            b"nonscaling" if is_bloom => {
                scales = false;
                continue;
            }
            b"capacity" | b"error" | b"expansion" if at == words.len() => {
                return Err(errors::arity(spec));
            }
            b"capacity" if is_bloom => {
                let capacity = integer(value).filter(|it| (1..=MAX_CAPACITY).contains(it));
                first.capacity = Some(capacity.ok_or("Bad capacity")?.unsigned_abs());
            }
            b"capacity" => first.capacity = Some(insert_capacity(value)?),
            b"error" if is_bloom => {
                first.error_rate = Some(bloom_rate(decimal(value), "Bad error rate")?);
            }
            b"expansion" if is_bloom => {
                let factor = integer(value).filter(|it| EXPANSIONS.contains(it));
                first.expansion = Some(factor.ok_or("Bad expansion")?.unsigned_abs());
            }
            _ => return Err(UNKNOWN_ARGUMENT.to_owned()),
        }
        at += 1;
    }
    Err(errors::arity(spec))
}

/// A number with a point.
pub(crate) fn decimal(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The rate of a Bloom filter that is to have this one. RedisBloom takes no rate for
/// larger than a quarter.
///
/// # Errors
/// There is none: `none`, or words of our own where RedisBloom has one.
pub(crate) fn bloom_rate(asked_for: Option<f64>, none: &'static str) -> Result<f64, &'static str> {
    match asked_for.filter(|it| *it > 0.0 && *it < 1.0) {
        None => Err(none),
        Some(rate) if rate < MIN_ERROR_RATE => {
            Err("ERR error rate must be at least 2e-8, and below 1; one above 0.25 counts as 0.25")
        }
        Some(rate) => Ok(rate.min(0.25)),
    }
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

/// Writes the reply to a command on one item that was done; whether it is one of success.
#[inline]
pub(crate) fn reply(verb: ItemVerb, result: ItemResult, replies: &mut Replies) -> bool {
    match result {
        ItemResult::Found(yes) | ItemResult::Deleted(yes) => replies.boolean(yes),
        ItemResult::Counted(copies) => replies.count(copies),
        ItemResult::Added(AddResult::Added | AddResult::Refreshed) => replies.boolean(true),
        ItemResult::Added(AddResult::Exists) => replies.boolean(false),
        ItemResult::Added(AddResult::Full(reason)) => {
            replies.error(full(verb, reason));
            return false;
        }
    }
    true
}

/// Of an item that there is no room for.
fn full(verb: ItemVerb, reason: FullReason) -> &'static str {
    match reason {
        FullReason::ExpansionOff if matches!(verb, ItemVerb::BloomAdd | ItemVerb::BloomInsert) => {
            "ERR non scaling filter is full"
        }
        FullReason::ExpansionOff | FullReason::MaxValuesPerItem => "Filter is full",
        FullReason::MaxExpansions | FullReason::GrowthLimit => "Maximum expansions reached",
        FullReason::MaxFilterBytes => "ERR Insufficient memory",
    }
}

/// Whether an item was added, or seen again.
fn is_in(result: AddResult) -> bool {
    matches!(result, AddResult::Added | AddResult::Refreshed)
}

/// Writes an entry of the list that is the reply to a command on many items.
pub(crate) fn reply_one_of_many(verb: ItemVerb, result: ItemResult, replies: &mut Replies) {
    let is_integer = matches!(verb, ItemVerb::Insert(AddMode::OnlyIfAbsent))
        || replies.version == Version::Resp2;
    match result {
        ItemResult::Added(AddResult::Full(reason)) if verb == ItemVerb::BloomInsert => {
            replies.error(full(verb, reason));
        }
        ItemResult::Added(AddResult::Full(_)) if is_integer => replies.integer(-1),
        ItemResult::Added(result) if is_integer => replies.integer(i64::from(is_in(result))),
        ItemResult::Added(result) => replies.boolean(is_in(result)),
        ItemResult::Found(yes) | ItemResult::Deleted(yes) => replies.boolean(yes),
        ItemResult::Counted(copies) => replies.count(copies),
    }
}

/// Writes the reply to a command for which there is no filter, unless it is a list.
pub(crate) fn reply_missing(verb: ItemVerb, replies: &mut Replies) -> bool {
    match verb {
        ItemVerb::Exists | ItemVerb::MExists => replies.boolean(false),
        ItemVerb::Count => replies.integer(0),
        ItemVerb::Delete => {
            replies.error("Not found");
            return false;
        }
        ItemVerb::Add(_) | ItemVerb::Insert(_) | ItemVerb::BloomAdd | ItemVerb::BloomInsert => {
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
