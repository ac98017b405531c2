//! The watchdog of the tests' servers: a poll on an async thread that takes long
//! fails the test.

use cuckood::metrics::Metrics;
use std::sync::Arc;

/// Seconds of processor time that a poll may take, a bound of the metric's buckets.
const LONGEST: &str = "0.02";

/// Looks at the polls of a server when it is gone.
pub(crate) struct PollWatch(pub(crate) Arc<Metrics>);

impl Drop for PollWatch {
    fn drop(&mut self) {
        let text = String::from_utf8(self.0.encode().unwrap()).unwrap();
        let long = long_polls(&text);
        if !std::thread::panicking() {
            assert!(long.is_empty(), "polls of more than {LONGEST} s: {long:?}");
        }
    }
}

/// How many polls took longer, by route or command, of metrics in the text format.
pub(crate) fn long_polls(text: &str) -> Vec<(String, u64)> {
    let of = |line: &str, bucket: &str| {
        let (name, rest) = line.split_once("_poll_cpu_seconds_bucket{")?;
        let (labels, count) = rest.split_once(&format!(",le=\"{bucket}\"}} "))?;
        let work = format!("{name} {labels}");
        Some((work, count.parse::<f64>().ok()? as u64))
    };
    let counts = |bucket: &str| text.lines().filter_map(|line| of(line, bucket)).collect();
    let (short, all): (Vec<_>, Vec<_>) = (counts(LONGEST), counts("+Inf"));
    assert_eq!(short.len(), all.len(), "a bucket of {LONGEST} s is missing");
    let pairs = short.into_iter().zip(all);
    pairs
        .filter(|((_, short), (_, all))| short < all)
        .map(|((work, short), (_, all))| (work, all - short))
        .collect()
}

#[test]
fn a_long_poll_is_found_by_its_name() {
    let metrics = Metrics::new().unwrap();
    let of = |route: &str| metrics.http_poll_seconds.with_label_values(&[route]);
    of("/short").observe(0.019);
    assert_eq!(long_polls(&encoded(&metrics)), []);
    of("/long").observe(0.021);
    of("/long").observe(7.0);
    metrics
        .redis_poll_seconds
        .with_label_values(&["scan"])
        .observe(1.0);
    let found = long_polls(&encoded(&metrics));
    let named = |name: &str| {
        found
            .iter()
            .find(|(work, _)| work.contains(name))
            .map(|it| it.1)
    };
    assert_eq!(
        (found.len(), named("/long"), named("scan")),
        (2, Some(2), Some(1))
    );
}

fn encoded(metrics: &Metrics) -> String {
    String::from_utf8(metrics.encode().unwrap()).unwrap()
}
