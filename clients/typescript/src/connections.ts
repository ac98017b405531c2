import { Agent, type IncomingMessage, request as overHttp } from "node:http";
import { Agent as TlsAgent, request as overTls } from "node:https";
import { Readable } from "node:stream";

/** What this client needs of `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** What is read of the headers of an answer. */
export type Fields = Pick<Headers, "get">;

/** An answer that was read to its end. */
export interface Answer {
  ok: boolean;
  status: number;
  headers: Fields;
  text: string;
}

/** Sends a request, and reads its answer to its end. */
export type Exchange = (url: string, init: RequestInit) => Promise<Answer>;

/** The same by somebody's `fetch`. */
export const exchangeBy = (fetch: Fetch): Exchange => async (url, init) => {
  const response = await fetch(url, init);
  const { ok, status, headers } = response;
  return { ok, status, headers, text: await response.text() };
};

// Servers, and what is before them, keep idle connections for longer, so that none is
// taken while it is being closed. An idle connection keeps no process from ending.
const KEPT = { keepAlive: true, timeout: 4000 };
const WITHOUT_BODY = new Set([204, 205, 304]);

/**
 * The connections of a client. Node's own fetch never answers a request whose
 * connection is closed while it is being opened, and its connections can't be closed.
 */
export class Connections {
  readonly #plain = new Agent(KEPT);
  readonly #tls = new TlsAgent(KEPT);

  /** Closes those that are open. */
  close(): void {
    this.#plain.destroy();
    this.#tls.destroy();
  }

  readonly fetch: Fetch = (url, init) =>
    new Promise((resolve, reject) => {
      const read = (answer: IncomingMessage): void => {
        init.signal?.addEventListener("abort", () => answer.destroy(init.signal?.reason), { once: true });
        resolve(responseOf(answer));
      };
      this.#send(url, init, read, reject);
    });

  /** Without a `Response`, whose streams would cost more than all else of a small request. */
  readonly exchange: Exchange = (url, init) =>
    new Promise((resolve, reject) => {
      const read = (answer: IncomingMessage): void => {
        const pieces: Uint8Array[] = [];
        answer.on("data", (piece) => pieces.push(piece)).on("error", reject).on("end", () => {
          const { statusCode: status = 0, headers } = answer;
          const get = (name: string): string | null => headers[name]?.toString() ?? null;
          resolve({ ok: status >= 200 && status < 300, status, headers: { get }, text: Buffer.concat(pieces).toString() });
        });
      };
      this.#send(url, init, read, reject);
    });

  #send(
    url: string, { method = "GET", headers = {}, body, signal }: RequestInit,
    read: (answer: IncomingMessage) => void, failed: (error: unknown) => void,
  ): void {
    const options = { method, headers: headers as Record<string, string>, ...(signal && { signal }) };
    const sent = url.startsWith("https:")
      ? overTls(url, { ...options, agent: this.#tls })
      : overHttp(url, { ...options, agent: this.#plain });
    sent.on("error", failed).on("response", read);
    if (body == null || typeof body === "string" || body instanceof Uint8Array) {
      sent.end(body ?? undefined);
      return;
    }
    const source = Readable.from(body as unknown as AsyncIterable<Uint8Array>);
    source.on("error", (error) => sent.destroy(error)).pipe(sent);
    // What answers before it has read all reads no more.
    sent.on("close", () => source.destroy());
  }
}

function responseOf(answer: IncomingMessage): Response {
  const { statusCode: status = 0, rawHeaders } = answer;
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  if (!WITHOUT_BODY.has(status)) return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
  answer.resume();
  return new Response(null, { status, headers });
}
