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
    MalformedPath: BAD_REQUEST, "malformed_path", "The path can't be read";
    MalformedQuery: BAD_REQUEST, "malformed_query", "The query can't be read";
    UnreadableBody: BAD_REQUEST, "unreadable_body", "The body can't be read";
    BadRequest: BAD_REQUEST, "bad_request", "The request can't be read";
    ApiKeyMissing: UNAUTHORIZED, "api_key_missing", "The request has no API key", counted;
    ApiKeyUnknown: UNAUTHORIZED, "api_key_unknown", "The API key is not known here", counted;
    ForeignHost: FORBIDDEN, "foreign_host", "This host name is not served", counted;
    CertificateMissing: FORBIDDEN, "certificate_missing", "A certificate is asked for";
    ForeignOrigin: FORBIDDEN, "foreign_origin", "Web pages of other origins are refused", counted;
    ScopeInsufficient: FORBIDDEN, "scope_insufficient", "The API key does not allow this", counted;
    FilterForbidden: FORBIDDEN, "filter_forbidden", "The API key is not for this filter", counted;
    ServerForbidden: FORBIDDEN, "server_forbidden", "The API key is for some filters alone", counted;
    BackupsOff: FORBIDDEN, "backups_off", "This server makes no backups";
    UnknownRoute: NOT_FOUND, "unknown_route", "There is nothing under this path";
    FilterNotFound: NOT_FOUND, "filter_not_found", "There is no such filter";
    BackupNotFound: NOT_FOUND, "backup_not_found", "There is no such backup";
    CompactionNotFound: NOT_FOUND, "compaction_not_found", "Nothing is known of a compaction";
    ImportNotFound: NOT_FOUND, "import_not_found", "Nothing is known of this import";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method_not_allowed", "This path does not take this method";
    BodyTimeout: REQUEST_TIMEOUT, "body_timeout", "The body came too slowly", counted;
    HeadTimeout: REQUEST_TIMEOUT, "head_timeout", "The head of the request came too slowly";
    FilterDiffers: CONFLICT, "filter_differs", "The filter exists with other parameters";
    FilterTaken: CONFLICT, "filter_taken", "There is a filter of this key";
    BackupRunning: CONFLICT, "backup_running", "A backup is being made";
    IdempotencyInFlight: CONFLICT, "idempotency_in_flight", "The request with this Idempotency-Key is being worked on";
    CompactionRunning: CONFLICT, "compaction_running", "The filter is being compacted";
    ImportRunning: CONFLICT, "import_running", "This import is being worked on";
    FilterChanged: PRECONDITION_FAILED, "filter_changed", "The filter is not the one that was meant";
    FilterExists: PRECONDITION_FAILED, "filter_exists", "The filter exists already";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large", counted;
    BatchTooLarge: PAYLOAD_TOO_LARGE, "batch_too_large", "The batch has too many items", counted;
    TooManyPages: PAYLOAD_TOO_LARGE, "too_many_pages", "The batch touches too many pages", counted;
    ItemTooLongForQuery: URI_TOO_LONG, "item_too_long_for_query", "The item is too long for a query";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "This media type is not taken";
    UnsupportedContentEncoding: UNSUPPORTED_MEDIA_TYPE, "unsupported_content_encoding", "This content encoding is not taken";
    CorruptDump: UNPROCESSABLE_ENTITY, "corrupt_dump", "The dump is damaged";
    NewerDump: UNPROCESSABLE_ENTITY, "newer_dump", "The dump is of a newer server";
    FilterTooLarge: UNPROCESSABLE_ENTITY, "filter_too_large", "The filter takes more bytes than it may";
    InvalidKey: UNPROCESSABLE_ENTITY, "invalid_key", "This can't be the key of a filter";
    InvalidFields: UNPROCESSABLE_ENTITY, "invalid_fields", "A field of the request is refused";
    LookupTooLarge: UNPROCESSABLE_ENTITY, "lookup_too_large", "The lookup asks too many filters", counted;
    InvalidIdempotencyKey: UNPROCESSABLE_ENTITY, "invalid_idempotency_key", "The Idempotency-Key can't be one";
    IdempotencyKeyNotTaken: UNPROCESSABLE_ENTITY, "idempotency_key_not_taken", "An Idempotency-Key does nothing here";
    IdempotencyKeyReused: UNPROCESSABLE_ENTITY, "idempotency_key_reused", "The Idempotency-Key was used for another request";
    RateLimited: TOO_MANY_REQUESTS, "rate_limited", "The API key asks too often", counted;
    HeadTooLarge: REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", "The head of the request is too large";
    Internal: INTERNAL_SERVER_ERROR, "internal", "The server made a mistake";
    OutcomeUnknown: INTERNAL_SERVER_ERROR, "outcome_unknown", "Whether the change took place is unknown";
    StorageFailed: INTERNAL_SERVER_ERROR, "storage_failed", "The storage failed";
    IdempotencyFull: SERVICE_UNAVAILABLE, "idempotency_full", "No more answers can be kept for retries", counted;
    ImportsFull: SERVICE_UNAVAILABLE, "imports_full", "No more imports can be begun", counted;
    Starting: SERVICE_UNAVAILABLE, "starting", "The server is starting", counted;
    Draining: SERVICE_UNAVAILABLE, "draining", "The server is stopping", counted;
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "The server is overloaded", counted;
    TooManyFilters: INSUFFICIENT_STORAGE, "too_many_filters", "There are as many filters as there may be";
    OverQuota: INSUFFICIENT_STORAGE, "over_quota", "All filters together would take too many bytes";
    DiskReserve: INSUFFICIENT_STORAGE, "disk_reserve", "The server's disk is almost full", counted;
    DiskFull: INSUFFICIENT_STORAGE, "disk_full", "The disk filled up; whether the change took place is unknown";
    NoRoom: INSUFFICIENT_STORAGE, "no_room", "The disk has no room for it";
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
