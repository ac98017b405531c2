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
     * Skip an item (with values: an entry) that the filter already contains (or seems to contain, at its false-positive rate).
     */
    only_if_absent?: boolean;
};
/**
 * Entries to add.
 */
export type AddValuesBody = {
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Items, each with a `value`, or to a filter with attributes with `attributes`; up to 250,000, unless the server has another limit.
     */
    entries: Array<{
        /**
         * A value of each of the filter's `attributes`, by its name; up to 256 bytes.
         */
        attributes?: {
            [key: string]: string;
        };
        item: string | number;
        /**
         * As large as the filter's `value_bits` allow.
         */
        value?: number;
    }>;
    /**
     * Skip an item (with values: an entry) that the filter already contains (or seems to contain, at its false-positive rate).
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
    full_reason?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes' | 'growth_limit' | 'max_values_per_item';
    /**
     * `added`; `refreshed`: it was there, and expires later from now on (a filter with a window); `exists`: skipped because it was found (with `only_if_absent`); `full`: no room. Null for a blank line.
     */
    results: Array<'added' | 'refreshed' | 'exists' | 'full' | null>;
};
/**
 * An attribute of the rows of a filter's items.
 */
export type AttributeBody = {
    /**
     * Bits of the hash that is kept of a value; left out where values are kept exactly.
     */
    hash_bits?: number;
    /**
     * Its name.
     */
    name: string;
    /**
     * All values that it can have; left out where a hash is kept.
     */
    values?: Array<string>;
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
     * `too_long`: more than 64 KiB; `not_json`; `not_an_item`: JSON, but neither a string nor an integer; `not_an_entry`: not an item with a value, or a row, which those of the filter have; `value_too_large`: more than `value_bits` of the filter allow; `unknown_value`: the filter does not know the value of an attribute.
     */
    reason: 'too_long' | 'not_json' | 'not_an_item' | 'not_an_entry' | 'value_too_large' | 'unknown_value';
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
 * Items, or entries of a filter with values, to ask for.
 */
export type CheckBody = {
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Items, each with a `value`, or to a filter with attributes with `attributes`; up to 250,000, unless the server has another limit.
     */
    entries?: Array<{
        /**
         * A value of each of the filter's `attributes`, by its name; up to 256 bytes.
         */
        attributes?: {
            [key: string]: string;
        };
        item: string | number;
        /**
         * As large as the filter's `value_bits` allow.
         */
        value?: number;
    }>;
    /**
     * Up to 250,000 items, unless the server has another limit.
     */
    items?: Array<string | number>;
    /**
     * Of a filter with attributes: whether one row of the item has one of the listed values for each of these attributes.
     */
    where?: {
        [key: string]: Array<string>;
    };
    /**
     * Of filters with a window: whether the item was seen within the last so many seconds, rounded up to the resolution of the window; at most the window. Left out: within the window.
     */
    within_seconds?: number;
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
 * How a cluster is.
 */
export type ClusterBody = {
    /**
     * Seconds since the pod that answers heard of the others; absent if it has not, and where the brokers were asked.
     */
    age_seconds?: number | null;
    /**
     * Address of the pod that answers; absent where the brokers were asked.
     */
    answered_by?: string | null;
    /**
     * Its name.
     */
    cluster: string;
    /**
     * Number of brokers that keep each change.
     */
    copies: number;
    /**
     * Which life of it this is.
     */
    epoch: number;
    /**
     * Its lanes, by their numbers.
     */
    lanes: Array<ClusterLaneBody>;
    /**
     * The pods that are there, by their addresses.
     */
    pods: Array<ClusterPodBody>;
};
/**
 * A lane of a cluster.
 */
export type ClusterLaneBody = {
    /**
     * Its number.
     */
    lane: number;
    /**
     * Address of the pod that leads it; null: none does, or it is not known.
     */
    leader?: string | null;
    /**
     * Number of its newest record, 0 if there is none.
     */
    newest: number;
};
/**
 * A pod of a cluster.
 */
export type ClusterPodBody = {
    /**
     * Where others reach it.
     */
    address: string;
    /**
     * Lanes of which it has not applied the newest record.
     */
    lanes_behind: number;
    /**
     * Lanes that it leads.
     */
    leads: number;
    /**
     * Number of the newest record that it has applied, of each lane.
     */
    positions: Array<number>;
    /**
     * Version of its program.
     */
    version: string;
    /**
     * Identifies its process.
     */
    writer: string;
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
 * Entries to delete.
 */
export type EntriesBody = {
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Items, each with a `value`, or to a filter with attributes with `attributes`; up to 250,000, unless the server has another limit.
     */
    entries: Array<{
        /**
         * A value of each of the filter's `attributes`, by its name; up to 256 bytes.
         */
        attributes?: {
            [key: string]: string;
        };
        item: string | number;
        /**
         * As large as the filter's `value_bits` allow.
         */
        value?: number;
    }>;
};
/**
 * The items of a filter with a window that were seen last in one epoch.
 */
export type EpochBody = {
    /**
     * When the epoch began (RFC 3339).
     */
    from: string;
    /**
     * Items that were seen in it and not since.
     */
    items: number;
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
     * Estimated number of adds before it takes more pages.
     */
    adds_before_expansion: number;
    /**
     * What the rows of its items consist of; null: they have no rows.
     */
    attributes?: Array<AttributeBody> | null;
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
     * Items that fit before the filter grows.
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
     * With a window: the items by when they were seen last, the current epoch first; null without.
     */
    epochs?: Array<EpochBody> | null;
    /**
     * The promised false-positive rate: the share of never-added items that are found; null without a promise.
     */
    error_rate?: number | null;
    /**
     * Whether the promise holds: false once the expected false-positive rate is above it.
     */
    error_rate_holds: boolean;
    /**
     * `classic`: how much larger each further sub-filter is; 0 = never grows.
     */
    expansion: number;
    /**
     * How often it has grown: sub-filters appended, or doublings that are complete.
     */
    expansions: number;
    /**
     * Expected false-positive rate now: the probability that a never-added item is found.
     */
    expected_false_positive_rate: number;
    /**
     * The same once the filter has grown to promised_growth; for `classic` with eight sub-filters, or one if it never grows, all of them full.
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
    growth?: GrowthBody | null;
    /**
     * Items in it: adds less deletes; with a window those that have not expired.
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
     * `classic`: largest number of sub-filters beyond the first; `paged`: of doublings.
     */
    max_expansions: number;
    /**
     * How far its slots let it grow, as a multiple of its first size; beyond, adds are `full` by `growth_limit`. Null for `classic`.
     */
    max_growth?: number | null;
    /**
     * Longest path of kick-outs; null for `paged`, whose searches stay on a few pages.
     */
    max_iterations?: number | null;
    /**
     * Bytes of its pages in memory, with what is counted beside them.
     */
    memory_bytes: number;
    /**
     * How far a filter may grow with its promise kept, as a multiple of its capacity; null for `classic`.
     */
    promised_growth?: number | null;
    /**
     * Bytes that its slots take when every page is written.
     */
    slot_bytes: number;
    /**
     * The chain, oldest sub-filter first; one for `paged`, which splits its pages.
     */
    sub_filters: Array<SubFilterBody>;
    /**
     * Seconds of the requested time to live; null: it does not expire.
     */
    ttl_seconds?: number | null;
    /**
     * Bits of the values that its items have; null: they have none.
     */
    value_bits?: number | null;
    /**
     * Values or rows that an item is expected to have; null without either.
     */
    values_per_item?: number | null;
    /**
     * In which steps items expire, in seconds; null if they do not.
     */
    window_resolution_seconds?: number | null;
    /**
     * Seconds after which an item expires that was not seen again; null: items do not expire.
     */
    window_seconds?: number | null;
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
     * `paged`: what the rows of items consist of, up to 8 attributes of up to 16 bits together. Each item is added with a row then, one value for each attribute, and may have up to 1,024 rows. Not together with `value_bits`. Left out: items have no rows.
     */
    attributes?: Array<{
        /**
         * In place of `values`: it can have any value, of which so many bits of a hash are kept.
         */
        hash_bits?: number;
        /**
         * Its name.
         */
        name: string;
        /**
         * All values that it can have. They are kept exactly, in as many bits as number them.
         */
        values?: Array<string>;
    }>;
    /**
     * `classic`: slots per bucket. More slots fill better and cause more false positives.
     */
    bucket_size?: number;
    /**
     * Items that fit before the filter grows, up to 2^40; for the layout `classic` at least 2 * bucket_size.
     */
    capacity?: number;
    /**
     * `paged`: the highest false-positive rate (the share of never-added items that are found), promised while the filter grows to promised_growth times its capacity. It determines the width of a slot.
     */
    error_rate?: number;
    /**
     * `classic`: how much larger each further sub-filter is; rounded up to a power of two. `paged` grows page by page, whatever the number. 0 = the filter never grows. Left out: 2 for `paged`, 1 for `classic`.
     */
    expansion?: number;
    /**
     * `paged`: bits per slot, instead of `error_rate`.
     */
    fingerprint_bits?: 12 | 16 | 21 | 32;
    /**
     * How fingerprints are placed. `paged` reads about one page a question and keeps its error rate; `classic` is bit-compatible with RedisBloom and Apache Kvrocks. Left out: `paged` with error_rate, promised_growth or fingerprint_bits, `classic` with bucket_size or max_iterations, else the server's default.
     */
    layout?: 'paged' | 'classic';
    /**
     * `classic`: largest number of sub-filters beyond the first; `paged`: of doublings.
     */
    max_expansions?: number;
    /**
     * `classic`: longest path of kick-outs for one item.
     */
    max_iterations?: number;
    /**
     * `paged`: how many times its capacity the filter may have and keep its error rate. More growth takes wider slots. Left out: 64, or 8192 without a capacity, or what the slots keep if that is less; 1 with expansion 0.
     */
    promised_growth?: number;
    /**
     * Seconds until the filter expires, 1 to 3162240000; left out = it does not expire.
     */
    ttl_seconds?: number;
    /**
     * `paged`: bits of the values that the items of the filter have. Each item is added with a value then, and may have up to 1,024. Left out: items have no values.
     */
    value_bits?: number;
    /**
     * With `value_bits` or `attributes`: values or rows that an item is expected to have, which sizes the filter. Left out: 1.
     */
    values_per_item?: number;
    /**
     * With `window_seconds`: in which steps items expire, from a 255th of the window to all of it. An item expires up to so many seconds late. Left out: a 24th of the window.
     */
    window_resolution_seconds?: number;
    /**
     * `paged`: seconds after which an item expires by itself that was not seen again. The capacity is that of the items of one window then. Left out: items do not expire.
     */
    window_seconds?: number;
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
 * How far the current doubling of a filter that splits its pages is.
 */
export type GrowthBody = {
    /**
     * Entries by the splits that their page had gone through when they were added: none or one, two, three, and so on. Each is found for half as many absent items as one of the number before.
     */
    entries_by_level: Array<number>;
    /**
     * Pages of this doubling that are split.
     */
    pages_split: number;
    /**
     * Pages that are still to be split until it is complete.
     */
    pages_to_split: number;
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
    full_reason?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes' | 'growth_limit' | 'max_values_per_item' | null;
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
 * Items whose values are asked for.
 */
export type ListValuesBody = {
    /**
     * Say beside each value how many copies of it the item has.
     */
    counts?: boolean;
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
    /**
     * Of filters with a window: whether the item was seen within the last so many seconds, rounded up to the resolution of the window; at most the window. Left out: within the window.
     */
    within_seconds?: number;
};
/**
 * The preview of a filter.
 */
export type PreviewBody = {
    /**
     * What the rows of its items would consist of; null: they would have no rows.
     */
    attributes?: Array<AttributeBody> | null;
    /**
     * Bits of slots per item at capacity.
     */
    bits_per_item_at_capacity: number;
    /**
     * Slots per bucket.
     */
    bucket_size: number;
    /**
     * Buckets before it grows.
     */
    buckets: number;
    /**
     * Items that fit before the filter grows.
     */
    capacity: number;
    /**
     * The promised false-positive rate: the share of never-added items that are found; null without a promise.
     */
    error_rate?: number | null;
    /**
     * `classic`: how much larger each further sub-filter is; 0 = never grows.
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
     * `classic`: largest number of sub-filters beyond the first; `paged`: of doublings.
     */
    max_expansions: number;
    /**
     * How far its slots let it grow, as a multiple of its first size; beyond, adds are `full` by `growth_limit`. Null for `classic`.
     */
    max_growth?: number | null;
    /**
     * Longest path of kick-outs; null for `paged`, whose searches stay on a few pages.
     */
    max_iterations?: number | null;
    /**
     * Pages that hold the buckets.
     */
    pages: number;
    /**
     * How far a filter may grow with its promise kept, as a multiple of its capacity; null for `classic`.
     */
    promised_growth?: number | null;
    /**
     * Bytes that its slots take when every page is written.
     */
    slot_bytes: number;
    /**
     * The filter before it grows, and each time that it has grown, always full: up to promised_growth, or for `classic` to eight sub-filters.
     */
    stages: Array<StageBody>;
    /**
     * The limit that ends its growth at the last stage; null: it can grow further.
     */
    stopped_by?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes' | 'growth_limit' | 'max_values_per_item' | null;
    /**
     * Seconds until it would expire; null: it would not expire.
     */
    ttl_seconds?: number | null;
    /**
     * Bits of the values that its items would have; null: they would have none.
     */
    value_bits?: number | null;
    /**
     * Values or rows that an item would be expected to have; null without either.
     */
    values_per_item?: number | null;
    /**
     * In which steps items would expire, in seconds; null if they would not.
     */
    window_resolution_seconds?: number | null;
    /**
     * Seconds after which an item would expire that was not seen again; null: items would not expire.
     */
    window_seconds?: number | null;
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
 * Entries to replace.
 */
export type ReplaceValuesBody = {
    /**
     * How strings are decoded; with `base64` integers are refused.
     */
    encoding?: 'utf-8' | 'base64';
    /**
     * Items, each with the value or the attributes that it has, and what comes in their place; up to 250,000, unless the server has another limit.
     */
    entries: Array<{
        /**
         * The value that the item has, or its attributes.
         */
        from: number | {
            [key: string]: string;
        };
        item: string | number;
        /**
         * What comes in its place.
         */
        to: number | {
            [key: string]: string;
        };
    }>;
};
/**
 * Results of replacing values.
 */
export type ReplacedBody = {
    /**
     * A remedy.
     */
    full_detail?: string | null;
    /**
     * The limit that was reached; only when a result is `full`.
     */
    full_reason?: 'expansion_off' | 'max_expansions' | 'max_filter_bytes' | 'growth_limit' | 'max_values_per_item';
    /**
     * `replaced`; `absent`: the item was not found with the old value; `full`: no room for the new one. With the last two the entry is as it was. Null for a blank line.
     */
    results: Array<'replaced' | 'absent' | 'full' | null>;
};
/**
 * A filter that has grown so far, and is full.
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
     * Its size as a multiple of its first.
     */
    growth: number;
    /**
     * Expected number of items that fit.
     */
    items: number;
    /**
     * Sub-filters; one for `paged`, which splits its pages.
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
/**
 * The values of each item.
 */
export type ValueListsBody = {
    /**
     * With `counts`: copies of each value, in the same places; never too low.
     */
    counts?: Array<Array<number> | null>;
    /**
     * One list per item, in their order; null for a blank line.
     */
    results: Array<Array<number | {
        [key: string]: string | number;
    }> | null>;
};
/**
 * The values of an item.
 */
export type ValuesBody = {
    /**
     * Ascending, each once. None is missing; a value of another item can be among them.
     */
    values: Array<number | {
        [key: string]: string | number;
    }>;
};
