//! Every metric family, declared once. Names, help texts and buckets live
//! here and nowhere else; `engine`, `store::metered` and `http` record into
//! them. The algorithm below knows no metrics: what it did is a fact in its
//! outcome, which the engine records.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

/// The registry and every family in it. One per server, so that tests can run
/// several servers in a process.
pub struct Metrics {
    /// Where all families are registered.
    pub registry: Registry,
    /// Fingerprints moved to their alternate bucket to make room.
    pub kick_outs: IntCounter,
    /// Sub-filters appended to a chain that had no room left.
    pub expansions: IntCounter,
    /// Pages looked at, by where they came from (`cache`, `store`).
    pub page_reads: IntCounterVec,
    /// Items by operation (`add`, `exists`, `count`, `delete`) and outcome.
    pub items: IntCounterVec,
    /// Commands applied by lanes, by kind and outcome.
    pub commands: IntCounterVec,
    /// Kick-outs per path that made room.
    pub kick_path_length: Histogram,
    /// Distinct pages changed per commit.
    pub commit_pages_dirtied: Histogram,
    /// Items per commit.
    pub commit_items: Histogram,
    /// Seconds per commit, the forced write included.
    pub commit_seconds: Histogram,
    /// Commits of which the store said that they failed.
    pub commit_failures: IntCounter,
    /// Commands put back because a kick-out needed a page that was not resident.
    pub commands_put_back: IntCounter,
    /// Commands that wait, by lane.
    pub lane_queue_depth: IntGaugeVec,
    /// Filters open.
    pub open_filters: IntGauge,
    /// Bytes of resident pages.
    pub cache_bytes: IntGauge,
    /// Pages dropped from the cache to make room.
    pub cache_evictions: IntCounter,
    /// Reads repeated because a commit changed their pages meanwhile.
    pub read_retries: IntCounter,
    /// Pages that wait for a checkpoint.
    pub dirty_pages: IntGauge,
    /// Bytes of redo records that wait for a checkpoint.
    pub log_bytes: IntGauge,
    /// Bytes of redo records committed.
    pub log_bytes_written: IntCounter,
    /// Slices of page images written.
    pub checkpoint_slices: IntCounter,
    /// Page images written.
    pub checkpoint_pages: IntCounter,
    /// Slices that the store refused.
    pub checkpoint_failures: IntCounter,
    /// Times a commit waited for a checkpoint because a bound was reached.
    pub checkpoint_waits: IntCounter,
    /// HTTP requests by route template, method and status.
    pub http_requests: IntCounterVec,
    /// Seconds per HTTP request by route template and method.
    pub http_request_seconds: HistogramVec,
    /// HTTP requests being worked on.
    pub http_in_flight: IntGauge,
    /// HTTP requests refused before they were worked on, by reason.
    pub http_rejected: IntCounterVec,
    /// Bytes of request bodies read.
    pub http_request_body_bytes: IntCounter,
    /// Bytes of response bodies written.
    pub http_response_body_bytes: IntCounter,
    /// Connections open.
    pub http_connections: IntGauge,
}
