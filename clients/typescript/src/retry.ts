import { NoAnswerError, ProblemError } from "./errors.js";
import { NotReached } from "./reach.js";

// Answers after which the same request can succeed. It has its Idempotency-Key,
// so it is also safe where the change may have been made.
const PASSING_STATUS = new Set([408, 429, 502, 503, 504]);
const PASSING_CODES = new Set(["idempotency_in_flight", "import_running", "outcome_unknown"]);
// Answers that say of any request that nothing was done, but for these codes.
const NOT_DONE_STATUS = new Set([429, 503]);
const UNKNOWN_CODES = new Set(["outcome_pending"]);
// Answers of one pod; another one may answer otherwise.
const NOT_HERE_STATUS = new Set([408, 502, 503, 504]);
// Failures before a request was sent.
const NEVER_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
const NO_HANDSHAKE = /^(?:EPROTO$|CERT_|ERR_TLS_|(?:DEPTH_ZERO_)?SELF_SIGNED_CERT|UNABLE_TO_)/;

/**
 * Pauses between attempts, in seconds: a random part of `first` doubled with each
 * attempt, up to `longest`; `Retry-After` is added to it. No attempt begins later
 * than `patience` after the first one.
 */
export interface Backoff {
  patience: number;
  first: number;
  longest: number;
  chance: () => number;
  clock: () => number;
}

export function backoff(patience: number): Backoff {
  return { patience, first: 0.1, longest: 5, chance: Math.random, clock: () => performance.now() / 1000 };
}

/** What fetch refuses to send is a TypeError without a cause, and the next attempt would meet it, too. */
const lasts = (error: unknown): boolean => error instanceof TypeError && error.cause === undefined;

interface Failure {
  code?: string;
  syscall?: string;
  errors?: unknown;
}

function failureOf(error: unknown): Failure {
  const { cause } = error as { cause?: Failure };
  return cause?.code === undefined ? (error as Failure) : cause;
}

/** Whether there was nobody to ask, so that any request is sent again. */
const isUnheard = (error: unknown): boolean => error instanceof NotReached || NEVER_SENT.has(failureOf(error).code ?? "");

/** Whether the server may have got the request. */
export function wasSent(error: unknown): boolean {
  const { code = "", syscall, errors } = failureOf(error);
  // Of a name with several addresses each has its own.
  const isUnconnected = syscall === "connect" || (code !== "" && errors !== undefined);
  return !(lasts(error) || isUnheard(error) || isUnconnected || NO_HANDSHAKE.test(code));
}

/** What attempts need to know of a request. */
export interface Attempted {
  method: string;
  path: string;
  /** False: it is sent again only where the first one certainly did nothing. */
  repeatable: boolean;
  headers?: Record<string, string>;
}

/**
 * The attempts of one request, which `pods` servers can answer: each of them is asked
 * before the first pause. Sends nothing itself.
 */
export class Attempts {
  /** How many have failed. */
  made = 0;
  #mayBeMade = false;
  readonly #backoff: Backoff;
  readonly #pods: number;
  readonly #ends: number;

  constructor(backoff: Backoff, pods = 1) {
    this.#backoff = backoff;
    this.#pods = pods;
    this.#ends = backoff.clock() + backoff.patience;
  }

  /** The pause after an attempt without an answer; throws if it was the last. */
  afterSilence({ method, path, repeatable, headers = {} }: Attempted, error: unknown): number {
    const passes = !lasts(error) && (repeatable || isUnheard(error));
    // An import has no key, and is repeated by the numbers of its lines.
    const isChange = "idempotency-key" in headers || (method !== "GET" && (!repeatable || path.endsWith("/import")));
    this.#mayBeMade ||= isChange && wasSent(error);
    return this.#pause(passes, true, 0, new NoAnswerError(method, path, error, this.#mayBeMade));
  }

  /** The pause after a refusal; throws it if it was the last attempt. */
  afterProblem(request: Attempted, problem: ProblemError): number {
    const passes =
      (NOT_DONE_STATUS.has(problem.status) && !UNKNOWN_CODES.has(problem.code)) ||
      (request.repeatable && (PASSING_STATUS.has(problem.status) || PASSING_CODES.has(problem.code)));
    return this.#pause(passes, this.turnsAway(problem), problem.retryAfterSeconds ?? 0, problem);
  }

  /** Whether another pod may answer otherwise. */
  turnsAway(problem: ProblemError): boolean {
    return NOT_HERE_STATUS.has(problem.status);
  }

  #pause(passes: boolean, isElsewhere: boolean, wanted: number, error: Error): number {
    const { first, longest, chance, clock } = this.#backoff;
    this.made += 1;
    const rounds = Math.floor(this.made / this.#pods);
    const isWithin = isElsewhere && this.made % this.#pods > 0;
    const pause = isWithin ? 0 : wanted + chance() * Math.min(longest, first * 2 ** Math.max(0, rounds - 1));
    if (!passes || clock() + pause > this.#ends) throw error;
    return pause;
  }
}
