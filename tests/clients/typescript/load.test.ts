// What the client does with thousands of calls at a time: COUNT of each kind.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { promisify } from "node:util";
import {
  Client, CuckoodError, type Fetch, FilterNotFound, InvalidRequest, NoAnswerError, type ProblemError, type Retry, Unavailable,
} from "cuckood";
import { Connections } from "./node_modules/cuckood/dist/connections.js";

const COUNT = Number(process.env["COUNT"] ?? 2000);
const url = process.env["CUCKOOD_SERVER"] as string;
const range = (length: number) => Array.from({ length }, (_, number) => number);
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A client's own connections, counted. */
class Counted {
  #own = new Connections();
  requests: { path: string; headers: Headers }[] = [];
  inFlight = 0;
  most = 0;
  fetch: Fetch = async (input, init) => {
    this.requests.push({ path: new URL(input).pathname, headers: new Headers(init.headers) });
    this.most = Math.max(this.most, ++this.inFlight);
    try {
      return await this.#own.fetch(input, init);
    } finally {
      this.inFlight -= 1;
    }
  };
}

/** A fetch without an end of its own. */
class Held {
  underWay = 0;
  fetch: Fetch = (_, init) =>
    new Promise((_, reject) => {
      this.underWay += 1;
      init?.signal?.addEventListener("abort", () => ((this.underWay -= 1), reject(init.signal?.reason)));
    });
}

async function made(key: string, options = {}) {
  const counted = new Counted();
  const filter = new Client({ url, fetch: counted.fetch, ...options }).filter(key);
  await filter.create({ capacity: COUNT * 2, fingerprint_bits: 32 });
  counted.requests = [];
  return { filter, counted };
}

async function timed<T>(name: string, counted: Counted, work: Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await work;
  const seconds = ((performance.now() - started) / 1000).toFixed(2);
  console.log(`${COUNT} ${name}: ${counted.requests.length} requests, ${counted.most} at a time, ${seconds} s`);
  return result;
}

test("questions that are asked at once are a few requests", async () => {
  const { filter, counted } = await made("questions");
  await filter.addMany(range(COUNT));
  counted.requests = [];
  const answers = await timed("questions", counted, Promise.all(range(COUNT).map((it) => filter.exists(it))));
  assert.ok(answers.every((it) => it === true));
  assert.equal(counted.requests.length, Math.ceil(COUNT / 1000));
  // Of several kinds, each hears its own; those behind a pause that is the same for all, too.
  const mixed = range(300).map(async (it) => {
    await null;
    return it % 3 === 0 ? filter.exists(it + COUNT) : it % 3 === 1 ? filter.count(it) : filter.exists(Uint8Array.of(48 + (it % 10)));
  });
  const expected = range(300).map((it) => (it % 3 === 0 ? false : it % 3 === 1 ? 1 : true));
  counted.requests = [];
  assert.deepEqual(await Promise.all(mixed), expected);
  assert.equal(counted.requests.length, 2);
});

test("changes that are made at once are made one by one, 64 at a time, and none fails", async () => {
  const { filter, counted } = await made("changes");
  const results = await timed("adds", counted, Promise.all(range(COUNT).map((it) => filter.add(it))));
  assert.ok(results.every((it) => it === "added"));
  assert.equal(counted.requests.length, COUNT);
  assert.equal(counted.most, 64);
  assert.equal((await filter.info()).items, COUNT);
});

test("changes are joined where the client was asked for that", async () => {
  const { filter, counted } = await made("joining", { coalesceChanges: true });
  const adds = range(COUNT).map((it) => filter.add(it));
  const results = await timed("adds that are joined", counted, Promise.all(adds));
  assert.ok(results.every((it) => it === "added"));
  assert.equal(counted.requests.length, Math.ceil(COUNT / 1000));
  assert.deepEqual(await Promise.all([filter.add(0, { onlyIfAbsent: true }), filter.add(COUNT)]), ["exists", "added"]);
  counted.requests = [];
  await Promise.all([filter.add("a", { idempotencyKey: "mine" }), filter.add("b"), filter.add("c")]);
  assert.equal(counted.requests.length, 2);
  assert.deepEqual(await Promise.all([filter.delete("a"), filter.delete("nobody")]), [true, false]);
});

test("nobody is refused for what another one asked", async () => {
  const { filter } = await made("some-bad", { coalesceChanges: true });
  const long = "x".repeat(70_000);
  const asks: ((it: string) => Promise<unknown>)[] = [(it) => filter.add(it), (it) => filter.exists(it)];
  for (const ask of asks) {
    const settled = await Promise.allSettled(["a", long, "b", `${long}y`, "c"].map(ask));
    assert.deepEqual(settled.map((it) => it.status), ["fulfilled", "rejected", "fulfilled", "rejected", "fulfilled"]);
    assert.ok(settled[1]?.status === "rejected" && settled[1].reason instanceof InvalidRequest);
  }
  assert.equal((await filter.info()).items, 3);
  const own = await Promise.allSettled([filter.exists("a"), filter.exists(0.5), filter.exists("b")]);
  assert.deepEqual(own.map((it) => it.status), ["fulfilled", "rejected", "fulfilled"]);
  const none = new Client(url).filter("no-such-filter");
  const missing = await Promise.allSettled(range(100).map((it) => none.exists(it)));
  assert.ok(missing.every((it) => it.status === "rejected" && it.reason instanceof FilterNotFound));
});

test("lookups of few items that are asked at once are a few requests", async () => {
  const counted = new Counted();
  const client = new Client({ url, fetch: counted.fetch });
  await Promise.all(range(20).map((it) => client.filter(`group-${it}`).addMany(range(5).map((user) => user * 20 + it),
    { create: { capacity: 100, fingerprint_bits: 32 } })));
  counted.requests = [];
  const prefix = "group-", filters: string[] = [], item = Uint8Array.of(48);
  const found = await Promise.all(range(100).map((it) => client.lookup([it], { prefix, signal: AbortSignal.timeout(9000) })));
  assert.deepEqual(found, range(100).map((it) => ({ results: [[`group-${it % 20}`]], missing_filters: [] })));
  assert.equal(counted.requests.length, 1);
  // Each hears what it has asked when it asked.
  const several = [client.lookup([7, "x", 8], { prefix }), client.lookup([7], { filters })];
  // Also those that are sent in parts.
  const parts = new Client({ url, limits: { items: 6, bytes: 32 << 20 } }).lookup(range(12), { filters });
  filters.push("group-7", "none");
  several.push(client.lookup([item], { prefix, first: true }), client.lookup([7], { filters }), client.lookup([], { filters }));
  item[0] = 49;
  assert.deepEqual((await Promise.all(several)).map((it) => [it.results, it.missing_filters]), [
    [[["group-7"], [], ["group-8"]], []], [[[]], []], [[["group-0"]], []], [[["group-7"]], ["none"]], [[], ["none"]],
  ]);
  assert.deepEqual(await parts, { results: range(12).map(() => []), missing_filters: [] });
  const long = "x".repeat(70_000);
  const mixed = await Promise.allSettled([[1], [long], [2, long], [3]].map((it) => client.lookup(it, { prefix })));
  assert.deepEqual(mixed.map((it) => it.status), ["fulfilled", "rejected", "rejected", "fulfilled"]);
  assert.deepEqual(mixed.flatMap((it) => it.status === "rejected" ? it.reason.errors[0].pointer : []), ["/items/0", "/items/1"]);
});

test("lookups that are too costly together are asked apart", async () => {
  const counted = new Counted();
  const client = new Client({ url: process.env["SMALL_SERVER"] as string, fetch: counted.fetch });
  for (const it of range(20)) await client.filter(`cost-${it}`).add(it, { create: { capacity: 100, fingerprint_bits: 32 } });
  counted.requests = [];
  const found = await Promise.all(range(200).map((it) => client.lookup([it], { prefix: "cost-" })));
  assert.deepEqual(found.map((it) => it.results), range(200).map((it) => [it < 20 ? [`cost-${it}`] : []]));
  // 50 of them are probes enough: halved twice, and once more.
  assert.equal(counted.requests.length, 7);
});

test("what waits for its turn loses no patience", async () => {
  const counted = new Counted();
  const slow: Fetch = async (...asked) => {
    await sleep(30);
    return counted.fetch(...asked);
  };
  const filter = new Client({ url, fetch: slow, maxInFlight: 2, timeoutSeconds: 5, patienceSeconds: 0 }).filter("patient");
  await filter.create({ capacity: 1000 });
  const started = performance.now();
  await Promise.all(range(40).map((it) => filter.add(it)));
  assert.ok(performance.now() - started > 500);
  assert.equal(counted.most, 2);
});

test("a key of the client's own lives as long as its patience", async () => {
  const { filter, counted } = await made("keys");
  await filter.add("a", { onlyIfAbsent: true });
  await filter.add("b", { idempotencyKey: "mine" });
  await filter.drop();
  const lifetimes = counted.requests.map((it) => it.headers.get("idempotency-key-lifetime"));
  assert.deepEqual(lifetimes, ["90", null, "90"]);
  assert.ok(counted.requests.every((it) => it.headers.has("idempotency-key")));
  const brief = await made("brief", { timeoutSeconds: 0.5, patienceSeconds: 2 });
  await brief.filter.add("a");
  assert.equal(brief.counted.requests[0]?.headers.get("idempotency-key-lifetime"), "3");
});

test("headers of one's own are sent with each request", async () => {
  const { filter, counted } = await made("headers", { headers: { "X-Tenant": "shop", Authorization: "Basic x" }, apiKey: "k" });
  await filter.exists("a");
  const { headers } = counted.requests[0]!;
  assert.deepEqual([headers.get("x-tenant"), headers.get("authorization")], ["shop", "Basic x"]);
});

test("a signal ends what waits, what is under way and what is joined, and nothing else", async () => {
  const held = new Held();
  const filter = new Client({ url, fetch: held.fetch, maxInFlight: 1 }).filter("held");
  const stop = new AbortController();
  const first = filter.add("a", { signal: stop.signal });
  const second = filter.add("b", { signal: stop.signal });
  const third = filter.info({ signal: stop.signal });
  const joined = filter.exists("c", { signal: stop.signal });
  const calls = [first, second, third, joined].map((it) => assert.rejects(it, /enough/));
  setTimeout(() => stop.abort(new Error("enough")), 20);
  await Promise.all(calls);
  await sleep(0);
  assert.equal(held.underWay, 0);
  await assert.rejects(filter.add("d", { signal: stop.signal }), /enough/);
  const { filter: other } = await made("others");
  const mine = new AbortController();
  const both = [other.exists("a", { signal: mine.signal }), other.exists("b")];
  mine.abort(new Error("mine"));
  const settled = await Promise.allSettled(both);
  assert.deepEqual(settled.map((it) => it.status), ["rejected", "fulfilled"]);
});

test("a dump ends with its signal, also while it is read", async () => {
  const { filter } = await made("dumped");
  await filter.addMany(range(COUNT));
  const stop = new AbortController();
  const dump = await filter.dump({ signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(new Response(dump).arrayBuffer(), /enough/);
});

test("a client that is closed ends its calls, takes no others and keeps no connection", async (context) => {
  const served = await serving(context, (_, response) => say(response, 200, {}));
  const kept = new Client(served.url);
  await kept.filter("a").info();
  const connections = promisify(served.server.getConnections.bind(served.server));
  assert.equal(await connections(), 1);
  kept.close();
  while ((await connections()) > 0) await sleep(5);
  const closing = new Client({ url, fetch: new Held().fetch });
  const call = assert.rejects(closing.filter("a").info(), (error) => error instanceof CuckoodError && /closed/.test(error.message));
  closing.close();
  await call;
  await assert.rejects(closing.filter("a").exists("b"), /closed/);
  assert.equal(await closing.isReady(), false);
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function serving(context: TestContext, answer: Answer): Promise<{ server: Server; url: string }> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => (server.closeAllConnections(), server.close()));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const say = (response: ServerResponse, status: number, body: object, headers = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
const run = promisify(execFile);
const node = (program: string, environment: Record<string, string>) =>
  run(process.execPath, [program], { env: { ...process.env, ...environment }, timeout: 60_000 });

test("connections that are closed without a word are no end of a call, nor of the process", async (context) => {
  let closed = 0;
  const { server, url } = await serving(context, (request, response) => {
    request.resume().on("end", () => setTimeout(() => say(response, 200, { results: [false] }), 5));
  });
  server.maxConnections = 20;
  server.on("drop", () => (closed += 1));
  const { stdout } = await node("at_once.js", { CUCKOOD_SERVER: url, COUNT: "400" });
  assert.equal(stdout, "400\n");
  assert.ok(closed > 0);
});

test("a server that says that it has too many connections is asked again, also to change something", async (context) => {
  let refused = 0;
  const { url } = await serving(context, (request, response) => {
    const answer = () => {
      if (refused % 3 === 2) return void say(response, 201, { id: "b", results: ["added"], done: (refused += 1) });
      refused += 1;
      say(response, 503, { code: "too_many_connections", detail: "too many" }, { "retry-after": "0", connection: "close" });
    };
    request.resume().on("end", answer);
  });
  const retries: unknown[] = [];
  const onRetry = ({ error, pauseSeconds, ...retry }: Retry) => {
    assert.ok(error instanceof Unavailable && pauseSeconds <= 0.2);
    retries.push(retry);
  };
  const client = new Client({ url: url.replace("://", "://me:secret@"), onRetry });
  assert.equal(await client.filter("a").add("x"), "added");
  const add = { method: "POST", path: "/filters/a/items", url };
  assert.deepEqual(retries, [{ ...add, attempt: 2 }, { ...add, attempt: 3 }]);
  assert.equal((await client.createBackup()).id, "b");
  await assert.rejects(new Client({ url, patienceSeconds: 0 }).filter("a").info(), Unavailable);
});

test("a server that speaks TLS is asked, and is trusted only by its certificate", async (context) => {
  const directory = mkdtempSync(join(tmpdir(), "cuckood-tls-"));
  const [key, certificate] = [join(directory, "key"), join(directory, "certificate")];
  const made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost";
  const files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate];
  await run("openssl", [...made.split(" "), ...files]);
  const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (request, response) => {
    request.resume().on("end", () => say(response, 200, { results: [false] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => (server.closeAllConnections(), server.close()));
  const at = `https://localhost:${(server.address() as AddressInfo).port}`;
  const { stdout } = await node("at_once.js", { CUCKOOD_SERVER: at, COUNT: "20", NODE_EXTRA_CA_CERTS: certificate });
  assert.equal(stdout, "20\n");
  await assert.rejects(new Client({ url: at, patienceSeconds: 0 }).filter("a").info(), /no answer: self-signed certificate/);
});

test("an error says what happened", async (context) => {
  const said = (url: string, options = {}) =>
    new Client({ url, patienceSeconds: 0, ...options }).filter("a").info().then(() => assert.fail(), (error: Error) => {
      assert.ok(error instanceof NoAnswerError);
      return error.message;
    });
  assert.match(await said("http://127.0.0.1:2"), /^GET \/filters\/a: no answer: connect ECONNREFUSED 127.0.0.1:2$/);
  assert.match(await said(url.replace("http:", "https:")), /(wrong version number|too long).* is it http:\/\/\?$/);
  // A name of several addresses has an error for each.
  assert.match(await said("http://localhost:2"), /no answer: connect ECONNREFUSED/);
  assert.match(await said("http://no-such-host.invalid"), /ENOTFOUND|EAI_AGAIN/);
  const mute = createTcpServer((socket) => socket.resume()).listen(0, "127.0.0.1");
  const abrupt = createTcpServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  const babbling = createTcpServer((socket) => socket.end("SSH-2.0\r\n\r\n")).listen(0, "127.0.0.1");
  context.after(() => [mute, abrupt, babbling].map((it) => it.close()));
  const at = (server: typeof mute) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await sleep(10);
  assert.match(await said(at(mute), { timeoutSeconds: 0.1 }), /no whole answer within 0.1 s$/);
  assert.match(await said(at(abrupt)), /no answer: \w+/);
  assert.match(await said(at(babbling)), /no answer: \w+/);
  // Each piece comes in time, but not the last one.
  for (const begin of ["HTTP/1.1 200 OK\r\nx-long: ", "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"]) {
    const trickling = createTcpServer(async (socket) => {
      socket.on("error", () => {}).resume().write(begin);
      for (let sent = 0; sent < 1500 && !socket.destroyed; sent += 1) {
        await sleep(20);
        socket.write(" ");
      }
      socket.destroy();
    }).listen(0, "127.0.0.1");
    context.after(() => trickling.close());
    await once(trickling, "listening");
    assert.match(await said(at(trickling), { timeoutSeconds: 0.5 }), /no whole answer within 0.5 s$/);
  }
  const heedless: Fetch = () => new Promise(() => {});
  assert.match(await said("http://a", { fetch: heedless, timeoutSeconds: 0.1 }), /no whole answer within 0.1 s$/);
  const own: Fetch = async () => {
    throw Object.assign(new Error(""), { code: "ESTRANGE" });
  };
  assert.match(await said("http://a", { fetch: own }), /no answer: ESTRANGE$/);
});

test("what is asked of an address that has a path too many says where", async () => {
  const filter = new Client(`${url.replace("://", "://me:secret@")}/api`).filter("a");
  const where = new RegExp(`^404 unknown_route: .*; ${url}/api/filters/a/\\w+ was asked: the address of the server may be wrong$`);
  const calls = [filter.exists("x"), filter.dump(), filter.restore([Uint8Array.of(1)])];
  await Promise.all(calls.map((call) => assert.rejects(call, (error: ProblemError) => where.test(error.message))));
  await assert.rejects(new Client(url).filter("none").info(), /the filter none does not exist$/);
});

test("a process ends as soon as its calls are answered", async () => {
  const started = performance.now();
  await new Client(url).filter("asked").create({ capacity: 100 });
  const { stdout, stderr } = await node("at_once.js", { COUNT: "200" });
  assert.deepEqual([stdout, stderr], ["200\n", ""]);
  // A timer of a request would have it wait for 30 s.
  assert.ok(performance.now() - started < 15_000);
});
