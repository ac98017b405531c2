import { type BatchLimits, type Entry, type Item, type Replacement } from "./batches.js";
import { type Pods } from "./pods.js";
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
/** A path with each part percent-encoded. */
export declare function path(...parts: string[]): string;
/** A server, or the pods of a cluster, and how patiently they are asked. */
export declare class Transport {
    #private;
    constructor(pods: Pods, headers: Record<string, string>, consistency: string | undefined, timeout: number, backoff: Backoff, limits: BatchLimits);
    /** Address of the pod that is asked now. */
    get url(): string;
    /** The body of a good answer. */
    send<T>(request: Request): Promise<T>;
    /** Whether a question is answered well. One attempt. */
    isWell(at: string): Promise<boolean>;
    /** A question without a body. */
    ask<T>(at: string, query?: Record<string, string>): Promise<T>;
    /** A question with a body. */
    askWith<T>(at: string, fields: object): Promise<T>;
    /** A change that is made once, however often it is sent. */
    change<T>(method: string, at: string, fields: object | undefined, idempotencyKey: string | undefined, headers?: Record<string, string>): Promise<T>;
    /** The answers to the parts of a batch of questions, in order. */
    askBatch<T extends Results>(at: string, items: Iterable<Item | Entry | Replacement>, fields: object, named?: Named): Promise<T[]>;
    /** The answers to the parts of a batch of changes, in order. */
    changeBatch<T extends Results>(at: string, items: Iterable<Item | Entry | Replacement>, fields: object, idempotencyKey: string | undefined, named?: Named): Promise<T[]>;
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
