//! What is known of a connection, and what its caller may do.

use super::failure::{Failure, Result};
use super::kept::Transaction;
use crate::access::Scope;
use crate::access::keys::ApiKey;
use crate::commands::errors::{self, NO_AUTH, NO_KEY};
use crate::commands::table::{Spec, Verb};
use crate::engine::{Caller, Engine, FilterName};
use crate::protocol::encode::{Replies, Version};
use crate::server::admission::answers::reserve;
use crate::server::admission::budget::{Held, Holder};
use crate::server::cluster::commands::{CommandsHead, ForwardedBy, Worked};
use crate::server::cluster::position::RecordPosition;
use crate::server::principal::Principal;
use crate::service::{ClientInfo, DEFAULT_USER, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// See the module.
pub(crate) struct Session {
    pub(super) service: Arc<Service>,
    pub(super) info: Arc<ClientInfo>,
    pub(crate) replies: Replies,
    /// Who it is; `None`: it has to say so first.
    pub(super) principal: Option<Principal>,
    pub(super) failed_auths: u32,
    pub(super) transaction: Option<Transaction>,
    /// Memory of large replies that were not sent.
    pub(super) held_replies: Vec<Held>,
    /// Lines of the audit log about the command that is worked on.
    pub(super) audited: usize,
    /// Whether the connection is to end when the replies are sent.
    pub(crate) is_over: bool,
    /// Whose commands it works on.
    pub(super) role: Role,
    /// Whether it counts the commands that it works on.
    pub(super) counts: bool,
    /// In a cluster, the key that was shown: commands are forwarded with it.
    pub(super) shown: Option<Arc<str>>,
    /// Whether questions are about all that was acknowledged before them.
    pub(super) is_strong: bool,
    /// The lanes that were changed, or are waited for, and the records of these that
    /// are on this pod before a question is answered.
    pub(super) positions: BTreeMap<u32, u64>,
    /// Those that were changed.
    pub(super) changed: BTreeSet<u32>,
    /// When the commands had come that are worked on.
    pub(super) since: Option<Instant>,
    /// How long commands that came together may still wait for pods that lead.
    pub(super) patience: Duration,
    /// Those before this one are worked on here.
    pub(super) here_to: usize,
    /// The pods that have forwarded the commands.
    pub(super) forwarded_by: ForwardedBy,
    /// When nobody waits for the replies any more, if that is known.
    pub(super) until: Option<Instant>,
}

/// Whose commands a session works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A client's.
    OfClient,
    /// Some of those of another session.
    Beside,
    /// Those that another pod has forwarded.
    OfPod,
}

impl Session {
    /// Of a new connection.
    pub(crate) fn new(service: Arc<Service>, info: Arc<ClientInfo>) -> Session {
        let mut session = Session {
            service,
            info,
            replies: Replies::default(),
            principal: None,
            failed_auths: 0,
            transaction: None,
            held_replies: Vec::new(),
            audited: 0,
            is_over: false,
            role: Role::OfClient,
            counts: true,
            shown: None,
            is_strong: false,
            positions: BTreeMap::new(),
            changed: BTreeSet::new(),
            since: None,
            patience: Duration::ZERO,
            here_to: 0,
            forwarded_by: ForwardedBy::default(),
            until: None,
        };
        session.principal = session.anybody();
        session
    }

    /// For some of the commands, which are worked on here.
    pub(super) fn beside(&self) -> Session {
        let mut session = Session::new(Arc::clone(&self.service), Arc::clone(&self.info));
        session.principal = self.principal.clone();
        session.replies.version = self.replies.version;
        session.role = Role::Beside;
        session
    }

    /// For commands that another pod has forwarded.
    pub(crate) fn of_a_pod(
        service: &Arc<Service>,
        info: Arc<ClientInfo>,
        caller: Principal,
        head: CommandsHead,
    ) -> Session {
        let mut session = Session::new(Arc::clone(service), info);
        session.principal = Some(caller);
        let version = Version::of(head.version.into());
        session.replies.version = version.unwrap_or_default();
        session.role = Role::OfPod;
        session.counts = false;
        session.is_strong = head.is_strong;
        session.until = Some(head.until);
        session.remember_positions(&head.positions);
        (session.shown, session.forwarded_by) = (head.token, head.forwarded_by);
        session
    }

    /// Its replies, and where the lanes stand that it may have changed.
    pub(crate) fn into_worked(self) -> Worked {
        let engine = self.engine();
        let positions = engine.map(|engine| self.positions_of(&engine, self.changed.iter()));
        (self.replies.into_bytes(), positions.unwrap_or_default())
    }

    /// Where lanes stand, as far as is known here.
    pub(super) fn positions_of<'a>(
        &self,
        engine: &Engine,
        lanes: impl Iterator<Item = &'a u32>,
    ) -> Vec<RecordPosition> {
        let position = |lane: &u32| {
            let now = RecordPosition::of_lane(engine, *lane)?;
            let known = self.positions.get(lane).copied().unwrap_or_default();
            let sequence = now.sequence.max(known);
            Some(RecordPosition { sequence, ..now })
        };
        lanes.filter_map(position).collect()
    }

    pub(super) fn remember_change(&mut self, lane: u32) {
        self.positions.entry(lane).or_default();
        self.changed.insert(lane);
    }

    pub(super) fn remember_positions(&mut self, positions: &[RecordPosition]) {
        for position in positions {
            let known = self.positions.entry(position.lane).or_default();
            *known = position.sequence.max(*known);
        }
    }

    /// Who it is that has not said so: where no keys are asked for, anybody.
    pub(super) fn anybody(&self) -> Option<Principal> {
        let keys = &self.service.app.access.keys;
        keys.is_none().then(Principal::default)
    }

    /// Whether it has said who it is, or need not.
    pub(crate) fn is_known(&self) -> bool {
        self.principal.is_some()
    }

    /// The replies are sent.
    pub(crate) fn forget_replies(&mut self) {
        self.replies.clear();
        self.held_replies.clear();
    }

    /// Holds memory for a reply of so many bytes until it is sent.
    ///
    /// # Errors
    /// There is none left, or none for this caller.
    pub(super) fn hold_reply(&mut self, bytes: usize) -> Result {
        let admission = &self.service.app.admission;
        let held = reserve(admission, self.holder(), bytes)?;
        self.held_replies.extend(held);
        Ok(())
    }

    /// To whose account goes what it holds.
    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.principal.as_ref()?.holder()
    }

    /// Its key, if it has shown one.
    pub(crate) fn key(&self) -> Option<&Arc<ApiKey>> {
        self.principal.as_ref()?.key()
    }

    /// When the transaction under way began.
    pub(crate) fn transaction_since(&self) -> Option<Instant> {
        Some(self.transaction.as_ref()?.since)
    }

    /// Sees whether its key is still one, and what it allows now; `false`: it is
    /// over with it. To be called before commands are worked on.
    pub(crate) fn look_at_key(&mut self) -> bool {
        let key = self.principal.as_ref().and_then(Principal::key);
        let (Some(keys), Some(key)) = (&self.service.app.access.keys, key) else {
            return true;
        };
        // Shares follow the number of keys, so they are found out anew.
        let renewed = match key.end() {
            None => Some(Arc::clone(key)),
            Some(_) => {
                // What is queued was checked by what the key allowed then.
                if let Some(transaction) = &mut self.transaction {
                    transaction.refuse();
                }
                keys.renewed(key).filter(|key| !key.has_expired())
            }
        };
        self.principal = renewed.map(|key| Principal::of(key, keys));
        self.is_known()
    }

    /// Refuses what comes after the end of its key. The connection ends with that:
    /// most clients show a key once, when they connect.
    pub(crate) fn refuse_ended(&mut self) {
        self.transaction = None;
        self.replies.error(NO_AUTH);
        self.is_over = true;
    }

    /// # Errors
    /// The key of the caller does not allow the command, or it asks too often.
    pub(super) fn permit(&self, spec: &Spec) -> Result {
        let Some(principal) = &self.principal else {
            return Ok(());
        };
        let Some(key) = principal.key() else {
            return Ok(());
        };
        let is_export = spec.verb == Verb::CfScanDump;
        if key.scope < spec.scope || is_export && !key.may_export() {
            let needs = match is_export {
                true => "read and the right export",
                false => spec.scope.name(),
            };
            return Err(self.no_permission(spec.name, needs));
        }
        // The pod of the client has counted these when they were queued. A part that
        // was refused here would leave the rest without a transaction.
        let is_counted = self.transaction.is_some() || spec.verb == Verb::Multi;
        if self.role == Role::OfPod && is_counted {
            return Ok(());
        }
        Ok(principal.count_request()?)
    }

    /// What a command is refused with that needs more than the caller's key allows.
    pub(super) fn no_permission(&self, command: &str, needs: &str) -> Failure {
        let has = self.key().map_or(Scope::Admin, |key| key.scope).name();
        let has = match self.has_no_prefix() {
            true => has.to_owned(),
            false => format!("{has} and a prefix"),
        };
        errors::no_permission(self.user(), command, needs, &has).into()
    }

    /// # Errors
    /// The caller's key is for other filters.
    pub(super) fn permit_key(&self, key: &[u8]) -> Result {
        let prefix = self.principal.as_ref().and_then(Principal::prefix);
        match prefix.is_none_or(|prefix| prefix.covers(&String::from_utf8_lossy(key))) {
            true => Ok(()),
            false => Err(NO_KEY.into()),
        }
    }

    /// The engine, working for the caller.
    ///
    /// # Errors
    /// It is not open yet.
    pub(super) fn engine(&self) -> Result<Engine> {
        Ok(self.service.app.engine()?.for_caller(self.caller()))
    }

    pub(super) fn caller(&self) -> Caller {
        let longest = Instant::now() + self.service.app.admission.limits.request_timeout;
        let caller = self.principal.as_ref().map(|it| it.caller(None));
        Caller {
            deadline: Some(self.until.map_or(longest, |until| until.min(longest))),
            since: self.since,
            ..caller.unwrap_or_default()
        }
    }

    /// What its key is called; `default` where none is asked for.
    pub(super) fn user(&self) -> &str {
        let name = self.principal.as_ref().and_then(Principal::name);
        name.unwrap_or(DEFAULT_USER)
    }

    /// The prefix of the filters that it may know of.
    pub(super) fn prefix(&self) -> String {
        let narrowed = self.principal.as_ref().and_then(|it| it.narrow(""));
        narrowed.unwrap_or_default()
    }

    /// Whether it may know of all filters, and of the server as a whole.
    pub(super) fn has_no_prefix(&self) -> bool {
        let principal = self.principal.as_ref();
        principal.is_some_and(|it| it.prefix().is_none())
    }
}

/// The filter that a word names, where none is made: of a word that can't name one
/// there is none.
pub(super) fn known_name(word: &[u8]) -> Option<FilterName> {
    FilterName::parse(std::str::from_utf8(word).ok()?).ok()
}

/// # Errors
/// A word that can't name a filter.
pub(super) fn name_of(word: &[u8]) -> Result<FilterName> {
    let text = String::from_utf8_lossy(word);
    FilterName::parse(&text).map_err(|refused| format!("ERR {refused}").into())
}

/// Milliseconds since 1970, by the machine's clock.
pub(super) fn wall_clock() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
