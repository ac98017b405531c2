//! What is said of filters themselves.

use super::super::common_parameters::ListPage;
use super::super::failures::{BODY, CHANGE, ENGINE, KEYED, MISSING, QUOTA, RETRIED, STREAM};
use crate::codes::Code;
use crate::handlers::compaction::{CompactionBegunBody, CompactionBody};
use crate::handlers::filter_body::FilterBody;
use crate::handlers::filters::FilterListBody;
use crate::handlers::history::HistoryBody;
use crate::handlers::preview::PreviewBody;
use crate::media::{DUMP, SCANDUMP};
use crate::parse::{FilterChanges, FilterFields, MergeBody};
use crate::schemas::Binary;

/// Create a filter
///
/// Idempotent: an existing filter that agrees with the fields is not changed.
/// An empty body creates a filter with the server's defaults.
#[utoipa::path(
    put,
    path = "/filters/{key}",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, CHANGE, [Code::FilterDiffers, Code::FilterExists, Code::NotSiblings], QUOTA, RETRIED, [Code::IdempotencyFilterGone]])), ("x-body-is-optional" = json!(true))),
    params(
        ("If-None-Match" = Option<String>, Header, description = "`*`: fail with 412 if the filter exists.", nullable = false, example = "*"),
    ),
    request_body(content = FilterFields, description = "Parameters of the filter; empty for the server's defaults.", content_type = "application/json", example = json!({"capacity": 100_000, "error_rate": 0.001})),
    responses(
        (status = 200, description = "The filter exists and agrees with the fields; nothing was changed.", body = FilterBody),
        (status = 201, description = "The filter was created.", body = FilterBody, headers(("Location" = String, description = "Path of the filter."))),
    )
)]
pub(super) async fn put_filter() {}

/// List filters
///
/// In byte order of the keys, one page at a time. A page may have fewer filters than
/// `limit`, or none, where the descriptions are long or `contains` leaves many out: the
/// last page is the one without `next_cursor`. An API key with a prefix sees only its filters.
#[utoipa::path(
    get,
    path = "/filters",
    extensions(("x-fails" = json!([ENGINE]))),
    params(ListPage),
    responses((status = 200, description = "A page of filters.", body = FilterListBody))
)]
pub(super) async fn list_filters() {}

/// Describe a filter
#[utoipa::path(
    get,
    path = "/filters/{key}",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    responses((status = 200, description = "Parameters, size and load of the filter now.", body = FilterBody))
)]
pub(super) async fn get_filter() {}

/// Ask whether a filter exists
///
/// The headers of the description, without its body.
#[utoipa::path(
    head,
    path = "/filters/{key}",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    responses((status = 200, description = "The filter exists."))
)]
pub(super) async fn head_filter() {}

/// Change the expiry of a filter
///
/// The time counts from now, whatever the expiry was before. An expired filter
/// cannot be restored.
#[utoipa::path(
    patch,
    path = "/filters/{key}",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, CHANGE, RETRIED, [Code::IdempotencyFilterGone]]))),
    request_body(content = FilterChanges, description = "The fields to change.", content_type = "application/json", example = json!({"ttl_seconds": 86_400})),
    responses((status = 200, description = "The filter with its new expiry.", body = FilterBody))
)]
pub(super) async fn patch_filter() {}

/// Delete a filter
///
/// Deletes the filter with all its items; the key can be used again at once.
#[utoipa::path(
    delete,
    path = "/filters/{key}",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, CHANGE, RETRIED]))),
    responses((status = 204, description = "The filter was deleted."))
)]
pub(super) async fn delete_filter() {}

/// Growth of a filter
///
/// What the filter was like within the last day, in memory alone: since the start of
/// the server, and in a cluster as the pod that is asked had it.
#[utoipa::path(
    get,
    path = "/filters/{key}/history",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    responses((status = 200, description = "Its samples.", body = HistoryBody))
)]
pub(super) async fn get_filter_history() {}

/// Preview a filter
///
/// The size and the false-positive rate of a filter with these fields, now and
/// after it has grown. Nothing is created. An empty body is a filter with the
/// server's defaults.
#[utoipa::path(
    post,
    path = "/preview",
    extensions(("x-fails" = json!([ENGINE, MISSING, BODY, [Code::NotSiblings], QUOTA])), ("x-body-is-optional" = json!(true))),
    request_body(content = FilterFields, description = "Parameters of the filter; empty for the server's defaults.", content_type = "application/json", example = json!({"capacity": 100_000, "error_rate": 0.001, "max_expansions": 1})),
    responses((status = 200, description = "The filter could be created.", body = PreviewBody))
)]
pub(super) async fn preview_filter() {}

/// Dump a filter
///
/// The state of one moment, while other requests write to the filter, as a file that
/// can be asked without a server. The `ETag` names the state: it changes with every
/// commit, and a request that sends it again costs nothing while nothing changes. A
/// `Range` that ends where the pages do reads those pages alone; several ranges are
/// answered whole. The last 40 bytes begin with the SHA-256 of the content, which is the
/// same for equal filters. A dump holds the secret key of the filter's hash, so the API
/// key needs the right `export`, or the scope `admin`.
#[utoipa::path(
    get,
    path = "/filters/{key}/dump",
    extensions(("x-streamed" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING, [Code::FilterChanged, Code::RangeBeyondEnd]]))),
    params(
        ("without_key" = Option<bool>, Query, description = "Leave the key of the hash out. Who asks the file has to have it from elsewhere, and it can't be restored.", example = true),
        ("Accept-Encoding" = Option<String>, Header, description = "With `gzip`, and without `Range`, it is compressed on its way, without `Content-Length`: for filters that are far from full.", nullable = false, example = "gzip"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of an earlier dump: 304 without a body if the filter has not changed.", nullable = false, example = "\"9c1f0e5b7a3d4826b1c05e7f92d6a483-1f-19a4c2b7e60\""),
        ("If-Match" = Option<String>, Header, description = "`ETag` of an earlier dump: 412 if the filter has changed.", nullable = false, example = "*"),
        ("Range" = Option<String>, Header, description = "Some bytes of the file.", nullable = false, example = "bytes=0-255"),
        ("If-Range" = Option<String>, Header, description = "`ETag` of an earlier dump: all of it if the filter has changed.", nullable = false, example = "\"9c1f0e5b7a3d4826b1c05e7f92d6a483-1f-19a4c2b7e60\""),
    ),
    responses(
        (status = 200, description = "The dump; `docs/format.md` describes it.", body = inline(Binary), content_type = DUMP, headers(("ETag" = String, description = "Names the state of the filter."), ("Last-Modified" = String, description = "When the filter was changed last, for `If-Modified-Since` and `If-Unmodified-Since`.")), example = "(bytes)"),
        (status = 206, description = "The bytes that were asked for.", body = inline(Binary), content_type = DUMP, headers(("ETag" = String, description = "Names the state of the filter."), ("Content-Range" = String, description = "Which bytes, and of how many.")), example = "(bytes)"),
        (status = 304, description = "The filter has not changed."),
    )
)]
pub(super) async fn dump_filter() {}

/// Restore a filter
///
/// Restores a dump. The server reads and checks the whole dump before the
/// filter becomes visible under its key, atomically. With `replace=true` it
/// replaces an existing filter, which serves until then; changes that are made
/// to that filter meanwhile are lost, unless `If-Match` excludes them. A dump
/// that is cut off or altered leaves nothing behind. With keys, `replace=true`
/// needs the scope `admin`, since the other filter is gone afterwards.
#[utoipa::path(
    put,
    path = "/filters/{key}/dump",
    extensions(("x-streamed" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, STREAM, CHANGE, [Code::NoRoom, Code::FilterTaken, Code::FilterChanged, Code::CorruptDump, Code::NewerDump, Code::FilterTooLarge], QUOTA]))),
    params(
        ("replace" = Option<bool>, Query, description = "Replace an existing filter. Its expiry is kept. Needs the scope `admin`.", example = true),
        ("If-Match" = Option<String>, Header, description = "With `replace=true`: `ETag` of a dump of the filter to replace; 412 if the filter has changed since. `*` matches any.", nullable = false, example = "\"9c1f0e5b7a3d4826b1c05e7f92d6a483-1f-19a4c2b7e60\""),
    ),
    request_body(
        description = "A dump, of any length; or a filter of RedisBloom: for each pair that `CF.SCANDUMP` returned, in order, the iterator as 8 bytes, the length of the chunk as 4 bytes, both little-endian, and the chunk.",
        content(
            (inline(Binary) = DUMP, example = "(bytes)"),
            (inline(Binary) = SCANDUMP, example = "(bytes)"),
        ),
    ),
    responses(
        (status = 200, description = "The filter replaced another one.", body = FilterBody),
        (status = 201, description = "The filter was created.", body = FilterBody, headers(("Location" = String, description = "Path of the filter."))),
    )
)]
pub(super) async fn restore_filter() {}

/// Merge filters
///
/// The filter becomes the union of itself and the filters of `from`, which stay as they
/// are: it finds what any of them finds, and counts add up. They must be siblings, with
/// the layout `paged` and no window: one created with `sibling_of` the other, or both of
/// a third. Each is read as it is at one moment; the union takes the place of the filter
/// in one commit; answers stored for retries, and imports, are its own from then on. If
/// the filter is changed in the meantime, the merge begins again, and after three times
/// is `overloaded`. All merges together may take a quarter of `--max-buffered-bytes`: one
/// needs five to ten times the bytes of all slots. In a cluster each filter has all that
/// was acknowledged for it before the merge.
#[utoipa::path(
    post,
    path = "/filters/{key}/merge",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, CHANGE, [Code::NotSiblings, Code::FilterTooLarge, Code::TooCostly, Code::IdempotencyFilterGone], QUOTA, RETRIED]))),
    request_body(content = MergeBody, description = "The other filters.", content_type = "application/json", example = json!({"from": ["coupons-of-may", "coupons-of-june"]})),
    responses((status = 200, description = "The filter as it is now.", body = FilterBody))
)]
pub(super) async fn merge_filter() {}

/// Compact a filter
///
/// After many deletes the newest sub-filters may contain few entries. A
/// compaction moves these entries into the older sub-filters, if they have room
/// for all of them, and removes the emptied ones. Questions then read fewer
/// pages, and the filter takes fewer bytes. The compaction runs in the
/// background, in slices between other requests; answers stay correct. The
/// server starts a compaction by itself once more than a tenth of a filter was
/// deleted (`--compaction-threshold`).
#[utoipa::path(
    post,
    path = "/filters/{key}/compact",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, CHANGE, [Code::CompactionRunning, Code::IdempotencyFilterGone], RETRIED]))),
    responses((
        status = 202,
        description = "The compaction has started.",
        body = CompactionBegunBody,
        headers(("Location" = String, description = "Path of its status."))
    ))
)]
pub(super) async fn compact_filter() {}

/// Follow a compaction
///
/// The running compaction, or the last one since the server started.
#[utoipa::path(
    get,
    path = "/filters/{key}/compaction",
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, [Code::CompactionNotFound]]))),
    responses((
        status = 200,
        description = "Its progress.",
        body = CompactionBody
    ))
)]
pub(super) async fn get_compaction() {}
