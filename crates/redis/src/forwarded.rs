//! Commands that another pod has forwarded: a session without a connection works
//! on them.

use super::protocol::decode::{Bounds, Decoded, Decoder};
use super::service::{ClientInfo, Service};
use super::session::Session;
use crate::server::cluster::commands::{CommandWorker, CommandsHead, Worked};
use crate::server::principal::Principal;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Weak;

/// See the module.
pub(super) struct Forwarded(pub(super) Weak<Service>);

impl CommandWorker for Forwarded {
    fn work(
        &self,
        caller: Principal,
        head: CommandsHead,
        commands: Bytes,
    ) -> Pin<Box<dyn Future<Output = Worked> + Send + '_>> {
        Box::pin(async move {
            let Some(service) = self.0.upgrade() else {
                return Worked::default();
            };
            let limits = &service.app.admission.limits;
            let bounds = Bounds::of_known(limits.max_batch_items, limits.max_body_bytes);
            let info = ClientInfo::of_a_pod(service.client_ids.next());
            let mut session = Session::of_a_pod(&service, info, caller, head);
            let mut decoder = Decoder::of(commands);
            // What is no command has no reply: who sent it takes that for a failure.
            while let Decoded::Commands(pipeline) = decoder.decode(&bounds, usize::MAX) {
                session.work_through(&pipeline).await;
                decoder.recycle(pipeline);
            }
            session.into_worked()
        })
    }
}
