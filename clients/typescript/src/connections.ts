import { Agent, type IncomingMessage, request as overHttp } from "node:http";
import { Agent as TlsAgent, request as overTls } from "node:https";
import { Readable } from "node:stream";

/** What this client needs of `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

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

  readonly fetch: Fetch = (url, { method = "GET", headers = {}, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = { method, headers: Object.fromEntries(new Headers(headers)), ...(signal && { signal }) };
      const sent = url.startsWith("https:")
        ? overTls(url, { ...options, agent: this.#tls })
        : overHttp(url, { ...options, agent: this.#plain });
      sent.on("error", reject).on("response", (answer) => {
        signal?.addEventListener("abort", () => answer.destroy(signal.reason), { once: true });
        resolve(responseOf(answer));
      });
      if (body == null || typeof body === "string" || body instanceof Uint8Array) {
        sent.end(body ?? undefined);
        return;
      }
      const source = Readable.from(body as unknown as AsyncIterable<Uint8Array>);
      source.on("error", (error) => sent.destroy(error)).pipe(sent);
      // What answers before it has read all reads no more.
      sent.on("close", () => source.destroy());
    });
}

function responseOf(answer: IncomingMessage): Response {
  const { statusCode: status = 0, rawHeaders } = answer;
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  if (!WITHOUT_BODY.has(status)) return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
  answer.resume();
  return new Response(null, { status, headers });
}
