import { CuckoodError } from "./errors.js";

// Timers know no more milliseconds.
const LONGEST = 2 ** 31 - 1;

const callbacks = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Has the signal call back, until the returned function is called. It has one
 * listener for all: Node warns of a signal with more than ten.
 */
export function onAbort(signal: AbortSignal | undefined, call: () => void): () => void {
  if (signal === undefined) return () => {};
  const known = callbacks.get(signal);
  const calls = known ?? new Set();
  calls.add(call);
  if (known === undefined) {
    callbacks.set(signal, calls);
    signal.addEventListener("abort", () => calls.forEach((it) => it()), { once: true });
  }
  return () => void calls.delete(call);
}

/** A signal that ends with either of them: Node 18 has no AbortSignal.any. */
export function either(one: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  const all = new AbortController();
  for (const it of [one, other]) {
    const end = (): void => all.abort(it?.reason);
    if (it?.aborted) end();
    else onAbort(it, end);
  }
  return all.signal;
}

const waiting = new Set<() => void>();
const tellWaiting = (): void => waiting.forEach((it) => it());

/** Calls back before the process ends because nothing more can happen in it, until the returned function is called. */
export function onStillness(call: () => void): () => void {
  if (waiting.size === 0) process.on("beforeExit", tellWaiting);
  waiting.add(call);
  return () => {
    waiting.delete(call);
    if (waiting.size === 0) process.off("beforeExit", tellWaiting);
  };
}

/** The calls under way, each of which ends with its caller's signal or with the client. */
export class Calls {
  readonly #underWay = new Set<AbortController>();
  #closed = false;

  /** Does the work with a signal of its own. */
  async run<T>(given: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#closed) throw closed();
    given?.throwIfAborted();
    const call = new AbortController();
    const forget = onAbort(given, () => call.abort(given?.reason));
    this.#underWay.add(call);
    try {
      return await work(call.signal);
    } finally {
      this.#underWay.delete(call);
      forget();
    }
  }

  /** Ends all of them, and those that begin later. */
  close(): void {
    this.#closed = true;
    for (const call of this.#underWay) call.abort(closed());
  }
}

function closed(): CuckoodError {
  return new CuckoodError("the client is closed");
}

/** An attempt took too long. */
export class TimeoutError extends Error {
  constructor(seconds: number) {
    super(`no whole answer within ${seconds} s`);
    this.name = "TimeoutError";
  }
}

/**
 * Does the work with a signal that also ends it after so many seconds, whether the work
 * heeds it or not. Until then the timer keeps the process from ending, which sockets do
 * not always do.
 */
export async function within<T>(
  seconds: number, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const attempt = new AbortController();
  signal.throwIfAborted();
  const forget = onAbort(signal, () => attempt.abort(signal.reason));
  const timer = setTimeout(() => attempt.abort(new TimeoutError(seconds)), Math.min(seconds * 1000, LONGEST));
  const ended = new Promise<never>((_, reject) => onAbort(attempt.signal, () => reject(attempt.signal.reason)));
  try {
    return await Promise.race([work(attempt.signal), ended]);
  } finally {
    clearTimeout(timer);
    forget();
  }
}

/** Waits; throws what the signal says. */
export async function pause(seconds: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const forget = onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
    const timer = setTimeout(() => {
      forget();
      resolve();
    }, Math.min(seconds * 1000, LONGEST));
  });
}
