//! Every metric family, declared once. Names, help texts and buckets live
//! here and nowhere else; `engine`, `store` and `http` record into
//! them. The algorithm below knows no metrics: what it did stands in its
//! outcome, which the engine records.

mod late_gauges;

use late_gauges::LateGauges;
pub use late_gauges::ReadGauges;
use prometheus::core::{Collector, Desc};
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry, TextEncoder, proto,
};

/// Outcomes under which the engine counts items, by operation.
const ITEM_OUTCOMES: [(&str, &str); 7] = [
    ("add", "added exists full"),
    ("delete", "deleted absent"),
    ("replace", "replaced absent full"),
    ("exists", "found absent"),
    ("count", "answered"),
    ("locate", "answered"),
    ("lookup", "found absent"),
];

/// A kind of family that a declaration can be turned into. What a histogram takes says
/// enough of any kind.
trait Family: Collector + Clone + Sized + 'static {
    fn declare(opts: HistogramOpts, labels: &[&str]) -> prometheus::Result<Self>;
}

/// Says of each kind how it is made from its declaration.
macro_rules! kinds {
    ($($kind:ident: |$it:ident, $labels:ident| $made:expr;)*) => {$(
        impl Family for $kind {
            fn declare($it: HistogramOpts, $labels: &[&str]) -> prometheus::Result<Self> {
                $made
            }
        }
    )*};
}

kinds! {
    IntCounter: |it, _labels| IntCounter::with_opts(it.common_opts);
    IntCounterVec: |it, labels| IntCounterVec::new(it.common_opts, labels);
    IntGauge: |it, _labels| IntGauge::with_opts(it.common_opts);
    IntGaugeVec: |it, labels| IntGaugeVec::new(it.common_opts, labels);
    GaugeVec: |it, labels| GaugeVec::new(it.common_opts, labels);
    Histogram: |it, _labels| Histogram::with_opts(it);
    HistogramVec: |it, labels| HistogramVec::new(it, labels);
}

/// Declares the struct and its constructor from one list, so that a field's
/// doc comment and its help text can't part.
macro_rules! families {
    ($(
        $(#[doc = $help:literal])+
        $field:ident: $kind:ident = $name:literal, $labels:expr, $buckets:expr;
    )*) => {
        /// The registry and every family in it. One per server, so that tests can run
        /// several servers in a process.
        pub struct Metrics {
            /// Where all families are registered.
            pub registry: Registry,
            $( $(#[doc = $help])+ pub $field: $kind, )*
        }

        impl Metrics {
            /// Registers every family, and the ones of the process (memory, file
            /// descriptors, processor seconds).
            ///
            /// # Errors
            /// A name is malformed or taken: a mistake in this file.
            pub fn new() -> Result<Metrics, prometheus::Error> {
                let registry = Registry::new();
                registry.register(Box::new(
                    prometheus::process_collector::ProcessCollector::for_self(),
                ))?;
                $(
                    let opts = HistogramOpts::new($name, concat!($($help),+).trim());
                    let opts = opts.buckets($buckets.to_vec());
                    let $field = <$kind as Family>::declare(opts, &$labels)?;
                    registry.register(Box::new($field.clone()))?;
                )*
                let metrics = Metrics { registry, $($field),* };
                metrics.touch();
                Ok(metrics)
            }
        }
    };
}

const SECONDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];
const POLL_SECONDS: [f64; 9] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0];
const POWERS_OF_FOUR: [f64; 10] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0,
];
const PATH_LENGTHS: [f64; 11] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0, 100.0, 500.0];

families! {
    /// Fingerprints moved to their alternate bucket to free a slot.
    kick_outs: IntCounter = "cuckood_kick_outs_total", [], [];
    /// Times that a filter grew: sub-filters appended (`classic`), doublings completed (`paged`).
    expansions: IntCounter = "cuckood_expansions_total", [], [];
    /// Pages split in two as filters of the layout `paged` grow.
    page_splits: IntCounter = "cuckood_page_splits_total", [], [];
    /// Pages split because an item found no room: more than a few say that a filter's slots don't suit its items.
    forced_page_splits: IntCounter = "cuckood_forced_page_splits_total", [], [];
    /// Pairs of pages merged as filters of the layout `paged` shrink.
    page_merges: IntCounter = "cuckood_page_merges_total", [], [];
    /// Entries that splits copied to both pages because their slots no longer tell which is theirs.
    void_copies: IntCounter = "cuckood_void_copies_total", [], [];
    /// Filters that grew further than their false-positive rate is promised for.
    promises_ended: IntCounter = "cuckood_error_rate_promises_ended_total", [], [];
    /// Pages read, by source (`cache`, `store`).
    page_reads: IntCounterVec = "cuckood_page_reads_total", ["source"], [];
    /// Items by operation (`add`, `exists`, `count`, `delete`, `lookup`, `locate`) and outcome.
    items: IntCounterVec = "cuckood_items_total", ["operation", "outcome"], [];
    /// Commands applied by lanes, by kind and outcome.
    commands: IntCounterVec = "cuckood_commands_total", ["kind", "outcome"], [];
    /// Kick-outs per path that freed a slot.
    kick_path_length: Histogram = "cuckood_kick_path_length", [], PATH_LENGTHS;
    /// Distinct pages changed per commit.
    commit_pages_dirtied: Histogram = "cuckood_commit_pages_dirtied", [], POWERS_OF_FOUR;
    /// Items per commit.
    commit_items: Histogram = "cuckood_commit_items", [], POWERS_OF_FOUR;
    /// Seconds per commit, including the forced write.
    commit_seconds: Histogram = "cuckood_commit_duration_seconds", [], SECONDS;
    /// Commits that the store reported as failed.
    commit_failures: IntCounter = "cuckood_commit_failures_total", [], [];
    /// Commands requeued because a kick-out needed a page that was not resident.
    commands_requeued: IntCounter = "cuckood_commands_requeued_total", [], [];
    /// Seconds that commands waited for their lane.
    lane_queue_wait_seconds: Histogram = "cuckood_lane_queue_wait_seconds", [], SECONDS;
    /// Slices of plans that take more than one, commits included.
    plan_slices: IntCounter = "cuckood_plan_slices_total", [], [];
    /// Plans that are suspended between two slices, at most one a lane.
    suspended_plans: IntGauge = "cuckood_suspended_plans", [], [];
    /// Waiting commands, by lane.
    lane_queue_depth: IntGaugeVec = "cuckood_lane_queue_depth", ["lane"], [];
    /// Filters open.
    open_filters: IntGauge = "cuckood_open_filters", [], [];
    /// Filters that exist, by the last survey.
    filters: IntGauge = "cuckood_filters", [], [];
    /// Bytes that the slots of all filters take when every page is written, by the last survey.
    filters_bytes: IntGauge = "cuckood_filters_bytes", [], [];
    /// Filters whose expected false-positive rate is above the promised one, by the last survey.
    filters_over_error_rate: IntGauge = "cuckood_filters_over_error_rate", [], [];
    /// Filters that may not grow any more and use nine tenths of their usable slots, by the last survey.
    filters_nearly_full: IntGauge = "cuckood_filters_nearly_full", [], [];
    /// Seconds by which the system's clock has jumped ahead and is not believed; 0: it is believed.
    clock_jump_seconds: IntGauge = "cuckood_clock_jump_seconds", [], [];
    /// Jumps ahead of the system's clock that were noticed.
    clock_jumps: IntCounter = "cuckood_clock_jumps_total", [], [];
    /// Filters that had ended when the server started, by the system's clock; at most 100,000 are counted.
    ended_while_stopped: IntGauge = "cuckood_filters_ended_while_stopped", [], [];
    /// Filters that are two doublings or less from the largest size that their slots record, by the last survey.
    filters_near_growth_limit: IntGauge = "cuckood_filters_near_growth_limit", [], [];
    /// Bytes of stored pages that the scrub has read.
    scrub_bytes: IntCounter = "cuckood_scrub_bytes_total", [], [];
    /// Stored pages that the scrub has compared with the descriptions of their filters.
    scrub_pages: IntCounter = "cuckood_scrub_pages_total", [], [];
    /// Passes of the scrub over all stored pages that are complete.
    scrub_passes: IntCounter = "cuckood_scrub_passes_total", [], [];
    /// Faults in stored data: those that the scrub's last complete pass found, or the current one, if these are more.
    scrub_faults: IntGauge = "cuckood_scrub_faults", [], [];
    /// When the scrub's last complete pass ended, in seconds since 1970; 0 if there was none since the start.
    scrub_last_pass: IntGauge = "cuckood_scrub_last_pass_timestamp_seconds", [], [];
    /// Items of the largest filters; --metrics-filter-names says how many filters.
    filter_items: IntGaugeVec = "cuckood_filter_items", ["filter"], [];
    /// Bytes of the largest filters.
    filter_bytes: IntGaugeVec = "cuckood_filter_bytes", ["filter"], [];
    /// Expected false-positive rate of the largest filters.
    filter_error: GaugeVec = "cuckood_filter_expected_error_ratio", ["filter"], [];
    /// Promised false-positive rate of the largest filters that have one.
    filter_promise: GaugeVec = "cuckood_filter_promised_error_ratio", ["filter"], [];
    /// Used share of the usable slots of the largest filters, for those that may not grow any more; 0 for the others.
    filter_final_fill: GaugeVec = "cuckood_filter_final_fill_ratio", ["filter"], [];
    /// Filters removed because their time to live has passed.
    filters_expired: IntCounter = "cuckood_filters_expired_total", [], [];
    /// Compactions in progress.
    compactions_running: IntGauge = "cuckood_compactions_running", [], [];
    /// Compactions that ended, by outcome (`done`, `overtaken`, `no_room`, `failed`).
    compactions: IntCounterVec = "cuckood_compactions_total", ["outcome"], [];
    /// Entries that compactions moved into older sub-filters.
    compaction_entries: IntCounter = "cuckood_compaction_entries_total", [], [];
    /// Entries of filters with a window that had expired and were cleared by the sweep; those on pages that are written to are cleared by the write.
    expired_entries: IntCounter = "cuckood_expired_entries_swept_total", [], [];
    /// Sub-filters removed because compactions emptied them.
    sub_filters_dropped: IntCounter = "cuckood_compaction_dropped_sub_filters_total", [], [];
    /// Requests with an Idempotency-Key, by outcome (`new`, `replayed`, `in_flight`, `conflict`, `full`).
    retries: IntCounterVec = "cuckood_idempotency_requests_total", ["outcome"], [];
    /// Bytes of answers kept for retries, including those of requests in progress.
    retry_bytes: IntGauge = "cuckood_idempotency_bytes", [], [];
    /// Imports in progress.
    imports_running: IntGauge = "cuckood_imports_running", [], [];
    /// Bytes of resident pages.
    cache_bytes: IntGauge = "cuckood_cache_bytes", [], [];
    /// Pages evicted from the cache.
    cache_evictions: IntCounter = "cuckood_cache_evictions_total", [], [];
    /// Reads repeated because a commit changed their pages at the same time.
    read_retries: IntCounter = "cuckood_read_retries_total", [], [];
    /// Filters per lookup.
    lookup_filters: Histogram = "cuckood_lookup_filters", [], POWERS_OF_FOUR;
    /// Pages that wait for a checkpoint.
    dirty_pages: IntGauge = "cuckood_dirty_pages", [], [];
    /// Bytes of changes of parked pages: such as wait for a checkpoint without being resident.
    parked_bytes: IntGauge = "cuckood_parked_bytes", [], [];
    /// Pages parked: what changed in them was kept, and not yet stored.
    parked_pages: IntCounter = "cuckood_parked_pages_total", [], [];
    /// Pages that were parked and not resident, read and stored with what changed in them.
    folded_pages: IntCounter = "cuckood_folded_pages_total", [], [];
    /// Bytes of redo records that wait for a checkpoint.
    log_bytes: IntGauge = "cuckood_log_bytes", [], [];
    /// Bytes of redo records committed.
    log_bytes_written: IntCounter = "cuckood_log_written_bytes_total", [], [];
    /// Slices of page images written.
    checkpoint_slices: IntCounter = "cuckood_checkpoint_slices_total", [], [];
    /// Page images written.
    checkpoint_pages: IntCounter = "cuckood_checkpoint_pages_total", [], [];
    /// Slices that the store refused.
    checkpoint_failures: IntCounter = "cuckood_checkpoint_failures_total", [], [];
    /// Times a commit waited for a checkpoint because a bound was reached.
    checkpoint_waits: IntCounter = "cuckood_checkpoint_waits_total", [], [];
    /// Free bytes that changes leave on the data's disk.
    disk_reserve_bytes: IntGauge = "cuckood_disk_reserve_bytes", [], [];
    /// 1 while changes are refused because less than the reserve of the data's disk is free.
    disk_short: IntGauge = "cuckood_disk_short", [], [];
    /// 1 while the storage engine refuses changes after an error, such as a full disk.
    writes_refused: IntGauge = "cuckood_storage_writes_refused", [], [];
    /// Seconds for which the oldest operation of the storage has been under way, by kind (`read`, `write`); 0 if there is none. A disk that hangs lets it grow.
    storage_pending_seconds: GaugeVec = "cuckood_storage_pending_seconds", ["operation"], [];
    /// Backups by outcome (`complete`, `failed`).
    backups: IntCounterVec = "cuckood_backups_total", ["outcome"], [];
    /// HTTP requests by route template, method and status.
    http_requests: IntCounterVec = "cuckood_http_requests_total", ["route", "method", "status"], [];
    /// Seconds per HTTP request by route template and method.
    http_request_seconds: HistogramVec = "cuckood_http_request_duration_seconds", ["route", "method"], SECONDS;
    /// Processor time of polls of an HTTP connection's task that took a millisecond or more, by route template (`pod`: of what a pod does for its cluster): as long as one takes its thread serves nobody else.
    http_poll_seconds: HistogramVec = "cuckood_http_poll_cpu_seconds", ["route"], POLL_SECONDS;
    /// Connections without a key that were closed because a new one found no place.
    connections_given_up: IntCounter = "cuckood_connections_given_up_total", [], [];
    /// HTTP requests in progress.
    http_in_flight: IntGauge = "cuckood_http_in_flight", [], [];
    /// HTTP requests refused at admission, by reason.
    http_rejected: IntCounterVec = "cuckood_http_rejected_total", ["reason"], [];
    /// What callers were refused of bounded resources, by resource, and by what was used up: the bound of the server, or the share of one API key or address.
    resource_refusals: IntCounterVec = "cuckood_resource_refusals_total", ["resource", "by"], [];
    /// Bytes of request bodies read.
    http_request_body_bytes: IntCounter = "cuckood_http_request_body_bytes_total", [], [];
    /// Bytes of response bodies written.
    http_response_body_bytes: IntCounter = "cuckood_http_response_body_bytes_total", [], [];
    /// API keys in the keys file.
    api_keys: IntGauge = "cuckood_api_keys", [], [];
    /// Reloads of files that changed (`keys`, `certificates`), by outcome (`ok`, `failed`).
    reloads: IntCounterVec = "cuckood_reloads_total", ["what", "outcome"], [];
    /// 1 while changed files can't be used, and their last good content stays in use (`keys`, `certificates`).
    reload_failing: IntGaugeVec = "cuckood_reload_failing", ["what"], [];
    /// TLS handshakes that failed or took too long.
    tls_handshake_failures: IntCounter = "cuckood_tls_handshake_failures_total", [], [];
    /// Commands of the Redis protocol, by command and outcome (`ok`, `error`).
    redis_commands: IntCounterVec = "cuckood_redis_commands_total", ["command", "outcome"], [];
    /// Seconds per run of commands on items that were worked on together, by kind (`questions`, `changes`).
    redis_run_seconds: HistogramVec = "cuckood_redis_run_duration_seconds", ["kind"], SECONDS;
    /// Processor time of polls of a Redis connection's task that took a millisecond or more, by command: as long as one takes its thread serves nobody else.
    redis_poll_seconds: HistogramVec = "cuckood_redis_poll_cpu_seconds", ["command"], POLL_SECONDS;
    /// Connections and keys refused on --redis-listen, by reason (`connections`, `auth`, `protocol`, `foreign`, `timeout`).
    redis_refused: IntCounterVec = "cuckood_redis_refused_total", ["reason"], [];
    /// Bytes of the Redis protocol, by direction (`in`, `out`).
    redis_bytes: IntCounterVec = "cuckood_redis_bytes_total", ["direction"], [];
    /// Connections of the Redis protocol open.
    redis_connections: IntGauge = "cuckood_redis_connections", [], [];
    /// Seconds until the commit log of the cluster answered an append.
    commit_log_seconds: Histogram = "cuckood_commit_log_append_duration_seconds", [], SECONDS;
    /// Appends to the commit log of the cluster, by answer (`stored`, `refused`: another record came first, or the log was busy; `unknown`: none came in time).
    commit_log_appends: IntCounterVec = "cuckood_commit_log_appends_total", ["answer"], [];
    /// Number of the newest record of the commit log that this pod has applied, by lane.
    lane_position: IntGaugeVec = "cuckood_lane_position", ["lane"], [];
    /// By how much other pods' positions are above this one's, by lane.
    lane_lag: IntGaugeVec = "cuckood_lane_lag", ["lane"], [];
    /// 1 for a lane that this pod leads, 0 for others.
    lane_leads: IntGaugeVec = "cuckood_lane_leads", ["lane"], [];
    /// Leases, announcements and positions that were read in the brokers' bucket and that no pod with this cluster key has written.
    unsealed_entries: IntCounter = "cuckood_unsealed_entries_total", [], [];
    /// Lanes of the cluster of which this pod knows no leader.
    lanes_without_leader: IntGauge = "cuckood_lanes_without_leader", [], [];
    /// Lanes that stand still: this pod and the commit log differ, it can't apply a record, or it lacks what the log no longer has.
    lanes_stopped: IntGauge = "cuckood_lanes_stopped", [], [];
    /// Lanes in which this pod has been behind another one for more than two seconds; it is not ready then.
    lanes_behind: IntGauge = "cuckood_lanes_behind", [], [];
    /// Snapshots between pods, by direction (`given` to another pod, `taken` from one) and outcome (`complete`, `failed`).
    snapshots: IntCounterVec = "cuckood_snapshots_total", ["direction", "outcome"], [];
    /// Bytes of whole snapshots between pods, by direction.
    snapshot_bytes: IntCounterVec = "cuckood_snapshot_bytes_total", ["direction"], [];
    /// 1 while the brokers' settings of the commit log, or of the bucket beside it, are others than a start demands, so that what was acknowledged may get lost.
    commit_log_misconfigured: IntGauge = "cuckood_commit_log_misconfigured", [], [];
    /// Bytes of the commit log of the cluster, as the pod that trims it has seen them; 0 on others.
    commit_log_bytes: IntGauge = "cuckood_commit_log_bytes", [], [];
    /// Pods of the cluster, this one included.
    cluster_pods: IntGauge = "cuckood_cluster_pods", [], [];
    /// Connections open.
    http_connections: IntGauge = "cuckood_http_connections", [], [];
}

impl Metrics {
    /// Makes the series whose labels are known beforehand, so that a rate over
    /// them starts from zero and not from the first event.
    fn touch(&self) {
        for (counted, outcomes) in [
            (
                &self.retries,
                "new replayed filter_gone in_flight conflict full",
            ),
            (&self.compactions, "done overtaken no_room failed"),
            (&self.backups, "complete failed"),
            (&self.page_reads, "cache store"),
        ] {
            for outcome in outcomes.split(' ') {
                counted.with_label_values(&[outcome]);
            }
        }
        for what in ["keys", "certificates"] {
            self.reload_failing.with_label_values(&[what]);
            for outcome in ["ok", "failed"] {
                self.reloads.with_label_values(&[what, outcome]);
            }
        }
        for polls in [&self.http_poll_seconds, &self.redis_poll_seconds] {
            polls.with_label_values(&["unmatched"]);
        }
        for operation in ["read", "write"] {
            self.storage_pending_seconds.with_label_values(&[operation]);
        }
        for (operation, outcomes) in ITEM_OUTCOMES {
            for outcome in outcomes.split(' ') {
                self.items.with_label_values(&[operation, outcome]);
            }
        }
    }

    /// The same for those that a pod of a cluster has.
    pub fn touch_snapshots(&self) {
        for direction in ["given", "taken"] {
            self.snapshot_bytes.with_label_values(&[direction]);
            for outcome in ["complete", "failed"] {
                self.snapshots.with_label_values(&[direction, outcome]);
            }
        }
    }

    /// Counts a snapshot that was given or taken; `bytes` of one that is complete.
    pub fn count_snapshot(&self, direction: &str, bytes: Option<u64>) {
        let outcome = bytes.map_or("failed", |_| "complete");
        let counted = self.snapshots.with_label_values(&[direction, outcome]);
        counted.inc();
        let counted = self.snapshot_bytes.with_label_values(&[direction]);
        counted.inc_by(bytes.unwrap_or_default());
    }

    /// Publishes gauges of another room as `cuckood_*`; `read` is called at each
    /// [`Metrics::encode`], on a thread of its own, and may return none. Where it
    /// takes longer than a moment, what it returned before is shown.
    ///
    /// # Errors
    /// A gauge's name is malformed or taken.
    pub fn register_gauges(&self, read: ReadGauges) -> Result<(), prometheus::Error> {
        let (first, mut descs) = (read(), Vec::new());
        for (name, help, _) in &first {
            descs.extend(gauge(name, help)?.desc().into_iter().cloned());
        }
        if descs.is_empty() {
            return Ok(());
        }
        let gauges = LateGauges::new(read, first);
        self.registry.register(Box::new(ReadLate { gauges, descs }))
    }

    /// Everything in the text format of Prometheus.
    ///
    /// # Errors
    /// A family is inconsistent with itself.
    pub fn encode(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::with_capacity(16 << 10);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

/// Gauges whose values are read when the registry is gathered.
struct ReadLate {
    gauges: LateGauges,
    descs: Vec<Desc>,
}

fn gauge(name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
    Gauge::with_opts(Opts::new(format!("cuckood_{name}"), help))
}

impl Collector for ReadLate {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut families = Vec::with_capacity(self.descs.len());
        for (name, help, value) in self.gauges.latest() {
            if let Ok(gauge) = gauge(name, help) {
                gauge.set(value);
                families.extend(gauge.collect());
            }
        }
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_help_text_and_counters_end_in_total() {
        let metrics = Metrics::new().unwrap();
        metrics
            .http_requests
            .with_label_values(&["/livez", "GET", "200"])
            .inc();
        for family in metrics.registry.gather() {
            assert!(!family.help().is_empty(), "{}", family.name());
            let counts = family.get_field_type() == proto::MetricType::COUNTER;
            assert_eq!(
                counts,
                family.name().ends_with("_total"),
                "{}",
                family.name()
            );
        }
    }

    #[test]
    fn help_texts_are_the_doc_comments() {
        let text = String::from_utf8(Metrics::new().unwrap().encode().unwrap()).unwrap();
        assert!(text.contains(
            "# HELP cuckood_kick_outs_total Fingerprints moved to their alternate bucket to free a slot.\n"
        ));
    }
}
