//! Passes commands on to another pod, and takes its replies.

use super::failure::Failure;
use super::state::Session;
use crate::http::{App, NotPassed, PassedHead, PassedReplies};
use crate::redis::protocol::batch::{Batch, KeptCommands};
use crate::redis::protocol::encode::Version;
use crate::redis::protocol::pieces::Pieces;
use crate::redis::protocol::replies::reply_length;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;

/// Of a command whose reply did not come.
pub(super) const LOST: &str = "ERR the pod that leads the filter did not answer: it may have been done or not; ask for the items before it is sent again";

/// What passes commands on, for one connection.
pub(super) struct Passing {
    app: Arc<App>,
    head: PassedHead,
}

impl Session {
    pub(super) fn passing(&self) -> Passing {
        let app = &self.service.app;
        let positions = self.engine().map(|engine| {
            // Who leads has what it has changed itself, and others may be asked, too.
            self.positions_of(&engine, self.positions.keys())
        });
        let longest = Instant::now() + app.admission.limits.request_timeout;
        Passing {
            app: Arc::clone(app),
            head: PassedHead {
                token: self.shown.clone(),
                version: match self.replies.version() {
                    Version::Resp2 => 2,
                    Version::Resp3 => 3,
                },
                is_strong: self.is_strong,
                positions: positions.unwrap_or_default(),
                passed_on_by: self.passed_on_by.clone(),
                until: self.caller().deadline.unwrap_or(longest),
            },
        }
    }

    /// Has another pod do a transaction.
    pub(super) async fn exec_elsewhere(
        &mut self,
        address: &str,
        batch: Batch,
    ) -> Result<(), Failure> {
        let commands = batch.len();
        let alone = |word: &'static [u8]| {
            let mut kept = KeptCommands::default();
            kept.push_words([word]);
            Pieces::of(kept.into_batch())
        };
        let pieces = alone(b"MULTI")
            .chain(Pieces::of(batch))
            .chain(alone(b"EXEC"));
        let replies = self.passing().pass(address, pieces).await?;
        self.note_positions(&replies.positions);
        let all = split(replies.bytes);
        let done = all.last().filter(|_| all.len() == commands + 2);
        self.replies.raw(done.ok_or(LOST)?);
        Ok(())
    }
}

impl Passing {
    pub(super) async fn pass(
        &self,
        address: &str,
        commands: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    ) -> Result<PassedReplies, Failure> {
        let Some(cluster) = self.app.cluster() else {
            return Err(LOST.into());
        };
        let passed = cluster.pass_commands(address, &self.head, commands).await;
        passed.map_err(|why| match why {
            NotPassed::Engine(error) => error.into(),
            NotPassed::Refused { may_pass, detail } => {
                let code = if may_pass { "TRYAGAIN" } else { "ERR" };
                format!(
                    "{code} the pod that leads the filter takes no commands of this one: {detail}"
                )
                .into()
            }
        })
    }
}

/// The replies that bytes are, one after another.
pub(super) fn split(mut bytes: Bytes) -> Vec<Bytes> {
    let mut all = Vec::new();
    while let Some(length) = reply_length(&bytes) {
        all.push(bytes.split_to(length));
    }
    all
}
