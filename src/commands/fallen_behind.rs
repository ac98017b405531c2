//! A pod that runs and has lanes whose next records the log no longer has: which other
//! pod has what it lacks.

use crate::cluster::jetstream::PodState;

/// Where the lanes of a pod stood when the first of them was seen to be behind. Those
/// that are not behind go on, and what others announce of them is always a little
/// older.
#[derive(Debug, Default)]
pub(super) struct FallenBehind(Option<Vec<u64>>);

impl FallenBehind {
    /// The first of the `others` that has what the pod lacks. `lanes` are its own: the
    /// newest record, and whether the log has no more what follows it.
    pub(super) fn helper<'a>(
        &mut self,
        lanes: &[(u64, bool)],
        mut others: impl Iterator<Item = &'a PodState>,
    ) -> Option<&'a PodState> {
        if !lanes.iter().any(|(_, is_behind)| *is_behind) {
            self.0 = None;
            return None;
        }
        let positions = || lanes.iter().map(|(position, _)| *position).collect();
        let goal = self.0.get_or_insert_with(positions);
        others.find(|pod| {
            let mut each = pod.positions.iter().zip(goal.iter()).zip(lanes);
            pod.positions.len() == lanes.len()
                && each.all(|((at, goal), (_, is_behind))| at > goal || at == goal && !is_behind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(positions: &[u64]) -> PodState {
        PodState {
            positions: positions.to_vec(),
            ..PodState::default()
        }
    }

    #[test]
    fn a_pod_behind_in_one_lane_is_helped_while_its_other_lanes_go_on() {
        let mut fallen = FallenBehind::default();
        // What is announced of the second lane is a little older each time.
        let early = [pod(&[10, 95])];
        assert_eq!(
            fallen.helper(&[(10, true), (100, false)], early.iter()),
            None
        );
        for own in [200, 300] {
            let others = [pod(&[10, own - 5]), pod(&[20, own - 5])];
            let lanes = [(10, true), (own, false)];
            assert_eq!(
                fallen.helper(&lanes, others.iter()),
                Some(&others[1]),
                "{own}"
            );
        }
    }

    #[test]
    fn only_a_pod_with_all_that_the_own_one_had_helps() {
        let lanes = [(10, true), (100, false)];
        for (positions, helps) in [
            (&[11, 100][..], true),
            (&[11, 99], false),
            (&[10, 100], false),
            (&[11], false),
            (&[], false),
        ] {
            let others = [pod(positions)];
            let mut fallen = FallenBehind::default();
            let found = fallen.helper(&lanes, others.iter());
            assert_eq!(found.is_some(), helps, "{positions:?}");
        }
    }

    #[test]
    fn one_that_lacks_nothing_any_more_begins_anew_the_next_time() {
        let mut fallen = FallenBehind::default();
        let others = [pod(&[60, 60])];
        assert_eq!(
            fallen.helper(&[(70, true), (50, false)], others.iter()),
            None
        );
        assert_eq!(
            fallen.helper(&[(70, false), (50, false)], others.iter()),
            None
        );
        assert!(
            fallen
                .helper(&[(55, false), (55, true)], others.iter())
                .is_some()
        );
    }
}
