/** All errors of this package but `TypeError` and `RangeError`. */
export class CuckoodError extends Error {
    /**
     * Results of the items before the failed part, if a batch was sent in several
     * parts; those are done and stay done.
     */
    completed = [];
    constructor(message, options) {
        super(message, options);
        this.name = new.target.name;
    }
}
/** No answer arrived within the client's patience. A change may be made or not. */
export class NoAnswerError extends CuckoodError {
    constructor(method, path, cause) {
        super(`${method} ${path}: no answer: ${reason(cause)}`, { cause });
    }
}
/** What answers is no cuckood server. */
export class NotUnderstoodError extends CuckoodError {
}
/** The server refuses the request (RFC 9457). */
export class ProblemError extends CuckoodError {
    status;
    code;
    detail;
    requestId;
    retryAfter;
    errors;
    constructor(problem) {
        super(`${problem.status} ${problem.code}: ${problem.detail}`);
        this.status = problem.status;
        this.code = problem.code;
        this.detail = problem.detail;
        this.requestId = problem.requestId;
        this.retryAfter = problem.retryAfter;
        this.errors = problem.errors ?? [];
    }
}
/** The filter does not exist. */
export class FilterNotFound extends ProblemError {
}
/** The import does not exist. */
export class ImportNotFound extends ProblemError {
}
/** The filter exists, and the request demands a new one. */
export class FilterExists extends ProblemError {
}
/** The filter exists with other parameters; `errors` lists them. */
export class FilterDiffers extends ProblemError {
}
/** The filter has changed since its dump. */
export class FilterChanged extends ProblemError {
}
/** The change may be made or not. */
export class OutcomeUnknown extends ProblemError {
}
/** 400, 414, 415, 422: a field or the path is invalid; `errors` lists the fields. */
export class InvalidRequest extends ProblemError {
}
/** 401: the API key is missing, unknown, expired or removed. */
export class Unauthorized extends ProblemError {
}
/** 403: the API key does not allow this, or the server does not answer here. */
export class Forbidden extends ProblemError {
}
/** 413: the request is too large, also after it was split. */
export class TooLarge extends ProblemError {
}
/** 429: the API key exceeds its rate or its share, beyond the client's patience. */
export class TooManyRequests extends ProblemError {
}
/** 503: the server starts, stops or is overloaded, beyond the client's patience. */
export class Unavailable extends ProblemError {
}
/** 507: a quota is used up, or the disk is full. */
export class OutOfSpace extends ProblemError {
}
function reason(error) {
    if (!(error instanceof Error))
        return String(error);
    // fetch says only that it failed; its cause says why.
    return error.cause instanceof Error ? error.cause.message : error.message;
}
