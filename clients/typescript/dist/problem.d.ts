import { ProblemError } from "./errors.js";
/** The error of an answer that is not 2xx, whoever sent it. */
export declare function problemOf(status: number, headers: Headers, text: string): ProblemError;
