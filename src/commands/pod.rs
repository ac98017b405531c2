//! A server's part in a cluster: what it needs of the brokers before its data is
//! opened, and what it does there while it serves.

use super::announcing::{Announcing, acknowledged, lanes_of};
use super::brokers::{check_safe, cluster_key, seals};
use super::cluster::LEASE_TTL;
use super::failure::Failure;
use super::fallen_behind::FallenBehind;
use super::last_announced::LastAnnounced;
use super::settings::watch_settings;
use super::trimming::Trimming;
use crate::client::remote::{certificates, choose_cryptography};
use crate::config::ClusterSettings;
use crate::engine::{Engine, JoinError, MeasuredLog, Membership};
use crate::http::{App, Cluster, Links};
use crate::metrics::Metrics;
use crate::replication::jetstream::{
    Announcements, Connection, Epoch, Founding, Holder, JetStreamLog, KeptPositions, LeaseKeeping,
    Leases, Patience, PodState, brokers_time, check_settings, connect, current_epoch, open,
};
use crate::replication::record::Writer;
use crate::replication::trimming::Bounds;
use crate::replication::{CommitLog, Leaders, LevelKeeper, Position};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long leaving may take: leases run out by themselves.
const LEAVING: Duration = Duration::from_secs(3);

/// A pod that may take part in its cluster: the brokers were reached, and nobody
/// else has its address.
pub(super) struct Pod {
    pub(super) connection: Connection,
    pub(super) founding: Founding,
    epoch: Epoch,
    kept: KeptPositions,
    /// What other pods have applied, and what is kept of that.
    acknowledged: Vec<(u32, Position)>,
    /// The time of the pods that are there, as of a moment.
    time: Option<(u64, Instant)>,
    /// The same by what they reckon.
    reckoned: Option<(u64, Instant)>,
    /// That of the brokers.
    brokers_time: Option<(u64, Instant)>,
    log: Arc<dyn CommitLog>,
    writer: Writer,
    leases: Leases,
    leaders: Arc<Leaders>,
    pub(super) announcements: Announcements,
    pub(super) address: String,
    /// The newest feature level of records that it understands.
    level: u16,
    pub(super) metrics: Arc<Metrics>,
    pub(super) links: Arc<Links>,
    trimming: Trimming,
}

/// What a pod does in its cluster while it serves.
pub(super) struct TakingPart(Vec<JoinHandle<()>>);

impl Pod {
    /// Reaches the brokers, and makes sure that they and the cluster are what they
    /// must be.
    ///
    /// # Errors
    /// They are not; nothing was changed.
    pub(super) async fn prepare(
        settings: &ClusterSettings,
        data_dir: &Path,
        app: &App,
        metrics: &Arc<Metrics>,
    ) -> Result<Pod, Failure> {
        metrics.touch_snapshots();
        let brokers = &settings.brokers;
        if let Some(lacks) = brokers.lacks() {
            tracing::warn!(
                "the brokers are on other machines, with {lacks}: whoever reaches them may read and change the log of the cluster"
            );
        }
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
        if settings.is_reached_from_elsewhere && !key.is_of_a_file() {
            tracing::warn!(
                "--cluster-key-file is missing: whoever may read the log of the brokers can ask this pod for all that it has"
            );
        }
        let seals = seals(&key, &founding.cluster, &founding.founding)?;
        let announcements = Announcements::new(&connection, &founding, &seals).await?;
        announcements.claim(&settings.address).await?;
        let pods = announcements.all().await?;
        let kept = KeptPositions::new(&connection, &founding, &seals).await?;
        let mut acknowledged_elsewhere = lanes_of(&kept.read().await?.lanes);
        acknowledged_elsewhere.extend(acknowledged(&founding, pods.iter()));
        let time = middle_time(pods.iter().map(|it| it.now_ms));
        let time = time.map(|it| (it, Instant::now()));
        let reckoned = middle_time(pods.iter().map(|it| it.reckoned_ms));
        let reckoned = reckoned.map(|it| (it, Instant::now()));
        let brokers_time = brokers_time(&connection, &founding).await?;
        let brokers_time = brokers_time.map(|it| (it, Instant::now()));
        let mut writer = [0; 16];
        getrandom::fill(&mut writer)?;
        let writer = Writer(writer);
        let log = JetStreamLog::new(&connection, founding.clone(), Patience::default());
        let holder = Holder::new(writer, settings.address.clone());
        let leases = Leases::new(&connection, founding.clone(), &seals, holder, LEASE_TTL).await?;
        let leaders = Arc::new(Leaders::of_none(founding.lanes));
        let cluster = founding.cluster.to_string();
        let keys = key.derive(&cluster, &founding.founding, "pods")?;
        let authorities = authorities(settings.ca_file.as_deref())?;
        let links = Arc::new(Links::new(&settings.address, keys, authorities));
        let pod = Cluster::new(
            founding.clone(),
            Arc::clone(&leaders),
            Arc::clone(&links),
            metrics,
        );
        app.join(pod);
        let log = Arc::new(log.await?);
        let trimming = Trimming {
            announcements: announcements.clone(),
            log: Arc::clone(&log),
            keep_bytes: settings.log_keep_bytes,
            data_dir: data_dir.to_owned(),
            held: Arc::default(),
            metrics: Arc::clone(metrics),
            seen: HashMap::new(),
            trimmed: Bounds::default(),
        };
        Ok(Pod {
            connection: connection.clone(),
            epoch,
            kept,
            acknowledged: acknowledged_elsewhere,
            time,
            reckoned,
            brokers_time,
            log: Arc::new(MeasuredLog::new(log, Arc::clone(metrics))),
            trimming,
            founding,
            writer,
            leases,
            leaders,
            announcements,
            address: settings.address.clone(),
            level: settings.level.unwrap_or(Membership::NEWEST_LEVEL),
            metrics: Arc::clone(metrics),
            links,
        })
    }

    /// What the pod says of itself before it has applied anything.
    pub(super) fn state(&self) -> PodState {
        PodState {
            address: self.address.clone(),
            writer: self.writer.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            founding: hex::encode(self.founding.founding),
            level: self.level,
            ..PodState::default()
        }
    }

    /// What makes an engine a part of the cluster.
    pub(super) fn membership(&self) -> Membership {
        Membership {
            log: Arc::clone(&self.log),
            founding: self.founding.founding,
            epoch: self.founding.epoch,
            began: self.epoch.began.clone(),
            acknowledged: self.acknowledged.clone(),
            time: self.time,
            reckoned: self.reckoned,
            brokers_time: self.brokers_time,
            level: self.level,
            lanes: self.founding.lanes,
            writer: self.writer,
        }
    }

    /// Keeps leases and announces the pod, until it is told to stop.
    pub(super) fn take_part(
        self,
        engine: &Engine,
        app: &Arc<App>,
        stop: &watch::Receiver<bool>,
        start_again: watch::Sender<bool>,
    ) -> TakingPart {
        let own = self.state();
        let keeping = LeaseKeeping::new(self.leases, LEASE_TTL, Arc::clone(&self.leaders));
        let keep = |lane| {
            let (keeping, stop) = (Arc::clone(&keeping), stop.clone());
            let kept = (engine.clone(), lane);
            tokio::spawn(async move { keeping.keep(lane, kept, stop).await })
        };
        let mut tasks: Vec<_> = (0..self.founding.lanes).map(keep).collect();
        let (watching, told) = (Arc::clone(&keeping), stop.clone());
        tasks.push(tokio::spawn(async move { watching.watch(told).await }));
        let (connection, founding) = (self.connection.clone(), self.founding.clone());
        let metrics = Arc::clone(&self.metrics);
        let watching = watch_settings(connection, founding, metrics, stop.clone());
        tasks.push(tokio::spawn(watching));
        let announcing = Announcing {
            announcements: self.announcements,
            kept: self.kept,
            leaders: self.leaders,
            keeping,
            connection: self.connection,
            own,
            held: Arc::clone(&self.trimming.held),
            start_again,
            fallen_behind: FallenBehind::default(),
            last_announced: LastAnnounced::default(),
            founding: self.founding,
            levels: LevelKeeper::new(self.level),
            engine: engine.clone(),
            app: Arc::clone(app),
            metrics: self.metrics,
        };
        tasks.push(tokio::spawn(announcing.run(stop.clone())));
        let trimming = self.trimming.run(engine.clone(), stop.clone());
        tasks.push(tokio::spawn(trimming));
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

/// The time of pods, of which one alone may be wrong.
fn middle_time(times: impl Iterator<Item = u64>) -> Option<u64> {
    let mut times: Vec<u64> = times.filter(|it| *it > 0).collect();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied()
}

/// Who signs the certificates of other pods, if that was said.
fn authorities(file: Option<&Path>) -> Result<Option<Vec<reqwest::Certificate>>, Failure> {
    choose_cryptography();
    let Some(file) = file else {
        return Ok(None);
    };
    let found = certificates(file).map_err(|error| format!("--cluster-ca-file: {error}"))?;
    Ok(Some(found))
}
