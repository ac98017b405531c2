import type { ProblemError } from "./errors.js";
/**
 * A string (its UTF-8 bytes), an integer (its decimal digits, so `7`, `7n` and
 * `"7"` are the same item) or bytes.
 */
export type Item = string | number | bigint | Uint8Array;
/** A value for each attribute of a filter, by its name. */
export type Row = Record<string, string>;
/** An item and a value, or a row. */
export type Entry = {
    item: Item;
    value: number;
} | {
    item: Item;
    attributes: Row;
};
/** An item, the value or row that it has, and what comes in its place. */
export interface Replacement {
    item: Item;
    from: number | Row;
    to: number | Row;
}
/**
 * What the server takes in one request: `--max-batch-items`, `--max-body-bytes`.
 * They shrink when the server refuses a part.
 */
export interface BatchLimits {
    items: number;
    bytes: number;
}
/** Items, or entries, in JSON, and the fields that say how the items are encoded. */
export interface Encoded {
    items: string[];
    fields: {
        encoding?: "base64";
    };
}
export declare function encoded(items: Iterable<Item | Entry | Replacement>): Encoded;
/** An item as a line of NDJSON, without its end. */
export declare function line(item: unknown): string;
/** The body of a request for a part. */
export declare function body(items: readonly string[], fields: object, named: string): string;
/**
 * The parts of a batch, in order; a part that is refused is halved. Nothing of a
 * refused part is done, so its halves are new requests.
 */
export declare class Parts {
    #private;
    /** `whole`: the batch goes as one request, or not at all. */
    constructor(items: string[], limits: BatchLimits, whole: boolean);
    next(): string[] | undefined;
    /** Puts the refused part back as two; whether that may help. */
    halve(problem: ProblemError): boolean;
}
/** Chunks of NDJSON, without the first `skip` items. */
export declare function chunks(items: Iterable<unknown> | AsyncIterable<unknown>, skip: number, maxLines: number, maxBytes: number): AsyncGenerator<string>;
