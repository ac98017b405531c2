//! How each change finds its way to its lane, and what happens when the filter
//! was replaced on the way: it is looked up again.

use crate::chain::params::Difference;
use crate::engine::Engine;
use crate::engine::answer::{
    AddMode, AddOptions, AddResult, Created, EngineError, FilterInfo, FilterName, NewFilter,
};
use crate::engine::batch::ItemBatch;
use crate::engine::idempotency::guard::described;
use crate::engine::idempotency::note::Keep;
use crate::engine::lane::command::{Command, Outcome, Verb, Wanted};
use crate::engine::shared::FirstItems;
use crate::engine::tasks::expiry;

impl Engine {
    pub(crate) async fn make_filter(
        &self,
        name: &FilterName,
        wanted: &NewFilter,
        keep: Option<Keep>,
    ) -> Result<Created, EngineError> {
        let new = self.shared.resolve_new(wanted)?;
        loop {
            if let Some(filter) = self.shared.open(name).await? {
                let mut info = self.shared.info(&filter).await?;
                let differences = differences(&info, wanted);
                if !differences.is_empty() {
                    return Ok(Created::Differs(info, differences));
                }
                if keep.is_some() && !wanted.must_be_new {
                    // The answer is kept, so it has to come from the lane.
                    let (id, sizes) = (filter.id, self.shared.sizes(&filter).await?);
                    let command = Command::Describe { id, sizes };
                    let outcome = self
                        .shared
                        .submit(command, Some(filter), None, keep.clone())
                        .await?;
                    let Outcome::Described(filter) = outcome else {
                        continue;
                    };
                    info = described(name, &filter);
                }
                return Ok(Created::Existing(info));
            }
            let first = FirstItems {
                items: &ItemBatch::new(),
                mode: AddMode::Always,
                wanted: Wanted::Description,
            };
            let created = self.shared.create(name, &new, first, keep.clone()).await?;
            // Somebody else may have been quicker; then it is looked up again.
            if let Outcome::Created(_, filter) = created {
                return Ok(Created::New(described(name, &filter)));
            }
        }
    }

    pub(crate) async fn change_ttl(
        &self,
        name: &FilterName,
        ttl_seconds: Option<u64>,
        keep: Option<Keep>,
    ) -> Result<FilterInfo, EngineError> {
        loop {
            let filter = self.shared.find(name).await?;
            let expiry = expiry::expiry(ttl_seconds, self.shared.clock.now_ms())?;
            let (id, sizes) = (filter.id, self.shared.sizes(&filter).await?);
            let command = Command::SetExpiry { id, expiry, sizes };
            let outcome = self
                .shared
                .submit(command, Some(filter), None, keep.clone())
                .await?;
            if let Outcome::Described(filter) = outcome {
                return Ok(described(name, &filter));
            }
        }
    }

    pub(crate) async fn remove_filter(
        &self,
        name: &FilterName,
        keep: Option<Keep>,
    ) -> Result<(), EngineError> {
        loop {
            let filter = self.shared.find(name).await?;
            let command = Command::Remove(filter.id);
            let outcome = self
                .shared
                .submit(command, Some(filter), None, keep.clone())
                .await?;
            if outcome != Outcome::Stale {
                return Ok(());
            }
        }
    }

    pub(crate) async fn add_items(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        options: &AddOptions,
        keep: Option<Keep>,
    ) -> Result<Vec<AddResult>, EngineError> {
        let new = options
            .create
            .as_ref()
            .map(|wanted| self.shared.resolve_new(wanted))
            .transpose()?;
        loop {
            let outcome = match (self.shared.open(name).await?, &new) {
                (Some(filter), _) => {
                    let verb = Verb::Add(options.mode);
                    self.shared.work(filter, verb, items, keep.as_ref()).await?
                }
                (None, Some(new)) => {
                    let first = FirstItems {
                        items,
                        mode: options.mode,
                        wanted: Wanted::Results,
                    };
                    self.shared.create(name, new, first, keep.clone()).await?
                }
                (None, None) => return Err(EngineError::NotFound { name: name.clone() }),
            };
            if let Outcome::Added(results) | Outcome::Created(results, _) = outcome {
                self.shared.count_added(&results);
                return Ok(results);
            }
        }
    }

    pub(crate) async fn delete_items(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        keep: Option<Keep>,
    ) -> Result<Vec<bool>, EngineError> {
        loop {
            let filter = self.shared.find(name).await?;
            let work = self.shared.work(filter, Verb::Delete, items, keep.as_ref());
            if let Outcome::Deleted(results) = work.await? {
                let found = results.iter().filter(|&&found| found).count();
                self.shared.count_items("delete", "deleted", found);
                self.shared
                    .count_items("delete", "absent", results.len() - found);
                return Ok(results);
            }
        }
    }
}

/// Where what is asked for and what is there part.
fn differences(info: &FilterInfo, wanted: &NewFilter) -> Vec<Difference> {
    let mut differences = info.params.differences(&wanted.params);
    let existing = info.expiry.map(|expiry| expiry.ttl_seconds);
    if let Some(requested) = wanted.ttl_seconds
        && existing != Some(requested)
    {
        differences.push(Difference {
            field: "ttl_seconds",
            requested: requested.to_string(),
            existing: existing.map_or("none".to_owned(), |seconds| seconds.to_string()),
        });
    }
    differences
}
