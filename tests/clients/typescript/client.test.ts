// The TypeScript client against real servers, whose addresses test_typescript.py
// passes: one as it is, one with small limits, one that loses answers.

import assert from "node:assert/strict";
import test from "node:test";
import {
  Client, FilterDiffers, FilterExists, FilterNotFound, Forbidden, ImportNotFound, InvalidRequest, NoAnswerError,
  ProblemError, TooLarge,
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
  assert.deepEqual((await all(client.filters("co", 1))).map((it) => it.key), ["copy", "coupons"]);
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
  assert.equal((await target.restore(await source.dump(), { replace: true })).items, 5000);
  await target.deleteMany(range(4900));
  assert.match((await target.compact()).status_url, /compaction$/);
  assert.ok((await target.compaction()).asked_for);
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
  const nobody = new Client({ url: "http://127.0.0.1:1", patience: 0 });
  assert.equal(await nobody.isReady(), false);
  await assert.rejects(nobody.filter("f").info(), NoAnswerError);
  assert.throws(() => new Client({ url: "http://" }), TypeError);
});

test("an import tells its progress and resumes where it was", async () => {
  const guests = client.filter("visitors");
  await guests.create({ capacity: 200_000 });
  const first = await all(guests.importItems(range(120_001), { importId: "list" }));
  assert.deepEqual(first.map((it) => it.committed_lines), [50_000, 100_000, 120_001]);
  const again = await all(guests.importItems(range(120_001), { importId: "list" }));
  assert.deepEqual(again.map((it) => it.added), [120_001]);
  const more = await all(guests.importItems(range(120_003), { importId: "list" }));
  assert.deepEqual(more.map((it) => it.committed_lines), [120_003]);
  assert.equal((await guests.info()).items, 120_003);
  assert.deepEqual((await all(guests.importItems([]))).map((it) => it.added), [0]);
});

test("an import is made once although answers are lost", async () => {
  const lossy = new Client({ url: process.env["LOSSY_SERVER"] as string }).filter("lossy");
  await lossy.create({ capacity: 600_000 });
  const last = (await all(lossy.importItems(range(500_000).map((it) => `line\n${it}`)))).at(-1);
  assert.deepEqual([last?.added, (await lossy.info()).items], [500_000, 500_000]);
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
  const problem = (status: number, code = "", retryAfter?: number) =>
    new ProblemError({ status, code, detail: "", retryAfter });
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
  attempts().afterSilence(once, new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } }));
});
