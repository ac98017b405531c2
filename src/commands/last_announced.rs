//! Which pods have announced themselves a moment ago: an announcement outlives its pod.

use crate::cluster::jetstream::{ANNOUNCE_EVERY, PodState};
use std::time::{Duration, Instant};

/// A pod that has announced nothing new for so long is given no lane. With what it takes
/// until that is seen it is less than a lease lives on, at least, when its pod has died: a
/// pod that leads nothing since then must not be taken for one that leads too little.
const QUIET: Duration = ANNOUNCE_EVERY.saturating_mul(2);

/// What each pod has announced, and since when that is known.
#[derive(Debug, Default)]
pub(super) struct LastAnnounced(Vec<(PodState, Instant)>);

impl LastAnnounced {
    /// Takes in what is announced now.
    pub(super) fn update(&mut self, pods: &[PodState], now: Instant) {
        let before = std::mem::take(&mut self.0);
        let known = |pod: &PodState| before.iter().find(|(it, _)| it == pod);
        let since = |pod: &PodState| known(pod).map_or(now, |(_, since)| *since);
        self.0 = pods.iter().map(|it| (it.clone(), since(it))).collect();
    }

    /// Those that say something new every now and then.
    pub(super) fn alive(&self, now: Instant) -> impl Iterator<Item = &PodState> {
        let is_alive = move |&&(_, since): &&(PodState, Instant)| now - since < QUIET;
        self.0.iter().filter(is_alive).map(|(pod, _)| pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(address: &str, now_ms: u64) -> PodState {
        PodState {
            address: address.to_owned(),
            now_ms,
            ..PodState::default()
        }
    }

    #[test]
    fn a_pod_that_says_nothing_new_is_not_alive_though_its_announcement_is_there() {
        let start = Instant::now();
        let mut last = LastAnnounced::default();
        for second in 0..6 {
            let now = start + Duration::from_secs(second);
            last.update(&[pod("a", second), pod("dead", 0)], now);
            let alive: Vec<&str> = last.alive(now).map(|it| it.address.as_str()).collect();
            match second {
                0..2 => assert_eq!(alive, ["a", "dead"]),
                _ => assert_eq!(alive, ["a"]),
            }
        }
        // It starts again.
        let now = start + Duration::from_secs(6);
        last.update(&[pod("dead", 6)], now);
        assert_eq!(last.alive(now).count(), 1);
    }
}
