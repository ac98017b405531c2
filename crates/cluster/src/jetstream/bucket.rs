//! What the pods of a cluster tell each other: a key-value bucket.
//!
//! A key is written by a publish to its subject, with its lifetime and behind the
//! revision that is expected: the bucket's own update would forget the lifetime.

use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::log::is_overtaken;
use super::name::ClusterName;
use super::seal::{Said, Seals};
use super::stream::{compare, get};
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy};
use async_nats::jetstream::context::PublishError;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RawMessageErrorKind, Stream};
use async_nats::{HeaderMap, jetstream::kv};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What a bucket says of a key that ran out or was taken back.
const MARKERS: [&str; 2] = ["Nats-Marker-Reason", "KV-Operation"];

/// How long the bucket remembers that a key ran out.
const MARKER_TTL: Duration = Duration::from_secs(60);

/// The bucket of a cluster.
#[derive(Clone)]
pub(super) struct Bucket {
    context: Context,
    stream: Stream<()>,
    /// What all of its subjects begin with.
    prefix: String,
}

/// The bucket of a cluster, as pods tell each other there what nobody else may: all is
/// sealed.
#[derive(Clone)]
pub(super) struct SealedBucket {
    pub(super) unsealed: Bucket,
    pub(super) seals: Seals,
}

/// What is under a key.
pub(super) struct Entry<T = Bytes> {
    /// What the next write of it may expect.
    pub(super) revision: u64,
    /// `None`: it ran out, or was taken back.
    pub(super) value: Option<T>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there, as of this revision.
    Stored(u64),
    /// Another one was there before it.
    Overtaken,
}

impl Bucket {
    /// Makes the bucket of a cluster, or leaves it as it is.
    ///
    /// # Errors
    /// The brokers refuse.
    pub(super) async fn make(
        connection: &Connection,
        cluster: &ClusterName,
        copies: usize,
    ) -> Result<()> {
        let bucket = kv::Config {
            bucket: cluster.bucket(),
            history: 1,
            num_replicas: copies,
            limit_markers: Some(MARKER_TTL),
            ..kv::Config::default()
        };
        let made = connection.context.create_or_update_key_value(bucket).await;
        made.map_err(JetStreamError::while_doing("making the bucket of leases"))?;
        Ok(())
    }

    /// Compares how the bucket of a cluster is with how it was made: one that lets keys
    /// run out by itself loses which epoch is current, one without lifetimes keeps the
    /// leases of pods that are gone.
    ///
    /// # Errors
    /// There is none, or it is another.
    pub(super) async fn check(connection: &Connection, cluster: &ClusterName) -> Result<()> {
        let bucket = cluster.bucket();
        let needed = Config {
            name: format!("KV_{bucket}"),
            subjects: vec![format!("$KV.{bucket}.>")],
            discard: DiscardPolicy::New,
            max_messages: -1,
            max_messages_per_subject: 1,
            max_bytes: -1,
            max_message_size: -1,
            deny_delete: true,
            allow_rollup: true,
            allow_direct: true,
            allow_message_ttl: true,
            subject_delete_marker_ttl: Some(MARKER_TTL),
            ..Config::default()
        };
        match get(&connection.context, &needed.name).await? {
            Some(found) => compare(&found, &needed),
            None => Err(JetStreamError::NoBucket { bucket }),
        }
    }

    /// The bucket of a cluster.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn open(connection: &Connection, cluster: &ClusterName) -> Result<Bucket> {
        let found = Bucket::find(connection, cluster).await?;
        found.ok_or_else(|| JetStreamError::NoBucket {
            bucket: cluster.bucket(),
        })
    }

    /// The bucket of a cluster, if there is one.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn find(
        connection: &Connection,
        cluster: &ClusterName,
    ) -> Result<Option<Bucket>> {
        const DOING: &str = "looking for what pods tell each other";
        let (context, bucket) = (&connection.context, cluster.bucket());
        let name = format!("KV_{bucket}");
        if get(context, &name).await?.is_none() {
            return Ok(None);
        }
        let stream = context.get_stream_no_info(name).await;
        Ok(Some(Bucket {
            context: context.clone(),
            stream: stream.map_err(JetStreamError::while_doing(DOING))?,
            prefix: format!("$KV.{bucket}."),
        }))
    }

    /// What is under a key; `None`: nothing ever was, or not for long.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn newest(&self, key: &str, doing: &'static str) -> Result<Option<Entry>> {
        let subject = format!("{}{key}", self.prefix);
        match self.stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => Ok(Some(Entry {
                revision: message.sequence,
                value: (!is_marker(&message.headers)).then_some(message.payload),
            })),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(JetStreamError::while_doing(doing)(error)),
        }
    }

    /// Writes a key, for a lifetime of whole seconds if one is given, and only where
    /// its revision is the one that is expected if one is; 0: there is none.
    ///
    /// # Errors
    /// There was no answer: it may be written.
    pub(super) async fn put(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        expected: Option<u64>,
    ) -> Result<Put, PublishError> {
        let mut message = PublishMessage::build().payload(value);
        if let Some(ttl) = ttl {
            message = message.ttl(ttl);
        }
        self.publish(key, message, expected).await
    }

    /// Takes a key back, only where its revision is the one that is expected, if one
    /// is.
    ///
    /// # Errors
    /// There was no answer: it may be taken back.
    pub(super) async fn delete(
        &self,
        key: &str,
        expected: Option<u64>,
    ) -> Result<Put, PublishError> {
        let message = PublishMessage::build().header("KV-Operation", "DEL");
        self.publish(key, message, expected).await
    }

    async fn publish(
        &self,
        key: &str,
        mut message: PublishMessage,
        expected: Option<u64>,
    ) -> Result<Put, PublishError> {
        if let Some(expected) = expected {
            message = message.expected_last_subject_sequence(expected);
        }
        let subject = format!("{}{key}", self.prefix);
        let sent = async { self.context.send_publish(subject, message).await?.await };
        match sent.await {
            Ok(ack) => Ok(Put::Stored(ack.sequence)),
            Err(error) if is_overtaken(&error) => Ok(Put::Overtaken),
            Err(error) => Err(error),
        }
    }

    /// The keys that begin with `start`, as far as there are some, and the newest revision
    /// of all keys.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn keys(
        &self,
        start: &str,
        doing: &'static str,
    ) -> Result<(Vec<String>, u64)> {
        let filter = format!("{}{start}>", self.prefix);
        let subjects = self.stream.info_with_subjects(filter).await;
        let subjects = subjects.map_err(JetStreamError::while_doing(doing))?;
        let newest = subjects.info.state.last_sequence;
        let subjects: Vec<(String, usize)> = subjects
            .try_collect()
            .await
            .map_err(JetStreamError::while_doing(doing))?;
        let keys = subjects.into_iter();
        let keys = keys
            .filter_map(|(subject, _)| Some(subject.strip_prefix(&self.prefix)?.to_owned()))
            .collect();
        Ok((keys, newest))
    }
}

impl SealedBucket {
    /// The bucket of a cluster.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn open(
        connection: &Connection,
        cluster: &ClusterName,
        seals: &Seals,
    ) -> Result<SealedBucket> {
        let opened = SealedBucket {
            unsealed: Bucket::open(connection, cluster).await?,
            seals: seals.clone(),
        };
        opened.look().await?;
        Ok(opened)
    }

    /// Finds the newest revision.
    async fn look(&self) -> Result<()> {
        let asked = Instant::now();
        let info = self.unsealed.stream.get_info().await;
        let info = info.map_err(JetStreamError::while_doing("looking at the bucket"))?;
        self.seals.update(info.state.last_sequence, asked);
        Ok(())
    }

    /// What a pod said under a key, be it a moment ago or in the past; `None` as value of
    /// the entry: nobody of the cluster has written it.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn last_said(
        &self,
        key: &str,
        doing: &'static str,
    ) -> Result<Option<Entry<Option<Said>>>> {
        let newest = self.unsealed.newest(key, doing).await?;
        Ok(newest.map(|it| Entry {
            revision: it.revision,
            value: it
                .value
                .map(|value| self.seals.open(key, it.revision, &value)),
        }))
    }

    /// Whether somebody says something under a key, be it one of the cluster or not.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn is_there(&self, key: &str, doing: &'static str) -> Result<bool> {
        let newest = self.unsealed.newest(key, doing).await?;
        Ok(newest.is_some_and(|it| it.value.is_some()))
    }

    /// What a pod said under a key; nothing, if it was in the past.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn newest(&self, key: &str, doing: &'static str) -> Result<Option<Entry>> {
        let said = self.last_said(key, doing).await?;
        Ok(said.map(|it| Entry {
            revision: it.revision,
            value: it
                .value
                .flatten()
                .filter(|it| it.is_fresh)
                .map(|it| it.bytes),
        }))
    }

    /// Says something under a key, as [`Bucket::put`] does.
    ///
    /// # Errors
    /// There was no answer: it may be written.
    pub(super) async fn say(
        &self,
        key: &str,
        said: &impl Serialize,
        ttl: Option<Duration>,
        expected: Option<u64>,
    ) -> Result<Put> {
        const DOING: &str = "telling other pods something";
        if self.seals.must_look() {
            self.look().await?;
        }
        let sealed = self.seals.close(key, said);
        let sealed = sealed.map_err(JetStreamError::while_doing(DOING))?;
        let asked = Instant::now();
        let put = self.unsealed.put(key, sealed, ttl, expected).await;
        let put = put.map_err(JetStreamError::while_doing(DOING))?;
        if let Put::Stored(revision) = put {
            self.seals.update(revision, asked);
        }
        Ok(put)
    }

    /// The keys that begin with `start`, as far as there are some.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn keys(&self, start: &str, doing: &'static str) -> Result<Vec<String>> {
        let asked = Instant::now();
        let (keys, newest) = self.unsealed.keys(start, doing).await?;
        self.seals.update(newest, asked);
        Ok(keys)
    }

    /// What pods say from now on under keys that begin with `start`, as they say it.
    ///
    /// # Errors
    /// The broker did not answer.
    pub(super) async fn watch(&self, start: &str) -> Result<Watch> {
        const DOING: &str = "watching what pods tell each other";
        let prefix = &self.unsealed.prefix;
        let config = OrderedConfig {
            filter_subject: format!("{prefix}{start}*"),
            deliver_policy: DeliverPolicy::New,
            replay_policy: ReplayPolicy::Instant,
            ..OrderedConfig::default()
        };
        let consumer = self.unsealed.stream.create_consumer(config).await;
        let consumer = consumer.map_err(JetStreamError::while_doing(DOING))?;
        let messages = consumer.messages().await;
        Ok(Watch {
            messages: messages.map_err(JetStreamError::while_doing(DOING))?,
            prefix: prefix.clone(),
            start: start.to_owned(),
            seals: self.seals.clone(),
        })
    }
}

/// What pods say under some keys.
pub(super) struct Watch {
    messages: Ordered,
    /// What all subjects begin with.
    prefix: String,
    /// What the keys begin with that are watched.
    start: String,
    seals: Seals,
}

impl Watch {
    /// The next that is said: what its key ends with, and what it is; nothing, if it
    /// was taken back, ran out, or nobody of the cluster says it now. `None`: it has to
    /// be watched anew.
    pub(super) async fn next(&mut self) -> Option<(String, Option<Bytes>)> {
        loop {
            let message = self.messages.try_next().await.ok()??;
            let Some(key) = message.subject.strip_prefix(&self.prefix) else {
                continue;
            };
            let Some(end) = key.strip_prefix(&self.start) else {
                continue;
            };
            let is_gone = message.headers.as_ref().is_some_and(is_marker);
            let revision = message.info().ok()?.stream_sequence;
            let said = (!is_gone).then(|| self.seals.open(key, revision, &message.payload));
            let said = said.flatten().filter(|it| it.is_fresh);
            return Some((end.to_owned(), said.map(|it| it.bytes)));
        }
    }
}

fn is_marker(headers: &HeaderMap) -> bool {
    MARKERS.iter().any(|it| headers.get(*it).is_some())
}
