//! What people look at: slow commands, how long each kind takes, and what redis tells of
//! a key.

use super::failure::Result;
use super::filters::has_filter;
use super::state::{Session, wall_clock};
use crate::access::Scope;
use crate::commands::errors::{self, NOT_AN_INTEGER};
use crate::commands::table::{Spec, TABLE, find};
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;
use crate::server::principal::Principal;
use crate::timings::{self, SLOWER_THAN, SlowCommand, Times};
use std::time::Duration;

/// The only event whose times are kept.
const EVENT: &str = "command";

/// Slow commands that are told of where it is not said how many.
const TOLD: i64 = 10;

/// Bytes that the times of one kind of command take in a reply.
const TIMES_BYTES: usize = 2048;

const NO_IDLE_TIME: &str = "ERR idle times are not kept: a filter leaves memory page by page, and the disk only when it is deleted or ends";
const NO_FREQUENCY: &str = "ERR access frequencies are not kept: no filter is evicted";

impl Session {
    /// Remembers how long a command took, or some that were worked on together, of which the
    /// one with the most words is shown.
    pub(super) fn remember_slow(
        &self,
        spec: Option<&Spec>,
        words: Words<'_>,
        others: usize,
        took: Duration,
    ) {
        // What nobody knows, or is no command, may hold a secret.
        let (Some(spec), true) = (spec, took > SLOWER_THAN && self.is_known()) else {
            return;
        };
        self.service.timings.remember_slow(SlowCommand {
            id: 0,
            at: wall_clock().as_secs(),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            words: timings::shown(Some(spec.verb), words, others),
            peer: self.info.peer,
            client: self.info.name(),
            user: self.user().to_owned(),
        });
    }

    /// `SLOWLOG`. Of others' commands only those are told who may list them, too.
    pub(super) fn slow_log(&mut self, words: Words<'_>) -> Result {
        let (sees_all, user) = (self.is_operator(), self.user().to_owned());
        let may_see = |command: &SlowCommand| sees_all || command.user == user;
        match (words.get(1).to_ascii_lowercase().as_slice(), words.len()) {
            (b"get", 2..=3) => {
                let count = match words.len() {
                    2 => TOLD,
                    _ => integer(words.get(2)).ok_or(NOT_AN_INTEGER)?,
                };
                if count < -1 {
                    return Err("ERR count should be greater than or equal to -1".into());
                }
                let mut told = self.service.timings.slow(may_see);
                told.truncate(usize::try_from(count).unwrap_or(usize::MAX));
                self.hold_reply(told.iter().map(|it| it.bytes()).sum())?;
                self.replies.array(told.len());
                for command in told {
                    let replies = &mut self.replies;
                    replies.array(6);
                    replies.count(command.id);
                    replies.count(command.at);
                    replies.count(command.micros);
                    replies.array(command.words.len());
                    command.words.iter().for_each(|word| replies.bulk(word));
                    replies.bulk(command.peer.to_string().as_bytes());
                    replies.bulk(command.client.as_bytes());
                }
            }
            (b"len", 2) => {
                let count = self.service.timings.slow(may_see).len();
                self.replies.count(count as u64);
            }
            (b"reset", 2) => {
                if !self.may_forget() {
                    return Err(self.no_permission("slowlog|reset", "admin"));
                }
                self.service.timings.forget_slow(may_see);
                self.replies.ok();
            }
            (b"get" | b"len" | b"reset", _) => {
                return Err(errors::arity_of("slowlog", words.get(1)).into());
            }
            _ => return Err(errors::unknown_subcommand(words).into()),
        }
        Ok(())
    }

    /// `LATENCY`. It is about everybody's commands.
    pub(super) fn latency(&mut self, words: Words<'_>) -> Result {
        let subcommand = words.get(1).to_ascii_lowercase();
        let is_reset = subcommand == b"reset";
        if !self.has_no_prefix() || (is_reset && !self.may_forget()) {
            let command = format!("latency|{}", errors::excerpt(&subcommand));
            let needs = match is_reset {
                true => "admin and no prefix",
                false => "read and no prefix",
            };
            return Err(self.no_permission(&command, needs));
        }
        let (seconds, most) = self.service.timings.slow_seconds();
        let is_event = |word: &[u8]| word.eq_ignore_ascii_case(EVENT.as_bytes());
        match (subcommand.as_slice(), words.len()) {
            (b"latest", 2) => {
                self.replies.array(usize::from(!seconds.is_empty()));
                if let Some(last) = seconds.last() {
                    self.replies.array(4);
                    self.replies.bulk(EVENT.as_bytes());
                    for number in [last.at, last.millis, most] {
                        self.replies.count(number);
                    }
                }
            }
            (b"history", 3) => {
                let told = match is_event(words.get(2)) {
                    true => seconds.as_slice(),
                    false => &[],
                };
                self.replies.array(told.len());
                for second in told {
                    self.replies.array(2);
                    self.replies.count(second.at);
                    self.replies.count(second.millis);
                }
            }
            (b"reset", _) => {
                let is_meant = words.len() == 2 || words.from(2).iter().any(is_event);
                let is_reset = is_meant && self.service.timings.forget_seconds();
                self.replies.integer(i64::from(is_reset));
            }
            (b"histogram", _) => self.histogram(words)?,
            (b"doctor", 2) => {
                let told = match most {
                    0 => format!(
                        "No command took more than {} ms since the start, or since LATENCY RESET.\n",
                        SLOWER_THAN.as_millis()
                    ),
                    _ => format!(
                        "Commands took more than {} ms in {} of the seconds that are remembered, {most} ms at most. SLOWLOG GET shows which; the metrics of the server say whether they waited for the disk, for memory or for their turn.\n",
                        SLOWER_THAN.as_millis(),
                        seconds.len()
                    ),
                };
                self.replies.text(&told);
            }
            (b"latest" | b"history" | b"doctor", _) => {
                return Err(errors::arity_of("latency", words.get(1)).into());
            }
            _ => return Err(errors::unknown_subcommand(words).into()),
        }
        Ok(())
    }

    fn histogram(&mut self, words: Words<'_>) -> Result {
        let specs: Vec<&'static Spec> = match words.len() {
            2 => TABLE.iter().collect(),
            _ => words.from(2).iter().filter_map(find).collect(),
        };
        let timings = &self.service.timings;
        let timed = |spec: &'static Spec| Some((spec, timings.times(spec.verb)?));
        let told: Vec<(&Spec, Times)> = specs.into_iter().filter_map(timed).collect();
        self.hold_reply(told.len() * TIMES_BYTES)?;
        let replies = &mut self.replies;
        replies.map(told.len());
        for (spec, times) in told {
            replies.bulk(spec.name.as_bytes());
            replies.map(2);
            replies.bulk(b"calls");
            replies.count(times.calls);
            replies.bulk(b"histogram_usec");
            replies.map(times.up_to.len());
            for (micros, count) in times.up_to {
                replies.count(micros);
                replies.count(count);
            }
        }
        Ok(())
    }

    /// `OBJECT`.
    pub(super) async fn object(&mut self, words: Words<'_>) -> Result {
        let subcommand = words.get(1).to_ascii_lowercase();
        match (subcommand.as_slice(), words.len()) {
            (b"encoding" | b"refcount" | b"idletime" | b"freq", 3) => {}
            (b"encoding" | b"refcount" | b"idletime" | b"freq", _) => {
                return Err(errors::arity_of("object", words.get(1)).into());
            }
            _ => return Err(errors::unknown_subcommand(words).into()),
        }
        if !has_filter(&self.engine()?, words.get(2)).await? {
            self.replies.nil();
            return Ok(());
        }
        match subcommand.as_slice() {
            b"encoding" => self.replies.bulk(b"raw"),
            b"refcount" => self.replies.integer(1),
            b"idletime" => return Err(NO_IDLE_TIME.into()),
            _ => return Err(NO_FREQUENCY.into()),
        }
        Ok(())
    }

    /// What `INFO commandstats` says.
    pub(super) fn about_commands(&self) -> String {
        let line = |spec: &Spec| -> Option<String> {
            let times = self.service.timings.times(spec.verb)?;
            let (micros, failed, rejected) = (times.micros, times.failed, times.rejected);
            let calls = times.calls.saturating_sub(rejected);
            let each = micros as f64 / calls.max(1) as f64;
            Some(format!(
                "cmdstat_{}:calls={calls},usec={micros},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}\r\n",
                spec.name
            ))
        };
        TABLE.iter().filter_map(line).collect()
    }

    /// Whether it may know of others' commands and connections.
    pub(super) fn is_operator(&self) -> bool {
        self.has_no_prefix() && self.may_forget()
    }

    fn may_forget(&self) -> bool {
        let key = self.principal.as_ref().and_then(Principal::key);
        key.is_none_or(|key| key.scope >= Scope::Admin)
    }
}
