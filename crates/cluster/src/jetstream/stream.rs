//! How the stream of a cluster is set up: made once when the cluster is
//! founded, and compared at every start.

use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::name::ClusterName;
use crate::record::MAX_LANES;
use async_nats::jetstream::Context;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use std::collections::HashMap;
use std::time::Duration;

/// What a stream says of the cluster that it belongs to.
pub(super) const FOUNDING: &str = "cuckood_founding";
const EPOCH: &str = "cuckood_epoch";
const LANES: &str = "cuckood_lanes";

/// One setting of a stream, as text.
type Setting = fn(&Config) -> String;

/// How long ids of messages are remembered, the broker's default. Nothing
/// depends on it but how soon a second attempt is answered.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// What was fixed when a cluster was founded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    /// Its name.
    pub cluster: ClusterName,
    /// Chosen at random.
    pub founding: [u8; 16],
    /// Which life of it this is.
    pub epoch: u64,
    /// How many lanes it has.
    pub lanes: u32,
    /// How many brokers keep each record.
    pub copies: usize,
}

impl Founding {
    /// What its stream is called.
    pub fn stream(&self) -> String {
        self.cluster.stream(self.epoch)
    }

    /// What keys of its bucket have in them: a cluster of this name may have been founded
    /// before.
    pub(super) fn in_keys(&self) -> String {
        format!("{}.{}", self.epoch, hex::encode(self.founding))
    }

    pub(super) fn config(&self) -> Config {
        let metadata = [
            (FOUNDING, hex::encode(self.founding)),
            (EPOCH, self.epoch.to_string()),
            (LANES, self.lanes.to_string()),
        ];
        Config {
            name: self.stream(),
            subjects: vec![format!("cuckood.{}.{}.*", self.cluster, self.epoch)],
            description: Some("commits of cuckood; made by `cuckood cluster found`".to_owned()),
            retention: RetentionPolicy::Limits,
            // What does not fit is refused; nothing old makes room for it.
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: self.copies,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_bytes: -1,
            max_message_size: -1,
            duplicate_window: DUPLICATE_WINDOW,
            deny_delete: true,
            // Reads are answered by the leader alone.
            allow_direct: false,
            metadata: HashMap::from(metadata.map(|(key, value)| (key.to_owned(), value))),
            ..Config::default()
        }
    }

    fn refused(&self, field: &'static str, found: String, needed: String) -> JetStreamError {
        JetStreamError::Stream {
            stream: self.stream(),
            field,
            found,
            needed,
        }
    }
}

/// What may not be another than it was made, or what is written could get lost.
const SETTINGS: [(&str, Setting); 21] = [
    ("subjects", |it| format!("{:?}", it.subjects)),
    ("retention", |it| format!("{:?}", it.retention)),
    ("discard", |it| format!("{:?}", it.discard)),
    ("storage", |it| format!("{:?}", it.storage)),
    ("max_msgs", |it| it.max_messages.to_string()),
    ("max_msgs_per_subject", |it| {
        it.max_messages_per_subject.to_string()
    }),
    ("max_bytes", |it| it.max_bytes.to_string()),
    ("max_msg_size", |it| it.max_message_size.to_string()),
    ("max_age", |it| format!("{:?}", it.max_age)),
    ("no_ack", |it| it.no_ack.to_string()),
    ("sealed", |it| it.sealed.to_string()),
    ("deny_delete", |it| it.deny_delete.to_string()),
    ("deny_purge", |it| it.deny_purge.to_string()),
    ("allow_rollup_hdrs", |it| it.allow_rollup.to_string()),
    ("allow_direct", |it| it.allow_direct.to_string()),
    ("mirror", |it| format!("{:?}", it.mirror)),
    ("sources", |it| {
        format!("{:?}", it.sources.as_deref().unwrap_or_default())
    }),
    ("subject_transform", |it| {
        format!("{:?}", it.subject_transform)
    }),
    ("persist_mode", |it| {
        format!("{:?}", it.persist_mode.unwrap_or_default())
    }),
    ("allow_msg_ttl", |it| it.allow_message_ttl.to_string()),
    ("subject_delete_marker_ttl", |it| {
        format!("{:?}", it.subject_delete_marker_ttl)
    }),
];

/// Compares how a stream is with how it must be.
///
/// # Errors
/// [`JetStreamError::Stream`].
pub(super) fn compare(found: &Config, needed: &Config) -> Result<()> {
    for (field, of) in SETTINGS {
        let (found, must) = (of(found), of(needed));
        if found != must {
            return Err(JetStreamError::Stream {
                stream: needed.name.clone(),
                field,
                found,
                needed: must,
            });
        }
    }
    Ok(())
}

/// Finds the stream of an epoch of a cluster, and checks how it is set up.
///
/// # Errors
/// It is not there, it is another's, or records could get lost in it.
pub async fn open(connection: &Connection, cluster: &ClusterName, epoch: u64) -> Result<Founding> {
    let stream = cluster.stream(epoch);
    let Some(config) = get(&connection.context, &stream).await? else {
        return Err(JetStreamError::NoStream { stream });
    };
    if config.sealed {
        return Err(JetStreamError::Sealed { stream });
    }
    let mut founding = Founding {
        cluster: cluster.clone(),
        founding: [0; 16],
        epoch,
        lanes: 0,
        copies: config.num_replicas,
    };
    let said = |key: &str| config.metadata.get(key).cloned().unwrap_or_default();
    let (id, lanes) = (said(FOUNDING), said(LANES));
    if hex::decode_to_slice(&id, &mut founding.founding).is_err() {
        let needed = "the one of a cluster that `cuckood cluster found` made".to_owned();
        return Err(founding.refused("metadata cuckood_founding", format!("{id:?}"), needed));
    }
    let found = said(EPOCH);
    if found != epoch.to_string() {
        return Err(founding.refused("metadata cuckood_epoch", found, epoch.to_string()));
    }
    founding.lanes = lanes.parse().unwrap_or(0);
    if !(1..=MAX_LANES).contains(&founding.lanes) {
        let needed = format!("1 to {MAX_LANES}");
        return Err(founding.refused("metadata cuckood_lanes", format!("{lanes:?}"), needed));
    }
    // How many copies there are is for people to change.
    compare(&config, &founding.config())?;
    Ok(founding)
}

/// Whether a stream could not be made because there is another one of the same name.
pub(super) fn is_taken(error: &CreateStreamError) -> bool {
    match error.kind() {
        CreateStreamErrorKind::JetStream(cause) => {
            cause.error_code() == ErrorCode::STREAM_NAME_EXIST
        }
        _ => false,
    }
}

pub(super) async fn get(context: &Context, stream: &str) -> Result<Option<Config>> {
    match context.get_stream(stream).await {
        Ok(found) => Ok(Some(found.cached_info().config.clone())),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(cause)
                if cause.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            _ => Err(JetStreamError::while_doing("looking for the stream")(error)),
        },
    }
}

#[cfg(test)]
mod tests;
