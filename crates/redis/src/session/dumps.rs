//! `CF.SCANDUMP` and `CF.LOADCHUNK`: filters on their way from RedisBloom and back.

use super::failure::{Failure, Result};
use super::state::{Session, known_name, name_of};
use crate::chain::params::LayoutKind;
use crate::commands::errors::{self, IS_LOADING, NOT_FOUND};
use crate::engine::scandump::{HEADER_BYTES, Header};
use crate::engine::{
    Adopted, EngineError, FilterInfo, FilterName, ForeignIntake, Replace, RestoreError, Slots,
};
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;
use crate::server::admission::throttle::paces;
use crate::transfers::{Given, Load, Loading, TransferKey};
use std::sync::Arc;

const BAD_POSITION: &str = "Invalid position";
const NOT_CREATED: &str = "Couldn't create filter!";
const NOT_LOADED: &str = "Couldn't load chunk!";
const ITEM_EXISTS: &str = "ERR item exists";
const CHANGED: &str = "ERR no dump of the filter is under way, or the filter changed: begin again with CF.SCANDUMP 0; or use GET /filters/{key}/dump, which takes a busy filter";
const FOREIGN: &str =
    "ERR the layout paged has no form in RedisBloom's format: use GET /filters/{key}/dump";

impl Session {
    fn transfer_key(&self, name: &FilterName) -> TransferKey {
        (self.caller().key, name.clone())
    }

    /// `CF.SCANDUMP`.
    pub(super) async fn scan_dump(&mut self, words: Words<'_>) -> Result {
        let iterator = integer(words.get(2)).and_then(|it| u64::try_from(it).ok());
        let iterator = iterator.ok_or(BAD_POSITION)?;
        let name = known_name(words.get(1)).ok_or(NOT_FOUND)?;
        let key = self.transfer_key(&name);
        let part = match iterator.checked_sub(1) {
            None => self.begin_dump(&name, key).await?,
            Some(at) => {
                self.hold_reply(crate::engine::MAX_SLOT_BYTES)?;
                self.read_dump(&name, key, at).await?
            }
        };
        self.replies.array(2);
        match part {
            Some((next, bytes)) => {
                self.replies.count(next);
                self.replies.bulk(&bytes);
            }
            None => {
                self.replies.integer(0);
                self.replies.nil();
            }
        }
        Ok(())
    }

    /// The first part; `None`: there is nothing in the filter.
    async fn begin_dump(
        &self,
        name: &FilterName,
        key: TransferKey,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let (admission, transfers) = (&self.service.app.admission, &self.service.transfers);
        let _download = admission.downloads.try_take(self.holder(), 1)?;
        transfers.forget_dump(&key);
        let place = admission.scan_dumps.try_take(self.holder(), 1)?;
        let mut refused = None;
        let hold = |bytes: usize| {
            let bodies = &admission.bodies;
            let held = bodies.try_take(self.holder(), bytes.min(bodies.bound()));
            held.inspect_err(|error| refused = Some(errors::shared(error)))
                .ok()
        };
        let caller = self.principal.clone().unwrap_or_default();
        let engine = self.engine()?.paced(paces(&admission.throttle, move || {
            caller.key_end().is_some()
        }));
        let (slots, mut memory) = match engine.slots(name, hold).await? {
            Slots::All(slots, memory) => (slots, memory),
            Slots::NoMemory => return Err(refused.unwrap_or_default().into()),
            Slots::Foreign => return Err(FOREIGN.into()),
            Slots::Counted(copies) => {
                return Err(format!(
                    "ERR {copies} copies have no slot, so RedisBloom's format can't hold them: delete them with CF.DEL, or use GET /filters/{{key}}/dump"
                )
                .into());
            }
        };
        let header = slots.header();
        if header.items == 0 {
            return Ok(None);
        }
        if let Some(memory) = &mut memory {
            memory.shrink_to(slots.memory() as u64);
        }
        let given = Given {
            slots: Arc::new(slots),
            key: self.key().cloned(),
            place,
            memory,
        };
        transfers.remember_dump(key, given);
        Ok(Some((1, header.encode())))
    }

    /// The part from a byte of slots on; `None`: there is no more.
    async fn read_dump(
        &self,
        name: &FilterName,
        key: TransferKey,
        at: u64,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let engine = self.engine()?;
        let transfers = &self.service.transfers;
        let part = match transfers.dump(&key) {
            Some(slots) => engine.read_slots(&slots, at).await?,
            // A client that did not get the end asks again.
            None if transfers.has_ended_at(&key, at) => return Ok(None),
            None => None,
        };
        match part {
            None if engine.has_filter(name).await? => Err(CHANGED.into()),
            None => Err(NOT_FOUND.into()),
            Some(bytes) if bytes.is_empty() => {
                transfers.end_dump(key, at);
                Ok(None)
            }
            Some(bytes) => Ok(Some((1 + at + bytes.len() as u64, bytes))),
        }
    }

    /// `CF.LOADCHUNK`.
    pub(super) async fn load_chunk(&mut self, words: Words<'_>) -> Result {
        let iterator = integer(words.get(2)).and_then(|it| u64::try_from(it).ok());
        let iterator = iterator.filter(|&it| it > 0).ok_or(BAD_POSITION)?;
        let name = match iterator {
            1 => name_of(words.get(1))?,
            _ => known_name(words.get(1)).ok_or(NOT_FOUND)?,
        };
        let (key, data) = (self.transfer_key(&name), words.get(3));
        match iterator {
            1 => self.begin_load(&name, key, data).await?,
            end => self.go_on_loading(&name, key, end - 1, data).await?,
        }
        self.replies.ok();
        Ok(())
    }

    async fn begin_load(&mut self, name: &FilterName, key: TransferKey, data: &[u8]) -> Result {
        let refused = self.engine()?.refuses_intake(name, Replace::Nothing).await;
        if refused?.is_some() {
            return Err(ITEM_EXISTS.into());
        }
        let chunk: &[u8; HEADER_BYTES] = data.try_into().map_err(|_| "Invalid header")?;
        let header = Header::parse(chunk).map_err(|_| NOT_CREATED)?;
        let service = Arc::clone(&self.service);
        let transfers = &service.transfers;
        if !transfers.begin_load(&key) {
            return Err(IS_LOADING.into());
        }
        let begun = self.begin_intake(name, header).await;
        if let Ok(Some(load)) = begun {
            transfers.keep_load(key, load);
            return Ok(());
        }
        transfers.end_load(&key);
        begun.map(drop)
    }

    /// Begins to take a filter in; `None`: it is empty, and there at once.
    async fn begin_intake(
        &mut self,
        name: &FilterName,
        header: Header,
    ) -> Result<Option<Box<Load>>> {
        let admission = &self.service.app.admission;
        let place = admission.restores.try_take(self.holder(), 1)?;
        let intake = self.engine()?.intake(name, Replace::Nothing).await?;
        let begun = blocking(move || intake.foreign(header)).await?;
        let intake = begun.map_err(|error| refusal(&error, NOT_CREATED))?;
        if header.items == 0 {
            self.adopt(name, intake, NOT_CREATED).await?;
            return Ok(None);
        }
        Ok(Some(Box::new(Load {
            intake,
            came: 0,
            key: self.key().cloned(),
            place,
        })))
    }

    async fn go_on_loading(
        &mut self,
        name: &FilterName,
        key: TransferKey,
        end: u64,
        data: &[u8],
    ) -> Result {
        let service = Arc::clone(&self.service);
        let transfers = &service.transfers;
        let mut load = match transfers.take_load(&key) {
            Some(Loading::Waits(load, _)) => load,
            Some(Loading::Busy) => return Err(IS_LOADING.into()),
            None => return self.load_into_live(name, end, data).await,
        };
        let came = load.came + data.len() as u64;
        if data.is_empty() || came != end {
            // The right one may still come.
            transfers.keep_load(key, load);
            return Err(NOT_LOADED.into());
        }
        let slots = data.to_vec();
        let taken = blocking(move || {
            load.came = came;
            load.intake.slots(&slots).map(|()| load)
        });
        let became = match taken.await {
            Ok(Ok(load)) if load.intake.missing() > 0 => {
                transfers.keep_load(key, load);
                return Ok(());
            }
            Ok(Ok(load)) => self.adopt(name, load.intake, NOT_LOADED).await,
            Ok(Err(error)) => Err(refusal(&error, NOT_LOADED)),
            Err(failure) => Err(failure),
        };
        transfers.end_load(&key);
        became
    }

    /// A part of a filter that is there: nothing, if that is what it has.
    async fn load_into_live(&self, name: &FilterName, end: u64, data: &[u8]) -> Result {
        let info = self.engine()?.filter_info(name).await?;
        let is_nothing = info.items == 0 && data.iter().all(|&byte| byte == 0);
        match is_nothing && is_part(&info, end, data.len() as u64) {
            true => Ok(()),
            false => Err(NOT_LOADED.into()),
        }
    }

    /// Gives a filter that is taken in its name.
    async fn adopt(
        &mut self,
        name: &FilterName,
        intake: ForeignIntake,
        refused: &'static str,
    ) -> Result {
        let staged = blocking(move || intake.finish()).await?;
        let staged = staged.map_err(|error| refusal(&error, refused))?;
        let adopted = self.engine()?.adopt(name, staged, Replace::Nothing).await;
        // What is refused as a whole is told of with the command.
        if let Ok(Adopted::Exists | Adopted::Changed) = adopted {
            return Err(refused.into());
        }
        let error = adopted.as_ref().err();
        self.audit(name, "restore_filter", Some("created"), error);
        adopted.map(|_| ()).map_err(Failure::from)
    }
}

/// Whether so many bytes up to that one can be a part of a filter: they lie in one of
/// its sub-filters.
fn is_part(info: &FilterInfo, end: u64, bytes: u64) -> bool {
    let Some(start) = end.checked_sub(bytes).filter(|_| bytes > 0) else {
        return false;
    };
    let mut first = 0;
    info.params.layout() == LayoutKind::Classic
        && info.sub_filters.iter().any(|sub| {
            let slots = first..=first + sub.bytes;
            first = *slots.end();
            slots.contains(&start) && slots.contains(&end)
        })
}

/// Runs work that waits for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| EngineError::Stopping.into())
}

/// What a filter that can't be taken in is to a client: of one that makes no sense
/// no more is said than RedisBloom says.
fn refusal(error: &RestoreError, refused: &'static str) -> Failure {
    match error {
        RestoreError::Refused(error) => errors::engine(error).into(),
        RestoreError::DiskShort(short) => errors::engine(&EngineError::DiskShort(*short)).into(),
        RestoreError::Store(cause) => {
            tracing::error!(error = %cause, "a filter was not taken in");
            format!("{} {error}", errors::first_word(error.code())).into()
        }
        RestoreError::Dump(_) | RestoreError::TooLarge { .. } | RestoreError::TooLong { .. } => {
            tracing::debug!(%error, "a filter of RedisBloom is refused");
            refused.into()
        }
    }
}
