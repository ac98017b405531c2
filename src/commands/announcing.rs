//! What a pod tells the others of its cluster while it serves, and what it makes of
//! what they tell: levels of records, who may lead, how far it is behind.

use super::failure::Result;
use super::fallen_behind::FallenBehind;
use super::last_announced::LastAnnounced;
use crate::cluster::jetstream::{
    ANNOUNCE_EVERY, Announcements, Connection, Founding, KeptPositions, LeaseKeeping, PodState,
    current_epoch,
};
use crate::cluster::{Halt, Leaders, LevelKeeper, Member, Position};
use crate::engine::LaneState;
use crate::server::App;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Tells others how far this pod is, and finds out how far they are.
pub(super) struct Announcing {
    pub(super) announcements: Announcements,
    pub(super) kept: KeptPositions,
    /// What is kept, as it was read or written last.
    pub(super) known: Vec<Position>,
    pub(super) leaders: Arc<Leaders>,
    pub(super) keeping: Arc<LeaseKeeping>,
    pub(super) connection: Connection,
    pub(super) founding: Founding,
    pub(super) levels: LevelKeeper,
    pub(super) own: PodState,
    /// The newest record of each lane that is on the disk.
    pub(super) held: Arc<Mutex<Vec<u64>>>,
    /// Told once if another pod has what this one lacks and the log has no more.
    pub(super) start_again: watch::Sender<bool>,
    pub(super) fallen_behind: FallenBehind,
    pub(super) last_announced: LastAnnounced,
    pub(super) member: Member,
    pub(super) app: Arc<App>,
    /// How much was found before that no pod with this cluster key has said.
    pub(super) refused: u64,
}

impl Announcing {
    /// Goes on until it is told to stop; then others hear that the pod is gone.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut failed = false;
        while !*stop.borrow() {
            let told = timeout(ANNOUNCE_EVERY * 3, self.once()).await;
            match &told {
                Ok(Ok(())) => {}
                _ if failed => {}
                Ok(Err(error)) => tracing::warn!(%error, "the pods of the cluster can't be seen"),
                Err(_) => tracing::warn!("the brokers do not answer"),
            }
            failed = !matches!(told, Ok(Ok(())));
            self.set_lane_gauges();
            // An error means that the server stops.
            if let Ok(Err(_)) = timeout(ANNOUNCE_EVERY, stop.changed()).await {
                break;
            }
        }
        let withdrawn = self.announcements.withdraw(&self.own.address);
        let _ = timeout(ANNOUNCE_EVERY, withdrawn).await;
    }

    async fn once(&mut self) -> Result {
        self.tell_own_state();
        self.own.held.clone_from(&self.held.lock());
        self.announcements.announce(&self.own).await?;
        self.look_for_an_epoch().await?;
        let pods = self.announcements.all().await?;
        self.app.metrics.cluster_pods.set(pods.len() as i64);
        let other = self.announcements.of_other_founding().await?;
        if let Some(cluster) = self.app.cluster()
            && cluster.set_other_founding(other.clone())
            && let Some(address) = other
        {
            tracing::warn!(
                address,
                "a server that belongs to another founding of a cluster of this name announces itself: stop it, or give it an empty data directory"
            );
        }
        let now = Instant::now();
        if let Some(level) = self.levels.update(pods.iter().map(|it| it.level), now) {
            tracing::info!(
                level,
                "all pods understand this feature level: records are written at it"
            );
            self.member.write_level(level);
        }
        self.last_announced.update(&pods, now);
        let alive = self.last_announced.alive(now);
        let others = alive.filter(|it| it.may_lead && it.address != self.own.address);
        self.keeping
            .set_others(others.map(PodState::holder).collect());
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
        self.hear_of_others(&pods).await?;
        self.count_unsealed();
        for (furthest, kept) in furthest.iter_mut().zip(&self.known) {
            *furthest = kept.sequence.max(*furthest);
        }
        let states = self.member.engine().lane_states();
        self.start_again_if_behind(&pods, &states);
        let own: Vec<u64> = states.iter().map(|it| it.position.sequence).collect();
        if let Some(cluster) = self.app.cluster() {
            cluster.staleness().update(&own, &furthest, now);
            cluster.see(pods);
        }
        for (lane, (own, furthest)) in own.iter().zip(&furthest).enumerate() {
            let lag = &self.app.metrics.lane_lag;
            let lag = lag.with_label_values(&[lane.to_string()]);
            lag.set(furthest.saturating_sub(*own) as i64);
        }
        Ok(())
    }

    /// Has lanes wait for what other pods have applied, and stop if the log has lost it.
    /// Has that kept outside of the log, and the own positions, too. Somebody may have
    /// taken away what was kept, or written over it: this pod has seen it, and puts it
    /// back.
    async fn hear_of_others(&mut self, pods: &[PodState]) -> Result {
        let kept = self.kept.read().await?;
        if let Some(lanes) = kept.lanes.as_ref().filter(|it| !it.is_empty()) {
            self.known.clone_from(lanes);
        }
        let mut heard = lanes_of(&self.known);
        let others = pods.iter().filter(|it| it.address != self.own.address);
        heard.extend(acknowledged(others));
        let member = self.member.clone();
        let has = spawn_blocking(move || member.hear_acknowledged(&heard)).await??;
        let states = self.member.engine().lane_states();
        let next = states.iter().enumerate().map(|(lane, state)| {
            let is_lost = matches!(state.halted, Some(Halt::Lost { .. }));
            match self.known.get(lane) {
                // What goes on from it takes its place.
                Some(kept) if is_lost || has.get(lane) == Some(&false) => *kept,
                Some(kept) if kept.sequence >= state.position.sequence => *kept,
                _ => state.position,
            }
        });
        let next: Vec<Position> = next.collect();
        if next != self.known || kept.lacks_seal {
            self.kept.keep(&kept, &next).await?;
        }
        self.known = next;
        Ok(())
    }

    fn tell_own_state(&mut self) {
        let states = self.member.engine().lane_states();
        let positions = states.iter().map(|it| it.position);
        self.own.positions = positions.clone().map(|it| it.sequence).collect();
        self.own.histories = positions.map(|it| it.history).collect();
        let stopped = (0..).zip(&states).filter(|(_, it)| it.halted.is_some());
        self.own.stopped = stopped.map(|(lane, _)| lane).collect();
        let is_lost = |it: &LaneState| matches!(it.halted, Some(Halt::Lost { .. }));
        let lacking = (0..).zip(&states).filter(|(_, it)| is_lost(it));
        self.own.lacking = lacking.map(|(lane, _)| lane).collect();
        self.own.now_ms = self.member.engine().now_ms();
        self.own.reckoned_ms = self.member.engine().reckoned_ms();
        let engine = self.member.engine();
        let is_ready = self.app.cluster().is_some_and(|it| it.is_ready(engine));
        self.own.may_lead = is_ready && engine.takes_changes();
    }

    /// Once another epoch has begun, this pod must not answer as if it had not.
    async fn look_for_an_epoch(&self) -> Result {
        let current = current_epoch(&self.connection, &self.founding.cluster).await?;
        let Some(cluster) = self.app.cluster() else {
            return Ok(());
        };
        if current.epoch > self.founding.epoch && cluster.set_later_epoch(current.epoch) {
            tracing::error!(
                epoch = current.epoch,
                own_epoch = self.founding.epoch,
                "a new epoch of the cluster has begun: this pod changes nothing any more. Start it again, and it goes on there"
            );
        }
        Ok(())
    }

    /// Counts what no pod with this cluster key has said, and says whether there is more.
    fn count_unsealed(&mut self) {
        let before = self.refused;
        self.refused = self.announcements.refused();
        let more = self.refused.saturating_sub(before);
        self.app.metrics.unsealed_entries.inc_by(more);
        if let Some(cluster) = self.app.cluster() {
            cluster.set_unsealed(more > 0);
        }
    }

    /// Stops the server, to be started again, if the log no longer has what a lane
    /// lacks, and a pod that is there has it.
    fn start_again_if_behind(&mut self, pods: &[PodState], states: &[LaneState]) {
        let lanes: Vec<(u64, bool)> = states
            .iter()
            .map(|it| (it.position.sequence, it.is_behind))
            .collect();
        let others = pods.iter().filter(|it| it.address != self.own.address);
        if let Some(pod) = self.fallen_behind.helper(&lanes, others)
            && !*self.start_again.borrow()
        {
            tracing::warn!(
                address = pod.address,
                "the commit log no longer has what this pod lacks, and another pod has it: the server starts again, and takes its state"
            );
            self.start_again.send_replace(true);
        }
    }

    fn set_lane_gauges(&self) {
        let states = self.member.engine().lane_states();
        for (lane, state) in states.iter().enumerate() {
            let lane = [lane.to_string()];
            let position = self.app.metrics.lane_position.with_label_values(&lane);
            position.set(state.position.sequence as i64);
            let leads = self.app.metrics.lane_leads.with_label_values(&lane);
            leads.set(state.leads().into());
        }
        let stopped = states.iter().filter(|it| it.has_stopped());
        self.app.metrics.lanes_stopped.set(stopped.count() as i64);
        if let Some(cluster) = self.app.cluster() {
            let own: Vec<u64> = states.iter().map(|it| it.position.sequence).collect();
            let behind = cluster.staleness().lanes_behind(&own, Instant::now());
            self.app.metrics.lanes_behind.set(behind as i64);
        }
        let unknown = self.leaders.unknown();
        self.app.metrics.lanes_without_leader.set(unknown as i64);
    }
}

/// What pods of a cluster say that they have applied. One that waits for the state of
/// another finds out itself whether others have it.
pub(super) fn acknowledged<'a>(
    pods: impl Iterator<Item = &'a PodState>,
) -> impl Iterator<Item = (u32, Position)> {
    let serving = pods.filter(|it| !it.is_waiting);
    serving.flat_map(|it| lanes_of(&it.lanes().unwrap_or_default()))
}

/// Positions with the numbers of their lanes.
pub(super) fn lanes_of(positions: &[Position]) -> Vec<(u32, Position)> {
    (0..).zip(positions.iter().copied()).collect()
}
