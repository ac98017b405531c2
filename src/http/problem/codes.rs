//! The kinds of problems: one table, from which everything else that is said
//! of a kind follows, here, in metrics and in the OpenAPI document.

use axum::http::StatusCode;
use serde::{Serialize, Serializer};

/// What there is to say of a kind of problem.
struct Row {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    is_counted: bool,
}

macro_rules! codes {
    ($($code:ident: $status:ident, $name:literal, $title:literal $(, $counted:ident)?;)*) => {
        /// A kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($code,)*
        }

        impl Code {
            /// All of them.
            pub(crate) const ALL: &[Code] = &[$(Code::$code),*];

            fn row(self) -> Row {
                match self {
                    $(Code::$code => Row {
                        status: StatusCode::$status,
                        name: $name,
                        title: $title,
                        is_counted: codes!(@is $($counted)?),
                    },)*
                }
            }
        }
    };
    (@is counted) => { true };
    (@is) => { false };
}

codes! {
    MalformedJson: BAD_REQUEST, "malformed_json", "The body is not JSON";
    MalformedPath: BAD_REQUEST, "malformed_path", "The path is invalid";
    MalformedQuery: BAD_REQUEST, "malformed_query", "The query string is invalid";
    UnreadableBody: BAD_REQUEST, "unreadable_body", "The body cannot be read";
    BadRequest: BAD_REQUEST, "bad_request", "The request is invalid";
    ApiKeyMissing: UNAUTHORIZED, "api_key_missing", "The request has no API key", counted;
    ApiKeyUnknown: UNAUTHORIZED, "api_key_unknown", "The API key is unknown", counted;
    ApiKeyExpired: UNAUTHORIZED, "api_key_expired", "The API key has expired", counted;
    ApiKeyRevoked: UNAUTHORIZED, "api_key_revoked", "The API key was removed during the request";
    ForeignHost: FORBIDDEN, "foreign_host", "The host name is not allowed", counted;
    ClusterKeyInvalid: FORBIDDEN, "cluster_key_invalid", "The key of the cluster is missing or wrong", counted;
    CertificateMissing: FORBIDDEN, "certificate_missing", "A client certificate is required";
    ForeignOrigin: FORBIDDEN, "foreign_origin", "The origin is not allowed", counted;
    ScopeInsufficient: FORBIDDEN, "scope_insufficient", "The API key does not allow this", counted;
    FilterForbidden: FORBIDDEN, "filter_forbidden", "The API key is not for this filter", counted;
    ServerForbidden: FORBIDDEN, "server_forbidden", "The API key is restricted to some filters", counted;
    BackupsOff: FORBIDDEN, "backups_off", "Backups are off";
    UnknownRoute: NOT_FOUND, "unknown_route", "The path does not exist";
    FilterNotFound: NOT_FOUND, "filter_not_found", "The filter does not exist";
    NoCluster: NOT_FOUND, "no_cluster", "The server is in no cluster";
    BackupNotFound: NOT_FOUND, "backup_not_found", "The backup does not exist";
    CompactionNotFound: NOT_FOUND, "compaction_not_found", "There is no compaction to report";
    ImportNotFound: NOT_FOUND, "import_not_found", "The import does not exist";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "The method is not allowed";
    BodyTimeout: REQUEST_TIMEOUT, "body_timeout", "The body arrived too slowly", counted;
    HeadTimeout: REQUEST_TIMEOUT, "head_timeout", "The head of the request arrived too slowly";
    FilterDiffers: CONFLICT, "filter_differs", "The filter exists with other parameters";
    FilterTaken: CONFLICT, "filter_taken", "A filter with this key exists";
    BackupRunning: CONFLICT, "backup_running", "A backup is running";
    IdempotencyInFlight: CONFLICT, "idempotency_in_flight", "A request with this Idempotency-Key is in progress";
    IdempotencyFilterGone: CONFLICT, "idempotency_filter_gone", "The filter of the first request is gone";
    CompactionRunning: CONFLICT, "compaction_running", "The filter is being compacted";
    ImportRunning: CONFLICT, "import_running", "The import is running";
    HistoryDiffers: CONFLICT, "history_differs", "The pods have different histories";
    FilterChanged: PRECONDITION_FAILED, "filter_changed", "The filter has changed";
    FilterExists: PRECONDITION_FAILED, "filter_exists", "The filter exists already";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large", counted;
    BatchTooLarge: PAYLOAD_TOO_LARGE, "batch_too_large", "The batch has too many items", counted;
    TooCostly: PAYLOAD_TOO_LARGE, "too_costly", "The request costs too much", counted;
    TooManyPages: PAYLOAD_TOO_LARGE, "too_many_pages", "The batch touches too many pages", counted;
    ItemTooLongForQuery: URI_TOO_LONG, "item_too_long_for_query", "The item is too long for a query string";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The media type is not supported";
    UnsupportedContentEncoding: UNSUPPORTED_MEDIA_TYPE, "unsupported_content_encoding", "The content encoding is not supported";
    CorruptDump: UNPROCESSABLE_ENTITY, "corrupt_dump", "The dump is damaged";
    NewerDump: UNPROCESSABLE_ENTITY, "newer_dump", "A newer server made the dump";
    OlderDump: UNPROCESSABLE_ENTITY, "older_dump", "An older server made the dump";
    FilterTooLarge: UNPROCESSABLE_ENTITY, "filter_too_large", "The filter is too large";
    InvalidKey: UNPROCESSABLE_ENTITY, "invalid_key", "The key is invalid";
    InvalidFields: UNPROCESSABLE_ENTITY, "invalid_fields", "A field is invalid";
    NotForThisFilter: UNPROCESSABLE_ENTITY, "not_for_this_filter", "The filter is of another kind";
    LookupTooLarge: UNPROCESSABLE_ENTITY, "lookup_too_large", "The lookup is too large", counted;
    InvalidDeadline: UNPROCESSABLE_ENTITY, "invalid_deadline", "The header Prefer is invalid";
    InvalidIdempotencyKey: UNPROCESSABLE_ENTITY, "invalid_idempotency_key", "The Idempotency-Key is invalid";
    IdempotencyKeyNotTaken: UNPROCESSABLE_ENTITY, "idempotency_key_not_taken", "The request takes no Idempotency-Key";
    InvalidPosition: UNPROCESSABLE_ENTITY, "invalid_position", "The position or the consistency is invalid";
    IdempotencyKeyReused: UNPROCESSABLE_ENTITY, "idempotency_key_reused", "The Idempotency-Key was used for another request";
    RateLimited: TOO_MANY_REQUESTS, "rate_limited", "The API key exceeds its rate", counted;
    OverShare: TOO_MANY_REQUESTS, "over_share", "The API key has its share of the server", counted;
    HeadTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", "The head of the request is too large";
    Internal: INTERNAL_SERVER_ERROR, "internal", "Internal error";
    OutcomeUnknown: INTERNAL_SERVER_ERROR, "outcome_unknown", "The outcome of the change is unknown";
    StorageFailed: INTERNAL_SERVER_ERROR, "storage_failed", "The storage failed";
    NotLeading: SERVICE_UNAVAILABLE, "not_leading", "No pod leads the filter's lane", counted;
    LogUnavailable: SERVICE_UNAVAILABLE, "log_unavailable", "The commit log does not answer", counted;
    OutcomePending: SERVICE_UNAVAILABLE, "outcome_pending", "The commit log has not settled the change";
    LaneStopped: SERVICE_UNAVAILABLE, "lane_stopped", "The filter's lane has stopped", counted;
    PodNotReady: SERVICE_UNAVAILABLE, "pod_not_ready", "The pod is not as far as others";
    PositionNotReached: SERVICE_UNAVAILABLE, "position_not_reached", "The pod is behind the position";
    IdempotencyFull: SERVICE_UNAVAILABLE, "idempotency_full", "The storage for idempotent answers is full", counted;
    ImportsFull: SERVICE_UNAVAILABLE, "imports_full", "There are too many imports", counted;
    Starting: SERVICE_UNAVAILABLE, "starting", "The server is starting", counted;
    Draining: SERVICE_UNAVAILABLE, "draining", "The server is stopping", counted;
    DeadlineExceeded: SERVICE_UNAVAILABLE, "deadline_exceeded", "The deadline of the request passed", counted;
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "The server is overloaded", counted;
    TooManyFilters: INSUFFICIENT_STORAGE, "too_many_filters", "There are too many filters";
    OverKeyQuota: INSUFFICIENT_STORAGE, "over_key_quota", "The API key has all that it may keep", counted;
    OverQuota: INSUFFICIENT_STORAGE, "over_quota", "The quota of all filters is exceeded";
    DiskReserve: INSUFFICIENT_STORAGE, "disk_reserve", "The server's disk is almost full", counted;
    DiskFull: INSUFFICIENT_STORAGE, "disk_full", "The disk is full";
    NoRoom: INSUFFICIENT_STORAGE, "no_room", "The disk has too little space";
}

impl Code {
    /// The HTTP status.
    pub(crate) fn status(self) -> StatusCode {
        self.row().status
    }

    /// How it is written in answers and logs, the same in every version of the
    /// server.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is, in a few words.
    pub(crate) fn title(self) -> &'static str {
        self.row().title
    }

    /// Whether requests of it are counted as refused before any filter was
    /// looked at: its name is a value of the label `reason` then.
    pub(crate) fn is_counted(self) -> bool {
        self.row().is_counted
    }

    /// The kind of a name.
    pub(crate) fn of_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
