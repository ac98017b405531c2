// The TypeScript client against real servers, whose addresses test_typescript.py
// passes: one as it is, one with small limits, one that loses answers.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import test from "node:test";
import {
  Client, CuckoodError, FileAt, type Filter, FilterDiffers, FilterExists, FilterFile, FilterNotFound, Forbidden, ImportNotFound,
  InvalidRequest, NoAnswerError, ProblemError, SyncedFilter, TooLarge,
} from "cuckood";
import { Attempts, type Backoff } from "./node_modules/cuckood/dist/retry.js";

const client = new Client();
const small = (limits = { items: 250_000, bytes: 32 << 20 }) =>
  new Client({ url: process.env["SMALL_SERVER"] as string, limits });

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}
const range = (length: number) => Array.from({ length }, (_, number) => number);

test("filters are created, described, listed and dropped", async () => {
  const coupons = client.filter("coupons");
  assert.equal(await coupons.isThere(), false);
  const made = await coupons.create({ capacity: 1000, error_rate: 0.001, ttl_seconds: 3600 });
  assert.deepEqual([made.key, made.capacity, made.items], ["coupons", 1000, 0]);
  assert.equal((await coupons.expireAfter(null)).expires_at, null);
  await client.filter("copy").create({ capacity: 10 });
  assert.deepEqual((await all(client.filters("co", { page: 1 }))).map((it) => it.key), ["copy", "coupons"]);
  await client.filter("copy").drop();
  assert.deepEqual((await all(client.filters("co"))).map((it) => it.key), ["coupons"]);
  assert.equal(await client.isReady(), true);
});

test("items are added, found, counted and deleted", async () => {
  const users = client.filter("people");
  assert.equal(await users.add("ada", { create: { capacity: 1000, fingerprint_bits: 32 } }), "added");
  const big = 2n ** 64n - 1n;
  assert.deepEqual((await users.addMany(["ada", 7, big, Uint8Array.of(255, 0)])).results, Array(4).fill("added"));
  assert.equal(await users.add("ada", { onlyIfAbsent: true }), "exists");
  const asked = ["7", 7n, `${big}`, Uint8Array.of(255, 0), "alan"];
  assert.deepEqual(await users.existsMany(asked), [true, true, true, true, false]);
  assert.deepEqual(await users.countMany(["ada", 7, "alan"]), [2, 1, 0]);
  assert.deepEqual(await users.deleteMany(["ada", "alan"]), [true, false]);
  assert.equal(await users.count("ada"), 1);
  assert.equal((await users.locate("ada")).count, 1);
  const found = await client.lookup(["ada", "alan"], { filters: ["people", "none"] });
  assert.deepEqual(found, { results: [["people"], []], missing_filters: ["none"] });
  assert.deepEqual((await client.lookup(["ada"], { prefix: "peo", first: true })).results, [["people"]]);
  await assert.rejects(users.add(2 ** 53), RangeError);
  await assert.rejects(users.add(true as never), TypeError);
});

test("windows are asked within seconds", async () => {
  const mails = client.filter("mails");
  await mails.create({ capacity: 1000, window_seconds: 86400 });
  assert.deepEqual((await mails.addMany(["ada", "ada"])).results, ["added", "refreshed"]);
  assert.deepEqual(await mails.existsMany(["ada", "alan"], { withinSeconds: 86400 }), [true, false]);
  const found = await client.lookup(["ada", "alan"], { filters: ["mails"], withinSeconds: 86400 });
  assert.deepEqual(found.results, [["mails"], []]);
  await assert.rejects(client.lookup(["ada"], { filters: ["mails"], withinSeconds: 86401 }), InvalidRequest);
});

test("a filter moves by its dump", async () => {
  const source = client.filter("source");
  await source.addMany(range(5000), { create: { capacity: 100 } });
  const target = client.filter("target");
  assert.equal((await target.restore(await source.dump())).items, 5000);
  await assert.rejects(target.restore(new Uint8Array(await new Response(await source.dump()).arrayBuffer())), FilterExists);
  // Also where the answer comes before all was sent.
  const endless = function* () {
    for (;;) yield new Uint8Array(1 << 16);
  };
  await assert.rejects(target.restore(endless()), CuckoodError);
  assert.equal((await target.restore(await source.dump(), { replace: true })).items, 5000);
  // A fetch of one's own does the same.
  const fetching = new Client({ fetch }).filter("fetched");
  assert.equal((await fetching.restore(await source.dump())).items, 5000);
  const whole = new Uint8Array(await new Response(await source.dump()).arrayBuffer());
  const cut = [whole.subarray(0, 100), whole.subarray(100)];
  for (const filter of [fetching, target]) {
    for (const given of [cut, cut.values(), new Blob([whole]).stream(), Readable.from(cut)]) {
      assert.equal((await filter.restore(given, { replace: true })).items, 5000);
    }
  }
  assert.equal(await fetching.exists(17), true);
  await target.deleteMany(range(4900));
  assert.match((await target.compact()).status_url, /compaction$/);
  assert.ok((await target.compaction()).asked_for);
});

test("siblings are merged and strangers refused", async () => {
  const monday = client.filter("monday");
  await monday.create({ capacity: 100 });
  for (const key of ["tuesday", "wednesday"]) {
    await client.filter(key).addMany([key, "ada"], { create: { sibling_of: "monday" } });
  }
  assert.equal((await monday.merge(["tuesday", "wednesday"])).items, 4);
  assert.equal(await monday.count("ada"), 2);
  await client.filter("stranger").create({ capacity: 100 });
  await assert.rejects(monday.merge(["stranger"]), { code: "not_siblings" });
});

test("every error has its class and code", async () => {
  const missing = await client.filter("nothing").exists("a").catch((error: unknown) => error);
  assert.ok(missing instanceof FilterNotFound);
  assert.deepEqual([missing.status, missing.code, missing.name], [404, "filter_not_found", "FilterNotFound"]);
  assert.ok(missing.requestId);
  const refused = await client.filter("f").create({ capacity: 0, error_rate: 2 }).catch((error: unknown) => error);
  assert.ok(refused instanceof InvalidRequest);
  assert.deepEqual(refused.errors.map((it) => it.pointer).sort(), ["/capacity", "/error_rate"]);
  await client.filter("f").create({ capacity: 10 });
  await assert.rejects(client.filter("f").create({ capacity: 20 }), FilterDiffers);
  await assert.rejects(client.filter("f").create({}, { onlyNew: true }), FilterExists);
  await assert.rejects(client.filter("f").importProgress("none"), ImportNotFound);
  await assert.rejects(client.backups(), Forbidden);
  const nobody = new Client({ url: "http://127.0.0.1:1", patienceSeconds: 0 });
  assert.equal(await nobody.isReady(), false);
  await assert.rejects(nobody.filter("f").info(), NoAnswerError);
  assert.throws(() => new Client({ url: "http://" }), TypeError);
});

test("a client is reached where it is told, or not at all", async () => {
  assert.throws(() => client.filter(""), /key of the filter is empty/);
  const url = process.env["CUCKOOD_SERVER"] as string;
  assert.equal(new Client(url).url, url);
  assert.equal(new Client([url, "http://127.0.0.1:1"]).url, url);
  assert.equal(new Client("http://127.0.0.1:1", { apiKey: "k" }).url, "http://127.0.0.1:1");
  assert.equal(new Client(new URL(url)).url, url);
  assert.equal(new Client({}).url, url);
  assert.throws(() => new Client(""), /url is empty/);
  assert.throws(() => new Client(process.env["NOT_SET"] as string), /url is empty/);
  for (const none of [8080, null, true]) assert.throws(() => new Client(none as never), /is no address/);
  assert.throws(() => new Client(["", ""]), TypeError);
  assert.throws(() => new Client([]), /url is empty/);
  assert.throws(() => new Client({ url: process.env["NOT_SET"] as string }), /url is empty/);
  assert.throws(() => new Client({ timeout: 1 } as never), /timeout is no option/);
  assert.throws(() => new Client({ timeoutSeconds: Number.NaN }), RangeError);
  assert.throws(() => new Client({ maxInFlight: 0 }), RangeError);
  for (const none of ["ftp://x", "http://127.0.0.1:99999", "http://a b"]) {
    assert.throws(() => new Client(none), (error) => error instanceof TypeError && error.message.includes(`"${none}" is no address`));
  }
});

test("a key that no header can have is refused and not printed", async () => {
  for (const apiKey of ["\u00fcmlaut", "sec ret", "sec\nret"]) {
    assert.throws(() => new Client({ apiKey }), (error) =>
      error instanceof TypeError && /other characters than visible ASCII/.test(error.message) && !error.message.includes(apiKey));
  }
  let sent: string | null = "";
  const fetching = async (_: unknown, init?: RequestInit) => {
    sent = new Headers(init?.headers).get("authorization");
    return new Response("{}");
  };
  await new Client({ apiKey: " a-key\n", fetch: fetching as typeof fetch }).filter("a").info();
  assert.equal(sent, "Bearer a-key");
});

test("an item with a lone surrogate fails alone and by its name", async () => {
  const words = client.filter("surrogates");
  await words.create({ capacity: 100 });
  const named = /"x\\ud800" is no item: it has a lone surrogate/;
  const told = await Promise.allSettled(["a", "x\ud800", "\ud83d\ude00"].map((it) => words.exists(it)));
  assert.deepEqual(told.map((it) => it.status), ["fulfilled", "rejected", "fulfilled"]);
  assert.match(String((told[1] as PromiseRejectedResult).reason), named);
  await assert.rejects(words.addMany(["a", "x\ud800"]), named);
  await assert.rejects(words.addMany([Uint8Array.of(1), "x\ud800"]), named);
  await assert.rejects(words.importItems(["a", "x\ud800"]), /TypeError: line 2: "x\\ud800" is no item/);
  assert.equal((await words.info()).items, 0);
});

test("every call that takes options refuses those that it does not know", async () => {
  const people = client.filter("options");
  await people.add("ada", { create: { capacity: 100 } });
  const synced = await SyncedFilter.open(people);
  const wrong = { timeout: 1 };
  const without = new Set(["constructor", "close", "filter", "refresh", "describe", "verify", "FilterFile.values",
    "FilterFile.valuesMany"]);
  let calls = 0;
  for (const of of [client, people, synced, synced.file, new FileAt("http://127.0.0.1:1")]) {
    const methods = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(of));
    for (const [name, { value: call }] of Object.entries(methods)) {
      if (call === undefined || without.has(name) || without.has(`${of.constructor.name}.${name}`)) continue;
      // Parameters with a default are not counted.
      const at = ["create", "filters", "lookup", "dumpUnless"].includes(name) ? 1 : call.length;
      const made = async () => {
        const result = call.apply(of, [...Array(at).fill("a"), wrong]);
        return name === "filters" ? all(result) : result;
      };
      await assert.rejects(made, new RegExp(`^TypeError: timeout is no option of ${name}: it knows \\w+`), name);
      calls += 1;
    }
  }
  assert.ok(calls > 45, String(calls));
  await assert.rejects(SyncedFilter.open(people, wrong as never), /timeout is no option of SyncedFilter.open: it knows store, every/);
  assert.throws(() => new FileAt("http://a", wrong as never), /timeout is no option of FileAt: it knows headers, timeoutSeconds/);
  assert.throws(() => new FilterFile(new Uint8Array(), wrong as never), /timeout is no option of FilterFile: it knows key/);
  await assert.rejects(people.add("ada", { only_if_absent: true } as never), /it knows onlyIfAbsent, create, signal, idempotencyKey$/);
  await assert.rejects(people.exists("ada", AbortSignal.timeout(9) as never), /is no option of exists/);
  assert.equal(await people.count("ada"), 1);
  assert.equal(await synced.existsConfirmed("ada", { signal: AbortSignal.timeout(9000) }), true);
  await assert.rejects(synced.existsConfirmed("ada", { signal: AbortSignal.abort(new Error("enough")) }), /enough/);
  synced.close();
});

test("a dump is asked for again where no connection was made", async () => {
  let refused = 2;
  const code = { value: "ECONNREFUSED" };
  const refusing = async () => {
    if (refused-- > 0) throw new TypeError("fetch failed", { cause: { code: code.value } });
    return new Response("dump");
  };
  const later = new Client({ fetch: refusing as never }).filter("later");
  assert.equal(await new Response(await later.dump()).text(), "dump");
  // Who has an older one asks in its own time, and what may have begun is not sent again.
  refused = 1;
  await assert.rejects(later.dumpUnless('"1"'), NoAnswerError);
  [refused, code.value] = [1, "ECONNRESET"];
  await assert.rejects(later.dump(), NoAnswerError);
});

test("an end during attempts has the last failure as its cause", async () => {
  const nobody = new Client("http://127.0.0.1:1").filter("a");
  const ended = await nobody.exists("a", { signal: AbortSignal.timeout(300) }).catch((error: unknown) => error);
  assert.equal((ended as Error).name, "TimeoutError");
  assert.match(String((ended as Error).cause), /fetch failed|ECONNREFUSED/);
});

test("what has another type is refused in words", async () => {
  const people = client.filter("typed");
  await people.create({ capacity: 100 });
  for (const key of [7, null, "", "\u00fc", "a b", "x".repeat(256)]) {
    const add = people.add("ada", { idempotencyKey: key as never });
    await assert.rejects(add, /TypeError: idempotencyKey is .*: pass a string of 1 to 255 visible ASCII characters/);
  }
  assert.throws(() => client.filter(7 as never), /TypeError: a key or id is 7: pass a string/);
  await assert.rejects(people.importItems(["ada"], { importId: 8 as never }), /a key or id is 8: pass a string/);
  for (const wrong of [null, 1.5, true]) await assert.rejects(people.locate(wrong as never), /is no (?:item|safe integer)/);
  for (const wrong of [null, "a.dump", 7, {}]) await assert.rejects(people.restore(wrong as never), /TypeError: .* is no dump: pass its bytes/);
  assert.equal((await people.info()).items, 0);
  await people.drop();
});

test("what is an entry is not taken for an item, nor an item for an entry", async () => {
  const people = client.filter("words");
  await people.create({ capacity: 100, value_bits: 8 });
  for (const wrong of [["ada"], new Map([["ada", 1]]), { item: "ada", value: 1 }]) {
    for (const call of [people.add(wrong as never), people.exists(wrong as never), people.addMany([wrong] as never)]) {
      await assert.rejects(call, /TypeError: an? \w+ is no item: .*several are added with addMany, entries with addValues/);
    }
  }
  await assert.rejects(people.addMany(new Map([["ada", 1]]) as never), /an Array is no item: .*entries with addValues/);
  await assert.rejects(people.addValues(["ada"] as never), /"ada" is no entry: an entry is an item with a value or a row/);
  await assert.rejects(people.addValues([["ada"]] as never), /an array that is no entry/);
  await assert.rejects(people.importItems([["ada"]] as never), /line 1: an array that is no entry/);
  await assert.rejects(people.replaceValues([["ada", 1, 2, 3]] as never), /an array that is no entry/);
  assert.equal((await people.info()).items, 0);
  await people.drop();
});

test("several items are not one string or bytes", async () => {
  const people = client.filter("several");
  await people.create({ capacity: 100 });
  for (const one of ["abc", Uint8Array.of(1, 2), 7, null, undefined, Promise.resolve([])]) {
    await assert.rejects(people.addMany(one as never), /several items are an iterable of them/);
    await assert.rejects(people.existsMany(one as never), TypeError);
    await assert.rejects(people.addValues(one as never), TypeError);
  }
  // @ts-expect-error: so the compiler says, too.
  await assert.rejects(people.deleteMany("abc"), TypeError);
  assert.equal((await people.info()).items, 0);
});

test("entries are objects, pairs or of a map, and their filter is created", async () => {
  const joins = client.filter("pairs");
  const create = { capacity: 1000, value_bits: 8 };
  await assert.rejects(joins.addValues([["ada", 1]]), FilterNotFound);
  const entries = [["ada", 1], { item: "grace", value: 2 }, [Uint8Array.of(255), 3]] as const;
  assert.deepEqual((await joins.addValues(entries, { create })).results, ["added", "added", "added"]);
  await joins.addValues(new Map([["ada", 4], ["alan", 5]]), { create });
  assert.deepEqual(await joins.valuesMany(["ada", "grace", Uint8Array.of(255), "alan"]), [[1, 4], [2], [3], [5]]);
  assert.deepEqual(await joins.replaceValues([["ada", 4, 6], { item: "alan", from: 5, to: 7 }]), ["replaced", "replaced"]);
  assert.deepEqual(await joins.hasValues([["ada", 6], ["alan", 5]]), [true, false]);
  const bytes = Uint8Array.of(255), asked = joins.hasValue(bytes, 3);
  bytes[0] = 1;
  assert.equal(await asked, true);
  assert.deepEqual(await joins.deleteValues([["ada", 6]]), [true]);
  const plans = client.filter("rows");
  const attributes = [{ name: "plan", values: ["free", "pro"] }];
  await plans.addValues([["ada", { plan: "pro" }]], { create: { capacity: 1000, attributes } });
  assert.deepEqual(await plans.rows("ada"), [{ plan: "pro" }]);
  await assert.rejects(joins.addValues([["ada", "1"]] as never), RangeError);
});

test("a filter that another caller creates at the same time is taken as it is", async () => {
  for (const [key, call] of [
    ["raced-values", (it: Filter) => it.addValues([["ada", 1]], { create: { capacity: 100, value_bits: 8 } })],
    ["raced-import", (it: Filter) => it.importItems([{ item: "ada", value: 1 }], { create: { capacity: 100, value_bits: 8 } })],
  ] as const) {
    const fetching: typeof fetch = async (url, init) => {
      if (init?.method === "PUT") await client.filter(key).create({ capacity: 1000, value_bits: 8 });
      return fetch(url, init);
    };
    await call(new Client({ fetch: fetching }).filter(key));
    assert.deepEqual(await client.filter(key).values("ada"), [1]);
    assert.equal((await client.filter(key).info()).capacity, 1000);
  }
});

test("an import is made once although answers are lost", async () => {
  const lossy = new Client(process.env["LOSSY_SERVER"] as string).filter("lossy");
  const report = await lossy.importItems(range(500_000).map((it) => ({ item: `line\n${it}` })), { create: { capacity: 600_000 } });
  assert.deepEqual([report.added, (await lossy.info()).items], [500_000, 500_000]);
});

test("batches are split to the limits and joined in order", async () => {
  const limits = { items: 250_000, bytes: 32 << 20 };
  const split = small(limits).filter("split");
  const items = range(7001).map((it) => `${"x".repeat(it % 97)}-${it}`);
  const added = await split.addMany(items, { create: { capacity: 20_000, fingerprint_bits: 32 } });
  assert.deepEqual(added.results, items.map(() => "added"));
  assert.equal((await split.info()).items, 7001);
  assert.ok(limits.items <= 1000);
  const mixed = items.flatMap((it) => [it, `${it}?`]);
  const expected = items.flatMap(() => [true, false]);
  assert.deepEqual(await split.existsMany(mixed), expected);
  assert.deepEqual(await split.deleteMany(mixed), expected);
});

test("what was done before a failure is told, and a key of one's own is not split", async () => {
  const once = small({ items: 2, bytes: 32 << 20 }).filter("once");
  await once.create({ capacity: 100 });
  const refused = await once.addMany(["a", "b", "c", "x".repeat(70_000)]).catch((error: unknown) => error);
  assert.ok(refused instanceof InvalidRequest);
  assert.deepEqual(refused.completed, ["added", "added"]);
  const keyed = small().filter("keyed");
  await assert.rejects(keyed.addMany(range(2000), { create: {}, idempotencyKey: "mine" }), TooLarge);
  const full = await small().filter("full").addMany(range(3000), { create: { capacity: 100, expansion: 0 } });
  assert.deepEqual([full.results[0], full.results.at(-1), full.full_reason], ["added", "full", "expansion_off"]);
});

test("pauses grow to a bound, are random, and end", () => {
  const request = { method: "POST", path: "/x", repeatable: true };
  const problem = (status: number, code = "", retryAfterSeconds?: number) =>
    new ProblemError({ status, code, detail: "", retryAfterSeconds });
  const attempts = (options: Partial<Backoff> = {}) =>
    new Attempts({ patience: 60, first: 0.1, longest: 5, chance: () => 1, clock: () => 0, ...options });
  const growing = attempts();
  const pauses = range(8).map(() => growing.afterProblem(request, problem(503)));
  assert.deepEqual(pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]);
  assert.equal(attempts({ chance: () => 0.5 }).afterProblem(request, problem(429, "", 7)), 7.05);
  assert.throws(() => attempts().afterProblem(request, problem(429, "", 61)), ProblemError);
  const gone = new TypeError("fetch failed", { cause: { code: "ECONNRESET" } });
  attempts().afterSilence(request, gone);
  assert.throws(() => attempts({ patience: 0 }).afterSilence(request, gone), NoAnswerError);
  assert.throws(() => attempts().afterSilence(request, new TypeError("invalid header")), NoAnswerError);
  attempts().afterProblem(request, problem(409, "idempotency_in_flight"));
  assert.throws(() => attempts().afterProblem(request, problem(409, "filter_differs")), ProblemError);
  const once = { ...request, repeatable: false };
  attempts().afterProblem(once, problem(503));
  assert.throws(() => attempts().afterProblem(once, problem(500, "outcome_unknown")), ProblemError);
  attempts().afterProblem(request, problem(503, "outcome_pending"));
  assert.throws(() => attempts().afterProblem(once, problem(503, "outcome_pending")), ProblemError);
  assert.throws(() => attempts().afterSilence(once, gone), NoAnswerError);
  const refused = new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });
  attempts().afterSilence(once, refused);
  const change = { ...request, headers: { "idempotency-key": "mine" } };
  const may = /: the change may be made$/;
  const none = { patience: 0 };
  for (const it of [change, once, { ...request, path: "/x/import" }]) assert.throws(() => attempts(none).afterSilence(it, gone), may);
  const known = (error: Error) => error instanceof NoAnswerError && !may.test(error.message);
  assert.throws(() => attempts(none).afterSilence(change, refused), known);
  for (const [code, syscall] of [["EPROTO", "write"], ["CERT_HAS_EXPIRED"], ["EHOSTUNREACH", "connect"], ["ETIMEDOUT", "connect"]]) {
    const failed = Object.assign(new Error("failed"), { code, syscall });
    assert.throws(() => attempts(none).afterSilence(change, failed), known);
    // But what nobody may repeat is not repeated for that.
    assert.throws(() => attempts().afterSilence(once, failed), known);
  }
  const late = Object.assign(new Error("failed"), { code: "ETIMEDOUT", syscall: "read" });
  assert.throws(() => attempts(none).afterSilence(change, late), may);
  assert.throws(() => attempts().afterSilence(change, new TypeError("invalid header")), known);
  assert.throws(() => attempts(none).afterSilence(request, gone), known);
  assert.throws(() => attempts(none).afterSilence({ ...once, method: "GET" }, gone), known);
  // Of the first attempt nobody knows.
  const second = attempts({ patience: 0.15 });
  second.afterSilence(change, gone);
  assert.throws(() => second.afterSilence(change, refused), may);
});

test("a dump that breaks off while it is sent may be restored", async () => {
  const breaking = new Client({ fetch: () => Promise.reject(new TypeError("fetch failed", { cause: { code: "ECONNRESET" } })) });
  const restore = breaking.filter("broken").restore([new Uint8Array(1)]);
  await assert.rejects(restore, /NoAnswerError: PUT .*: the change may be made$/);
});
