import type { BatchLimits, Item } from "./batches.js";
import { Filter } from "./filter.js";
import type { BackupBody, BackupListBody, FilterFields, FilterLineBody, FoundBody, PreviewBody } from "./models/types.gen.js";
/** How a server is reached and asked. */
export interface ClientOptions {
    /** Address of the server; without it `CUCKOOD_SERVER`, else http://127.0.0.1:8080. */
    url?: string;
    /** API key; without it `CUCKOOD_API_KEY`, else none. */
    apiKey?: string;
    /** Seconds in which one request is to be answered, 30 by default. */
    timeout?: number;
    /** Seconds after the first attempt in which others may begin, 60 by default; 0: none. */
    patience?: number;
    /** What the server takes in one request. Larger batches are split. */
    limits?: BatchLimits;
}
/**
 * A cuckood server.
 *
 * Questions and changes are sent again until they are answered, for `patience`
 * seconds: after broken connections and after answers that pass (429, 503 and the
 * like), with growing random pauses, and not before `Retry-After`. Each change has
 * an `Idempotency-Key`, so it is made once.
 */
export declare class Client {
    #private;
    constructor(options?: ClientOptions);
    /** The filter of this key, whether it exists or not. Sends nothing. */
    filter(key: string): Filter;
    /** All filters whose keys start with `prefix`, in byte order; one request for `page` of them. */
    filters(prefix?: string, page?: number): AsyncGenerator<FilterLineBody, void>;
    /** What a filter with these parameters would be; nothing is created. */
    preview(fields: FilterFields): Promise<PreviewBody>;
    /**
     * For each item the keys of the filters that contain it. Asks these `filters`, in
     * their order, or all whose keys start with `prefix`; with `first` only up to the
     * first that contains the item.
     */
    lookup(items: Iterable<Item>, ask: ({
        filters: string[];
    } | {
        prefix: string;
    }) & {
        first?: boolean;
    }): Promise<FoundBody>;
    /** Whether the server takes requests now. Asks once. */
    isReady(): Promise<boolean>;
    /** The backups, newest first. */
    backups(): Promise<BackupListBody>;
    /** Starts a backup. Throws `ProblemError` `backup_running` if one is running. */
    createBackup(): Promise<BackupBody>;
    /** The state of a backup. */
    backup(id: string): Promise<BackupBody>;
    /** A complete backup, a tar archive. */
    downloadBackup(id: string): Promise<ReadableStream<Uint8Array>>;
}
