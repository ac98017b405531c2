//! Every mutation as one plain value. Applying the same commands in the same
//! order gives the same bytes: ids and times are fields, decided before.

use crate::answer::FilterSizes;
use crate::chain::address::PageAddress;
use crate::chain::meta::{Chain, FilterVersion, Lineage};
use crate::chain::params::{Epoch, FilterParams, MAX_VALUE_BITS};
use crate::chain::plan::compact::{Compacted, Slice};
use crate::chain::plan::{AddMode, AddResult, ReplaceResult, Swept};
use crate::claims::Claim;
use crate::cuckoo::hash::{HashKey, ItemHash};
use crate::idempotency::response::{Runs, StoredFilterInfo, StoredResponse};
use crate::name::FilterName;
use crate::page::FilterId;
use crate::store::{Expiry, PageImage, SideRecordChange};
use std::sync::Arc;

/// What a lane is asked to do: with the filter that the request names, but for
/// the first two and the last.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Make a filter, and add items to it in the same commit.
    Create(Create),
    /// Name a filter whose pages are there already.
    Adopt(Adopt),
    /// Have all pods take pages of a filter that has no name yet.
    Stage(PagesToStage),
    /// Have all pods remove the pages of a filter that gets no name.
    GiveUp(FilterId),
    /// Take the filter away.
    Remove,
    /// Take the filter away if it has ended by then.
    Expire {
        /// Milliseconds since 1970.
        now_ms: u64,
    },
    /// Have the filter end then, or never, if it still ends when it is known to.
    SetExpiry {
        /// When it ends, as far as is known.
        known: Option<Expiry>,
        /// When it is to end.
        expiry: Option<Expiry>,
        /// Its sizes, for the answer.
        sizes: FilterSizes,
    },
    /// Describe the filter as it is, so that the answer can be kept.
    Describe {
        /// Its sizes, for the answer.
        sizes: FilterSizes,
    },
    /// Take a step of the filter's compaction.
    Compact(CompactStep),
    /// Change items of the filter, at a moment in milliseconds since 1970: where
    /// items expire, they have done so by then.
    Items(ItemChange, Arc<[ItemHash]>, u64),
    /// Clear what has expired on some pages.
    Sweep {
        /// The first page.
        from: u32,
        /// How many.
        pages: u32,
        /// Milliseconds since 1970.
        now_ms: u64,
    },
    /// Have the commit log take a record of this lane that changes nothing.
    Barrier(u32),
}

impl Command {
    /// How many items it works on.
    pub(crate) fn items(&self) -> usize {
        self.hashes().len()
    }

    /// The items that it works on.
    pub(crate) fn hashes(&self) -> &[ItemHash] {
        match self {
            Command::Items(_, items, _) => items,
            Command::Create(create) => &create.items,
            _ => &[],
        }
    }

    /// The moment as of which it works on items that expire, in milliseconds since
    /// 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Command::Items(.., now_ms) | Command::Sweep { now_ms, .. } => *now_ms,
            Command::Create(create) => create.created_at_ms,
            _ => 0,
        }
    }

    /// How many of them it may add and delete.
    pub(crate) fn changes(&self) -> AddsAndDeletes {
        match self {
            Command::Items(change, items, _) => change.changes(items.len()),
            _ => AddsAndDeletes::default(),
        }
    }

    /// Whether it is refused while the disk is almost full. What removes whole
    /// filters or sub-filters is not: it makes room.
    pub(crate) fn needs_room(&self) -> bool {
        match self {
            Command::Create(_)
            | Command::Adopt(_)
            | Command::Stage(_)
            | Command::SetExpiry { .. }
            | Command::Describe { .. }
            | Command::Compact(CompactStep::Begin { .. } | CompactStep::Move(_))
            | Command::Items(..)
            | Command::Sweep { .. } => true,
            Command::Remove
            | Command::GiveUp(_)
            | Command::Expire { .. }
            | Command::Barrier(_)
            | Command::Compact(CompactStep::End) => false,
        }
    }

    /// Whether it may have the filter grow.
    pub(crate) fn adds(&self) -> bool {
        matches!(self, Command::Create(_)) || self.changes().adds > 0
    }

    /// Its kind, for the metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Command::Create(_) => "create",
            Command::Adopt(_) => "adopt",
            Command::Stage(_) => "stage",
            Command::GiveUp(_) => "give_up",
            Command::Remove => "remove",
            Command::Expire { .. } => "expire",
            Command::SetExpiry { .. } => "set_expiry",
            Command::Describe { .. } => "describe",
            Command::Compact(CompactStep::Begin { .. }) => "begin_compaction",
            Command::Compact(CompactStep::Move(_)) => "compact",
            Command::Compact(CompactStep::End) => "end_compaction",
            Command::Items(ItemChange::Add(_), ..) => "add",
            Command::Items(ItemChange::Delete, ..) => "delete",
            Command::Items(ItemChange::AddValues(..), ..) => "add_values",
            Command::Items(ItemChange::DeleteValues(_), ..) => "delete_values",
            Command::Items(ItemChange::ReplaceValues(_), ..) => "replace_values",
            Command::Items(ItemChange::Steps(_), ..) => "steps",
            Command::Sweep { .. } => "sweep",
            Command::Barrier(_) => "barrier",
        }
    }
}

/// How to change items.
#[derive(Clone, Debug)]
pub(crate) enum ItemChange {
    /// Add each.
    Add(AddMode),
    /// Delete one copy of each.
    Delete,
    /// Add each with the value at its place.
    AddValues(AddMode, Arc<[u32]>),
    /// Delete one copy of the value at its place from each.
    DeleteValues(Arc<[u32]>),
    /// Have each have one value in place of another, both in one number, see
    /// [`Replacement`].
    ReplaceValues(Arc<[u32]>),
    /// Each step with the next so many of them, and questions among the steps.
    Steps(Arc<[ItemStep]>),
}

impl ItemChange {
    /// How many of so many items it may add and delete.
    fn changes(&self, items: usize) -> AddsAndDeletes {
        let (adds, deletes) = match self {
            ItemChange::Add(_) | ItemChange::AddValues(..) | ItemChange::ReplaceValues(_) => {
                (items, 0)
            }
            ItemChange::Delete | ItemChange::DeleteValues(_) => (0, items),
            ItemChange::Steps(steps) => {
                let each = steps.iter();
                each.fold((0, 0), |(adds, deletes), step| match step.op {
                    ItemOp::Add(_) => (adds + step.items, deletes),
                    ItemOp::Delete => (adds, deletes + step.items),
                    ItemOp::Exists(_) | ItemOp::Count => (adds, deletes),
                })
            }
        };
        AddsAndDeletes { adds, deletes }
    }
}

/// What to do with the items of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOp {
    /// Add each.
    Add(AddMode),
    /// Delete one copy of each.
    Delete,
    /// Ask whether each is there. Where items expire: whether it was seen in that
    /// epoch or later; `None`: within the window.
    Exists(Option<Epoch>),
    /// Ask how often each is there.
    Count,
}

/// A value, and the one that it is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Replacement {
    /// Both in one number: a value has 16 bits at most.
    pub(crate) fn packed(self) -> u32 {
        self.from | self.to << MAX_VALUE_BITS
    }

    /// What [`packed`](Self::packed) made one number.
    pub(crate) fn unpacked(both: u32) -> Replacement {
        Replacement {
            from: both & ((1 << MAX_VALUE_BITS) - 1),
            to: both >> MAX_VALUE_BITS,
        }
    }
}

/// How many items a command may add and delete.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddsAndDeletes {
    pub(crate) adds: usize,
    pub(crate) deletes: usize,
}

/// A part of a command: the same for the next so many items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemStep {
    /// What to do with them.
    pub op: ItemOp,
    /// How many.
    pub items: usize,
}

/// What became of an item of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemResult {
    /// Of an add.
    Added(AddResult),
    /// Whether a copy was there to be deleted.
    Deleted(bool),
    /// Whether it is there.
    Found(bool),
    /// How often it is there.
    Counted(u64),
}

/// What a creation is answered with, should the answer be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyWith {
    /// What became of the items.
    Results,
    /// What the filter is.
    Description,
}

/// See [`Command::Create`].
#[derive(Clone, Debug)]
pub(crate) struct Create {
    /// Its number, never used before.
    pub(crate) id: FilterId,
    /// Its name.
    pub(crate) name: FilterName,
    /// What it shall be.
    pub(crate) params: FilterParams,
    /// The key of its hash, should it have a keyed one: drawn at random before.
    pub(crate) hash_key: HashKey,
    /// What its versions have in common: drawn at random, too.
    pub(crate) lineage: Lineage,
    /// Milliseconds since 1970; a filter of the name that has ended by then
    /// makes room for it.
    pub(crate) created_at_ms: u64,
    /// When it is to end.
    pub(crate) expiry: Option<Expiry>,
    /// Its first items.
    pub(crate) items: Arc<[ItemHash]>,
    /// How they are added.
    pub(crate) mode: AddMode,
    /// What it is answered with.
    pub(crate) reply_with: ReplyWith,
}

/// See [`Command::Adopt`].
#[derive(Clone, Debug)]
pub(crate) struct Adopt {
    /// Its number, under which its pages were staged.
    pub(crate) id: FilterId,
    /// Its name.
    pub(crate) name: FilterName,
    /// What it is.
    pub(crate) chain: Arc<Chain>,
    /// The filter whose place it takes; `None`: there must be none.
    pub(crate) replaces: Option<Replaced>,
    /// Milliseconds since 1970; a filter of the name that has ended by then
    /// makes room for it.
    pub(crate) now_ms: u64,
    /// Its sizes, for the answer.
    pub(crate) sizes: FilterSizes,
    /// Has answers about the filter that it replaces hold for it, if it is that one and
    /// more.
    pub(crate) succession: Option<SideRecordChange>,
}

/// See [`Command::Stage`].
#[derive(Clone, Debug)]
pub(crate) struct PagesToStage {
    /// The name that it is to get.
    pub(crate) name: FilterName,
    /// Its number; `None`: it has none yet, and is given one.
    pub(crate) id: Option<FilterId>,
    /// The pages.
    pub(crate) pages: Arc<[PageImage]>,
    /// Of whoever takes the filter in.
    pub(crate) claim: Claim,
}

/// A filter that another one takes the place of.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    /// Its number.
    pub(crate) id: FilterId,
    /// The version that it must have.
    pub(crate) version: Option<FilterVersion>,
}

/// See [`Command::Compact`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum CompactStep {
    /// Close the sub-filters that the others have room for.
    Begin {
        /// How full those may get, as a share of the load that kick-outs
        /// reach.
        share: f64,
    },
    /// Move some entries.
    Move(Slice),
    /// Drop the newest sub-filters that are empty, and open the rest.
    End,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The filter is there, with its first items.
    Created(Vec<AddResult>, Box<StoredFilterInfo>),
    /// A filter of that name was there before.
    NameTaken,
    /// The filter has its name.
    Adopted(Box<StoredFilterInfo>),
    /// Pages are staged under this number.
    Staged(FilterId),
    /// The filter is given up.
    GivenUp,
    /// The filter is gone.
    Removed,
    /// The filter has not ended; nothing was done.
    NotDue,
    /// The filter, which was there, as it is now.
    Described(Box<StoredFilterInfo>),
    /// So many sub-filters are closed.
    CompactionBegun(u32),
    /// What came of a slice.
    Compacted(Compacted),
    /// So many sub-filters are gone.
    CompactionEnded(usize),
    /// One result an item.
    Added(Vec<AddResult>),
    /// One result an item.
    Deleted(Vec<bool>),
    /// One result an item.
    Replaced(Vec<ReplaceResult>),
    /// What came of sweeping some pages.
    Swept(Swept),
    /// One result an item, of the kind of its step.
    Stepped(Vec<ItemResult>),
    /// The commit log has taken a record.
    Passed,
    /// The filter it was meant for is not the one of that name any more; look
    /// it up again. Nothing was done.
    Stale,
    /// These pages must be resident first. Nothing was done.
    NeedsPages(Vec<PageAddress>),
}

impl Outcome {
    /// What it comes to, for the metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Outcome::NameTaken => "name_taken",
            Outcome::Stale => "stale",
            Outcome::NotDue => "not_due",
            Outcome::NeedsPages(_) => "needs_pages",
            _ => "applied",
        }
    }

    /// What is kept of it for a retry; `None` if nothing was done.
    pub(crate) fn response(&self, reply_with: ReplyWith) -> Option<StoredResponse> {
        Some(match self {
            Outcome::Created(results, filter) => match reply_with {
                ReplyWith::Results => StoredResponse::Added(Runs::of(results)),
                ReplyWith::Description => StoredResponse::Filter(filter.clone()),
            },
            Outcome::Adopted(filter) | Outcome::Described(filter) => {
                StoredResponse::Filter(filter.clone())
            }
            Outcome::Removed => StoredResponse::Removed,
            Outcome::Added(results) => StoredResponse::Added(Runs::of(results)),
            Outcome::Deleted(results) => StoredResponse::Deleted(Runs::of(results)),
            Outcome::Replaced(results) => StoredResponse::Replaced(Runs::of(results)),
            Outcome::CompactionBegun(closed) => StoredResponse::CompactionBegun(*closed),
            Outcome::Staged(_)
            | Outcome::GivenUp
            | Outcome::Compacted(_)
            | Outcome::CompactionEnded(_)
            | Outcome::Swept(_)
            | Outcome::Stepped(_)
            | Outcome::Passed
            | Outcome::NameTaken
            | Outcome::NotDue
            | Outcome::Stale
            | Outcome::NeedsPages(_) => return None,
        })
    }
}
