//! What is said of the server: probes, metrics, the caller, backups, the clock.

use super::super::failures::{BACKUPS, CLOCK};
use crate::codes::Code;
use crate::handlers::backups::{BackupBody, BackupListBody};
use crate::handlers::caller::CallerBody;
use crate::handlers::clock::ClockBody;
use crate::media::TAR;
use crate::schemas::Binary;
use crate::server::cluster::status::ClusterStatus;

/// The process is alive
///
/// Answers whatever the state of the server; does not touch the storage.
#[utoipa::path(
    get,
    path = "/livez",
    responses((status = 200, description = "Alive.", body = String, content_type = "text/plain", example = "ok\n"))
)]
pub(super) async fn get_liveness() {}

/// The server is ready
///
/// 503 while the log is replayed after a start, and while the server stops.
/// While the server answers questions and refuses changes, it answers 200, and
/// a line for each reason follows the first line. Each begins with a name:
/// `disk_reserve`: the disk is almost full, and changes are answered 507;
/// `storage_refuses`: the storage engine refuses changes after an error;
/// `storage_stalled`: changes wait until the storage engine has caught up;
/// `disk_hangs`: the disk does not answer, changes are answered 503, and so are
/// questions that need pages from the disk.
/// In a cluster also `no_leader`: lanes that no pod leads; `log_silent`: the commit
/// log has not settled a change; `other_key`, `other_founding`: pods are there that have
/// another cluster key, or are of another cluster of this name. There a pod is not ready
/// while it is behind other pods for more than two seconds, has stopped following them, or
/// has another key than they.
/// Never waits for the disk.
#[utoipa::path(
    get,
    path = "/readyz",
    extensions(("x-fails" = json!([[Code::Starting, Code::Draining, Code::PodNotReady]]))),
    responses((
        status = 200,
        description = "Ready: `ok`, and a line for each reason for which changes are refused.",
        body = String,
        content_type = "text/plain"
    ))
)]
pub(super) async fn get_readiness() {}

/// How the cluster is
///
/// Who leads which lane, and how far each pod is, as far as this pod knows: pods
/// hear of each other once a second. `cuckood cluster status` asks the brokers.
#[utoipa::path(
    get,
    path = "/cluster",
    extensions(("x-fails" = json!([[Code::MalformedQuery, Code::InvalidFields, Code::Starting, Code::NoCluster]]))),
    responses((status = 200, description = "Its lanes and pods.", body = ClusterStatus))
)]
pub(super) async fn get_cluster() {}

/// Metrics for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    responses((
        status = 200,
        description = "Every family, in the text format of Prometheus.",
        body = String,
        content_type = "text/plain",
        example = "# HELP cuckood_expansions_total Sub-filters added to a chain because it had no room.\n# TYPE cuckood_expansions_total counter\ncuckood_expansions_total 0\n"
    ))
)]
pub(super) async fn get_metrics() {}

/// What a key allows
///
/// Name, scope, right to export and prefix of the API key with which this is asked.
#[utoipa::path(
    get,
    path = "/caller",
    extensions(("x-fails" = json!([[Code::MalformedQuery, Code::InvalidFields]]))),
    responses((status = 200, description = "What the key allows.", body = CallerBody))
)]
pub(super) async fn get_caller() {}

/// Begin a backup
///
/// Starts a backup of everything acknowledged so far, into the server's
/// `--backup-dir`. Other requests are served meanwhile. The answer arrives when
/// the state is pinned; the archive is written and verified in the background.
/// One backup runs at a time.
#[utoipa::path(
    post,
    path = "/admin/backups",
    extensions(("x-fails" = json!([BACKUPS, [Code::BackupRunning, Code::NoRoom, Code::DiskReserve, Code::IdempotencyKeyNotTaken]]))),
    responses((
        status = 202,
        description = "The backup is running.",
        body = BackupBody,
        headers(("Location" = String, description = "Path of its status."))
    ))
)]
pub(super) async fn create_backup() {}

/// List backups
#[utoipa::path(
    get,
    path = "/admin/backups",
    extensions(("x-fails" = json!([BACKUPS]))),
    responses((
        status = 200,
        description = "Newest first.",
        body = BackupListBody
    ))
)]
pub(super) async fn list_backups() {}

/// Follow a backup
#[utoipa::path(
    get,
    path = "/admin/backups/{id}/status",
    extensions(("x-fails" = json!([BACKUPS, [Code::BackupNotFound]]))),
    params(("id" = String, Path, description = "Id of the backup.", example = "20261121T114517Z")),
    responses((
        status = 200,
        description = "Its progress.",
        body = BackupBody
    ))
)]
pub(super) async fn get_backup_status() {}

/// Download a backup
///
/// The archive, a tar file. `cuckood restore` restores it into a data
/// directory. `tar` extracts it, and `sha256sum -c SHA256SUMS` verifies it.
#[utoipa::path(
    get,
    path = "/admin/backups/{id}",
    extensions(("x-fails" = json!([BACKUPS, [Code::BackupNotFound, Code::BackupRunning, Code::Overloaded]]))),
    params(("id" = String, Path, description = "Id of the backup.", example = "20261121T114517Z")),
    responses((
        status = 200,
        description = "The archive.",
        body = inline(Binary),
        content_type = TAR,
        example = "(a tar file)"
    ))
)]
pub(super) async fn download_backup() {}

/// The clock
///
/// Filters end by the system's clock, as long as it does not jump ahead of the
/// time that has passed since the machine's start.
#[utoipa::path(
    get,
    path = "/admin/clock",
    extensions(("x-fails" = json!([CLOCK]))),
    responses((
        status = 200,
        description = "Both times.",
        body = ClockBody
    ))
)]
pub(super) async fn get_clock() {}

/// Confirm the clock
///
/// Says that the system's clock is right though it has jumped ahead. Filters that
/// have ended by it are gone from now on, and are removed. Changes nothing if
/// the clock is believed.
#[utoipa::path(
    post,
    path = "/admin/clock/confirm",
    extensions(("x-fails" = json!([CLOCK, [Code::IdempotencyKeyNotTaken]]))),
    responses((
        status = 200,
        description = "The system's clock is believed.",
        body = ClockBody
    ))
)]
pub(super) async fn confirm_clock() {}

/// This description
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses((status = 200, description = "The OpenAPI document.", body = Object, example = json!({"openapi": "3.1.0"})))
)]
pub(super) async fn get_openapi() {}
