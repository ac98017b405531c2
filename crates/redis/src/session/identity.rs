//! What is about the connection itself: whose it is, which version of the
//! protocol it speaks, and what it is called.

use super::failure::{Failure, Result};
use super::state::Session;
use crate::commands::errors::{self, NOT_AN_INTEGER, SYNTAX, excerpt};
use crate::protocol::encode::Version;
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;
use crate::server::cluster::position::RecordPosition;
use crate::server::listen::polls::{charge_to, charge_to_task};
use crate::server::principal::Principal;
use crate::service::{ClientInfo, DEFAULT_USER, MODULE, REDIS_VERSION, Refused};
use std::sync::Arc;

/// Keys in vain after which the connection ends.
const MAX_FAILED_AUTHS: u32 = 10;

const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_KEYS: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
const NO_POSITION: &str = "ERR the position is none of this cluster: give what CLIENT POSITION or the header cuckood-position says, several separated by commas";
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

impl Session {
    /// `PING` and `ECHO`.
    pub(super) fn echo(&mut self, words: Words<'_>) -> Result {
        match words.len() {
            1 => self.replies.status("PONG"),
            2 => self.replies.bulk(words.get(1)),
            _ => {
                return Err("ERR wrong number of arguments for 'ping' command".into());
            }
        }
        Ok(())
    }

    /// `AUTH`.
    pub(super) fn auth(&mut self, words: Words<'_>) -> Result {
        match words.len() {
            2 if self.service.app.access.keys.is_none() => return Err(NO_KEYS.into()),
            2 => self.show_key(DEFAULT_USER.as_bytes(), words.get(1))?,
            3 => self.show_key(words.get(1), words.get(2))?,
            _ => return Err(SYNTAX.into()),
        }
        self.replies.ok();
        Ok(())
    }

    /// # Errors
    /// It is no key, or is called something else.
    fn show_key(&mut self, user: &[u8], token: &[u8]) -> Result {
        let Some(keys) = &self.service.app.access.keys else {
            return match user == DEFAULT_USER.as_bytes() {
                true => Ok(()),
                false => Err(WRONG_PASS.into()),
            };
        };
        let key = std::str::from_utf8(token).ok().and_then(|it| keys.find(it));
        let key = key.filter(|key| {
            let is_its_name = user == key.name.as_str().as_bytes();
            (is_its_name || user == DEFAULT_USER.as_bytes()) && !key.has_expired()
        });
        match key {
            Some(key) => {
                self.info.set_user(key.name.as_str());
                charge_to(&key.used);
                self.principal = Some(Principal::of(key, keys));
                let is_forwarded = self.service.app.cluster().is_some();
                let shown = std::str::from_utf8(token).ok().filter(|_| is_forwarded);
                self.shown = shown.map(Arc::from);
                Ok(())
            }
            None => {
                self.failed_auths += 1;
                self.service.count_refused(Refused::Auth);
                let failure = Failure::from(WRONG_PASS);
                Err(match self.failed_auths < MAX_FAILED_AUTHS {
                    true => failure,
                    false => failure.and_end(),
                })
            }
        }
    }

    /// `HELLO`.
    pub(super) fn hello(&mut self, words: Words<'_>) -> Result {
        let mut version = self.replies.version;
        if words.len() > 1 {
            let number = integer(words.get(1))
                .ok_or("ERR Protocol version is not an integer or out of range")?;
            version = Version::of(number).ok_or("NOPROTO unsupported protocol version")?;
        }
        let (mut at, mut shown, mut name) = (2, None, None);
        while at < words.len() {
            let option = words.get(at);
            let left = words.len() - at - 1;
            if option.eq_ignore_ascii_case(b"auth") && left >= 2 {
                shown = Some((words.get(at + 1), words.get(at + 2)));
                at += 3;
            } else if option.eq_ignore_ascii_case(b"setname") && left >= 1 {
                name = Some(client_name(words.get(at + 1))?);
                at += 2;
            } else {
                return Err(
                    format!("ERR Syntax error in HELLO option '{}'", excerpt(option)).into(),
                );
            }
        }
        if let Some((user, token)) = shown {
            self.show_key(user, token)?;
        }
        if !self.is_known() {
            return Err(HELLO_FIRST.into());
        }
        if let Some(name) = name {
            self.info.texts.lock().name = name;
        }
        self.speak(version);
        self.greet();
        Ok(())
    }

    fn speak(&mut self, version: Version) {
        self.replies.version = version;
        self.info.set_version(version as u8);
    }

    fn greet(&mut self) {
        let replies = &mut self.replies;
        replies.map(7);
        replies.bulks(["server", "redis", "version", REDIS_VERSION, "proto"]);
        replies.integer(replies.version as i64);
        replies.bulk(b"id");
        replies.count(self.info.id);
        replies.bulks(["mode", "standalone", "role", "master", "modules"]);
        self.modules();
    }

    /// The modules that filters are of elsewhere.
    pub(super) fn modules(&mut self) {
        let replies = &mut self.replies;
        replies.array(1);
        replies.map(4);
        replies.bulks(["name", MODULE.0, "ver"]);
        replies.integer(MODULE.1);
        replies.bulks(["path", "", "args"]);
        replies.array(0);
    }

    /// `SELECT`.
    pub(super) fn select(&mut self, words: Words<'_>) -> Result {
        match integer(words.get(1)).ok_or(NOT_AN_INTEGER)? {
            0 => self.replies.ok(),
            _ => return Err("ERR DB index is out of range".into()),
        }
        Ok(())
    }

    /// `QUIT`.
    pub(super) fn quit(&mut self) {
        self.replies.ok();
        self.is_over = true;
    }

    /// `RESET`.
    pub(super) fn reset(&mut self) {
        self.transaction = None;
        self.speak(Version::Resp2);
        self.info.texts.lock().name.clear();
        self.info.set_user(DEFAULT_USER);
        self.principal = self.anybody();
        charge_to_task();
        (self.shown, self.is_strong) = (None, false);
        self.positions.clear();
        self.changed.clear();
        self.replies.status("RESET");
    }

    /// `CLIENT`.
    pub(super) fn client(&mut self, words: Words<'_>) -> Result {
        let subcommand = words.get(1).to_ascii_lowercase();
        let arity: std::ops::RangeInclusive<usize> = match subcommand.as_slice() {
            b"id" | b"getname" | b"info" => 2..=2,
            b"setname" | b"no-evict" | b"no-touch" | b"reply" => 3..=3,
            b"setinfo" => 4..=4,
            b"consistency" | b"position" => 2..=3,
            b"list" => 2..=usize::MAX,
            b"tracking" => 3..=usize::MAX,
            _ => return Err(errors::unknown_subcommand(words).into()),
        };
        if !arity.contains(&words.len()) {
            return Err(errors::arity_of("client", words.get(1)).into());
        }
        match subcommand.as_slice() {
            b"id" => self.replies.count(self.info.id),
            b"getname" => match self.info.name() {
                name if name.is_empty() => self.replies.nil(),
                name => self.replies.bulk(name.as_bytes()),
            },
            b"info" => self.replies.text(&self.info.line()),
            b"setname" => {
                self.info.texts.lock().name = client_name(words.get(2))?;
                self.replies.ok();
            }
            b"setinfo" => self.set_info(words)?,
            b"consistency" => self.consistency(words)?,
            b"position" => self.position(words)?,
            b"list" => self.list_clients()?,
            _ => self.client_mode(&subcommand, words)?,
        }
        Ok(())
    }

    /// `CLIENT CONSISTENCY`: what the questions of this connection are about. A
    /// server in no cluster always answers with everything that was acknowledged.
    fn consistency(&mut self, words: Words<'_>) -> Result {
        if words.len() == 2 {
            let said = if self.is_strong { "strong" } else { "local" };
            self.replies.bulk(said.as_bytes());
            return Ok(());
        }
        self.is_strong = match words.get(2).to_ascii_lowercase().as_slice() {
            b"local" => false,
            b"strong" => true,
            _ => return Err("ERR the consistency is local or strong".into()),
        };
        self.replies.ok();
        Ok(())
    }

    /// `CLIENT POSITION`: where what this connection has changed stands, or which
    /// positions its questions are to wait for.
    fn position(&mut self, words: Words<'_>) -> Result {
        let engine = self.engine()?;
        if words.len() == 3 {
            let text = String::from_utf8_lossy(words.get(2));
            let given = RecordPosition::newest(text.split(','), &engine);
            self.remember_positions(&given.map_err(|_| NO_POSITION)?);
            self.replies.ok();
            return Ok(());
        }
        let positions = RecordPosition::list(&self.positions_of(&engine, self.positions.keys()));
        self.replies.bulk(positions.as_bytes());
        Ok(())
    }

    fn set_info(&mut self, words: Words<'_>) -> Result {
        let value = words.get(3);
        let Some(value) = plain(value) else {
            return Err(format!(
                "ERR {} cannot contain spaces, newlines or special characters.",
                excerpt(&words.get(2).to_ascii_lowercase())
            )
            .into());
        };
        match words.get(2).to_ascii_lowercase().as_slice() {
            b"lib-name" => self.info.texts.lock().library = value,
            b"lib-ver" => self.info.texts.lock().library_version = value,
            _ => return Err(format!("ERR Unrecognized option '{}'", excerpt(words.get(2))).into()),
        }
        self.replies.ok();
        Ok(())
    }

    /// All connections; for operators.
    fn list_clients(&mut self) -> Result {
        if !self.is_operator() {
            return Err(self.no_permission("client|list", "admin and no prefix"));
        }
        let lines: String = self.service.clients().iter().map(|it| it.line()).collect();
        self.hold_reply(2 * lines.len())?;
        self.replies.text(&lines);
        Ok(())
    }

    fn client_mode(&mut self, subcommand: &[u8], words: Words<'_>) -> Result {
        let mode = words.get(2).to_ascii_lowercase();
        match (subcommand, mode.as_slice()) {
            (b"tracking", b"off") | (b"reply", b"on") => self.replies.ok(),
            // Memory is bounded otherwise.
            (b"no-evict" | b"no-touch", b"on" | b"off") => self.replies.ok(),
            (b"tracking", b"on") | (b"reply", b"off" | b"skip") => {
                return Err(format!(
                    "ERR CLIENT {} {} is not supported",
                    excerpt(&subcommand.to_ascii_uppercase()),
                    excerpt(&mode.to_ascii_uppercase())
                )
                .into());
            }
            _ => return Err(SYNTAX.into()),
        }
        Ok(())
    }
}

/// # Errors
/// A name that would break the list of clients.
fn client_name(word: &[u8]) -> Result<String> {
    plain(word).ok_or_else(|| BAD_NAME.into())
}

/// A short text of visible characters.
fn plain(word: &[u8]) -> Option<String> {
    let is_plain = word.len() <= ClientInfo::MAX_TEXT && word.iter().all(u8::is_ascii_graphic);
    is_plain.then(|| String::from_utf8_lossy(word).into_owned())
}
