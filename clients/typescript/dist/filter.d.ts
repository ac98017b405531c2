import { type Entry, type Item, type Replacement } from "./batches.js";
import type { AddedBody, CompactionBegunBody, CompactionBody, FilterBody, FilterFields, ImportBody, LocatedBody } from "./models/types.gen.js";
import { type Bytes, type Transport } from "./transport.js";
/** Of a change. */
export interface ChangeOptions {
    /**
     * A key of your own, so that the change is also made once if your program is
     * restarted and calls again within 24 hours. A batch with such a key is never
     * split. Without it each change gets a random one.
     */
    idempotencyKey?: string;
}
/** Of adding. */
export interface AddOptions extends ChangeOptions {
    /** Do not add items that the filter already contains. */
    onlyIfAbsent?: boolean;
    /** Parameters with which the filter is created if there is none. */
    create?: FilterFields;
}
/** Of questions. */
export interface ExistsOptions {
    /** Of a filter with a window: whether it was seen within the last so many seconds. */
    withinSeconds?: number;
}
/** Of questions to one filter. */
export interface WhereOptions extends ExistsOptions {
    /** Of a filter with attributes: whether one row has one of the listed values of each of these. */
    where?: Record<string, string[]>;
}
/** Of imports. */
export interface ImportOptions {
    /** A name by which the import can be resumed. */
    importId?: string;
    /** Do not add items that the filter already contains. */
    onlyIfAbsent?: boolean;
}
/** A filter by its key. All errors are `CuckoodError`; without the filter `FilterNotFound`. */
export declare class Filter {
    #private;
    readonly key: string;
    /** Made by `Client.filter`. */
    constructor(transport: Transport, key: string);
    /**
     * Creates the filter; the server's defaults fill in missing fields. Changes
     * nothing if it exists with these parameters. Throws `FilterDiffers` if it has
     * others, and with `onlyNew` `FilterExists` if it exists at all.
     */
    create(fields?: FilterFields, options?: ChangeOptions & {
        onlyNew?: boolean;
    }): Promise<FilterBody>;
    /** Its parameters, how full it is, its false-positive rate. */
    info(): Promise<FilterBody>;
    /** Whether the filter exists. */
    isThere(): Promise<boolean>;
    /** Lets the filter expire so many seconds from now; null: never. */
    expireAfter(ttlSeconds: number | null, options?: ChangeOptions): Promise<FilterBody>;
    /** Deletes the whole filter. */
    drop(options?: ChangeOptions): Promise<void>;
    /** Adds an item, as `addMany`. Look at the result: a full filter answers `full`. */
    add(item: Item, options?: AddOptions): Promise<"added" | "refreshed" | "exists" | "full">;
    /**
     * Adds items. An item that was added twice has two copies.
     *
     * Results, in order: `added`; `refreshed`, in a filter with a window, if the filter
     * contained it; `exists`, with `onlyIfAbsent`, if the filter
     * contained it; `full`, with `full_reason` and `full_detail`.
     *
     * A batch beyond the limits is sent in parts, each of which is made as a whole or
     * not at all; an error's `completed` has the results of those before it.
     */
    addMany(items: Iterable<Item>, options?: AddOptions): Promise<AddedBody>;
    /** Whether the filter contains the item. False is certain; true can be a false positive. */
    exists(item: Item, options?: WhereOptions): Promise<boolean>;
    /** The same of many items, in their order. */
    existsMany(items: Iterable<Item>, options?: WhereOptions): Promise<boolean[]>;
    /** Copies of the item: never too low, too high as often as a false positive occurs. */
    count(item: Item): Promise<number>;
    /** The same of many items, in their order. */
    countMany(items: Iterable<Item>): Promise<number[]>;
    /** Deletes one copy of the item, as `deleteMany`. */
    delete(item: Item, options?: ChangeOptions): Promise<boolean>;
    /**
     * Deletes one copy of each item; whether there was one, in their order.
     *
     * Delete only what was added: deleting another item can remove the fingerprint of
     * one that was. Batches are split as in `addMany`.
     */
    deleteMany(items: Iterable<Item>, options?: ChangeOptions): Promise<boolean[]>;
    /** Adds a value to each item, in a filter that was created with `value_bits`; results as of `addMany`. */
    addValues(entries: Iterable<Entry>, options?: ChangeOptions & {
        onlyIfAbsent?: boolean;
    }): Promise<AddedBody>;
    /** The values of the item, ascending. None is missing; a value of another item can be among them. */
    values(item: Item): Promise<number[]>;
    /** The same of many items, in their order. */
    valuesMany(items: Iterable<Item>): Promise<number[][]>;
    /**
     * The rows of the item, in a filter with attributes: of an exact one the value, of a
     * hashed one its bits. None is missing; a row of another item can be among them.
     */
    rows(item: Item): Promise<Record<string, string | number>[]>;
    /** The same of many items, in their order. */
    rowsMany(items: Iterable<Item>): Promise<Record<string, string | number>[][]>;
    /**
     * Has each item have one value, or row, in place of another, or leaves it as it is:
     * `replaced`; `absent`: it was not found with the old one; `full`. Replace only what
     * was added.
     */
    replaceValues(entries: Iterable<Replacement>, options?: ChangeOptions): Promise<string[]>;
    /** Whether the item has the value. False is certain. */
    hasValue(item: Item, value: number): Promise<boolean>;
    /** The same of many items with a value each, in their order. */
    hasValues(entries: Iterable<Entry>): Promise<boolean[]>;
    /** Deletes one copy of each entry; whether there was one, in their order. Delete only what was added. */
    deleteValues(entries: Iterable<Entry>, options?: ChangeOptions): Promise<boolean[]>;
    /**
     * Adds any number of items, and yields the progress after each request.
     *
     * Nothing is sent unless you iterate. With an `importId` the import is resumed
     * where it was: call again with the same items in the same order, also from
     * another process, and those that are committed are not sent again. The server
     * remembers an import for a week.
     */
    importItems(items: Iterable<string | number | bigint> | AsyncIterable<string | number | bigint>, options?: ImportOptions): AsyncGenerator<ImportBody, void>;
    /** How far an import is. Throws `ImportNotFound`. */
    importProgress(importId: string): Promise<ImportBody>;
    /** Starts to remove the newest sub-filters, after many deletes. */
    compact(options?: ChangeOptions): Promise<CompactionBegunBody>;
    /** The state of the compaction. */
    compaction(): Promise<CompactionBody>;
    /** The slots in which the item may lie. */
    locate(item: string | number | bigint): Promise<LocatedBody>;
    /** A consistent copy of the filter. Its end is reached only if the copy is whole. */
    dump(): Promise<ReadableStream<Uint8Array>>;
    /**
     * Makes the filter from a dump; with `replace` in place of one that exists. Not
     * sent again if no answer arrives: ask `info()` what is there then.
     */
    restore(dump: Bytes, options?: {
        replace?: boolean;
    }): Promise<FilterBody>;
}
