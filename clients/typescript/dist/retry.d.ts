import { ProblemError } from "./errors.js";
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
export declare function backoff(patience: number): Backoff;
/** What attempts need to know of a request. */
export interface Attempted {
    method: string;
    path: string;
    /** False: it is sent again only where the first one certainly did nothing. */
    repeatable: boolean;
}
/**
 * The attempts of one request, which `pods` servers can answer: each of them is asked
 * before the first pause. Sends nothing itself.
 */
export declare class Attempts {
    #private;
    constructor(backoff: Backoff, pods?: number);
    /** The pause after an attempt without an answer; throws if it was the last. */
    afterSilence(request: Attempted, error: unknown): number;
    /** The pause after a refusal; throws it if it was the last attempt. */
    afterProblem(request: Attempted, problem: ProblemError): number;
    /** Whether another pod may answer otherwise. */
    turnsAway(problem: ProblemError): boolean;
}
