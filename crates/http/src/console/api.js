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

const doers = new Set();

/** Calls back with each request that a user's own action made. */
export function onDone(told) {
  doers.add(told);
  return () => doers.delete(told);
}

export function done(request) {
  for (const told of doers) told(request);
}

/** The address of a path of the API. */
export function urlOf(path) {
  return new URL(path, HOME).href;
}

/** Sends a request; `json` is its body. Resolves to the response. */
export async function send(method, path, { json, signal, headers = {} } = {}) {
  const sent = new Headers(headers);
  const key = session.key;
  if (key) sent.set("authorization", `Bearer ${key}`);
  if (json !== undefined) sent.set("content-type", "application/json");
  let response;
  try {
    response = await fetch(urlOf(path), {
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
    throw unreachable();
  }
  if (response.ok) return response;
  throw refusal(response.status, await response.text(), key);
}

function unreachable() {
  return new Problem({
    status: 0,
    code: "unreachable",
    title: "No answer",
    detail: "The server does not answer. It may be starting, or the connection is broken.",
  });
}

/** What an answer says that says no to a request with this key. */
function refusal(status, text, key) {
  if (status === 401 && session.key === key) changed(true);
  try {
    const problem = JSON.parse(text);
    if (problem.detail) return new Problem(problem);
  } catch {
    // Something between here and the server answered.
  }
  const detail = `The answer was ${status}, without a reason.`;
  return new Problem({ status, code: "unknown", title: `Status ${status}`, detail });
}

/**
 * Sends a file, however large, and calls back with the bytes that are on their way.
 * `answer` resolves to the JSON of the answer; `stop` breaks off.
 */
export function upload(path, file, headers, onSent) {
  const sending = new XMLHttpRequest();
  const key = session.key;
  const answer = new Promise((resolve, reject) => {
    sending.upload.onprogress = ({ loaded }) => onSent(loaded);
    sending.onerror = () => reject(unreachable());
    sending.onabort = () => reject(new DOMException("stopped", "AbortError"));
    sending.onload = () => {
      if (sending.status < 300) resolve(JSON.parse(sending.responseText));
      else reject(refusal(sending.status, sending.responseText, key));
    };
  });
  sending.open("POST", urlOf(path));
  for (const [name, value] of Object.entries(headers)) sending.setRequestHeader(name, value);
  if (key) sending.setRequestHeader("authorization", `Bearer ${key}`);
  sending.send(file);
  return { answer, stop: () => sending.abort() };
}

/** The JSON of the answer to a question. */
export async function get(path, options) {
  return (await send("GET", path, options)).json();
}

/** The JSON of the answer to a body. */
export async function post(path, json, options) {
  return (await send("POST", path, { ...options, json })).json();
}

/** The same, by a user's own action. */
export function ask(path, json) {
  done({ method: "POST", path, json });
  return post(path, json);
}

/** A change that a browser or a proxy may send twice and that is done once. */
export function change(method, path, json, headers = {}) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const key = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  done({ method, path, json, headers });
  return send(method, path, { json, headers: { ...headers, "idempotency-key": key } });
}

/** The path of a filter. Its key's characters stand for themselves. */
export function filterPath(key, rest = "") {
  return `filters/${encodeURIComponent(key)}${rest}`;
}
