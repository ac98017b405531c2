import { withoutUser } from "./address.js";
import type { Fields } from "./connections.js";
import {
  FilterChanged, FilterDiffers, FilterExists, FilterNotFound, Forbidden, ImportNotFound, InvalidRequest, OutOfSpace,
  OutcomeUnknown, type ProblemDetails, ProblemError, TooLarge, TooManyRequests, Unauthorized, Unavailable,
} from "./errors.js";

const BY_CODE: Readonly<Record<string, typeof ProblemError>> = {
  filter_not_found: FilterNotFound,
  import_not_found: ImportNotFound,
  filter_exists: FilterExists,
  filter_taken: FilterExists,
  filter_differs: FilterDiffers,
  filter_changed: FilterChanged,
  outcome_unknown: OutcomeUnknown,
  outcome_pending: OutcomeUnknown,
};
const BY_STATUS: Readonly<Record<number, typeof ProblemError>> = {
  400: InvalidRequest, 414: InvalidRequest, 415: InvalidRequest, 422: InvalidRequest,
  401: Unauthorized, 403: Forbidden, 413: TooLarge, 429: TooManyRequests, 503: Unavailable, 507: OutOfSpace,
};

/** The error of an answer that is not 2xx, whoever sent it; `asked`: the address, where it may be that of no server. */
export function problemOf(
  status: number, headers: Fields, text: string, asked?: string, otherwise = "the answer does not say why",
): ProblemError {
  let body: Partial<ProblemDetails> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) body = parsed;
  } catch {
    // Something between the server and here answered.
  }
  const code = body.code ?? "unknown";
  const kind = BY_CODE[code] ?? BY_STATUS[status] ?? ProblemError;
  const isNowhere = asked !== undefined && status === 404 && (code === "unknown" || code === "unknown_route");
  const wait = headers.get("retry-after");
  return new kind({
    status,
    code,
    detail: (body.detail ?? otherwise) + (isNowhere ? `; ${withoutUser(asked)} was asked: the address of the server may be wrong` : ""),
    requestId: headers.get("x-request-id") ?? undefined,
    // A proxy may send a date; the backoff alone is a fair answer to that.
    retryAfterSeconds: wait !== null && /^\d+$/.test(wait) ? Number(wait) : undefined,
    errors: body.errors,
  });
}
