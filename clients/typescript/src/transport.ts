import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { withoutUser } from "./address.js";
import {
  type BatchLimits, type Entry, type Item, type Many, type Named, Parts, type Replacement, body, copied, encoded, said,
} from "./batches.js";
import { Calls, either, onAbort, pause, within } from "./calls.js";
import { Coalescer } from "./coalescer.js";
import { type Answer, Connections, type Exchange, type Fetch, exchangeBy } from "./connections.js";
import { CuckoodError, NoAnswerError, NotUnderstoodError, ProblemError } from "./errors.js";
import { Gate } from "./gate.js";
import { type Pods, Positions } from "./pods.js";
import { problemOf } from "./problem.js";
import { Reach } from "./reach.js";
import { type Attempted, Attempts, type Backoff, wasSent } from "./retry.js";
import { type Changed, changedOf } from "./synced.js";

/** What can be sent as a body of any length. */
export type Bytes = Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

const JSON_BODY = { "content-type": "application/json" };

// The server keeps no answers for longer.
const LONGEST_LIFETIME = 24 * 3600;

/** What a batch consists of. */
type Part = Item | Entry | Replacement;

/** Of every call. */
export interface CallOptions {
  /** Ends the call early. A change may be made or not then. */
  signal?: AbortSignal | undefined;
}

/** Of a change. */
export interface ChangeOptions extends CallOptions {
  /**
   * A key of your own, so that the change is also made once if your program is
   * restarted and calls again within 24 hours. A batch with such a key is never
   * split. Without it each change gets a random one.
   */
  idempotencyKey?: string | undefined;
}

/** A batch of one route. */
export interface Batch {
  at: string;
  fields: object;
  named?: Named;
}

/** How a server is asked. */
export interface TransportOptions {
  pods: Pods;
  headers: Record<string, string>;
  consistency: string | undefined;
  timeoutSeconds: number;
  backoff: Backoff;
  maxInFlight: number;
  coalesceChanges: boolean;
  limits: BatchLimits;
  /** In place of connections of its own. */
  fetch: Fetch | undefined;
  onRetry: ((retry: Retry) => void) | undefined;
}

/** An attempt that failed, and is followed by another one. */
export interface Retry {
  method: string;
  path: string;
  /** Of the server that was asked. */
  url: string;
  /** A `ProblemError`, or what kept an answer from arriving. */
  error: unknown;
  /** Number of the attempt that follows; the first one is 1. */
  attempt: number;
  /** Before it begins. */
  pauseSeconds: number;
}

interface Request extends CallOptions {
  method: string;
  path: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  content?: string | Uint8Array | undefined;
  /** False: it is sent again only where the first one certainly did nothing. */
  repeatable?: boolean;
}

/** A path with each part percent-encoded. */
export function path(...parts: string[]): string {
  return parts.map((part) => {
    if (typeof part !== "string") throw new TypeError(`a key or id is ${said(part)}: pass a string`);
    return `/${encodeURIComponent(part)}`;
  }).join("");
}

/** A server, or the pods of a cluster, and how patiently they are asked. */
export class Transport {
  readonly #options: TransportOptions;
  readonly #pods: Pods;
  readonly #reach: Reach;
  readonly #positions = new Positions();
  readonly #ofQuestions: Record<string, string>;
  readonly #calls = new Calls();
  readonly #connections = new Connections();
  readonly #fetch: Fetch;
  readonly #exchange: Exchange;
  readonly #gate: Gate;
  readonly #coalescer = new Coalescer<Part>();

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#pods = options.pods;
    this.#reach = new Reach(options.pods.length);
    this.#ofQuestions = options.consistency === undefined ? {} : { "cuckood-consistency": options.consistency };
    this.#gate = new Gate(options.maxInFlight);
    this.#fetch = options.fetch ?? this.#connections.fetch;
    this.#exchange = options.fetch ? exchangeBy(options.fetch) : this.#connections.exchange;
  }

  /** Address of the pod that is asked now. */
  get url(): string {
    return this.#pods.current;
  }

  /** Ends all calls, and closes the connections. */
  close(): void {
    this.#calls.close();
    this.#connections.close();
  }

  /** The body of a good answer. Patience begins when there is room for the request. */
  async send<T>(request: Request): Promise<T> {
    return this.#calls.run(request.signal, (signal) => this.#gate.run(signal, () => this.#attempt<T>(request, signal)));
  }

  async #attempt<T>(request: Request, signal: AbortSignal): Promise<T> {
    const attempts = new Attempts(this.#options.backoff, this.#pods.length);
    const attempted = { repeatable: true, ...request };
    let last: unknown;
    // Who ends the call is told what it waited for.
    onAbort(signal, () => {
      const { reason } = signal;
      if (reason instanceof Error && reason.cause === undefined) Reflect.set(reason, "cause", last);
    });
    for (;;) {
      const url = this.#pods.current;
      let wait: number;
      try {
        const answer = await this.#once(url, request, signal);
        if (answer.ok) return this.#parsed(url, answer.text);
        const problem = problemOf(answer.status, answer.headers, answer.text, url + request.path);
        if (problem.code === "invalid_position" && this.#positions.forget()) continue;
        if (attempts.turnsAway(problem)) this.#pods.failed(url);
        wait = attempts.afterProblem(attempted, problem);
        last = problem;
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof CuckoodError) throw error;
        this.#pods.failed(url);
        wait = attempts.afterSilence(attempted, error);
        last = error;
      }
      await this.#again(attempted, url, last, attempts, wait, signal);
    }
  }

  /** Says that another attempt follows, and waits for it. */
  async #again(
    { method, path }: Attempted, url: string, error: unknown, attempts: Attempts, pauseSeconds: number, signal: AbortSignal,
  ): Promise<void> {
    this.#options.onRetry?.({ method, path, url: withoutUser(url), error, attempt: attempts.made + 1, pauseSeconds });
    await pause(pauseSeconds, signal);
  }

  /** Whether a question is answered well. One attempt, which waits for no other. */
  async isWell(at: string, signal: AbortSignal | undefined): Promise<boolean> {
    const ask = (ends: AbortSignal): Promise<Answer> => this.#once(this.#pods.current, { method: "GET", path: at }, ends);
    return (await this.#calls.run(signal, ask)).ok;
  }

  async #once(url: string, request: Request, signal: AbortSignal): Promise<Answer> {
    return within(this.#options.timeoutSeconds, signal, async (ends) => {
      await this.#reach.check(url);
      const isChange = request.headers !== undefined && "idempotency-key" in request.headers;
      const answer = await this.#exchange(addressOf(url, request.path, request.query), {
        method: request.method,
        headers: {
          ...this.#options.headers,
          // The server stops work for which nobody waits any longer.
          prefer: `wait=${this.#options.timeoutSeconds.toFixed(3)}`,
          ...(isChange ? {} : this.#asked()),
          ...request.headers,
        },
        // Its types are those of browsers, which know no bytes of Node.
        body: (request.content ?? null) as BodyInit | null,
        redirect: "manual",
        signal: ends,
      });
      this.#reach.answered(url);
      this.#positions.note(answer.headers);
      return answer;
    });
  }

  /** What questions say: what they must take into account. */
  #asked(): Record<string, string> {
    return { ...this.#positions.headers(), ...this.#ofQuestions };
  }

  /** A question without a body. */
  async ask<T>(at: string, options: CallOptions, query: Record<string, string> = {}): Promise<T> {
    return this.send({ method: "GET", path: at, query, signal: options.signal });
  }

  /** A question with a body. */
  async askWith<T>(at: string, fields: object, options: CallOptions): Promise<T> {
    return this.send(post(at, JSON.stringify(fields), options));
  }

  /** A change that is made once, however often it is sent. */
  async change<T>(
    method: string, at: string, fields: object | undefined, options: ChangeOptions, headers: Record<string, string> = {},
  ): Promise<T> {
    return this.#change(method, at, fields && JSON.stringify(fields), options, headers);
  }

  async #change<T>(
    method: string, at: string, content: string | undefined, { idempotencyKey, signal }: ChangeOptions,
    headers: Record<string, string> = {},
  ): Promise<T> {
    if (idempotencyKey !== undefined && !(typeof idempotencyKey === "string" && /^[!-~]{1,255}$/.test(idempotencyKey))) {
      throw new TypeError(`idempotencyKey is ${said(idempotencyKey)}: pass a string of 1 to 255 visible ASCII characters`);
    }
    const key = idempotencyKey === undefined ? this.#newKey() : { "idempotency-key": idempotencyKey };
    const sent = { ...key, ...(content && JSON_BODY), ...headers };
    return this.send({ method, path: at, headers: sent, content, signal });
  }

  /** A key that the server keeps for as long as this client may send it again. */
  #newKey(): Record<string, string> {
    const seconds = Math.ceil(this.#options.backoff.patience + this.#options.timeoutSeconds);
    return {
      "idempotency-key": randomUUID(),
      "idempotency-key-lifetime": String(Math.min(seconds, LONGEST_LIFETIME)),
    };
  }

  /** The answers to the parts of a batch of questions, in order. */
  async askBatch<T extends Results>(batch: Batch, items: Many<Part>, options: CallOptions): Promise<T[]> {
    return this.#batch(batch, items, false, (content) => this.send(post(batch.at, content, options)));
  }

  /** The answers to the parts of a batch of changes, in order. */
  async changeBatch<T extends Results>(batch: Batch, items: Many<Part>, options: ChangeOptions): Promise<T[]> {
    // One key names one request: a batch that was split differently the next time
    // would be made twice.
    const whole = options.idempotencyKey !== undefined;
    return this.#batch(batch, items, whole, (content) => this.#change("POST", batch.at, content, options));
  }

  /**
   * The result of one question, which is sent with others that are asked at the same time;
   * `each` takes those of all from an answer. Who asks several makes one `route`.
   */
  async askOne<T extends Results>(
    batch: Batch, item: Part, options: CallOptions, each: (answer: T) => readonly unknown[] = (it) => it.results,
    route = JSON.stringify(batch),
  ): Promise<unknown> {
    return this.#one(batch, route, item, options, (asked, items, signal) => {
      const send = async (content: string): Promise<Results> => {
        return { results: each(await this.send<T>(post(asked.at, content, { signal }))) };
      };
      return this.#batch(asked, items, false, send);
    });
  }

  /** The result of one change, which is sent with others if the client was asked for that. */
  async changeOne(batch: Batch, item: Part, options: ChangeOptions): Promise<unknown> {
    if (this.#options.coalesceChanges && options.idempotencyKey === undefined) {
      return this.#one(batch, JSON.stringify(batch), item, options, (asked, items, signal) => this.changeBatch(asked, items, { signal }));
    }
    return (await this.#results(this.changeBatch(batch, [item], options)))[0];
  }

  async #one(
    batch: Batch, route: string, item: Part, { signal }: CallOptions,
    send: (batch: Batch, items: Part[], signal: AbortSignal) => Promise<Results[]>,
  ): Promise<unknown> {
    // What is no item is refused before it joins others.
    encoded([item], batch.named ?? "items");
    return this.#coalescer.one(route, copied(item), (items, ends) => this.#results(send(JSON.parse(route), items, ends)), signal);
  }

  async #results(answers: Promise<Results[]>): Promise<readonly unknown[]> {
    return (await answers).flatMap((answer) => answer.results);
  }

  async #batch<T extends Results>(
    { fields, named = "items" }: Batch, items: Many<Part>, whole: boolean, send: (content: string) => Promise<T>,
  ): Promise<T[]> {
    const lines = encoded(items, named);
    const parts = new Parts(lines.items, this.#options.limits, whole);
    const answers: T[] = [];
    for (let part = parts.next(); part !== undefined; part = parts.next()) {
      try {
        answers.push(await send(body(part, { ...lines.fields, ...fields }, named)));
      } catch (error) {
        if (error instanceof ProblemError && parts.halve(error)) continue;
        if (error instanceof CuckoodError) error.completed = answers.flatMap((answer) => answer.results);
        throw error;
      }
    }
    return answers;
  }

  /** The bytes of an answer of any length. The timeout is for its beginning, the signal for all of it. */
  async download(at: string, query: Record<string, string>, options: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return (await this.downloadUnless(undefined, at, query, options))!.body;
  }

  /** The same, or undefined if it still has this `ETag`. */
  async downloadUnless(
    etag: string | undefined, at: string, query: Record<string, string>, { signal }: CallOptions,
  ): Promise<Changed | undefined> {
    // Who has an older one asks again in its own time.
    const patience = etag ? 0 : this.#options.backoff.patience;
    return this.#stream("GET", at, patience, signal, (url, ends) =>
      within(this.#options.timeoutSeconds, ends, async (begins) => {
        await this.#reach.check(url);
        const asked = { "accept-encoding": "identity", ...(etag && { "if-none-match": etag }) };
        const headers = { ...this.#options.headers, ...this.#asked(), ...asked };
        const answer = await this.#fetch(addressOf(url, at, query), { headers, signal: either(signal, begins) });
        return changedOf(answer, etag, url + at);
      }));
  }

  /** Sends a body of any length. Only bytes can be sent a second time. */
  async upload<T>(at: string, query: Record<string, string>, content: Bytes, { signal }: CallOptions): Promise<T> {
    if (typeof content !== "object" || content === null || !(Symbol.iterator in content || Symbol.asyncIterator in content)) {
      throw new TypeError(`${said(content)} is no dump: pass its bytes, or what yields them, such as createReadStream(path)`);
    }
    const headers = { "content-type": "application/octet-stream" };
    if (content instanceof Uint8Array) {
      return this.send({ method: "PUT", path: at, query, headers, content, repeatable: false, signal });
    }
    return this.#stream("PUT", at, undefined, signal, async (url, ends) => {
      await this.#reach.check(url);
      // fetch takes what is asynchronous, and makes a text of other iterables; it needs `duplex`. Its types know neither.
      const body = Symbol.asyncIterator in content ? content : Readable.from(content);
      const sent = { method: "PUT", headers: { ...this.#options.headers, ...headers }, body, duplex: "half" };
      const response = await this.#fetch(addressOf(url, at, query), { ...sent, signal: ends } as unknown as RequestInit);
      const text = await response.text();
      if (!response.ok) throw problemOf(response.status, response.headers, text, url + at);
      this.#positions.note(response.headers);
      return this.#parsed<T>(url, text);
    });
  }

  /**
   * A request that is sent again only where nothing came of it: that has an answer of any
   * length, or, without patience, a body that can't be had again.
   */
  async #stream<T>(
    method: string, at: string, patience: number | undefined, given: AbortSignal | undefined,
    work: (url: string, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#calls.run(given, async (signal) => {
      const attempts = new Attempts({ ...this.#options.backoff, patience: patience ?? 0 }, this.#pods.length);
      const attempted = { method, path: at, repeatable: false };
      for (;;) {
        const url = this.#pods.current;
        try {
          return await work(url, signal);
        } catch (error) {
          signal.throwIfAborted();
          const refusal = error instanceof ProblemError ? error : undefined;
          if (refusal === undefined && error instanceof CuckoodError) throw error;
          if (refusal === undefined || attempts.turnsAway(refusal)) this.#pods.failed(url);
          if (patience !== undefined && refusal?.code === "invalid_position" && this.#positions.forget()) continue;
          if (!patience) throw refusal ?? new NoAnswerError(method, at, error, method !== "GET" && wasSent(error));
          const wait = refusal ? attempts.afterProblem(attempted, refusal) : attempts.afterSilence(attempted, error);
          await this.#again(attempted, url, error, attempts, wait, signal);
        }
      }
    });
  }

  /** The body of a good answer; that of a deletion is empty. */
  #parsed<T>(url: string, text: string): T {
    try {
      return text === "" ? (undefined as T) : JSON.parse(text);
    } catch {
      throw new NotUnderstoodError(`${withoutUser(url)} does not answer like a cuckood server`);
    }
  }
}

/** The answer to a batch. */
interface Results {
  results: readonly unknown[];
}

function post(at: string, content: string, { signal }: CallOptions): Request {
  return { method: "POST", path: at, headers: JSON_BODY, content, signal };
}

function addressOf(url: string, at: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `${url}${at}${search && `?${search}`}`;
}
