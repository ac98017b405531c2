//! A server's part in a cluster: what it needs of the brokers before its data is
//! opened, and what it does there while it serves.

use super::cluster::{EPOCH, LEASE_TTL, check_safe};
use super::failure::Failure;
use crate::client::remote::{certificates, choose_cryptography};
use crate::config::ClusterSettings;
use crate::engine::{Engine, JoinError, MeasuredLog, Membership};
use crate::http::{App, Cluster};
use crate::metrics::Metrics;
use crate::replication::jetstream::{
    ANNOUNCE_EVERY, Announcements, Founding, Holder, JetStreamLog, LeaseKeeping, Leases, Patience,
    PodState, connect, open,
};
use crate::replication::record::Writer;
use crate::replication::{CommitLog, Event, Leaders};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long another pod may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// How long leaving may take: leases run out by themselves.
const LEAVING: Duration = Duration::from_secs(3);

/// A pod that may take part in its cluster: the brokers were reached, and nobody
/// else has its address.
pub(super) struct Pod {
    founding: Founding,
    log: Arc<dyn CommitLog>,
    writer: Writer,
    leases: Leases,
    leaders: Arc<Leaders>,
    announcements: Announcements,
    address: String,
    metrics: Arc<Metrics>,
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
        app: &App,
        metrics: &Arc<Metrics>,
    ) -> Result<Pod, Failure> {
        let brokers = &settings.brokers;
        let connection = connect(&brokers.brokers).await?;
        let founding = open(&connection, &brokers.cluster, EPOCH).await?;
        if let Some(given) = settings.lanes
            && given != founding.lanes as usize
        {
            let lanes = founding.lanes;
            return Err(JoinError::OtherLanes { given, lanes }.into());
        }
        check_safe(&connection, &founding, brokers).await?;
        let announcements = Announcements::new(&connection, &founding).await?;
        announcements.claim(&settings.address).await?;
        let mut writer = [0; 16];
        getrandom::fill(&mut writer)?;
        let writer = Writer(writer);
        let log = JetStreamLog::new(&connection, founding.clone(), Patience::default());
        let holder = Holder::new(writer, settings.address.clone());
        let leases = Leases::new(&connection, founding.clone(), holder, LEASE_TTL).await?;
        let leaders = Arc::new(Leaders::of_none(founding.lanes));
        let client = client(settings.ca_file.as_deref())?;
        let pod = Cluster::new(Arc::clone(&leaders), settings.address.clone(), client);
        app.join(pod);
        Ok(Pod {
            log: Arc::new(MeasuredLog::new(Arc::new(log.await?), Arc::clone(metrics))),
            founding,
            writer,
            leases,
            leaders,
            announcements,
            address: settings.address.clone(),
            metrics: Arc::clone(metrics),
        })
    }

    /// What makes an engine a part of the cluster.
    pub(super) fn membership(&self) -> Membership {
        Membership {
            log: Arc::clone(&self.log),
            founding: self.founding.founding,
            epoch: self.founding.epoch,
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
    ) -> TakingPart {
        let keeping = LeaseKeeping::new(self.leases, LEASE_TTL, Arc::clone(&self.leaders));
        let keep = |lane| {
            let (keeping, engine, stop) = (Arc::clone(&keeping), engine.clone(), stop.clone());
            tokio::spawn(async move {
                let tell = move |event: Event| {
                    // An error means that the engine stops.
                    let _ = engine.tell_lane(lane, event);
                };
                keeping.keep(lane, tell, stop).await;
            })
        };
        let mut tasks: Vec<_> = (0..self.founding.lanes).map(keep).collect();
        let announcing = Announcing {
            announcements: self.announcements,
            leaders: self.leaders,
            own: PodState {
                address: self.address,
                writer: self.writer.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                positions: Vec::new(),
            },
            engine: engine.clone(),
            app: Arc::clone(app),
            metrics: self.metrics,
        };
        tasks.push(tokio::spawn(announcing.run(stop.clone())));
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

/// Tells others how far this pod is, and finds out how far they are.
struct Announcing {
    announcements: Announcements,
    leaders: Arc<Leaders>,
    own: PodState,
    engine: Engine,
    app: Arc<App>,
    metrics: Arc<Metrics>,
}

impl Announcing {
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut failed = false;
        while !*stop.borrow() {
            let told = timeout(ANNOUNCE_EVERY * 3, self.once()).await;
            match told {
                Ok(Ok(())) => failed = false,
                _ if failed => {}
                Ok(Err(error)) => {
                    failed = true;
                    tracing::warn!(%error, "the pods of the cluster can't be seen");
                }
                Err(_) => {
                    failed = true;
                    tracing::warn!("the brokers do not answer");
                }
            }
            self.note_lanes();
            // An error means that the server stops.
            if let Ok(Err(_)) = timeout(ANNOUNCE_EVERY, stop.changed()).await {
                break;
            }
        }
        let withdrawn = self.announcements.withdraw(&self.own.address);
        let _ = timeout(ANNOUNCE_EVERY, withdrawn).await;
    }

    async fn once(&mut self) -> Result<(), Failure> {
        let positions = |engine: &Engine| -> Vec<u64> {
            let states = engine.lane_states();
            states.iter().map(|it| it.position.sequence).collect()
        };
        self.own.positions = positions(&self.engine);
        self.announcements.announce(&self.own).await?;
        let pods = self.announcements.all().await?;
        self.metrics.cluster_pods.set(pods.len() as i64);
        let mut furthest = vec![0; self.own.positions.len()];
        for pod in &pods {
            if pod.address == self.own.address && pod.writer != self.own.writer {
                tracing::error!(
                    address = pod.address,
                    "another pod announces the address of this one: each needs one of its own (--advertise)"
                );
            }
            for (furthest, &position) in furthest.iter_mut().zip(&pod.positions) {
                *furthest = position.max(*furthest);
            }
        }
        let own = positions(&self.engine);
        if let Some(cluster) = self.app.cluster() {
            cluster.staleness().note(&own, &furthest, Instant::now());
        }
        for (lane, (own, furthest)) in own.iter().zip(&furthest).enumerate() {
            let lag = &self.metrics.lane_lag;
            let lag = lag.with_label_values(&[lane.to_string()]);
            lag.set(furthest.saturating_sub(*own) as i64);
        }
        Ok(())
    }

    fn note_lanes(&self) {
        let states = self.engine.lane_states();
        for (lane, state) in states.iter().enumerate() {
            let lane = [lane.to_string()];
            let position = self.metrics.lane_position.with_label_values(&lane);
            position.set(state.position.sequence as i64);
            let leads = self.metrics.lane_leads.with_label_values(&lane);
            leads.set(state.leads.into());
        }
        let stopped = states
            .iter()
            .filter(|it| it.halted.is_some() || it.is_behind);
        self.metrics.lanes_stopped.set(stopped.count() as i64);
        let unknown = self.leaders.unknown();
        self.metrics.lanes_without_leader.set(unknown as i64);
    }
}

/// What requests are passed on with.
fn client(ca_file: Option<&Path>) -> Result<reqwest::Client, Failure> {
    choose_cryptography();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        // What is passed on is passed on as it is, and to nobody in between.
        .no_proxy()
        .no_gzip();
    if let Some(file) = ca_file {
        let found = certificates(file).map_err(|error| format!("--cluster-ca-file: {error}"))?;
        builder = builder.tls_certs_only(found);
    }
    Ok(builder.build()?)
}
