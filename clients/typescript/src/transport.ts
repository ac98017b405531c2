import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type BatchLimits, type Entry, type Item, Parts, type Replacement, body, encoded } from "./batches.js";
import { CuckoodError, NoAnswerError, NotUnderstoodError, ProblemError } from "./errors.js";
import { type Pods, Positions } from "./pods.js";
import { problemOf } from "./problem.js";
import { Reach } from "./reach.js";
import { Attempts, type Backoff } from "./retry.js";

/** What can be sent as a body of any length. */
export type Bytes = Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

const JSON_BODY = { "content-type": "application/json" };

/** What a batch is of. */
type Named = "items" | "entries";

interface Request {
  method: string;
  path: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  content?: string | Uint8Array | undefined;
  /** False: it is sent again only where the first one certainly did nothing. */
  repeatable?: boolean;
}

/** An answer that was read to its end. */
interface Answer {
  ok: boolean;
  status: number;
  headers: Headers;
  text: string;
}

/** A path with each part percent-encoded. */
export function path(...parts: string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/** A server, or the pods of a cluster, and how patiently they are asked. */
export class Transport {
  readonly #pods: Pods;
  readonly #reach: Reach;
  readonly #positions = new Positions();
  readonly #headers: Record<string, string>;
  readonly #ofQuestions: Record<string, string>;
  readonly #timeout: number;
  readonly #backoff: Backoff;
  readonly #limits: BatchLimits;

  constructor(
    pods: Pods, headers: Record<string, string>, consistency: string | undefined, timeout: number,
    backoff: Backoff, limits: BatchLimits,
  ) {
    this.#pods = pods;
    this.#reach = new Reach(pods.length);
    this.#headers = headers;
    this.#ofQuestions = consistency === undefined ? {} : { "cuckood-consistency": consistency };
    this.#timeout = timeout;
    this.#backoff = backoff;
    this.#limits = limits;
  }

  /** Address of the pod that is asked now. */
  get url(): string {
    return this.#pods.current;
  }

  /** The body of a good answer. */
  async send<T>(request: Request): Promise<T> {
    const attempts = new Attempts(this.#backoff, this.#pods.length);
    const attempted = { repeatable: true, ...request };
    for (;;) {
      const url = this.#pods.current;
      let pause: number;
      try {
        const answer = await this.#once(url, request);
        if (answer.ok) return this.#parsed(url, answer.text);
        const problem = problemOf(answer.status, answer.headers, answer.text);
        if (problem.code === "invalid_position" && this.#positions.forget()) continue;
        if (attempts.turnsAway(problem)) this.#pods.failed(url);
        pause = attempts.afterProblem(attempted, problem);
      } catch (error) {
        if (error instanceof CuckoodError) throw error;
        this.#pods.failed(url);
        pause = attempts.afterSilence(attempted, error);
      }
      await sleep(pause * 1000);
    }
  }

  /** Whether a question is answered well. One attempt. */
  async isWell(at: string): Promise<boolean> {
    return (await this.#once(this.#pods.current, { method: "GET", path: at })).ok;
  }

  async #once(url: string, request: Request): Promise<Answer> {
    await this.#reach.check(url);
    const isChange = request.headers !== undefined && "idempotency-key" in request.headers;
    const response = await fetch(addressOf(url, request.path, request.query), {
      method: request.method,
      headers: {
        ...this.#headers,
        // The server stops work for which nobody waits any longer.
        prefer: `wait=${this.#timeout.toFixed(3)}`,
        ...(isChange ? {} : this.#asked()),
        ...request.headers,
      },
      // Its types are those of browsers, which know no bytes of Node.
      body: (request.content ?? null) as BodyInit | null,
      redirect: "manual",
      signal: AbortSignal.timeout(this.#timeout * 1000),
    });
    const { ok, status, headers } = response;
    const answer = { ok, status, headers, text: await response.text() };
    this.#reach.answered(url);
    this.#positions.note(headers);
    return answer;
  }

  /** What questions say: what they must take into account. */
  #asked(): Record<string, string> {
    return { ...this.#positions.headers(), ...this.#ofQuestions };
  }

  /** A question without a body. */
  async ask<T>(at: string, query: Record<string, string> = {}): Promise<T> {
    return this.send({ method: "GET", path: at, query });
  }

  /** A question with a body. */
  async askWith<T>(at: string, fields: object): Promise<T> {
    return this.send(post(at, JSON.stringify(fields)));
  }

  /** A change that is made once, however often it is sent. */
  async change<T>(
    method: string, at: string, fields: object | undefined, idempotencyKey: string | undefined,
    headers: Record<string, string> = {},
  ): Promise<T> {
    return this.#change(method, at, fields && JSON.stringify(fields), idempotencyKey, headers);
  }

  async #change<T>(
    method: string, at: string, content: string | undefined, idempotencyKey: string | undefined,
    headers: Record<string, string> = {},
  ): Promise<T> {
    const sent = { "idempotency-key": idempotencyKey ?? randomUUID(), ...(content && JSON_BODY), ...headers };
    return this.send({ method, path: at, headers: sent, content });
  }

  /** The answers to the parts of a batch of questions, in order. */
  async askBatch<T extends Results>(
    at: string, items: Iterable<Item | Entry | Replacement>, fields: object, named: Named = "items",
  ): Promise<T[]> {
    return this.#batch(items, fields, named, false, (content) => this.send(post(at, content)));
  }

  /** The answers to the parts of a batch of changes, in order. */
  async changeBatch<T extends Results>(
    at: string, items: Iterable<Item | Entry | Replacement>, fields: object, idempotencyKey: string | undefined,
    named: Named = "items",
  ): Promise<T[]> {
    // One key names one request: a batch that was split differently the next time
    // would be made twice.
    const whole = idempotencyKey !== undefined;
    const change = (content: string): Promise<T> => this.#change("POST", at, content, idempotencyKey);
    return this.#batch(items, fields, named, whole, change);
  }

  async #batch<T extends Results>(
    items: Iterable<Item | Entry | Replacement>, fields: object, named: Named, whole: boolean,
    send: (content: string) => Promise<T>,
  ): Promise<T[]> {
    const lines = encoded(items);
    const parts = new Parts(lines.items, this.#limits, whole);
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

  /** The bytes of an answer of any length. The timeout is for its beginning. */
  async download(at: string): Promise<ReadableStream<Uint8Array>> {
    const begun = new AbortController();
    const timer = setTimeout(() => begun.abort(), this.#timeout * 1000);
    const url = this.#pods.current;
    const headers = { ...this.#headers, ...this.#asked() };
    try {
      await this.#reach.check(url);
      const response = await fetch(addressOf(url, at), { headers, signal: begun.signal });
      if (!response.ok) throw problemOf(response.status, response.headers, await response.text());
      return response.body ?? new ReadableStream();
    } catch (error) {
      if (error instanceof ProblemError) throw error;
      this.#pods.failed(url);
      throw new NoAnswerError("GET", at, error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a body of any length. Only bytes can be sent a second time. */
  async upload<T>(at: string, query: Record<string, string>, content: Bytes): Promise<T> {
    const headers = { "content-type": "application/octet-stream" };
    if (content instanceof Uint8Array) {
      return this.send({ method: "PUT", path: at, query, headers, content, repeatable: false });
    }
    // fetch takes any iterable of bytes and needs `duplex`; its types know neither.
    const sent = { method: "PUT", headers: { ...this.#headers, ...headers }, body: content, duplex: "half" };
    const url = this.#pods.current;
    let response: Response;
    let text: string;
    try {
      await this.#reach.check(url);
      response = await fetch(addressOf(url, at, query), sent as unknown as RequestInit);
      text = await response.text();
    } catch (error) {
      this.#pods.failed(url);
      throw new NoAnswerError("PUT", at, error);
    }
    if (!response.ok) throw problemOf(response.status, response.headers, text);
    this.#positions.note(response.headers);
    return this.#parsed(url, text);
  }

  /** The body of a good answer; that of a deletion is empty. */
  #parsed<T>(url: string, text: string): T {
    try {
      return text === "" ? (undefined as T) : JSON.parse(text);
    } catch {
      throw new NotUnderstoodError(`${url} does not answer like a cuckood server`);
    }
  }
}

/** The answer to a batch. */
interface Results {
  results: readonly unknown[];
}

function post(at: string, content: string): Request {
  return { method: "POST", path: at, headers: JSON_BODY, content };
}

function addressOf(url: string, at: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `${url}${at}${search && `?${search}`}`;
}
