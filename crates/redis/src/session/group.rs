//! The commands of a run that concern one filter, asked of the engine at once.

use super::failure::Failure;
use crate::commands::errors::{IS_LOADING, is_too_much};
use crate::commands::items::{FirstItems, ItemVerb};
use crate::engine::{
    AddOptions, Engine, EngineError, FilterName, ItemBatch, ItemOp, ItemResult, ItemStep,
};
use crate::server::listen::polls::give_way;
use crate::transfers::Transfers;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Items that are asked for at once: as many as the engine answers without
/// giving its thread away.
const QUESTIONS_AT_ONCE: usize = 4096;

/// See the module.
pub(super) struct Group<'a> {
    pub(super) name: FilterName,
    commands: Vec<Grouped<'a>>,
    /// Items of all of them.
    items: usize,
    /// Whether all of it must be one commit.
    pub(super) is_one_commit: bool,
}

/// One of its commands.
struct Grouped<'a> {
    verb: ItemVerb,
    /// Where its items lie.
    places: &'a [Range<usize>],
    /// How many the commands before it have.
    before: usize,
    creates: Option<FirstItems>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// Its items have results.
    Done,
    /// There is no filter.
    Missing,
    /// It was not done.
    Failed(Arc<Failure>),
}

/// What became of a group.
pub(super) struct GroupDone {
    /// One an item, up to those of the last command that was done.
    pub(super) results: Vec<ItemResult>,
    /// One a command.
    pub(super) became: Vec<Became>,
}

impl<'a> Group<'a> {
    /// For a filter, without commands.
    pub(super) fn new(name: FilterName) -> Group<'a> {
        Group {
            name,
            commands: Vec::new(),
            items: 0,
            is_one_commit: false,
        }
    }

    /// Adds a command with its items, and says where they are.
    pub(super) fn push(
        &mut self,
        verb: ItemVerb,
        places: &'a [Range<usize>],
        creates: Option<FirstItems>,
    ) -> (usize, Range<usize>) {
        let before = self.items;
        self.items += places.len();
        self.commands.push(Grouped {
            verb,
            places,
            before,
            creates,
        });
        (self.commands.len() - 1, before..self.items)
    }

    /// All commands became the same.
    fn all(&self, results: Vec<ItemResult>, became: Became) -> GroupDone {
        let became = vec![became; self.commands.len()];
        GroupDone { results, became }
    }

    /// What becomes of all of it if it is not asked for at all.
    pub(super) fn refused(&self, failure: &Arc<Failure>) -> GroupDone {
        self.all(Vec::new(), Became::Failed(Arc::clone(failure)))
    }

    /// Has the engine work on it. The items lie in `bytes`.
    pub(super) async fn work(
        &self,
        engine: &Engine,
        transfers: &Transfers,
        bytes: &Bytes,
    ) -> GroupDone {
        let all = 0..self.commands.len();
        // Nearly always it is done at once.
        match self.ask(engine, bytes, &all, false).await {
            Ok(results) => self.all(results, Became::Done),
            Err(error) => Box::pin(self.work_in_parts(engine, transfers, bytes, error)).await,
        }
    }

    /// The same, after all of it at once was refused.
    async fn work_in_parts(
        &self,
        engine: &Engine,
        transfers: &Transfers,
        bytes: &Bytes,
        refused: EngineError,
    ) -> GroupDone {
        let mut done = self.all(Vec::new(), Became::Missing);
        let mut todo = vec![(0..self.commands.len(), Some(refused))];
        while let Some((part, refused)) = todo.pop() {
            let asked = match refused {
                Some(error) => Err(error),
                None => self.ask(engine, bytes, &part, false).await,
            };
            match asked {
                Ok(results) => done.set_results(self, part, results),
                Err(EngineError::NotFound { .. }) => {
                    // Those before the first that makes the filter find none.
                    let commands = self.commands.get(part.clone()).unwrap_or_default();
                    let finding = commands.iter().take_while(|it| it.creates.is_none());
                    let rest = part.start + finding.count()..part.end;
                    let first = self.commands.get(rest.start).filter(|_| !rest.is_empty());
                    if transfers.is_loading(&self.name) && !rest.is_empty() {
                        done.refuse(rest, IS_LOADING.into());
                    } else if let Some(first) = first {
                        match self.create(engine, bytes, &rest, first).await {
                            Ok(Some(results)) => done.set_results(self, rest, results),
                            Ok(None) => todo.push((rest, None)),
                            Err(error) => done.refuse(rest, error.into()),
                        }
                    }
                }
                Err(error) if is_too_much(&error) && part.len() > 1 && !self.is_one_commit => {
                    let middle = part.start + part.len() / 2;
                    todo.push((middle..part.end, None));
                    todo.push((part.start..middle, None));
                }
                Err(error) => done.refuse(part, error.into()),
            }
        }
        done
    }

    /// Makes the filter, if it can be in one commit with all of a part, whose
    /// results are returned then.
    async fn create(
        &self,
        engine: &Engine,
        bytes: &Bytes,
        part: &Range<usize>,
        first: &Grouped<'a>,
    ) -> Result<Option<Vec<ItemResult>>, EngineError> {
        let commands = self.commands.get(part.clone()).unwrap_or_default();
        if self.single_op(commands).is_some() {
            return self.ask(engine, bytes, part, true).await.map(Some);
        }
        let new = first.creates.unwrap_or_default().filter();
        engine.create_filter(&self.name, &new, None).await?;
        Ok(None)
    }

    /// What is done with all items of some commands, if it is the same.
    fn single_op(&self, commands: &[Grouped<'_>]) -> Option<ItemOp> {
        let op = commands.first()?.verb.op();
        commands.iter().all(|it| it.verb.op() == op).then_some(op)
    }

    /// Asks the engine to work on some of the commands, in one piece.
    async fn ask(
        &self,
        engine: &Engine,
        bytes: &Bytes,
        part: &Range<usize>,
        may_create: bool,
    ) -> Result<Vec<ItemResult>, EngineError> {
        let commands = self.commands.get(part.clone()).unwrap_or_default();
        let Some(first) = commands.first() else {
            return Ok(Vec::new());
        };
        let mut places = commands.iter().flat_map(|command| command.places).cloned();
        let items = commands.iter().map(|command| command.places.len()).sum();
        let mut batch = |most: usize| {
            let mut some = Vec::with_capacity(most.min(items));
            some.extend(places.by_ref().take(most));
            (!some.is_empty()).then(|| ItemBatch::within(bytes.clone(), some))
        };
        let mut all = || batch(items).unwrap_or_default();
        let name = &self.name;
        let Some(op) = self.single_op(commands) else {
            return engine.work_in_steps(name, &steps(commands), &all()).await;
        };
        let mut results = Vec::with_capacity(items);
        match op {
            // No command asks since when.
            ItemOp::Exists(_) => {
                while let Some(some) = batch(QUESTIONS_AT_ONCE) {
                    let found = engine.exists(name, &some).await?;
                    results.extend(found.into_iter().map(ItemResult::Found));
                    give_way().await;
                }
            }
            ItemOp::Count => {
                while let Some(some) = batch(QUESTIONS_AT_ONCE) {
                    let counts = engine.count(name, &some).await?;
                    results.extend(counts.into_iter().map(ItemResult::Counted));
                    give_way().await;
                }
            }
            ItemOp::Delete => {
                let deleted = engine.delete(name, &all(), None).await?.answer;
                results.extend(deleted.into_iter().map(ItemResult::Deleted));
            }
            ItemOp::Add(mode) => {
                let create = first.creates.filter(|_| may_create);
                let options = AddOptions {
                    mode,
                    create: create.map(FirstItems::filter),
                };
                let added = engine.add(name, &all(), &options, None).await?;
                results.extend(added.answer.into_iter().map(ItemResult::Added));
            }
        }
        Ok(results)
    }
}

impl GroupDone {
    fn set_results(&mut self, group: &Group<'_>, part: Range<usize>, results: Vec<ItemResult>) {
        let first = group.commands.get(part.start);
        let from = first.map_or(0, |first| first.before);
        // Those of commands that were not done say nothing.
        let until = (from + results.len()).max(self.results.len());
        self.results.resize(until, ItemResult::Found(false));
        let all = self.results.get_mut(from..).unwrap_or_default();
        for (place, result) in all.iter_mut().zip(results) {
            *place = result;
        }
        self.become_all(part, &Became::Done);
    }

    fn refuse(&mut self, part: Range<usize>, failure: Failure) {
        self.become_all(part, &Became::Failed(Arc::new(failure)));
    }

    fn become_all(&mut self, part: Range<usize>, became: &Became) {
        let part = self.became.get_mut(part).unwrap_or_default();
        part.fill(became.clone());
    }
}

/// The commands as steps; those that follow each other and do the same are one.
fn steps(commands: &[Grouped<'_>]) -> Arc<[ItemStep]> {
    let mut steps: Vec<ItemStep> = Vec::new();
    for command in commands {
        let (op, items) = (command.verb.op(), command.places.len());
        match steps.last_mut() {
            Some(last) if last.op == op => last.items += items,
            _ => steps.push(ItemStep { op, items }),
        }
    }
    steps.into()
}
