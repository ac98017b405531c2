import { type BatchLimits, type Entry, type Item } from "./batches.js";
import { type Backoff } from "./retry.js";
/** What can be sent as a body of any length. */
export type Bytes = Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
/** What a batch is of. */
type Named = "items" | "entries";
interface Request {
    method: string;
    path: string;
    query?: Record<string, string>;
    headers?: Record<string, string>;
    content?: string | Uint8Array | undefined;
    /** False: it is sent again only where the first one certainly did nothing. */
    repeatable?: boolean;
}
/** An answer that was read to its end. */
interface Answer {
    ok: boolean;
    status: number;
    headers: Headers;
    text: string;
}
/** A path with each part percent-encoded. */
export declare function path(...parts: string[]): string;
/** A server, and how patiently it is asked. */
export declare class Transport {
    #private;
    constructor(url: string, headers: Record<string, string>, timeout: number, backoff: Backoff, limits: BatchLimits);
    /** The body of a good answer. */
    send<T>(request: Request): Promise<T>;
    /** One attempt. */
    once(request: Request): Promise<Answer>;
    /** A question without a body. */
    ask<T>(at: string, query?: Record<string, string>): Promise<T>;
    /** A question with a body. */
    askWith<T>(at: string, fields: object): Promise<T>;
    /** A change that is made once, however often it is sent. */
    change<T>(method: string, at: string, fields: object | undefined, idempotencyKey: string | undefined, headers?: Record<string, string>): Promise<T>;
    /** The answers to the parts of a batch of questions, in order. */
    askBatch<T extends Results>(at: string, items: Iterable<Item | Entry>, fields: object, named?: Named): Promise<T[]>;
    /** The answers to the parts of a batch of changes, in order. */
    changeBatch<T extends Results>(at: string, items: Iterable<Item | Entry>, fields: object, idempotencyKey: string | undefined, named?: Named): Promise<T[]>;
    /** The bytes of an answer of any length. The timeout is for its beginning. */
    download(at: string): Promise<ReadableStream<Uint8Array>>;
    /** Sends a body of any length. Only bytes can be sent a second time. */
    upload<T>(at: string, query: Record<string, string>, content: Bytes): Promise<T>;
}
/** The answer to a batch. */
interface Results {
    results: readonly unknown[];
}
export {};
