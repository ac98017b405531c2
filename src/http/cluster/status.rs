//! How a cluster is: who leads which lane, and how far each pod is. What a pod
//! hands out at `/cluster`, and what `cuckood cluster status` prints.

use crate::replication::jetstream::{Founding, PodState};
use serde::Serialize;
use utoipa::ToSchema;

/// How a cluster is.
#[derive(Serialize, ToSchema)]
#[schema(as = ClusterBody)]
pub struct ClusterStatus {
    /// Its name.
    #[schema(example = "shop")]
    pub cluster: String,
    /// Which life of it this is.
    #[schema(example = 1)]
    pub epoch: u64,
    /// Number of brokers that keep each change.
    #[schema(example = 3)]
    pub copies: usize,
    /// Its lanes, by their numbers.
    pub lanes: Vec<LaneStatus>,
    /// The pods that are there, by their addresses.
    pub pods: Vec<PodStatus>,
    /// Address of the pod that answers; absent where the brokers were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "http://pod-0:8080")]
    pub answered_by: Option<String>,
    /// Seconds since the pod that answers heard of the others; absent if it has not, and where the brokers were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 0.4)]
    pub age_seconds: Option<f64>,
}

/// A lane of a cluster.
#[derive(Serialize, ToSchema)]
#[schema(as = ClusterLaneBody)]
pub struct LaneStatus {
    /// Its number.
    #[schema(example = 0)]
    pub lane: u32,
    /// Number of its newest record, 0 if there is none.
    #[schema(example = 4711)]
    pub newest: u64,
    /// Address of the pod that leads it; null: none does, or it is not known.
    #[schema(example = "http://pod-0:8080")]
    pub leader: Option<String>,
}

/// A pod of a cluster.
#[derive(Serialize, ToSchema)]
#[schema(as = ClusterPodBody)]
pub struct PodStatus {
    /// Where others reach it.
    #[schema(example = "http://pod-0:8080")]
    pub address: String,
    /// Identifies its process.
    #[schema(example = "6f1d0c5a9b3e4d2788aa10c2e4f60b19")]
    pub writer: String,
    /// Version of its program.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Number of the newest record that it has applied, of each lane.
    #[schema(example = json!([4711]))]
    pub positions: Vec<u64>,
    /// Lanes of which it has not applied the newest record.
    #[schema(example = 0)]
    pub lanes_behind: usize,
    /// Lanes that it leads.
    #[schema(example = 1)]
    pub leads: usize,
}

impl ClusterStatus {
    /// Of a cluster whose lanes have these newest records and leaders.
    pub fn new(
        founding: &Founding,
        lanes: impl Iterator<Item = (u64, Option<String>)>,
        pods: impl IntoIterator<Item = PodState>,
    ) -> ClusterStatus {
        let lanes: Vec<_> = (0..)
            .zip(lanes)
            .map(|(lane, (newest, leader))| LaneStatus {
                lane,
                newest,
                leader,
            })
            .collect();
        ClusterStatus {
            cluster: founding.cluster.to_string(),
            epoch: founding.epoch,
            copies: founding.copies,
            pods: pods.into_iter().map(|it| pod(it, &lanes)).collect(),
            lanes,
            answered_by: None,
            age_seconds: None,
        }
    }

    /// One of the description.
    pub(in crate::http) fn example() -> ClusterStatus {
        let address = || "http://pod-0:8080".to_owned();
        let lane = LaneStatus {
            lane: 0,
            newest: 4711,
            leader: Some(address()),
        };
        let own = PodState {
            address: address(),
            writer: "6f1d0c5a9b3e4d2788aa10c2e4f60b19".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            positions: vec![4711],
            ..PodState::default()
        };
        let lanes = vec![lane];
        ClusterStatus {
            cluster: "shop".to_owned(),
            epoch: 1,
            copies: 3,
            pods: vec![pod(own, &lanes)],
            lanes,
            answered_by: Some(address()),
            age_seconds: Some(0.4),
        }
    }
}

fn pod(pod: PodState, lanes: &[LaneStatus]) -> PodStatus {
    let at_lanes = lanes.iter().zip(&pod.positions);
    let leads = |lane: &&LaneStatus| lane.leader.as_ref() == Some(&pod.address);
    PodStatus {
        lanes_behind: at_lanes.filter(|(lane, at)| **at < lane.newest).count(),
        leads: lanes.iter().filter(leads).count(),
        address: pod.address,
        writer: pod.writer,
        version: pod.version,
        positions: pod.positions,
    }
}
