import type { ProblemField } from "./models/types.gen.js";
/** All errors of this package but `TypeError` and `RangeError`. */
export declare class CuckoodError extends Error {
    /**
     * Results of the items before the failed part, if a batch was sent in several
     * parts; those are done and stay done.
     */
    completed: readonly unknown[];
    constructor(message: string, options?: ErrorOptions);
}
/** No answer arrived within the client's patience. A change may be made or not. */
export declare class NoAnswerError extends CuckoodError {
    constructor(method: string, path: string, cause: unknown);
}
/** What answers is no cuckood server. */
export declare class NotUnderstoodError extends CuckoodError {
}
/** What there is to say of a refusal. */
export interface ProblemDetails {
    /** HTTP status. */
    status: number;
    /** Stable name of the cause, such as `filter_not_found`; docs/limits.md lists them. */
    code: string;
    /** What was wrong, what is allowed, what to do. */
    detail: string;
    /** Identifies the request in the server's log. */
    requestId?: string | undefined;
    /** Seconds after which to try again, if the server says so. */
    retryAfter?: number | undefined;
    /** The refused or differing fields. */
    errors?: readonly ProblemField[] | undefined;
}
/** The server refuses the request (RFC 9457). */
export declare class ProblemError extends CuckoodError {
    readonly status: number;
    readonly code: string;
    readonly detail: string;
    readonly requestId: string | undefined;
    readonly retryAfter: number | undefined;
    readonly errors: readonly ProblemField[];
    constructor(problem: ProblemDetails);
}
/** The filter does not exist. */
export declare class FilterNotFound extends ProblemError {
}
/** The import does not exist. */
export declare class ImportNotFound extends ProblemError {
}
/** The filter exists, and the request demands a new one. */
export declare class FilterExists extends ProblemError {
}
/** The filter exists with other parameters; `errors` lists them. */
export declare class FilterDiffers extends ProblemError {
}
/** The filter has changed since its dump. */
export declare class FilterChanged extends ProblemError {
}
/** The change may be made or not. */
export declare class OutcomeUnknown extends ProblemError {
}
/** 400, 414, 415, 422: a field or the path is invalid; `errors` lists the fields. */
export declare class InvalidRequest extends ProblemError {
}
/** 401: the API key is missing, unknown, expired or removed. */
export declare class Unauthorized extends ProblemError {
}
/** 403: the API key does not allow this, or the server does not answer here. */
export declare class Forbidden extends ProblemError {
}
/** 413: the request is too large, also after it was split. */
export declare class TooLarge extends ProblemError {
}
/** 429: the API key exceeds its rate or its share, beyond the client's patience. */
export declare class TooManyRequests extends ProblemError {
}
/** 503: the server starts, stops or is overloaded, beyond the client's patience. */
export declare class Unavailable extends ProblemError {
}
/** 507: a quota is used up, or the disk is full. */
export declare class OutOfSpace extends ProblemError {
}
