//! What can go wrong, in one table: how it is called in every answer, metric and
//! log, the HTTP status, whether it helps to ask again, and a title. Where an error
//! of a kind has nothing of its own to tell, its sentence stands here, too.
//!
//! HTTP words an error as a problem (RFC 9457), the Redis protocol as an error reply
//! whose first word follows from the same row: so both mean the same.

use serde::{Serialize, Serializer};

/// Whether it helps to ask for the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nobody is told to: something has to change or to end first.
    Never,
    /// Nothing was done, and it may be done in a moment.
    Soon,
    /// It may have been done: a change must not be sent again blindly.
    Indeterminate,
}

/// What there is to say of a kind of error.
struct Row {
    status: u16,
    retry: Retry,
    name: &'static str,
    title: &'static str,
    is_counted: bool,
    sentence: &'static str,
}

macro_rules! codes {
    ($($code:ident: $status:literal, $retry:ident, $name:literal, $title:literal $(, $counted:ident)? $(=> $sentence:literal)?;)*) => {
        /// A kind of error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $title] $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            fn row(self) -> Row {
                match self {
                    $(Code::$code => Row {
                        status: $status,
                        retry: Retry::$retry,
                        name: $name,
                        title: $title,
                        is_counted: codes!(@is $($counted)?),
                        sentence: codes!(@or $($sentence)?, $title),
                    },)*
                }
            }
        }
    };
    (@is counted) => { true };
    (@is) => { false };
    (@or $sentence:literal, $title:literal) => { $sentence };
    (@or , $title:literal) => { $title };
}

codes! {
    MalformedJson: 400, Never, "malformed_json", "The body is not JSON";
    MalformedPath: 400, Never, "malformed_path", "The path is invalid"
        => "the path is not valid percent-encoded UTF-8";
    MalformedQuery: 400, Never, "malformed_query", "The query string is invalid";
    UnreadableBody: 400, Never, "unreadable_body", "The body cannot be read"
        => "the body ended early, or its encoding is damaged";
    BadRequest: 400, Never, "bad_request", "The request is invalid"
        => "the head of the request is not HTTP/1.1: a line is invalid";
    ApiKeyMissing: 401, Never, "api_key_missing", "The request has no API key", counted
        => "the request has no API key, or more than one; send one header Authorization: Bearer with the key. The operator of the server creates keys (cuckood keys add)";
    ApiKeyUnknown: 401, Never, "api_key_unknown", "The API key is unknown", counted
        => "the server does not know the API key; it was removed, or belongs to another server. The operator of the server creates keys (cuckood keys add)";
    ApiKeyExpired: 401, Never, "api_key_expired", "The API key has expired", counted
        => "the API key has expired; use another one. The operator of the server creates keys (cuckood keys add)";
    ApiKeyRevoked: 401, Never, "api_key_revoked", "The API key was removed during the request"
        => "the API key was removed, or what it allows was changed, while the request was in progress; it was ended. Use another key, or send the request again if the key is still there";
    ForeignHost: 403, Never, "foreign_host", "The host name is not allowed", counted
        => "the server does not answer to this host name: it answers to localhost, 127.0.0.1 and [::1], with --allow-anonymous to any address, and to the names in --allowed-host. Use one of these, or start the server with --allowed-host and the name";
    ClusterKeyInvalid: 403, Never, "cluster_key_invalid", "The key of the cluster is missing or wrong", counted
        => "the request is one between pods of a cluster, and has not the key of this cluster: give all pods the same --cluster-key-file";
    CertificateMissing: 403, Never, "certificate_missing", "A client certificate is required"
        => "the server requires a client certificate (--tls-client-ca), also for /admin: present a certificate that an authority of that file signed";
    ForeignOrigin: 403, Never, "foreign_origin", "The origin is not allowed", counted
        => "the request comes from a web page of another origin; the server refuses such requests";
    ScopeInsufficient: 403, Never, "scope_insufficient", "The API key does not allow this", counted;
    FilterForbidden: 403, Never, "filter_forbidden", "The API key is not for this filter", counted;
    ServerForbidden: 403, Never, "server_forbidden", "The API key is restricted to some filters", counted;
    BackupsOff: 403, Never, "backups_off", "Backups are off"
        => "the server has no directory for backups; start it with --backup-dir";
    UnknownRoute: 404, Never, "unknown_route", "The path does not exist"
        => "the path does not exist; /openapi.json and /docs list all paths";
    FilterNotFound: 404, Never, "filter_not_found", "The filter does not exist";
    NoCluster: 404, Never, "no_cluster", "The server is in no cluster"
        => "the server is in no cluster; a pod of one is started with --log, --cluster and --advertise";
    BackupNotFound: 404, Never, "backup_not_found", "The backup does not exist"
        => "the backup does not exist; GET /admin/backups lists all backups";
    CompactionNotFound: 404, Never, "compaction_not_found", "There is no compaction to report";
    ImportNotFound: 404, Never, "import_not_found", "The import does not exist";
    MethodNotAllowed: 405, Never, "method_not_allowed", "The method is not allowed"
        => "the path does not allow this method; the header Allow lists the methods that it allows";
    BodyTimeout: 408, Never, "body_timeout", "The body arrived too slowly", counted;
    HeadTimeout: 408, Never, "head_timeout", "The head of the request arrived too slowly"
        => "the head of the request was not complete in time; send it without pauses";
    FilterDiffers: 409, Never, "filter_differs", "The filter exists with other parameters";
    NotSiblings: 409, Never, "not_siblings", "The filters are no siblings"
        => "the filter visitors can't be merged: the keys of their hashes differ: only siblings can be merged, which are created with sibling_of, or built with --sibling-of";
    FilterTaken: 409, Never, "filter_taken", "A filter with this key exists"
        => "a filter with this key exists; set replace=true to replace it, or choose another key";
    BackupRunning: 409, Never, "backup_running", "A backup is running";
    IdempotencyInFlight: 409, Never, "idempotency_in_flight", "A request with this Idempotency-Key is in progress";
    IdempotencyFilterGone: 409, Never, "idempotency_filter_gone", "The filter of the first request is gone";
    CompactionRunning: 409, Never, "compaction_running", "The filter is being compacted";
    ImportRunning: 409, Never, "import_running", "The import is running";
    HistoryDiffers: 409, Never, "history_differs", "The pods have different histories";
    FilterChanged: 412, Never, "filter_changed", "The filter has changed"
        => "the filter does not exist, or its ETag differs from If-Match; dump it again and compare";
    FilterExists: 412, Never, "filter_exists", "The filter exists already"
        => "the filter exists, and If-None-Match: * demands a new one";
    BodyTooLarge: 413, Never, "body_too_large", "The body is too large", counted;
    BatchTooLarge: 413, Never, "batch_too_large", "The batch has too many items", counted;
    TooCostly: 413, Never, "too_costly", "The request costs too much", counted;
    TooManyPages: 413, Never, "too_many_pages", "The batch touches too many pages", counted;
    ItemTooLongForQuery: 414, Never, "item_too_long_for_query", "The item is too long for a query string";
    UnsupportedMediaType: 415, Never, "unsupported_media_type", "The media type is not supported";
    UnsupportedContentEncoding: 415, Never, "unsupported_content_encoding", "The content encoding is not supported"
        => "the content encoding is not supported; allowed is gzip, or none";
    RangeBeyondEnd: 416, Never, "range_beyond_end", "The range lies beyond the end";
    CorruptDump: 422, Never, "corrupt_dump", "The dump is damaged";
    NewerDump: 422, Never, "newer_dump", "A newer server made the dump";
    FilterTooLarge: 422, Never, "filter_too_large", "The filter is too large";
    InvalidKey: 422, Never, "invalid_key", "The key is invalid";
    InvalidFields: 422, Never, "invalid_fields", "A field is invalid";
    NotForThisFilter: 422, Never, "not_for_this_filter", "The filter is of another kind";
    LookupTooLarge: 422, Never, "lookup_too_large", "The lookup is too large", counted;
    InvalidDeadline: 422, Never, "invalid_deadline", "The header Prefer is invalid";
    InvalidIdempotencyKey: 422, Never, "invalid_idempotency_key", "The Idempotency-Key is invalid"
        => "the Idempotency-Key is given more than once, is empty, has more than 255 characters or one that is not visible ASCII; send one key, such as a UUID, new for each request that is not a retry";
    InvalidIdempotencyLifetime: 422, Never, "invalid_idempotency_lifetime", "The Idempotency-Key-Lifetime is invalid";
    IdempotencyKeyNotTaken: 422, Never, "idempotency_key_not_taken", "The request takes no Idempotency-Key";
    InvalidPosition: 422, Never, "invalid_position", "The position or the consistency is invalid";
    IdempotencyKeyReused: 422, Never, "idempotency_key_reused", "The Idempotency-Key was used for another request";
    RateLimited: 429, Soon, "rate_limited", "The API key exceeds its rate", counted;
    OverShare: 429, Soon, "over_share", "The API key has its share of the server", counted;
    HeadTooLarge: 431, Never, "head_too_large", "The head of the request is too large"
        => "path, query string and headers have more than 65536 bytes or 100 lines; send items in the body of a POST";
    Internal: 500, Never, "internal", "Internal error"
        => "an internal error occurred; the request id identifies it in the server's log";
    OutcomeUnknown: 500, Indeterminate, "outcome_unknown", "The outcome of the change is unknown";
    StorageFailed: 500, Never, "storage_failed", "The storage failed";
    NotLeading: 503, Soon, "not_leading", "No pod leads the filter's lane", counted;
    LogUnavailable: 503, Soon, "log_unavailable", "The commit log does not answer", counted;
    OutcomePending: 503, Indeterminate, "outcome_pending", "The commit log has not settled the change";
    LaneStopped: 503, Never, "lane_stopped", "The filter's lane has stopped", counted;
    PodNotReady: 503, Soon, "pod_not_ready", "The pod is not as far as others";
    PositionNotReached: 503, Soon, "position_not_reached", "The pod is behind the position";
    IdempotencyFull: 503, Soon, "idempotency_full", "The storage for idempotent answers is full", counted;
    ImportsFull: 503, Soon, "imports_full", "There are too many imports", counted;
    Starting: 503, Soon, "starting", "The server is starting", counted
        => "the server is replaying its log; try again in a moment";
    Draining: 503, Soon, "draining", "The server is stopping", counted
        => "the server is stopping; try again after its restart";
    DeadlineExceeded: 503, Soon, "deadline_exceeded", "The deadline of the request passed", counted;
    TooManyConnections: 503, Soon, "too_many_connections", "The address has too many connections"
        => "the address of this connection has as many as it may (--max-connections-per-address); keep connections open and use them again, close some, or try again in a moment";
    Overloaded: 503, Soon, "overloaded", "The server is overloaded", counted;
    TooManyFilters: 507, Never, "too_many_filters", "There are too many filters";
    OverKeyQuota: 507, Never, "over_key_quota", "The API key has all that it may keep", counted;
    OverQuota: 507, Never, "over_quota", "The quota of all filters is exceeded";
    DiskReserve: 507, Never, "disk_reserve", "The server's disk is almost full", counted;
    DiskFull: 507, Never, "disk_full", "The disk is full";
    NoRoom: 507, Never, "no_room", "The disk has too little space";
}

impl Code {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        self.row().status
    }

    /// Whether it helps to ask again.
    pub fn retry(self) -> Retry {
        self.row().retry
    }

    /// How it is written in answers and logs, the same in every version of the
    /// server.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is, in a few words.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What was wrong, what is allowed, what to do, where there is no more to tell.
    pub fn sentence(self) -> &'static str {
        self.row().sentence
    }

    /// Whether requests of it are counted as refused before any filter was
    /// looked at: its name is a value of the label `reason` then.
    pub fn is_counted(self) -> bool {
        self.row().is_counted
    }

    /// The kind of a name.
    pub fn of_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
