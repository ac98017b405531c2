import { withoutUser } from "./address.js";
import type { BadLineBody, ImportBody, ProblemField } from "./models/types.gen.js";

/** All errors of this package but `TypeError` and `RangeError`. */
export class CuckoodError extends Error {
  /**
   * Results of the items before the failed part, if a batch was sent in several
   * parts; those are done and stay done.
   */
  completed: readonly unknown[] = [];

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer arrived within the client's patience. A change may be made or not. */
export class NoAnswerError extends CuckoodError {
  constructor(method: string, path: string, cause: unknown, mayBeMade = false) {
    super(withoutUser(`${method} ${path}: no answer: ${reason(cause)}${mayBeMade ? ": the change may be made" : ""}`), { cause });
  }
}

const BAD: Readonly<Record<BadLineBody["reason"], string>> = {
  too_long: "over 65536 bytes", not_json: "no JSON", not_an_item: "neither a string nor an integer",
  not_an_entry: "no item with a value or row as of this filter", value_too_large: "more than value_bits allow",
  unknown_value: "a value that its attribute does not have",
};

/**
 * An import reached its end, but lines were bad, or found no room in the filter. All
 * others are imported. `report` says which.
 */
export class ImportIncomplete extends CuckoodError {
  readonly report: ImportBody;

  constructor(report: ImportBody) {
    const { bad_lines, first_bad_lines, full, full_reason } = report;
    const named = first_bad_lines.slice(0, 5).map((it) => [`line ${it.line}: ${it.reason}`, BAD[it.reason] ?? []].flat().join(", "));
    const why = [
      ...(bad_lines > 0 ? [`${bad_lines} bad (${named.join("; ")})`] : []),
      ...(full > 0 ? [`${full} without room (${full_reason})`] : []),
    ];
    super(`of ${report.committed_lines} lines ${why.join(" and ")}; allowPartial takes that`);
    this.report = report;
  }
}

/**
 * Bytes are no file of a filter, not all of one, damaged or of a newer version; or the
 * question is none for them.
 */
export class FilterFileError extends CuckoodError {}

/** What answers is no cuckood server. */
export class NotUnderstoodError extends CuckoodError {}

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
  retryAfterSeconds?: number | undefined;
  /** The refused or differing fields. */
  errors?: readonly ProblemField[] | undefined;
}

/** The server refuses the request (RFC 9457). */
export class ProblemError extends CuckoodError {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly errors: readonly ProblemField[];

  constructor(problem: ProblemDetails) {
    super(`${problem.status} ${problem.code}: ${problem.detail}`);
    this.status = problem.status;
    this.code = problem.code;
    this.detail = problem.detail;
    this.requestId = problem.requestId;
    this.retryAfterSeconds = problem.retryAfterSeconds;
    this.errors = problem.errors ?? [];
  }
}

/** The filter does not exist. */
export class FilterNotFound extends ProblemError {}
/** The import does not exist. */
export class ImportNotFound extends ProblemError {}
/** The filter exists, and the request demands a new one. */
export class FilterExists extends ProblemError {}
/** The filter exists with other parameters; `errors` lists them. */
export class FilterDiffers extends ProblemError {}
/** The filter has changed since its dump. */
export class FilterChanged extends ProblemError {}
/** The change may be made or not. */
export class OutcomeUnknown extends ProblemError {}
/** 400, 414, 415, 422: a field or the path is invalid; `errors` lists the fields. */
export class InvalidRequest extends ProblemError {}
/** 401: the API key is missing, unknown, expired or removed. */
export class Unauthorized extends ProblemError {}
/** 403: the API key does not allow this, or the server does not answer here. */
export class Forbidden extends ProblemError {}
/** 413: the request is too large, also after it was split. */
export class TooLarge extends ProblemError {}
/** 429: the API key exceeds its rate or its share, beyond the client's patience. */
export class TooManyRequests extends ProblemError {}
/** 503: the server starts, stops or is overloaded, beyond the client's patience. */
export class Unavailable extends ProblemError {}
/** 507: a quota is used up, or the disk is full. */
export class OutOfSpace extends ProblemError {}

/** What happened, in words. */
function reason(error: unknown): string {
  // Of a name with several addresses each has its own.
  if (error instanceof AggregateError && error.errors.length > 0) return [...new Set(error.errors.map(reason))].join("; ");
  if (!(error instanceof Error)) return String(error);
  // fetch says only that it failed; its cause says why.
  if (error.cause !== undefined) return reason(error.cause);
  const said = error.message || String((error as { code?: string }).code ?? error.name);
  return /wrong version number|packet length too long/.test(said) ? `${said.trim()} is it http://?` : said;
}
