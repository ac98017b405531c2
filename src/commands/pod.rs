//! A server's part in a cluster: what it needs of the brokers before its data is
//! opened, and what it does there while it serves.

use super::announcing::{Announcing, acknowledged, lanes_of};
use super::brokers::{check_safe, cluster_key, seals};
use super::cluster::LEASE_TTL;
use super::failure::{Failure, Result};
use super::fallen_behind::FallenBehind;
use super::last_announced::LastAnnounced;
use super::settings::watch_settings;
use super::trimming::Trimming;
use crate::client::remote::{certificates, choose_cryptography};
use crate::cluster::jetstream::{
    ANNOUNCE_EVERY, Announcements, Connection, Founding, Holder, JetStreamError, JetStreamLog,
    KeptPositions, LeaseKeeping, Leases, Patience, PodState, brokers_time, check_settings, connect,
    current_epoch, open,
};
use crate::cluster::record::Writer;
use crate::cluster::trimming::Bounds;
use crate::cluster::{JoinError, Leaders, LevelKeeper, MeasuredLog, Member, Membership, Position};
use crate::config::{BrokerSettings, ClusterSettings};
use crate::metrics::Metrics;
use crate::server::listen::polls::{Timed, Work};
use crate::server::{App, Cluster, Links};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Why a pod takes no part, and what helps.
const OTHER_KEY: &str = "other_key: what the pods keep in the brokers' bucket is sealed with another cluster key, so this pod takes no part. Give all pods the same --cluster-key-file; while a key is replaced, the file has the old one, too. If the old one is lost, or somebody else wrote there, begin a new epoch with `cuckood cluster new-epoch --give-up-changes`";

/// How long leaving may take: leases run out by themselves.
const LEAVING: Duration = Duration::from_secs(3);

/// How long brokers that fail at a start are asked again.
const SETTLING: Duration = Duration::from_secs(30);

/// A pod that may take part in its cluster: the brokers were reached, and nobody
/// else has its address.
pub(super) struct Pod {
    pub(super) connection: Connection,
    pub(super) founding: Founding,
    brokers: BrokerSettings,
    kept: KeptPositions,
    /// What is kept; `None`: it is with another key, and this pod takes no part.
    known: Option<Vec<Position>>,
    /// What makes an engine a part of the cluster.
    pub(super) membership: Membership,
    leases: Leases,
    leaders: Arc<Leaders>,
    pub(super) announcements: Announcements,
    pub(super) address: String,
    pub(super) metrics: Arc<Metrics>,
    pub(super) links: Arc<Links>,
    trimming: Trimming,
}

/// What a pod does in its cluster while it serves.
pub(super) struct TakingPart(Vec<JoinHandle<()>>);

/// Whether brokers that were reached may do a little later what they failed to do.
fn may_pass(error: &Failure) -> bool {
    matches!(error.downcast_ref(), Some(JetStreamError::Broker { .. }))
}

impl Pod {
    /// Reaches the brokers, and makes sure that they and the cluster are what they
    /// must be. Brokers that choose a leader, or hear only now of a new stream, fail for a
    /// moment: they are asked again for half a minute.
    ///
    /// # Errors
    /// They are not; nothing was changed.
    pub(super) async fn prepare(
        settings: &ClusterSettings,
        data_dir: &Path,
        app: &App,
        metrics: &Arc<Metrics>,
    ) -> Result<Pod> {
        metrics.touch_snapshots();
        if let Some(lacks) = settings.brokers.lacks() {
            tracing::warn!(
                "the brokers are on other machines, with {lacks}: whoever reaches them may read and change the log of the cluster"
            );
        }
        let started = Instant::now();
        loop {
            match Pod::reach(settings, data_dir, app, metrics).await {
                Err(error) if may_pass(&error) && started.elapsed() < SETTLING => {
                    tracing::warn!("{error}; asking the brokers again");
                    sleep(ANNOUNCE_EVERY).await;
                }
                reached => return reached,
            }
        }
    }

    async fn reach(
        settings: &ClusterSettings,
        data_dir: &Path,
        app: &App,
        metrics: &Arc<Metrics>,
    ) -> Result<Pod> {
        let brokers = &settings.brokers;
        let connection = connect(&brokers.brokers).await?;
        let epoch = current_epoch(&connection, &brokers.cluster).await?;
        let founding = open(&connection, &brokers.cluster, epoch.epoch).await?;
        if let Some(given) = settings.lanes
            && given != founding.lanes as usize
        {
            let lanes = founding.lanes;
            return Err(JoinError::OtherLanes { given, lanes }.into());
        }
        check_safe(&connection, &founding, brokers).await?;
        check_settings(&connection, &founding).await?;
        let key = cluster_key(brokers)?;
        if settings.is_reached_from_elsewhere && !key.is_secret() {
            tracing::warn!(
                "--cluster-key-file is missing, or has the line `founding`: whoever may read the log of the brokers can ask this pod for all that it has"
            );
        }
        let seals = seals(&key, &founding.cluster, &founding.founding)?;
        let announcements = Announcements::new(&connection, &founding, &seals).await?;
        announcements.claim(&settings.address).await?;
        let pods = announcements.all().await?;
        let kept = KeptPositions::new(&connection, &founding, &seals).await?;
        let known = kept.open().await?;
        let mut acknowledged: Vec<_> = acknowledged(pods.iter()).collect();
        acknowledged.extend(lanes_of(known.as_deref().unwrap_or_default()));
        let as_of_now = |ms| (ms, Instant::now());
        let time = middle_time(pods.iter().map(|it| it.now_ms)).map(as_of_now);
        let reckoned = middle_time(pods.iter().map(|it| it.reckoned_ms)).map(as_of_now);
        let brokers_time = brokers_time(&connection, &founding).await?;
        let brokers_time = brokers_time.map(as_of_now);
        let writer = Writer(super::random::bits()?);
        let log = JetStreamLog::new(&connection, founding.clone(), Patience::default());
        let holder = Holder::new(writer, settings.address.clone());
        let leases = Leases::new(&connection, founding.clone(), &seals, holder, LEASE_TTL).await?;
        let leaders = Arc::new(Leaders::of_none(founding.lanes));
        let keys = key.derive(&founding.cluster.to_string(), &founding.founding, "pods")?;
        let authorities = authorities(settings.ca_file.as_deref())?;
        let links = Arc::new(Links::new(&settings.address, keys, authorities));
        let pod = Cluster::new(
            founding.clone(),
            Arc::clone(&leaders),
            Arc::clone(&links),
            metrics,
        );
        let log = Arc::new(log.await?);
        app.join(pod);
        let trimming = Trimming {
            announcements: announcements.clone(),
            log: Arc::clone(&log),
            keep_bytes: settings.log_keep_bytes,
            data_dir: data_dir.to_owned(),
            held: Arc::default(),
            metrics: Arc::clone(metrics),
            seen: HashMap::new(),
            is_gone: false,
            trimmed: Bounds::default(),
        };
        let membership = Membership {
            log: Arc::new(MeasuredLog::new(log, Arc::clone(metrics))),
            founding: founding.founding,
            epoch: founding.epoch,
            began: epoch.began,
            acknowledged,
            time,
            reckoned,
            brokers_time,
            level: settings.level.unwrap_or(Membership::NEWEST_LEVEL),
            lanes: founding.lanes,
            writer,
        };
        Ok(Pod {
            connection: connection.clone(),
            kept,
            known,
            brokers: brokers.clone(),
            membership,
            trimming,
            founding,
            leases,
            leaders,
            announcements,
            address: settings.address.clone(),
            metrics: Arc::clone(metrics),
            links,
        })
    }

    /// Waits until what pods keep in the bucket can be opened, if that is with another key:
    /// with that, what the others say would be nobody's, and what is kept would be lost if
    /// this pod wrote there. Returns whether it had to wait: then it begins anew, with the
    /// key that is in the file now.
    ///
    /// # Errors
    /// The file with the key can't be read.
    pub(super) async fn wait_for_key(&self, app: &App) -> Result<bool> {
        if self.known.is_some() {
            return Ok(false);
        }
        tracing::error!("{OTHER_KEY}");
        if let Some(cluster) = app.cluster() {
            cluster.set_other_key(OTHER_KEY);
        }
        let founding = &self.founding;
        loop {
            self.metrics.unsealed_entries.inc();
            sleep(ANNOUNCE_EVERY).await;
            let key = cluster_key(&self.brokers)?;
            let seals = seals(&key, &founding.cluster, &founding.founding)?;
            let look = async {
                let kept = KeptPositions::new(&self.connection, founding, &seals).await?;
                kept.open().await
            };
            // Brokers that do not answer now do later.
            if let Ok(Ok(Some(_))) = timeout(LEAVING, look).await {
                return Ok(true);
            }
        }
    }

    /// What the pod says of itself before it has applied anything.
    pub(super) fn state(&self) -> PodState {
        PodState {
            address: self.address.clone(),
            writer: self.membership.writer.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            level: self.membership.level,
            ..PodState::default()
        }
    }

    /// Keeps leases and announces the pod, until it is told to stop.
    pub(super) fn take_part(
        self,
        member: &Member,
        app: &Arc<App>,
        stop: &watch::Receiver<bool>,
        start_again: watch::Sender<bool>,
    ) -> TakingPart {
        let own = self.state();
        let keeping = LeaseKeeping::new(self.leases, LEASE_TTL, Arc::clone(&self.leaders));
        let keep = |lane| {
            let (keeping, stop) = (Arc::clone(&keeping), stop.clone());
            let kept = (member.clone(), lane);
            spawn(app, async move { keeping.keep(lane, kept, stop).await })
        };
        let mut tasks: Vec<_> = (0..self.founding.lanes).map(keep).collect();
        let (watching, told) = (Arc::clone(&keeping), stop.clone());
        tasks.push(spawn(app, async move { watching.watch(told).await }));
        let (connection, founding) = (self.connection.clone(), self.founding.clone());
        let watching = watch_settings(connection, founding, self.metrics, stop.clone());
        tasks.push(spawn(app, watching));
        let announcing = Announcing {
            announcements: self.announcements,
            kept: self.kept,
            known: self.known.unwrap_or_default(),
            refused: 0,
            leaders: self.leaders,
            keeping,
            connection: self.connection,
            own,
            held: Arc::clone(&self.trimming.held),
            start_again,
            fallen_behind: FallenBehind::default(),
            last_announced: LastAnnounced::default(),
            founding: self.founding,
            levels: LevelKeeper::new(self.membership.level),
            member: member.clone(),
            app: Arc::clone(app),
        };
        tasks.push(spawn(app, announcing.run(stop.clone())));
        tasks.push(spawn(app, self.trimming.run(member.clone(), stop.clone())));
        TakingPart(tasks)
    }
}

impl TakingPart {
    /// Waits until leases are given back, which begins when the pod is told to
    /// stop.
    pub(super) async fn ended(self) {
        let ended = async {
            for task in self.0 {
                // A panic was logged where it happened.
                let _ = task.await;
            }
        };
        let _ = timeout(LEAVING, ended).await;
    }
}

/// Runs a task of a pod. Its polls are timed, as those of connections are: as long as one
/// takes, its thread serves nobody.
fn spawn(app: &App, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let (seconds, threads) = (&app.metrics.http_poll_seconds, &app.admission.threads);
    tokio::spawn(Timed::new(task, seconds, Work::Pod, threads))
}

/// The time of pods, of which one alone may be wrong.
fn middle_time(times: impl Iterator<Item = u64>) -> Option<u64> {
    let mut times: Vec<u64> = times.filter(|it| *it > 0).collect();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied()
}

/// Who signs the certificates of other pods, if that was said.
fn authorities(file: Option<&Path>) -> Result<Option<Vec<reqwest::Certificate>>> {
    choose_cryptography();
    let found = file.map(certificates).transpose();
    Ok(found.map_err(|error| format!("--cluster-ca-file: {error}"))?)
}
