// Talks to the server that handed out this page, and to no other.

const HOME = new URL("../", import.meta.url);
const STORED_KEY = "cuckood-api-key";

/** An answer that says no (RFC 9457), or the lack of any answer. */
export class Problem extends Error {
  constructor(fields) {
    super(fields.detail);
    this.status = fields.status;
    this.code = fields.code;
    this.title = fields.title;
    this.errors = fields.errors ?? [];
    this.requestId = fields.request_id;
  }
}

/** The API key: kept until the tab is closed, and nowhere else. */
export const session = {
  get key() {
    return sessionStorage.getItem(STORED_KEY);
  },
  signIn(key) {
    sessionStorage.setItem(STORED_KEY, key);
    changed();
  },
  signOut() {
    sessionStorage.removeItem(STORED_KEY);
    changed();
  },
};

const watchers = new Set();

/** Calls back when the server asks for a key, and when the key changes. */
export function watchSession(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

let refused = false;

function changed(nowRefused = false) {
  refused = nowRefused;
  for (const watcher of watchers) watcher();
}

/** Whether the server wants a key, or another one. */
export function keyIsWanted() {
  return refused;
}

/** Sends a request; `json` is its body. Resolves to the response. */
export async function send(method, path, { json, signal, headers = {} } = {}) {
  const sent = new Headers(headers);
  const key = session.key;
  if (key) sent.set("authorization", `Bearer ${key}`);
  if (json !== undefined) sent.set("content-type", "application/json");
  let response;
  try {
    response = await fetch(new URL(path, HOME), {
      method,
      headers: sent,
      body: json === undefined ? undefined : JSON.stringify(json),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      status: 0,
      code: "unreachable",
      title: "No answer",
      detail: "The server does not answer. It may be starting, or the connection is broken.",
    });
  }
  if (response.ok) return response;
  if (response.status === 401 && session.key === key) changed(true);
  throw new Problem(await problemOf(response));
}

async function problemOf(response) {
  try {
    const problem = await response.json();
    if (problem.detail) return problem;
  } catch {
    // Something between here and the server answered.
  }
  return {
    status: response.status,
    code: "unknown",
    title: `Status ${response.status}`,
    detail: `The answer was ${response.status} ${response.statusText}, without a reason.`,
  };
}

/** The JSON of the answer to a question. */
export async function get(path, options) {
  return (await send("GET", path, options)).json();
}

/** The JSON of the answer to a body. */
export async function post(path, json, options) {
  return (await send("POST", path, { ...options, json })).json();
}

/** A change that a browser or a proxy may send twice and that is done once. */
export function change(method, path, json, headers = {}) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return send(method, path, { json, headers: { ...headers, "idempotency-key": key } });
}

/** The path of a filter. Its key's characters stand for themselves. */
export function filterPath(key, rest = "") {
  return `filters/${encodeURIComponent(key)}${rest}`;
}
