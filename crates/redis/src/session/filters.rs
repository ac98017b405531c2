//! Commands about whole filters.

use super::failure::Result;
use super::state::{Session, known_name, name_of};
use crate::commands::errors::{self, IS_LOADING, NOT_FOUND, SYNTAX};
use crate::commands::glob::Pattern;
use crate::commands::keyspace::{self, TYPE};
use crate::commands::table::{Keys, Spec, Verb};
use crate::commands::{filter, reserve};
use crate::engine::{Chosen, Created, Engine, EngineError, FilterInfo, FilterName, NewFilter};
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;
use crate::server::admission::budget::Held;
use crate::server::listen::polls::give_way;
use std::sync::Arc;
use std::time::Instant;

/// Filters that are looked at at once where all of them are.
const FILTERS_AT_ONCE: usize = 1000;

/// Bytes of names that count with their connection, and what a name takes beside
/// its own.
const FREE_REPLY_BYTES: usize = 64 << 10;
const BESIDE_A_NAME: usize = 64;

/// Of the dump of a Bloom filter.
const NO_BLOOM_DUMP: &str = "ERR a dump of a Bloom filter can't hold this server's filters, which are cuckoo filters: use GET and PUT /filters/{key}/dump, or add the items again";

/// Of a filter that is to have another key.
const NO_COPY: &str = "ERR a filter keeps its key: `cuckood filter dump KEY FILE` and `cuckood filter restore NEW FILE` copy it, and DEL deletes the old one";

/// Of a filter that is to be compacted.
const NOT_COMPACTED: &str = "Cuckoo filter was not found";

impl Session {
    /// Does a command about filters.
    pub(super) async fn about_filters(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        if spec.keys == Keys::All && words.len() > 2 && self.may_forward() {
            // Some at a time: their commands and replies are a copy in memory.
            let mut sum = 0;
            for from in (1..words.len()).step_by(FILTERS_AT_ONCE) {
                let some = words.from(from).iter().take(FILTERS_AT_ONCE);
                sum += self.sum(words.get(0), some).await?;
                give_way().await;
            }
            self.replies.integer(sum);
            return Ok(());
        }
        match spec.verb {
            Verb::CfReserve => self.reserve(words, reserve::filter(spec, words)?).await,
            Verb::BfReserve => self.reserve(words, reserve::bloom(spec, words)?).await,
            Verb::CfInfo | Verb::CfDebug | Verb::BfInfo => self.describe(spec, words).await,
            Verb::BfCard => self.count_items(words).await,
            Verb::BfScanDump | Verb::BfLoadChunk => Err(NO_BLOOM_DUMP.into()),
            Verb::CfCompact => self.compact(words).await,
            Verb::CfScanDump => self.scan_dump(words).await,
            Verb::CfLoadChunk => self.load_chunk(words).await,
            Verb::Exists | Verb::Touch => self.count_existing(words).await,
            Verb::Type => self.tell_type(words).await,
            Verb::DbSize => {
                self.reach_all().await?;
                let _turn = self.large_turn().await?;
                let count = self.engine()?.count_filters(&self.prefix()).await?;
                self.replies.count(count);
                Ok(())
            }
            Verb::Scan => self.scan(words).await,
            Verb::KeysOf => self.keys(words).await,
            Verb::RandomKey => self.random_key().await,
            Verb::Object => self.object(words).await,
            Verb::Rename | Verb::RenameNx | Verb::Copy => Err(NO_COPY.into()),
            Verb::Del | Verb::Unlink => self.delete(words).await,
            Verb::Expire | Verb::PExpire | Verb::ExpireAt | Verb::PExpireAt => {
                self.expire(spec, words).await
            }
            Verb::Persist => self.persist(words).await,
            Verb::Ttl | Verb::PTtl | Verb::ExpireTime | Verb::PExpireTime => {
                self.tell_end(spec, words).await
            }
            Verb::Memory => self.memory(words).await,
            Verb::FlushAll | Verb::FlushDb => self.flush(spec, words).await,
            _ => Err(errors::unknown_command(words).into()),
        }
    }

    async fn reserve(&mut self, words: Words<'_>, wanted: NewFilter) -> Result {
        let name = name_of(words.get(1))?;
        if self.service.transfers.is_loading(&name) {
            return Err(IS_LOADING.into());
        }
        let created = self.engine()?.create_filter(&name, &wanted, None).await;
        match created.map(|created| created.answer) {
            Ok(Created::New(_)) => self.replies.ok(),
            Ok(Created::Existing(_) | Created::Differs(..)) => return Err("ERR item exists".into()),
            // Its range was checked before: it is the memory.
            Err(EngineError::InvalidParams(refused))
                if refused.iter().all(|it| it.field == "capacity") =>
            {
                return Err("ERR Insufficient memory to create filter".into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn describe(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        if words.len() > 3 {
            return Err(errors::arity(spec).into());
        }
        let info = self.info_of(words.get(1)).await?.ok_or(NOT_FOUND)?;
        match spec.verb {
            Verb::CfInfo => filter::info(&info, &mut self.replies),
            Verb::BfInfo => {
                filter::bloom_info(&info, words.from(2).iter().next(), &mut self.replies)?;
            }
            _ => filter::debug(&info, &mut self.replies),
        }
        Ok(())
    }

    async fn count_items(&mut self, words: Words<'_>) -> Result {
        let info = self.info_of(words.get(1)).await?;
        self.replies.count(info.map_or(0, |info| info.items));
        Ok(())
    }

    /// What there is to say of a filter; `None`: there is none.
    async fn info_of(&self, key: &[u8]) -> Result<Option<FilterInfo>> {
        match known_name(key) {
            Some(name) => found(self.engine()?.filter_in_memory(&name).await),
            None => Ok(None),
        }
    }

    async fn compact(&mut self, words: Words<'_>) -> Result {
        let name = known_name(words.get(1)).ok_or(NOT_COMPACTED)?;
        let begun = self.engine()?.compact(&name, None).await;
        self.audit(&name, "compact_filter", None, begun.as_ref().err());
        match begun {
            Ok(_) | Err(EngineError::CompactionRunning) => self.replies.ok(),
            Err(EngineError::NotFound { .. }) => return Err(NOT_COMPACTED.into()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn count_existing(&mut self, words: Words<'_>) -> Result {
        let engine = self.engine()?;
        let mut count = 0;
        for key in words.from(1).iter() {
            count += i64::from(has_filter(&engine, key).await?);
            // There may be many, and each may be answered at once.
            give_way().await;
        }
        self.replies.integer(count);
        Ok(())
    }

    async fn tell_type(&mut self, words: Words<'_>) -> Result {
        let is_there = has_filter(&self.engine()?, words.get(1)).await?;
        self.replies.status(if is_there { TYPE } else { "none" });
        Ok(())
    }

    /// A turn among large requests: nobody knows how many names will be read.
    pub(super) async fn large_turn(&self) -> Result<Option<Held>> {
        let admission = &self.service.app.admission;
        let deadline = Instant::now() + admission.limits.request_timeout;
        let turn = admission.turn(self.holder(), deadline, usize::MAX, false);
        Ok(turn.await?)
    }

    async fn scan(&mut self, words: Words<'_>) -> Result {
        let scan = keyspace::scan(words)?;
        let patterns = Pattern::all(scan.pattern.into_iter())?;
        let chosen: Chosen = Arc::new(move |name| {
            scan.is_of_type && patterns.iter().all(|it| it.matches(name.as_bytes()))
        });
        self.reach_all().await?;
        let _turn = self.large_turn().await?;
        let (engine, prefix) = (self.engine()?, self.prefix());
        let (names, last) = match self.has_no_prefix() {
            true => {
                engine
                    .names_by_number(scan.after, scan.count, chosen)
                    .await?
            }
            // Numbers would tell how many filters others have made.
            false => {
                engine
                    .names_by_hash(&prefix, scan.after, FILTERS_AT_ONCE, chosen)
                    .await?
            }
        };
        self.hold_reply(reply_bytes(&names))?;
        self.replies.array(2);
        self.replies
            .bulk(last.unwrap_or_default().to_string().as_bytes());
        self.list(&names);
        Ok(())
    }

    async fn random_key(&mut self) -> Result {
        self.reach_all().await?;
        let _turn = self.large_turn().await?;
        let (engine, prefix) = (self.engine()?, self.prefix());
        let chosen: Chosen = Arc::new(|_| true);
        // Hashes have 53 bits. Behind a random one comes some name, or the first of all.
        let random = getrandom::u64().unwrap_or_default() >> 11;
        for start in [random, 0] {
            let mut after = Some(start);
            while let Some(from) = after {
                let chosen = Arc::clone(&chosen);
                let (names, last) = engine.names_by_hash(&prefix, from, 1, chosen).await?;
                if let Some(name) = names.first() {
                    self.replies.bulk(name.as_str().as_bytes());
                    return Ok(());
                }
                // Those that were looked at have ended.
                after = last;
            }
        }
        self.replies.nil();
        Ok(())
    }

    async fn keys(&mut self, words: Words<'_>) -> Result {
        let patterns = Pattern::all([words.get(1)].into_iter())?;
        let chosen: Chosen =
            Arc::new(move |name| patterns.iter().all(|it| it.matches(name.as_bytes())));
        self.reach_all().await?;
        let _turn = self.large_turn().await?;
        let engine = self.engine()?;
        let answers = &self.service.app.admission.answers;
        let (mut matched, mut bytes, mut held) = (Vec::new(), 0, None);
        let mut after = Some(None);
        while let Some(from) = after {
            let (names, last) = engine
                .names_after(&self.prefix(), from, FILTERS_AT_ONCE, Arc::clone(&chosen))
                .await?;
            // In memory and in the reply.
            bytes += reply_bytes(&names);
            matched.extend(names);
            if bytes > FREE_REPLY_BYTES {
                answers.grow(self.holder(), &mut held, bytes.min(answers.bound()))?;
            }
            if matched.len() > self.service.app.admission.limits.max_batch_items {
                return Err("ERR KEYS has too many matches for one reply: use SCAN".into());
            }
            after = last.map(Some);
        }
        self.held_replies.extend(held);
        self.list(&matched);
        Ok(())
    }

    fn list(&mut self, names: &[FilterName]) {
        self.replies.array(names.len());
        for name in names {
            self.replies.bulk(name.as_str().as_bytes());
        }
    }

    async fn delete(&mut self, words: Words<'_>) -> Result {
        let engine = self.engine()?;
        let mut deleted = 0;
        for key in words.from(1).iter() {
            deleted += match known_name(key) {
                Some(name) => i64::from(self.delete_one(&engine, &name).await?),
                None => {
                    // It has its turn among those that are told of.
                    self.audited += 1;
                    0
                }
            };
        }
        self.replies.integer(deleted);
        Ok(())
    }

    /// Deletes a filter; `false`: there is none.
    async fn delete_one(&mut self, engine: &Engine, name: &FilterName) -> Result<bool> {
        let deleted = engine.delete_filter(name, None).await;
        self.audit(name, "delete_filter", None, deleted.as_ref().err());
        Ok(found(deleted)?.is_some())
    }

    async fn expire(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        let engine = self.engine()?;
        let end = keyspace::end(spec.verb, spec.name, words, engine.now_ms())?;
        let Some(name) = known_name(words.get(1)) else {
            self.replies.integer(0);
            return Ok(());
        };
        let allows = |now: Option<u64>| keyspace::allows(words, now, end);
        let is_past = !u64::try_from(end).is_ok_and(|end| end > engine.now_ms());
        let is_done = match is_past && words.len() == 3 {
            false => {
                let end = u64::try_from(end).unwrap_or_default().max(1);
                let changed = engine.set_end(&name, end, allows).await;
                // Where nothing is changed nobody is told.
                if !matches!(changed, Ok(false)) {
                    let seconds = (end - engine.now_ms().min(end)).div_ceil(1000);
                    let note = format!("ttl_seconds={seconds}");
                    self.audit(&name, "patch_filter", Some(&note), changed.as_ref().err());
                }
                found(changed)?.unwrap_or(false)
            }
            true => self.delete_one(&engine, &name).await?,
        };
        self.replies.integer(i64::from(is_done));
        Ok(())
    }

    async fn persist(&mut self, words: Words<'_>) -> Result {
        let Some(name) = known_name(words.get(1)) else {
            self.replies.integer(0);
            return Ok(());
        };
        let changed = self.engine()?.persist(&name).await;
        // Where nothing is changed nobody is told.
        if !matches!(changed, Ok(false)) {
            let note = Some("ttl_seconds=none");
            self.audit(&name, "patch_filter", note, changed.as_ref().err());
        }
        let is_changed = found(changed)?.unwrap_or(false);
        self.replies.integer(i64::from(is_changed));
        Ok(())
    }

    async fn tell_end(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        let engine = self.engine()?;
        let end = match known_name(words.get(1)) {
            Some(name) => found(engine.end_of(&name).await)?,
            None => None,
        };
        let told = end.map_or(-2, |end| {
            keyspace::tell_end(spec.verb, end, engine.now_ms())
        });
        self.replies.integer(told);
        Ok(())
    }

    async fn memory(&mut self, words: Words<'_>) -> Result {
        if !words.get(1).eq_ignore_ascii_case(b"usage") {
            return Err(errors::unknown_subcommand(words).into());
        }
        match words.len() {
            3 => {}
            5 if words.get(3).eq_ignore_ascii_case(b"samples")
                && integer(words.get(4)).is_some_and(|samples| samples >= 0) => {}
            0..3 => return Err(errors::arity_of("memory", words.get(1)).into()),
            _ => return Err(SYNTAX.into()),
        }
        match self.info_of(words.get(2)).await? {
            Some(info) => self.replies.count(info.memory_bytes),
            None => self.replies.nil(),
        }
        Ok(())
    }

    async fn flush(&mut self, spec: &'static Spec, words: Words<'_>) -> Result {
        if !self.service.options.allow_flush {
            let name = spec.name.to_ascii_uppercase();
            return Err(format!("ERR {name} is off, --redis-allow-flush turns it on").into());
        }
        let mode = words.get(1).to_ascii_lowercase();
        if words.len() > 2 || !matches!(mode.as_slice(), b"" | b"sync" | b"async") {
            return Err(SYNTAX.into());
        }
        if !self.has_no_prefix() {
            return Err(self.no_permission(spec.name, "admin and no prefix"));
        }
        // What this connection has made is listed below.
        self.reach_all().await?;
        let mut after = Some(0);
        while let Some(from) = after {
            // As long as it takes: each filter has a deadline of its own.
            let engine = self.engine()?;
            let (names, last) = engine
                .names_by_number(from, FILTERS_AT_ONCE, Arc::new(|_| true))
                .await?;
            after = last;
            if self.may_forward() {
                let keys = names.iter().map(|name| name.as_str().as_bytes());
                self.sum(b"del", keys).await?;
                continue;
            }
            for name in &names {
                let engine = self.engine()?;
                self.delete_one(&engine, name).await?;
            }
        }
        self.replies.ok();
        Ok(())
    }
}

/// What was asked of a filter, or done to it; `None`: there is none.
fn found<T>(asked: Result<T, EngineError>) -> Result<Option<T>> {
    match asked {
        Ok(answer) => Ok(Some(answer)),
        Err(EngineError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether there is a filter under a key.
pub(super) async fn has_filter(engine: &Engine, key: &[u8]) -> Result<bool, EngineError> {
    match known_name(key) {
        Some(name) => engine.has_filter(&name).await,
        None => Ok(false),
    }
}

/// What names take in memory and in a reply.
fn reply_bytes(names: &[FilterName]) -> usize {
    let each = names
        .iter()
        .map(|name| 2 * name.as_str().len() + BESIDE_A_NAME);
    each.sum()
}
