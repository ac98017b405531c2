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
export function backoff(patience) {
    return { patience, first: 0.1, longest: 5, chance: Math.random, clock: () => performance.now() / 1000 };
}
/**
 * The attempts of one request, which `pods` servers can answer: each of them is asked
 * before the first pause. Sends nothing itself.
 */
export class Attempts {
    #made = 0;
    #backoff;
    #pods;
    #ends;
    constructor(backoff, pods = 1) {
        this.#backoff = backoff;
        this.#pods = pods;
        this.#ends = backoff.clock() + backoff.patience;
    }
    /** The pause after an attempt without an answer; throws if it was the last. */
    afterSilence(request, error) {
        const { name, cause } = error;
        const wasNeverSent = error instanceof NotReached || NEVER_SENT.has(cause?.code ?? "");
        // What fetch refuses to send has no cause, and the next attempt would meet it, too.
        const passes = (cause !== undefined || name === "TimeoutError") && (request.repeatable || wasNeverSent);
        return this.#pause(passes, true, 0, new NoAnswerError(request.method, request.path, error));
    }
    /** The pause after a refusal; throws it if it was the last attempt. */
    afterProblem(request, problem) {
        const passes = (NOT_DONE_STATUS.has(problem.status) && !UNKNOWN_CODES.has(problem.code)) ||
            (request.repeatable && (PASSING_STATUS.has(problem.status) || PASSING_CODES.has(problem.code)));
        return this.#pause(passes, this.turnsAway(problem), problem.retryAfter ?? 0, problem);
    }
    /** Whether another pod may answer otherwise. */
    turnsAway(problem) {
        return NOT_HERE_STATUS.has(problem.status);
    }
    #pause(passes, isElsewhere, wanted, error) {
        const { first, longest, chance, clock } = this.#backoff;
        this.#made += 1;
        const rounds = Math.floor(this.#made / this.#pods);
        const isWithin = isElsewhere && this.#made % this.#pods > 0;
        const pause = isWithin ? 0 : wanted + chance() * Math.min(longest, first * 2 ** Math.max(0, rounds - 1));
        if (!passes || clock() + pause > this.#ends)
            throw error;
        return pause;
    }
}
