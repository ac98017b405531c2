//! How a cluster is: who leads which lane, and how far each pod is. What a pod
//! hands out at `/cluster`, and what `cuckood cluster status` prints.

use cuckood_cluster::jetstream::{Founding, PodState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a cluster is.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = ClusterBody)]
pub struct ClusterStatus {
    /// Its name.
    pub cluster: String,
    /// Which life of it this is.
    pub epoch: u64,
    /// Number of brokers that keep each change.
    pub copies: usize,
    /// Its lanes, by their numbers.
    pub lanes: Vec<LaneStatus>,
    /// The pods that are there, by their addresses.
    pub pods: Vec<PodStatus>,
    /// Address of the pod that answers; absent where the brokers were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Seconds since the pod that answers heard of the others; absent if it has not, and where the brokers were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
}

/// A lane of a cluster.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = ClusterLaneBody)]
pub struct LaneStatus {
    /// Its number.
    pub lane: u32,
    /// Number of its newest record, 0 if there is none.
    pub newest: u64,
    /// Address of the pod that leads it; null: none does, or it is not known.
    pub leader: Option<String>,
}

/// A pod of a cluster.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = ClusterPodBody)]
pub struct PodStatus {
    /// Where others reach it.
    pub address: String,
    /// Identifies its process.
    pub writer: String,
    /// Version of its program.
    pub version: String,
    /// Number of the newest record that it has applied, of each lane.
    pub positions: Vec<u64>,
    /// Lanes of which it has not applied the newest record.
    pub lanes_behind: usize,
    /// Lanes that it leads.
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
