export type ClientOptions = {
    baseUrl: `${string}://${string}` | (string & {});
};
/**
 * Items to add.
 */
export type AddBody = {
    create?: FilterFields;
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Up to 250,000 items, unless the server has another limit.
     */
    items: Array<string | number>;
    /**
     * Skip an item that the filter already contains (or seems to contain, at its false-positive rate).
     */
    only_if_absent?: boolean;
};
/**
 * Results of adding items.
 */
export type AddedBody = {
    /**
     * A remedy.
     */
    full_detail?: string | null;
    /**
     * The limit that was reached; only when a result is `full`.
     */
    full_reason?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes';
    /**
     * `added`; `exists`: skipped because it was found (with `only_if_absent`); `full`: no room. Null for a blank line.
     */
    results: Array<'added' | 'exists' | 'full' | null>;
};
/**
 * A backup.
 */
export type BackupBody = {
    /**
     * When it was started (RFC 3339). It contains everything acknowledged before.
     */
    begun_at: string;
    /**
     * Bytes of the archive when it is complete.
     */
    bytes: number;
    /**
     * Bytes written, or read again while it is verified; all of them while what it contains is compared.
     */
    done_bytes: number;
    /**
     * Why it failed; null unless it did.
     */
    failure?: string | null;
    /**
     * Its id: the second in which it was started (UTC).
     */
    id: string;
    /**
     * `writing`: the archive is being written; `verifying`: it is being read again, and what it contains is compared; `complete`; `failed`: nothing of it is stored.
     */
    state: 'writing' | 'verifying' | 'complete' | 'failed';
};
/**
 * All backups.
 */
export type BackupListBody = {
    /**
     * Newest first: the running one, the complete ones, and the last one if it failed.
     */
    backups: Array<BackupBody>;
    /**
     * Number of complete backups to keep; older ones are deleted when a new one is complete.
     */
    keep: number;
};
/**
 * An invalid line.
 */
export type BadLineBody = {
    /**
     * Its number, from 1.
     */
    line: number;
    /**
     * `too_long`: more than 64 KiB; `not_json`; `not_an_item`: JSON, but neither a string nor an integer.
     */
    reason: 'too_long' | 'not_json' | 'not_an_item';
};
/**
 * A bucket and its slots.
 */
export type BucketBody = {
    /**
     * Position of the bucket in the sub-filter.
     */
    bucket: number;
    /**
     * Its first slot on the page.
     */
    first_slot: number;
    /**
     * The page that it lies on.
     */
    page: number;
    /**
     * What its slots hold.
     */
    slots: Array<'empty' | 'match' | 'other'>;
};
/**
 * The time.
 */
export type ClockBody = {
    /**
     * Seconds by which the system's clock has jumped ahead, more than a minute, and is not believed until it is confirmed or put right; null: it is believed.
     */
    jump_seconds?: number | null;
    /**
     * The time by which filters end (RFC 3339).
     */
    now: string;
    /**
     * The time of the system's clock (RFC 3339).
     */
    system: string;
};
/**
 * A compaction that was started.
 */
export type CompactionBegunBody = {
    /**
     * Number of sub-filters to empty, the newest ones; 0 if the others have no room for their entries.
     */
    closed_sub_filters: number;
    /**
     * Path of the compaction's status.
     */
    status_url: string;
};
/**
 * The state of a compaction.
 */
export type CompactionBody = {
    /**
     * Whether a request started it; otherwise the server started it after many deletes (`--compaction-threshold`).
     */
    asked_for: boolean;
    /**
     * Number of sub-filters to empty.
     */
    closed_sub_filters: number;
    /**
     * Number of sub-filters that were removed.
     */
    dropped_sub_filters: number;
    /**
     * When it ended (RFC 3339); null: it is running.
     */
    ended_at?: string | null;
    /**
     * Entries moved into older sub-filters.
     */
    moved: number;
    /**
     * When it started, or resumed after a restart (RFC 3339).
     */
    started_at: string;
    /**
     * `running`; `done`: the emptied sub-filters are removed; `overtaken`: adds needed the sub-filters that were being emptied; `no_room`: an entry did not fit into the older sub-filters; `failed`: the storage failed repeatedly, or the page cache is too small.
     */
    state: 'running' | 'done' | 'overtaken' | 'no_room' | 'failed';
};
/**
 * The number of copies of an item.
 */
export type CountBody = {
    /**
     * Never too low; too high at the filter's false-positive rate.
     */
    count: number;
};
/**
 * One number per item.
 */
export type CountsBody = {
    /**
     * In the order of the items; null for a blank line.
     */
    results: Array<number | null>;
};
/**
 * Whether an item is in the filter.
 */
export type ExistsBody = {
    /**
     * False is certain; true can be a false positive.
     */
    exists: boolean;
};
/**
 * The description of a filter.
 */
export type FilterBody = {
    /**
     * Estimated number of adds before the next expansion.
     */
    adds_before_expansion: number;
    /**
     * Bits of slots per item; null while the filter is empty.
     */
    bits_per_item?: number | null;
    /**
     * Bits of slots per item once it holds as many items as its capacity.
     */
    bits_per_item_at_capacity: number;
    /**
     * Slots per bucket.
     */
    bucket_size: number;
    /**
     * Items that fit before the first expansion.
     */
    capacity: number;
    /**
     * When it was created (RFC 3339).
     */
    created_at: string;
    /**
     * Deletes that found their item, since creation.
     */
    deletions: number;
    /**
     * Bytes of its pages on disk, an estimate.
     */
    disk_bytes: number;
    /**
     * The promised false-positive rate: the share of never-added items that are found; null without a promise.
     */
    error_rate?: number | null;
    /**
     * Whether the promise still holds: false once the filter has more sub-filters than that.
     */
    error_rate_holds: boolean;
    /**
     * How much larger each further sub-filter is; 0 = never grows.
     */
    expansion: number;
    /**
     * Expected false-positive rate at the current load: the probability that a never-added item is found.
     */
    expected_false_positive_rate: number;
    /**
     * The same with promised_sub_filters sub-filters, all of them full.
     */
    expected_false_positive_rate_full: number;
    /**
     * When it expires (RFC 3339); null: it does not expire.
     */
    expires_at?: string | null;
    /**
     * Bits per slot.
     */
    fingerprint_bits: number;
    /**
     * Items in it: adds less deletes.
     */
    items: number;
    /**
     * Its name.
     */
    key: string;
    /**
     * How fingerprints are placed. `paged` reads about one page per question and keeps its false-positive rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.
     */
    layout: 'paged' | 'classic';
    /**
     * Largest number of sub-filters beyond the first.
     */
    max_expansions: number;
    /**
     * Longest path of kick-outs; null for `paged`, whose searches stay on a few pages.
     */
    max_iterations?: number | null;
    /**
     * Bytes of its pages in memory.
     */
    memory_bytes: number;
    /**
     * Sub-filters up to which it is promised: 8, or 1 for a filter that never grows.
     */
    promised_sub_filters: number;
    /**
     * Bytes that its slots take when every page is written.
     */
    slot_bytes: number;
    /**
     * The chain, oldest sub-filter first.
     */
    sub_filters: Array<SubFilterBody>;
    /**
     * Seconds of the requested time to live; null: it does not expire.
     */
    ttl_seconds?: number | null;
};
/**
 * Fields of a filter to change.
 */
export type FilterChanges = {
    /**
     * Seconds from now until the filter expires, 1 to 3162240000; null = it does not expire.
     */
    ttl_seconds: number | null;
};
/**
 * Parameters of a filter. Every field is optional; the server's defaults fill in missing fields.
 */
export type FilterFields = {
    /**
     * `classic`: slots per bucket. More slots fill better and cause more false positives.
     */
    bucket_size?: number;
    /**
     * Items that fit before the first expansion, up to 2^40; for the layout `classic` at least 2 * bucket_size.
     */
    capacity?: number;
    /**
     * `paged`: the highest false-positive rate (the share of never-added items that are found), promised for the whole filter while it grows to 8 sub-filters (255 times the capacity). It determines the width of a slot.
     */
    error_rate?: number;
    /**
     * How much larger each further sub-filter is; rounded up to a power of two. 0 = the filter never grows. Left out: 2 for `paged`, 1 for `classic`.
     */
    expansion?: number;
    /**
     * `paged`: bits per slot, instead of `error_rate`.
     */
    fingerprint_bits?: 8 | 16 | 32;
    /**
     * How fingerprints are placed. `paged` reads about one page a question and keeps its error rate; `classic` is bit-compatible with RedisBloom and Apache Kvrocks. Left out: `paged` with error_rate or fingerprint_bits, `classic` with bucket_size or max_iterations, else the server's default.
     */
    layout?: 'paged' | 'classic';
    /**
     * Largest number of sub-filters beyond the first.
     */
    max_expansions?: number;
    /**
     * `classic`: longest path of kick-outs for one item.
     */
    max_iterations?: number;
    /**
     * Seconds until the filter expires, 1 to 3162240000; left out = it does not expire.
     */
    ttl_seconds?: number;
};
/**
 * A line of the list of filters.
 */
export type FilterLineBody = {
    /**
     * Bytes that its slots take when every page is written.
     */
    bytes: number;
    /**
     * Items that fit before the first expansion.
     */
    capacity: number;
    /**
     * When it was created (RFC 3339).
     */
    created_at: string;
    /**
     * The promised false-positive rate: the share of never-added items that are found; null without a promise.
     */
    error_rate?: number | null;
    /**
     * Whether the promise still holds.
     */
    error_rate_holds: boolean;
    /**
     * Expected false-positive rate at the current load: the probability that a never-added item is found.
     */
    expected_false_positive_rate: number;
    /**
     * When it expires (RFC 3339); null: it does not expire.
     */
    expires_at?: string | null;
    /**
     * Items in it.
     */
    items: number;
    /**
     * Its name.
     */
    key: string;
    /**
     * How fingerprints are placed. `paged` reads about one page per question and keeps its false-positive rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.
     */
    layout: 'paged' | 'classic';
    /**
     * Share of its slots in use, 0 to 1.
     */
    load: number;
    /**
     * Sub-filters.
     */
    sub_filters: number;
};
/**
 * A page of the list of filters.
 */
export type FilterListBody = {
    /**
     * Filters in byte order of their keys.
     */
    filters: Array<FilterLineBody>;
    /**
     * Pass it as `cursor` for the next page; null on the last page.
     */
    next_cursor?: string | null;
};
/**
 * One boolean per item.
 */
export type FlagsBody = {
    /**
     * In the order of the items; null for a blank line.
     */
    results: Array<boolean | null>;
};
/**
 * Which filters contain each item.
 */
export type FoundBody = {
    /**
     * Requested keys without a filter.
     */
    missing_filters: Array<string>;
    /**
     * For each item the keys of the filters that contain it, in the order in which they were asked.
     */
    results: Array<Array<string>>;
};
/**
 * The progress of an import.
 */
export type ImportBody = {
    /**
     * Items added.
     */
    added: number;
    /**
     * Invalid lines; they were skipped.
     */
    bad_lines: number;
    /**
     * Blank lines.
     */
    blank_lines: number;
    /**
     * Committed lines. Resume the import with `from_line` one greater.
     */
    committed_lines: number;
    /**
     * Items that were found and skipped; only with `only_if_absent`.
     */
    exists: number;
    /**
     * The first 20 of them.
     */
    first_bad_lines: Array<BadLineBody>;
    /**
     * Items for which there was no room.
     */
    full: number;
    /**
     * The limit that was reached; null when there were none.
     */
    full_reason?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes' | null;
    /**
     * Its name.
     */
    import_id: string;
    /**
     * When its first request arrived (RFC 3339).
     */
    started_at: string;
    /**
     * `running`: a request is in flight; `interrupted`: it can be resumed; `complete`: the stream ended.
     */
    state: 'running' | 'interrupted' | 'complete';
    /**
     * When its last commit was made (RFC 3339).
     */
    updated_at: string;
};
/**
 * Items to ask for or to delete.
 */
export type ItemsBody = {
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Up to 250,000 items, unless the server has another limit.
     */
    items: Array<string | number>;
};
/**
 * The slots in which an item lies.
 */
export type LocatedBody = {
    /**
     * Copies of the item, never too low, as in `/count`.
     */
    count: number;
    /**
     * The newest 256 of them, oldest first.
     */
    places: Array<LocationBody>;
    /**
     * Sub-filters of the filter.
     */
    sub_filters: number;
};
/**
 * The item's candidate buckets in one sub-filter.
 */
export type LocationBody = {
    /**
     * The one or two buckets in which the item may lie.
     */
    buckets: Array<BucketBody>;
    /**
     * Copies that are counted beside the pages, without a slot.
     */
    counted: number;
    /**
     * What a slot holds of the item.
     */
    fingerprint: number;
    /**
     * Position of the sub-filter; 0 is the oldest.
     */
    sub_filter: number;
};
/**
 * Items, and the filters to ask.
 */
export type LookupBody = {
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Keys of the filters to ask, in this order; each once. Either this or `prefix`.
     */
    filters?: Array<string>;
    /**
     * Stop at the first filter that contains the item.
     */
    first?: boolean;
    /**
     * Up to 250,000 items, unless the server has another limit.
     */
    items: Array<string | number>;
    /**
     * Ask all filters whose keys start with this, in byte order of their keys. Either this or `filters`.
     */
    prefix?: string;
};
/**
 * The preview of a filter.
 */
export type PreviewBody = {
    /**
     * Bits of slots per item at capacity.
     */
    bits_per_item_at_capacity: number;
    /**
     * Slots per bucket.
     */
    bucket_size: number;
    /**
     * Buckets of the first sub-filter.
     */
    buckets: number;
    /**
     * Items that fit before the first expansion.
     */
    capacity: number;
    /**
     * The promised false-positive rate: the share of never-added items that are found; null without a promise.
     */
    error_rate?: number | null;
    /**
     * How much larger each further sub-filter is; 0 = never grows.
     */
    expansion: number;
    /**
     * Expected false-positive rate at capacity.
     */
    expected_false_positive_rate: number;
    /**
     * Bits per slot.
     */
    fingerprint_bits: number;
    /**
     * How fingerprints are placed. `paged` reads about one page per question and keeps its false-positive rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.
     */
    layout: 'paged' | 'classic';
    /**
     * Share of its slots in use at capacity, 0 to 1.
     */
    load_at_capacity: number;
    /**
     * Largest number of sub-filters beyond the first.
     */
    max_expansions: number;
    /**
     * Longest path of kick-outs; null for `paged`, whose searches stay on a few pages.
     */
    max_iterations?: number | null;
    /**
     * Pages that hold the buckets.
     */
    pages: number;
    /**
     * Number of sub-filters up to which it is promised.
     */
    promised_sub_filters: number;
    /**
     * Bytes that its slots take when every page is written.
     */
    slot_bytes: number;
    /**
     * The filter with one sub-filter, with two, and so on, each full: up to as many as promised_sub_filters.
     */
    stages: Array<StageBody>;
    /**
     * The limit that ends its growth at the last stage; null: it can grow further.
     */
    stopped_by?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes' | null;
    /**
     * Seconds until it would expire; null: it would not expire.
     */
    ttl_seconds?: number | null;
};
/**
 * Problem details of an error (RFC 9457).
 */
export type Problem = {
    /**
     * Stable name of the kind of problem, for programs.
     */
    code: string;
    /**
     * What was wrong, what is allowed, what to do.
     */
    detail: string;
    /**
     * The refused or differing fields, if any.
     */
    errors?: Array<ProblemField>;
    /**
     * Identifies the request in the server's log; the same as the header `x-request-id`.
     */
    request_id: string;
    /**
     * The HTTP status.
     */
    status: number;
    /**
     * The kind of problem in a few words.
     */
    title: string;
    /**
     * A URN that names the kind of problem.
     */
    type: string;
};
/**
 * One field of a refused request.
 */
export type ProblemField = {
    /**
     * What is allowed.
     */
    allowed?: string | null;
    /**
     * The whole sentence.
     */
    detail: string;
    /**
     * The value of the existing filter.
     */
    existing?: string | null;
    /**
     * The given value.
     */
    given: string;
    /**
     * Name of the query parameter.
     */
    parameter?: string | null;
    /**
     * JSON pointer to the field in the body; empty = the body itself.
     */
    pointer?: string | null;
};
/**
 * The filter with this number of sub-filters, all of them full.
 */
export type StageBody = {
    /**
     * Bytes that its slots take.
     */
    bytes: number;
    /**
     * Expected false-positive rate: the probability that a never-added item is found.
     */
    expected_false_positive_rate: number;
    /**
     * Expected number of items that fit.
     */
    items: number;
    /**
     * Sub-filters.
     */
    sub_filters: number;
};
/**
 * One sub-filter of a filter's chain.
 */
export type SubFilterBody = {
    /**
     * Buckets.
     */
    buckets: number;
    /**
     * Bytes of slots.
     */
    bytes: number;
    /**
     * Number of them that are further copies of hot items, counted beside the pages, without a slot.
     */
    counted: number;
    /**
     * Expected false-positive rate of this sub-filter.
     */
    expected_false_positive_rate: number;
    /**
     * Bits per slot.
     */
    fingerprint_bits: number;
    /**
     * Items in it.
     */
    items: number;
    /**
     * How fingerprints are placed. `paged` reads about one page per question and keeps its false-positive rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.
     */
    layout: 'paged' | 'classic';
    /**
     * Share of its slots in use, 0 to 1.
     */
    load: number;
    /**
     * Pages that hold the buckets.
     */
    pages: number;
};
export type ListBackupsData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/admin/backups';
};
export type ListBackupsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed. `certificate_missing`: A client certificate is required. `backups_off`: Backups are off.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
};
export type ListBackupsError = ListBackupsErrors[keyof ListBackupsErrors];
export type ListBackupsResponses = {
    /**
     * Newest first.
     */
    200: BackupListBody;
};
export type ListBackupsResponse = ListBackupsResponses[keyof ListBackupsResponses];
export type CreateBackupData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/admin/backups';
};
export type CreateBackupErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed. `certificate_missing`: A client certificate is required. `backups_off`: Backups are off.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `backup_running`: A backup is running.
     */
    409: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `idempotency_key_not_taken`: The request takes no Idempotency-Key.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
    /**
     * `no_room`: The disk has too little space. `disk_reserve`: The server's disk is almost full.
     */
    507: Problem;
};
export type CreateBackupError = CreateBackupErrors[keyof CreateBackupErrors];
export type CreateBackupResponses = {
    /**
     * The backup is running.
     */
    202: BackupBody;
};
export type CreateBackupResponse = CreateBackupResponses[keyof CreateBackupResponses];
export type DownloadBackupData = {
    body?: never;
    path: {
        /**
         * Id of the backup.
         */
        id: string;
    };
    query?: never;
    url: '/admin/backups/{id}';
};
export type DownloadBackupErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed. `certificate_missing`: A client certificate is required. `backups_off`: Backups are off.
     */
    403: Problem;
    /**
     * `backup_not_found`: The backup does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `backup_running`: A backup is running.
     */
    409: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
};
export type DownloadBackupError = DownloadBackupErrors[keyof DownloadBackupErrors];
export type DownloadBackupResponses = {
    /**
     * The archive.
     */
    200: Blob | File;
};
export type DownloadBackupResponse = DownloadBackupResponses[keyof DownloadBackupResponses];
export type GetBackupStatusData = {
    body?: never;
    path: {
        /**
         * Id of the backup.
         */
        id: string;
    };
    query?: never;
    url: '/admin/backups/{id}/status';
};
export type GetBackupStatusErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed. `certificate_missing`: A client certificate is required. `backups_off`: Backups are off.
     */
    403: Problem;
    /**
     * `backup_not_found`: The backup does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
};
export type GetBackupStatusError = GetBackupStatusErrors[keyof GetBackupStatusErrors];
export type GetBackupStatusResponses = {
    /**
     * Its progress.
     */
    200: BackupBody;
};
export type GetBackupStatusResponse = GetBackupStatusResponses[keyof GetBackupStatusResponses];
export type GetClockData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/admin/clock';
};
export type GetClockErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed. `certificate_missing`: A client certificate is required.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
};
export type GetClockError = GetClockErrors[keyof GetClockErrors];
export type GetClockResponses = {
    /**
     * Both times.
     */
    200: ClockBody;
};
export type GetClockResponse = GetClockResponses[keyof GetClockResponses];
export type ConfirmClockData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/admin/clock/confirm';
};
export type ConfirmClockErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed. `certificate_missing`: A client certificate is required.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `idempotency_key_not_taken`: The request takes no Idempotency-Key.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
};
export type ConfirmClockError = ConfirmClockErrors[keyof ConfirmClockErrors];
export type ConfirmClockResponses = {
    /**
     * The system's clock is believed.
     */
    200: ClockBody;
};
export type ConfirmClockResponse = ConfirmClockResponses[keyof ConfirmClockResponses];
export type ListFiltersData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path?: never;
    query?: {
        /**
         * Only filters whose keys start with this.
         */
        prefix?: string;
        /**
         * Most filters of the page; more than 1000 is taken as 1000, 0 as 1.
         */
        limit?: number;
        /**
         * `next_cursor` of the previous page.
         */
        cursor?: string;
    };
    url: '/filters';
};
export type ListFiltersErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type ListFiltersError = ListFiltersErrors[keyof ListFiltersErrors];
export type ListFiltersResponses = {
    /**
     * A page of filters.
     */
    200: FilterListBody;
};
export type ListFiltersResponse = ListFiltersResponses[keyof ListFiltersResponses];
export type DeleteFilterData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
        /**
         * 1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.
         */
        'Idempotency-Key'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}';
};
export type DeleteFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `idempotency_in_flight`: A request with this Idempotency-Key is in progress.
     */
    409: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `invalid_idempotency_key`: The Idempotency-Key is invalid. `idempotency_key_reused`: The Idempotency-Key was used for another request.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `idempotency_full`: The storage for idempotent answers is full.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `over_key_quota`: The API key has all that it may keep.
     */
    507: Problem;
};
export type DeleteFilterError = DeleteFilterErrors[keyof DeleteFilterErrors];
export type DeleteFilterResponses = {
    /**
     * The filter was deleted.
     */
    204: void;
};
export type DeleteFilterResponse = DeleteFilterResponses[keyof DeleteFilterResponses];
export type GetFilterData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}';
};
export type GetFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type GetFilterError = GetFilterErrors[keyof GetFilterErrors];
export type GetFilterResponses = {
    /**
     * Parameters, size and load of the filter now.
     */
    200: FilterBody;
};
export type GetFilterResponse = GetFilterResponses[keyof GetFilterResponses];
export type HeadFilterData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}';
};
export type HeadFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: unknown;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: unknown;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: unknown;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: unknown;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: unknown;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: unknown;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: unknown;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: unknown;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: unknown;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: unknown;
};
export type HeadFilterResponses = {
    /**
     * The filter exists.
     */
    200: unknown;
};
export type PatchFilterData = {
    /**
     * The fields to change.
     */
    body: FilterChanges;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
        /**
         * 1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.
         */
        'Idempotency-Key'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}';
};
export type PatchFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `idempotency_in_flight`: A request with this Idempotency-Key is in progress. `idempotency_filter_gone`: The filter of the first request is gone.
     */
    409: Problem;
    /**
     * `body_too_large`: The body is too large.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `invalid_idempotency_key`: The Idempotency-Key is invalid. `idempotency_key_reused`: The Idempotency-Key was used for another request.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `idempotency_full`: The storage for idempotent answers is full.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `over_key_quota`: The API key has all that it may keep.
     */
    507: Problem;
};
export type PatchFilterError = PatchFilterErrors[keyof PatchFilterErrors];
export type PatchFilterResponses = {
    /**
     * The filter with its new expiry.
     */
    200: FilterBody;
};
export type PatchFilterResponse = PatchFilterResponses[keyof PatchFilterResponses];
export type PutFilterData = {
    /**
     * Parameters of the filter; empty for the server's defaults.
     */
    body?: FilterFields;
    headers?: {
        /**
         * `*`: fail with 412 if the filter exists.
         */
        'If-None-Match'?: string;
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
        /**
         * 1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.
         */
        'Idempotency-Key'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}';
};
export type PutFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `filter_differs`: The filter exists with other parameters. `idempotency_in_flight`: A request with this Idempotency-Key is in progress. `idempotency_filter_gone`: The filter of the first request is gone.
     */
    409: Problem;
    /**
     * `filter_exists`: The filter exists already.
     */
    412: Problem;
    /**
     * `body_too_large`: The body is too large.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `invalid_idempotency_key`: The Idempotency-Key is invalid. `idempotency_key_reused`: The Idempotency-Key was used for another request.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `idempotency_full`: The storage for idempotent answers is full.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `over_quota`: The quota of all filters is exceeded. `over_key_quota`: The API key has all that it may keep. `too_many_filters`: There are too many filters.
     */
    507: Problem;
};
export type PutFilterError = PutFilterErrors[keyof PutFilterErrors];
export type PutFilterResponses = {
    /**
     * The filter exists and agrees with the fields; nothing was changed.
     */
    200: FilterBody;
    /**
     * The filter was created.
     */
    201: FilterBody;
};
export type PutFilterResponse = PutFilterResponses[keyof PutFilterResponses];
export type CompactFilterData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
        /**
         * 1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.
         */
        'Idempotency-Key'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/compact';
};
export type CompactFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `compaction_running`: The filter is being compacted. `idempotency_filter_gone`: The filter of the first request is gone. `idempotency_in_flight`: A request with this Idempotency-Key is in progress.
     */
    409: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `invalid_idempotency_key`: The Idempotency-Key is invalid. `idempotency_key_reused`: The Idempotency-Key was used for another request.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `idempotency_full`: The storage for idempotent answers is full.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `over_key_quota`: The API key has all that it may keep.
     */
    507: Problem;
};
export type CompactFilterError = CompactFilterErrors[keyof CompactFilterErrors];
export type CompactFilterResponses = {
    /**
     * The compaction has started.
     */
    202: CompactionBegunBody;
};
export type CompactFilterResponse = CompactFilterResponses[keyof CompactFilterResponses];
export type GetCompactionData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/compaction';
};
export type GetCompactionErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist. `compaction_not_found`: There is no compaction to report.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type GetCompactionError = GetCompactionErrors[keyof GetCompactionErrors];
export type GetCompactionResponses = {
    /**
     * Its progress.
     */
    200: CompactionBody;
};
export type GetCompactionResponse = GetCompactionResponses[keyof GetCompactionResponses];
export type GetItemCountData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: {
        /**
         * The item, up to 4 KiB, form-encoded: `+` is a space, a plus sign is `%2B`.
         */
        item?: string;
        /**
         * The item in base64url, instead of `item`.
         */
        item_base64url?: string;
    };
    url: '/filters/{key}/count';
};
export type GetItemCountErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `too_costly`: The request costs too much.
     */
    413: Problem;
    /**
     * `item_too_long_for_query`: The item is too long for a query string.
     */
    414: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type GetItemCountError = GetItemCountErrors[keyof GetItemCountErrors];
export type GetItemCountResponses = {
    /**
     * Copies of the item; never too low.
     */
    200: CountBody;
};
export type GetItemCountResponse = GetItemCountResponses[keyof GetItemCountResponses];
export type CountItemsData = {
    /**
     * The items; as `text/plain` one per line.
     */
    body: ItemsBody;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/count';
};
export type CountItemsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `body_too_large`: The body is too large. `batch_too_large`: The batch has too many items. `too_costly`: The request costs too much. `too_many_pages`: The batch touches too many pages.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type CountItemsError = CountItemsErrors[keyof CountItemsErrors];
export type CountItemsResponses = {
    /**
     * Copies of each item; never too low.
     */
    200: CountsBody;
};
export type CountItemsResponse = CountItemsResponses[keyof CountItemsResponses];
export type DumpFilterData = {
    body?: never;
    headers?: {
        /**
         * `ETag` of an earlier dump: 304 without a body if the filter has not changed.
         */
        'If-None-Match'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/dump';
};
export type DumpFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type DumpFilterError = DumpFilterErrors[keyof DumpFilterErrors];
export type DumpFilterResponses = {
    /**
     * The dump; `docs/format.md` describes it.
     */
    200: Blob | File;
};
export type DumpFilterResponse = DumpFilterResponses[keyof DumpFilterResponses];
export type RestoreFilterData = {
    /**
     * A dump, of any length; or a filter of RedisBloom: for each pair that `CF.SCANDUMP` returned, in order, the iterator as 8 bytes, the length of the chunk as 4 bytes, both little-endian, and the chunk.
     */
    body: Blob | File;
    headers?: {
        /**
         * With `replace=true`: `ETag` of a dump of the filter to replace; 412 if the filter has changed since. `*` matches any.
         */
        'If-Match'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: {
        /**
         * Replace an existing filter. Its expiry is kept. Needs the scope `admin`.
         */
        replace?: boolean;
    };
    url: '/filters/{key}/dump';
};
export type RestoreFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `filter_taken`: A filter with this key exists.
     */
    409: Problem;
    /**
     * `filter_changed`: The filter has changed.
     */
    412: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `idempotency_key_not_taken`: The request takes no Idempotency-Key. `corrupt_dump`: The dump is damaged. `newer_dump`: A newer server made the dump. `filter_too_large`: The filter is too large.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `no_room`: The disk has too little space. `over_quota`: The quota of all filters is exceeded. `over_key_quota`: The API key has all that it may keep. `too_many_filters`: There are too many filters.
     */
    507: Problem;
};
export type RestoreFilterError = RestoreFilterErrors[keyof RestoreFilterErrors];
export type RestoreFilterResponses = {
    /**
     * The filter replaced another one.
     */
    200: FilterBody;
    /**
     * The filter was created.
     */
    201: FilterBody;
};
export type RestoreFilterResponse = RestoreFilterResponses[keyof RestoreFilterResponses];
export type GetItemExistsData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: {
        /**
         * The item, up to 4 KiB, form-encoded: `+` is a space, a plus sign is `%2B`.
         */
        item?: string;
        /**
         * The item in base64url, instead of `item`.
         */
        item_base64url?: string;
    };
    url: '/filters/{key}/exists';
};
export type GetItemExistsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `too_costly`: The request costs too much.
     */
    413: Problem;
    /**
     * `item_too_long_for_query`: The item is too long for a query string.
     */
    414: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type GetItemExistsError = GetItemExistsErrors[keyof GetItemExistsErrors];
export type GetItemExistsResponses = {
    /**
     * `false` is certain; `true` can be a false positive.
     */
    200: ExistsBody;
};
export type GetItemExistsResponse = GetItemExistsResponses[keyof GetItemExistsResponses];
export type CheckItemsData = {
    /**
     * The items; as `text/plain` one per line.
     */
    body: ItemsBody;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/exists';
};
export type CheckItemsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `body_too_large`: The body is too large. `batch_too_large`: The batch has too many items. `too_costly`: The request costs too much. `too_many_pages`: The batch touches too many pages.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type CheckItemsError = CheckItemsErrors[keyof CheckItemsErrors];
export type CheckItemsResponses = {
    /**
     * Whether the filter may contain each item.
     */
    200: FlagsBody;
};
export type CheckItemsResponse = CheckItemsResponses[keyof CheckItemsResponses];
export type ImportItemsData = {
    /**
     * The lines. `text/plain`: each is an item. `application/x-ndjson`: each is a JSON string or an integer. Also gzipped.
     */
    body: string;
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query: {
        /**
         * Name of the import within the filter: 1 to 100 characters of A-Z a-z 0-9 . _ : ~ -. It is kept for a week after its last commit.
         */
        import_id: string;
        /**
         * Number of the first line of the body within the import, from 1; at most one more than `committed_lines`.
         */
        from_line?: number;
        /**
         * Skip an item that the filter already contains (or seems to contain, at its false-positive rate).
         */
        only_if_absent?: boolean;
    };
    url: '/filters/{key}/import';
};
export type ImportItemsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `import_running`: The import is running.
     */
    409: Problem;
    /**
     * `too_many_pages`: The batch touches too many pages.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `idempotency_key_not_taken`: The request takes no Idempotency-Key.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `imports_full`: There are too many imports.
     */
    503: Problem;
    /**
     * `over_key_quota`: The API key has all that it may keep. `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full.
     */
    507: Problem;
};
export type ImportItemsError = ImportItemsErrors[keyof ImportItemsErrors];
export type ImportItemsResponses = {
    /**
     * The stream ended, and all of it is committed. Counts are those of the whole import.
     */
    200: ImportBody;
};
export type ImportItemsResponse = ImportItemsResponses[keyof ImportItemsResponses];
export type GetImportData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
        /**
         * Name of the import.
         */
        id: string;
    };
    query?: never;
    url: '/filters/{key}/imports/{id}';
};
export type GetImportErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist. `import_not_found`: The import does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type GetImportError = GetImportErrors[keyof GetImportErrors];
export type GetImportResponses = {
    /**
     * As of its last commit.
     */
    200: ImportBody;
};
export type GetImportResponse = GetImportResponses[keyof GetImportResponses];
export type AddItemsData = {
    /**
     * The items; as `text/plain` one per line, with the other fields in the query string (`only_if_absent=true`, `create=true`, `capacity=1000`, …).
     */
    body: AddBody;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
        /**
         * 1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.
         */
        'Idempotency-Key'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/items';
};
export type AddItemsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `idempotency_in_flight`: A request with this Idempotency-Key is in progress. `idempotency_filter_gone`: The filter of the first request is gone.
     */
    409: Problem;
    /**
     * `body_too_large`: The body is too large. `batch_too_large`: The batch has too many items. `too_costly`: The request costs too much. `too_many_pages`: The batch touches too many pages.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `invalid_idempotency_key`: The Idempotency-Key is invalid. `idempotency_key_reused`: The Idempotency-Key was used for another request.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `idempotency_full`: The storage for idempotent answers is full.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `over_quota`: The quota of all filters is exceeded. `over_key_quota`: The API key has all that it may keep. `too_many_filters`: There are too many filters.
     */
    507: Problem;
};
export type AddItemsError = AddItemsErrors[keyof AddItemsErrors];
export type AddItemsResponses = {
    /**
     * One result per item.
     */
    200: AddedBody;
};
export type AddItemsResponse = AddItemsResponses[keyof AddItemsResponses];
export type DeleteItemsData = {
    /**
     * The items; as `text/plain` one per line.
     */
    body: ItemsBody;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
        /**
         * 1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.
         */
        'Idempotency-Key'?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: never;
    url: '/filters/{key}/items/delete';
};
export type DeleteItemsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `idempotency_in_flight`: A request with this Idempotency-Key is in progress. `idempotency_filter_gone`: The filter of the first request is gone.
     */
    409: Problem;
    /**
     * `body_too_large`: The body is too large. `batch_too_large`: The batch has too many items. `too_costly`: The request costs too much. `too_many_pages`: The batch touches too many pages.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid. `invalid_idempotency_key`: The Idempotency-Key is invalid. `idempotency_key_reused`: The Idempotency-Key was used for another request.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed. `outcome_unknown`: The outcome of the change is unknown.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed. `idempotency_full`: The storage for idempotent answers is full.
     */
    503: Problem;
    /**
     * `disk_reserve`: The server's disk is almost full. `disk_full`: The disk is full. `over_key_quota`: The API key has all that it may keep.
     */
    507: Problem;
};
export type DeleteItemsError = DeleteItemsErrors[keyof DeleteItemsErrors];
export type DeleteItemsResponses = {
    /**
     * Whether each item was found and removed.
     */
    200: FlagsBody;
};
export type DeleteItemsResponse = DeleteItemsResponses[keyof DeleteItemsResponses];
export type GetItemLocationData = {
    body?: never;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path: {
        /**
         * Key of the filter: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -.
         */
        key: string;
    };
    query?: {
        /**
         * The item, up to 4 KiB, form-encoded: `+` is a space, a plus sign is `%2B`.
         */
        item?: string;
        /**
         * The item in base64url, instead of `item`.
         */
        item_base64url?: string;
    };
    url: '/filters/{key}/locate';
};
export type GetItemLocationErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_path`: The path is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `filter_forbidden`: The API key is not for this filter. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `filter_not_found`: The filter does not exist.
     */
    404: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `item_too_long_for_query`: The item is too long for a query string.
     */
    414: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `invalid_key`: The key is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type GetItemLocationError = GetItemLocationErrors[keyof GetItemLocationErrors];
export type GetItemLocationResponses = {
    /**
     * The item's candidate buckets, by sub-filter.
     */
    200: LocatedBody;
};
export type GetItemLocationResponse = GetItemLocationResponses[keyof GetItemLocationResponses];
export type GetLivenessData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/livez';
};
export type GetLivenessErrors = {
    /**
     * `bad_request`: The request is invalid.
     */
    400: Problem;
    /**
     * `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error.
     */
    500: Problem;
};
export type GetLivenessError = GetLivenessErrors[keyof GetLivenessErrors];
export type GetLivenessResponses = {
    /**
     * Alive.
     */
    200: string;
};
export type GetLivenessResponse = GetLivenessResponses[keyof GetLivenessResponses];
export type LookUpItemsData = {
    /**
     * The items, and the filters by key or by a prefix of their keys. Up to 1,000 filters, and items times their sub-filters up to 4,000,000, unless the server has other limits.
     */
    body: LookupBody;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path?: never;
    query?: never;
    url: '/lookup';
};
export type LookUpItemsErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `body_too_large`: The body is too large. `batch_too_large`: The batch has too many items. `too_costly`: The request costs too much.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid. `lookup_too_large`: The lookup is too large.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
};
export type LookUpItemsError = LookUpItemsErrors[keyof LookUpItemsErrors];
export type LookUpItemsResponses = {
    /**
     * One list of keys per item.
     */
    200: FoundBody;
};
export type LookUpItemsResponse = LookUpItemsResponses[keyof LookUpItemsResponses];
export type GetMetricsData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/metrics';
};
export type GetMetricsErrors = {
    /**
     * `bad_request`: The request is invalid.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `server_forbidden`: The API key is restricted to some filters. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded.
     */
    503: Problem;
};
export type GetMetricsError = GetMetricsErrors[keyof GetMetricsErrors];
export type GetMetricsResponses = {
    /**
     * Every family, in the text format of Prometheus.
     */
    200: string;
};
export type GetMetricsResponse = GetMetricsResponses[keyof GetMetricsResponses];
export type GetOpenapiData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/openapi.json';
};
export type GetOpenapiErrors = {
    /**
     * `bad_request`: The request is invalid.
     */
    400: Problem;
    /**
     * `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error.
     */
    500: Problem;
};
export type GetOpenapiError = GetOpenapiErrors[keyof GetOpenapiErrors];
export type GetOpenapiResponses = {
    /**
     * The OpenAPI document.
     */
    200: {
        [key: string]: unknown;
    };
};
export type GetOpenapiResponse = GetOpenapiResponses[keyof GetOpenapiResponses];
export type PreviewFilterData = {
    /**
     * Parameters of the filter; empty for the server's defaults.
     */
    body?: FilterFields;
    headers?: {
        /**
         * `wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.
         */
        Prefer?: string;
    };
    path?: never;
    query?: never;
    url: '/preview';
};
export type PreviewFilterErrors = {
    /**
     * `bad_request`: The request is invalid. `malformed_query`: The query string is invalid. `malformed_json`: The body is not JSON. `unreadable_body`: The body cannot be read.
     */
    400: Problem;
    /**
     * `api_key_missing`: The request has no API key. `api_key_unknown`: The API key is unknown. `api_key_expired`: The API key has expired. `api_key_revoked`: The API key was removed during the request.
     */
    401: Problem;
    /**
     * `scope_insufficient`: The API key does not allow this. `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly. `body_timeout`: The body arrived too slowly.
     */
    408: Problem;
    /**
     * `body_too_large`: The body is too large.
     */
    413: Problem;
    /**
     * `unsupported_media_type`: The media type is not supported. `unsupported_content_encoding`: The content encoding is not supported.
     */
    415: Problem;
    /**
     * `invalid_deadline`: The header Prefer is invalid. `invalid_fields`: A field is invalid.
     */
    422: Problem;
    /**
     * `rate_limited`: The API key exceeds its rate. `over_share`: The API key has its share of the server.
     */
    429: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error. `storage_failed`: The storage failed.
     */
    500: Problem;
    /**
     * `overloaded`: The server is overloaded. `starting`: The server is starting. `draining`: The server is stopping. `deadline_exceeded`: The deadline of the request passed.
     */
    503: Problem;
    /**
     * `over_quota`: The quota of all filters is exceeded. `over_key_quota`: The API key has all that it may keep. `too_many_filters`: There are too many filters.
     */
    507: Problem;
};
export type PreviewFilterError = PreviewFilterErrors[keyof PreviewFilterErrors];
export type PreviewFilterResponses = {
    /**
     * The filter could be created.
     */
    200: PreviewBody;
};
export type PreviewFilterResponse = PreviewFilterResponses[keyof PreviewFilterResponses];
export type GetReadinessData = {
    body?: never;
    path?: never;
    query?: never;
    url: '/readyz';
};
export type GetReadinessErrors = {
    /**
     * `bad_request`: The request is invalid.
     */
    400: Problem;
    /**
     * `foreign_host`: The host name is not allowed. `foreign_origin`: The origin is not allowed.
     */
    403: Problem;
    /**
     * `head_timeout`: The head of the request arrived too slowly.
     */
    408: Problem;
    /**
     * `head_too_large`: The head of the request is too large.
     */
    431: Problem;
    /**
     * `internal`: Internal error.
     */
    500: Problem;
    /**
     * `starting`: The server is starting. `draining`: The server is stopping.
     */
    503: Problem;
};
export type GetReadinessError = GetReadinessErrors[keyof GetReadinessErrors];
export type GetReadinessResponses = {
    /**
     * Ready: `ok`, and a line for each reason for which changes are refused.
     */
    200: string;
};
export type GetReadinessResponse = GetReadinessResponses[keyof GetReadinessResponses];
