import type { BatchLimits, Item } from "./batches.js";
import { Filter, type ExistsOptions } from "./filter.js";
import type { BackupBody, BackupListBody, ClusterBody, FilterFields, FilterLineBody, FoundBody, PreviewBody } from "./models/types.gen.js";
/** How a server is reached and asked. */
export interface ClientOptions {
    /**
     * Address of the server, or those of pods; without it `CUCKOOD_SERVER`, in which
     * commas separate several, else http://127.0.0.1:8080.
     */
    url?: string | readonly string[];
    /** API key; without it `CUCKOOD_API_KEY`, else none. */
    apiKey?: string;
    /** Seconds in which one request is to be answered, 30 by default. */
    timeout?: number;
    /** Seconds after the first attempt in which others may begin, 60 by default; 0: none. */
    patience?: number;
    /**
     * `local`, or `strong` for questions about one filter that are answered with
     * everything that was acknowledged before, to whomever. Without it `local`.
     */
    consistency?: "local" | "strong";
    /** What the server takes in one request. Larger batches are split. */
    limits?: BatchLimits;
}
/**
 * A cuckood server, or a cluster of them.
 *
 * Questions and changes are sent again until they are answered, for `patience`
 * seconds: after broken connections and after answers that pass (429, 503 and the
 * like), with growing random pauses, and not before `Retry-After`. Each change has
 * an `Idempotency-Key`, so it is made once.
 *
 * Of a cluster name several pods: one is asked until it fails, then the next one, at
 * once and with the same `Idempotency-Key`. Questions are answered with all changes
 * that this client has made, whichever pod it asks.
 */
export declare class Client {
    #private;
    constructor(options?: ClientOptions);
    /** Address of the server, or of the pod that is asked now. */
    get url(): string;
    /** The filter of this key, whether it exists or not. Sends nothing. */
    filter(key: string): Filter;
    /** All filters whose keys start with `prefix`, in byte order; one request for `page` of them. */
    filters(prefix?: string, page?: number): AsyncGenerator<FilterLineBody, void>;
    /** What a filter with these parameters would be; nothing is created. */
    preview(fields: FilterFields): Promise<PreviewBody>;
    /**
     * For each item the keys of the filters that contain it. Asks these `filters`, in
     * their order, or all whose keys start with `prefix`; with `first` only up to the
     * first that contains the item; with `withinSeconds`, of filters with windows, which
     * of them saw the item so lately.
     */
    lookup(items: Iterable<Item>, ask: ({
        filters: string[];
    } | {
        prefix: string;
    }) & {
        first?: boolean;
    } & ExistsOptions): Promise<FoundBody>;
    /** Whether the server takes requests now. Asks once. */
    isReady(): Promise<boolean>;
    /** The lanes and pods of the cluster, as far as the asked pod knows. */
    cluster(): Promise<ClusterBody>;
    /** The backups, newest first. */
    backups(): Promise<BackupListBody>;
    /** Starts a backup. Throws `ProblemError` `backup_running` if one is running. */
    createBackup(): Promise<BackupBody>;
    /** The state of a backup. */
    backup(id: string): Promise<BackupBody>;
    /** A complete backup, a tar archive. */
    downloadBackup(id: string): Promise<ReadableStream<Uint8Array>>;
}
