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
    /// Lanes of which it had not applied the newest record when it announced itself last: some, while changes come.
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

    /// Has only those be behind who lack what was newest a while ago.
    pub fn compare_with(&mut self, before: &[LaneStatus]) {
        for pod in &mut self.pods {
            pod.lanes_behind = behind(&pod.positions, before);
        }
    }
}

fn behind(positions: &[u64], lanes: &[LaneStatus]) -> usize {
    let lanes = lanes.iter().zip(positions);
    lanes.filter(|(lane, at)| **at < lane.newest).count()
}

fn pod(pod: PodState, lanes: &[LaneStatus]) -> PodStatus {
    let leads = |lane: &&LaneStatus| lane.leader.as_ref() == Some(&pod.address);
    PodStatus {
        lanes_behind: behind(&pod.positions, lanes),
        leads: lanes.iter().filter(leads).count(),
        address: pod.address,
        writer: pod.writer,
        version: pod.version,
        positions: pod.positions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_what_was_newest_a_while_ago_is_not_behind() {
        let lanes = |newest: [u64; 2]| {
            let lanes = (0..).zip(newest);
            let lanes = lanes.map(|(lane, newest)| LaneStatus {
                lane,
                newest,
                leader: None,
            });
            lanes.collect::<Vec<_>>()
        };
        let state = PodState {
            positions: vec![7, 5],
            ..PodState::default()
        };
        let lanes_now = lanes([9, 6]);
        let mut status = ClusterStatus {
            cluster: String::new(),
            epoch: 1,
            copies: 3,
            pods: vec![pod(state, &lanes_now)],
            lanes: lanes_now,
            answered_by: None,
            age_seconds: None,
        };
        assert_eq!(status.pods[0].lanes_behind, 2);
        for (before, behind) in [([7, 5], 0), ([7, 6], 1), ([8, 6], 2)] {
            status.compare_with(&lanes(before));
            assert_eq!(status.pods[0].lanes_behind, behind, "{before:?}");
        }
    }
}
