//! Values of items, or their rows: added, deleted, replaced, and asked for.

use crate::answer::{AddMode, AddResult};
use crate::batch::ItemBatch;
use crate::chain::meta::Chain;
use crate::chain::paged::values::ValueCopies;
use crate::chain::params::{Attributes, FilterParams, MAX_VALUES_PER_ITEM};
use crate::chain::plan::ReplaceResult;
use crate::chain::rows::RowCodec;
use crate::error::{EngineError, Holds, Result};
use crate::filters::OpenFilter;
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::StoredResponse;
use crate::lane::command::{ItemChange, Outcome, Replacement};
use crate::name::FilterName;
use crate::reader::{HasRow, HasValue, ITEMS_PER_TURN, Values};
use crate::row_refusal::ValueField;
use crate::rows::{EntryCodec, Rows, Where};
use crate::state::{Engine, EngineState};
use std::sync::Arc;

/// Most values that one answer may list.
pub const MAX_LISTED_VALUES: usize = 1 << 20;

/// Most bytes of the rows that one answer lists, as long as each may be.
pub const MAX_LISTED_BYTES: usize = 64 << 20;

/// Items whose values are listed before it is counted how many these are, and others
/// have their turn: few, until it is known that they have few values.
const ITEMS_AT_ONCE: usize = 256;
const FEW_ITEMS: usize = 16;
const MANY_VALUES: usize = 4096;

/// Items with a value or a row each, at the same position.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    /// The items.
    pub items: &'a ItemBatch,
    /// A value or a row of each.
    pub values: EntryValues<'a>,
}

/// Items with two values or rows each: the one that is there, and the one that it is
/// to become.
#[derive(Clone, Copy)]
pub struct Replacements<'a> {
    /// The items.
    pub items: &'a ItemBatch,
    /// What is there.
    pub from: EntryValues<'a>,
    /// What it is to become.
    pub to: EntryValues<'a>,
}

/// What entries have beside their items.
///
/// Two languages, for callers alone: lanes, plans and pages know values. A value is no
/// row of one label, since it is kept as the number that it is, where a label is looked
/// up among those of an attribute, or hashed.
#[derive(Clone, Copy)]
pub enum EntryValues<'a> {
    /// Values.
    Values(&'a Arc<[u32]>),
    /// Rows, which are values in the filter that they are for.
    Rows(&'a Rows),
}

impl<'a> From<&'a Arc<[u32]>> for EntryValues<'a> {
    fn from(values: &'a Arc<[u32]>) -> EntryValues<'a> {
        EntryValues::Values(values)
    }
}

/// The values of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What the values are made of, if they are rows.
    pub attributes: Option<Attributes>,
    /// Of each item, ascending, each once.
    pub values: Vec<Vec<ValueCopies>>,
}

impl Engine {
    /// Adds a value to each item; all of them or, if an error is returned, none.
    /// One result an entry, in order. With a key as [`Engine::add`].
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`],
    /// [`EngineError::RowRefused`], and those of [`Engine::add`].
    pub async fn add_values(
        &self,
        name: &FilterName,
        Entries { items, values }: Entries<'_>,
        mode: AddMode,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<AddResult>>> {
        let state = &self.state;
        let add = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = self.find(name).await?;
                state.quota.check_growth(filter.owner.as_ref())?;
                let values = self.as_values(&filter, values, ValueField::Value).await?;
                let change = ItemChange::AddValues(mode, values);
                let added = self.change_items(&filter, items, change, recorder.as_ref());
                if let Outcome::Added(results) = added.await? {
                    state.count_added(&results);
                    return Ok(results);
                }
            }
        };
        let bytes = StoredResponse::most_bytes(items.len());
        self.once(name, key, bytes, StoredResponse::added, add)
            .await
    }

    /// Deletes one copy of the value of each item; all or, if an error is
    /// returned, none. `false`: the item was not found with the value.
    ///
    /// Deleting what was never added may take another item's value, which is a
    /// false negative from then on.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`],
    /// [`EngineError::RowRefused`], and those of [`Engine::delete`].
    pub async fn delete_values(
        &self,
        name: &FilterName,
        Entries { items, values }: Entries<'_>,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<bool>>> {
        let state = &self.state;
        let delete = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = self.find(name).await?;
                let values = self.as_values(&filter, values, ValueField::Value).await?;
                let change = ItemChange::DeleteValues(values);
                let deleted = self.change_items(&filter, items, change, recorder.as_ref());
                if let Outcome::Deleted(results) = deleted.await? {
                    state.count_deleted(&results);
                    return Ok(results);
                }
            }
        };
        let bytes = StoredResponse::most_bytes(items.len());
        self.once(name, key, bytes, StoredResponse::deleted, delete)
            .await
    }

    /// Has each item have one value in place of another, one copy of it: both or
    /// neither. One result an entry, in order, and all of them in one commit.
    ///
    /// Replacing what was never added may take another item's value, as a delete.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`],
    /// [`EngineError::RowRefused`], and those of [`Engine::add`].
    pub async fn replace_values(
        &self,
        name: &FilterName,
        entries: Replacements<'_>,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Vec<ReplaceResult>>> {
        let state = &self.state;
        let replace = |recorder: Option<SideRecorder>| async move {
            let Replacements { items, from, to } = entries;
            loop {
                let filter = self.find(name).await?;
                state.quota.check_growth(filter.owner.as_ref())?;
                let from = self.as_values(&filter, from, ValueField::From).await?;
                let to = self.as_values(&filter, to, ValueField::To).await?;
                let both = from.iter().zip(to.iter());
                let both = both.map(|(&from, &to)| Replacement { from, to }.packed());
                let change = ItemChange::ReplaceValues(both.collect());
                let replaced = self.change_items(&filter, items, change, recorder.as_ref());
                if let Outcome::Replaced(results) = replaced.await? {
                    state.count_replaced(&results);
                    return Ok(results);
                }
            }
        };
        let bytes = StoredResponse::most_bytes(entries.items.len());
        self.once(name, key, bytes, StoredResponse::replaced, replace)
            .await
    }

    /// Whether each item has its value. "No" is right.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`], [`EngineError::ValueTooLarge`],
    /// [`EngineError::RowRefused`], and those of [`Engine::exists`].
    pub async fn has_values(&self, name: &FilterName, entries: Entries<'_>) -> Result<Vec<bool>> {
        let Entries { items, values } = entries;
        loop {
            let filter = self.find(name).await?;
            let values = self.as_values(&filter, values, ValueField::Value).await?;
            let (values, position) = (&*values, 0);
            let question = HasValue { values, position };
            if let Some(results) = self.ask_of(&filter, items, question).await? {
                self.state.count_found(&results);
                return Ok(results);
            }
        }
    }

    /// Whether each item has a row that meets a condition. "No" is right.
    ///
    /// # Errors
    /// [`EngineError::NoAttributes`], [`EngineError::RowRefused`], and those of
    /// [`Engine::exists`].
    pub async fn has_rows(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        condition: &Where,
    ) -> Result<Vec<bool>> {
        let state = &self.state;
        loop {
            let filter = self.find(name).await?;
            let codec = RowCodec::of(&filter.view.load().chain);
            let test = condition.test(codec.ok_or(EngineError::NoAttributes)?)?;
            let test = Arc::new(test);
            let question = HasRow(&test);
            if let Some(results) = self.ask_of(&filter, items, question).await? {
                state.count_found(&results);
                return Ok(results);
            }
        }
    }

    /// The values of each item, ascending, each once. None is missing; some of
    /// other items may be there. `gathered` is told again and again how many bytes
    /// the lists take so far, and may refuse that.
    ///
    /// # Errors
    /// [`EngineError::NotForThisFilter`]; [`EngineError::TooManyValues`] if they
    /// are more than [`MAX_LISTED_VALUES`], or rows of more than
    /// [`MAX_LISTED_BYTES`]; those of [`Engine::exists`], and of
    /// `gathered`.
    pub async fn values<E: From<EngineError>>(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        mut gathered: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Listed, E> {
        loop {
            let filter = self.find(name).await?;
            let listing = self.values_in(&filter, items, &mut gathered);
            if let Some(values) = listing.await? {
                self.state.count_items("values", "answered", values.len());
                let attributes = filter.view.load().chain.params().attributes().cloned();
                return Ok(Listed { attributes, values });
            }
        }
    }

    /// The same in a filter that was found. `None` if it is gone meanwhile.
    async fn values_in<E: From<EngineError>>(
        &self,
        filter: &Arc<OpenFilter>,
        items: &ItemBatch,
        gathered: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<Vec<Vec<ValueCopies>>>, E> {
        let mut listed = Vec::with_capacity(items.len());
        let (mut values, mut at_once) = (0, FEW_ITEMS);
        let (row, bound) = of_rows(&filter.view.load().chain);
        let of_lists = listed.capacity() * size_of::<Vec<ValueCopies>>();
        loop {
            // As all questions of many items, see `reader::ask`.
            if !listed.is_empty() {
                tokio::task::yield_now().await;
                self.caller.check()?;
            }
            let mut some = ItemBatch::default();
            let rest = listed.len()..items.len();
            for item in rest.take(at_once).filter_map(|at| items.get(at)) {
                some.push(item);
            }
            let asked = self.ask_of(filter, &some, Values);
            let Some(answers) = asked.await? else {
                return Ok(None);
            };
            let of_these = answers.iter().map(Vec::len).sum::<usize>();
            at_once = match of_these < MANY_VALUES {
                true => ITEMS_AT_ONCE.min(2 * at_once),
                false => FEW_ITEMS,
            };
            values += of_these;
            if values > bound {
                return Err(EngineError::TooManyValues { bound }.into());
            }
            gathered(of_lists + values * (size_of::<ValueCopies>() + row))?;
            listed.extend(answers);
            if listed.len() == items.len() {
                return Ok(Some(listed));
            }
        }
    }

    /// What entries have in a filter, as values that fit it.
    async fn as_values(
        &self,
        filter: &OpenFilter,
        given: EntryValues<'_>,
        field: ValueField,
    ) -> Result<Arc<[u32]>> {
        let codec = EntryCodec::of(&filter.view.load().chain);
        match (given, codec) {
            // Of no entries nobody can say which they are.
            (EntryValues::Values(none), EntryCodec::Rows(_)) if none.is_empty() => {
                Ok(Arc::clone(none))
            }
            (EntryValues::Values(values), EntryCodec::Values(bits)) => {
                check_values(values, bits, field)?;
                Ok(Arc::clone(values))
            }
            (EntryValues::Rows(rows), EntryCodec::Rows(mut codec)) => {
                let mut values = Vec::with_capacity(rows.len());
                while values.len() < rows.len() {
                    if !values.is_empty() {
                        tokio::task::yield_now().await;
                        self.caller.check()?;
                    }
                    let chunk = values.len()..rows.len().min(values.len() + ITEMS_PER_TURN);
                    rows.values(chunk, &mut codec, field, &mut values)?;
                }
                Ok(values.into())
            }
            _ => {
                let holds = Holds::of(filter.view.load().chain.params());
                Err(EngineError::NotForThisFilter { holds })
            }
        }
    }
}

/// Bytes of a row in an answer, 0 for a value; and how many an answer lists at most.
fn of_rows(chain: &Chain) -> (usize, usize) {
    let Some(attributes) = chain.params().attributes() else {
        return (0, MAX_LISTED_VALUES);
    };
    let row = attributes.most_json_bytes();
    // All of one item can always be listed.
    let bound = MAX_LISTED_BYTES / row;
    (
        row,
        bound.clamp(MAX_VALUES_PER_ITEM as usize, MAX_LISTED_VALUES),
    )
}

impl EngineState {
    /// Counts what became of replacements.
    fn count_replaced(&self, results: &[ReplaceResult]) {
        let of = |wanted: fn(&ReplaceResult) -> bool| {
            let results = results.iter();
            results.filter(|it| wanted(it)).count()
        };
        let replaced = of(|it| *it == ReplaceResult::Replaced);
        let absent = of(|it| *it == ReplaceResult::Absent);
        self.count_items("replace", "replaced", replaced);
        self.count_items("replace", "absent", absent);
        self.count_items("replace", "full", results.len() - replaced - absent);
    }
}

/// # Errors
/// One of the values does not fit.
fn check_values(values: &[u32], value_bits: u8, field: ValueField) -> Result {
    let too_large = |&(_, &value): &(usize, &u32)| value >> value_bits != 0;
    match values.iter().enumerate().find(too_large) {
        None => Ok(()),
        Some((position, &value)) => Err(EngineError::ValueTooLarge {
            position,
            field,
            value,
            value_bits,
        }),
    }
}

/// # Errors
/// The filter has values, so that an item alone can't be added or deleted.
pub(super) fn check_no_values(params: &FilterParams) -> Result {
    match params.value_bits() {
        0 => Ok(()),
        _ => {
            let holds = Holds::of(params);
            Err(EngineError::NotForThisFilter { holds })
        }
    }
}

/// # Errors
/// The filter has values; or its items expire, so that an entry may be that of
/// several items.
pub(super) fn check_deletes(params: &FilterParams) -> Result {
    check_no_values(params)?;
    match params.window() {
        Some(_) => Err(EngineError::ItemsExpire),
        None => Ok(()),
    }
}
