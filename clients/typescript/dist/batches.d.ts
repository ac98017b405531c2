import type { ProblemError } from "./errors.js";
/**
 * A string (its UTF-8 bytes), an integer (its decimal digits, so `7`, `7n` and
 * `"7"` are the same item) or bytes.
 */
export type Item = string | number | bigint | Uint8Array;
/** An item and a value. */
export interface Entry {
    item: Item;
    value: number;
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
export declare function encoded(items: Iterable<Item | Entry>): Encoded;
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
