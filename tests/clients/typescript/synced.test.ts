// A file that is kept fresh: fetched once, polled by its ETag, kept by renaming.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import {
  linkSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  Client, CuckoodError, FileAt, FilterFile, FilterFileError, NoAnswerError, SyncedFilter, type SyncedOptions, Unavailable, keptAt,
} from "cuckood";

const [first, second, bare] = ["FIRST", "SECOND", "BARE"].map((it) => readFileSync(process.env[it]!)) as [Buffer, Buffer, Buffer];
const key = first.subarray(96, 112);
const etagOf = (bytes: Uint8Array): string => new FilterFile(bytes).etag;

const handed = {
  content: first, etag: etagOf(first), isBroken: false, isUnchanged: false, statuses: [] as number[], asked: [] as (string | undefined)[],
  // How many are refused before one is answered, and what the refusals say.
  refusals: 0, retryAfter: undefined as string | undefined,
  // What comes late: nothing, the body in single bytes, what follows its first bytes never, or all of it.
  isLate: undefined as "body" | "rest" | "head" | undefined,
};
const server = createServer((request, response) => {
  if (request.method === "POST") {
    request.resume().on("end", () => response.end(JSON.stringify({ results: [false] })));
    return;
  }
  const isKnown = handed.isUnchanged || request.headers["if-none-match"] === handed.etag;
  const isRefused = handed.isBroken || handed.refusals > 0;
  const status = isRefused ? 503 : isKnown ? 304 : 200;
  handed.refusals -= Number(isRefused);
  handed.statuses.push(status);
  handed.asked.push(request.url);
  if (handed.isLate === "head") return;
  const content = handed.content === first && request.url?.endsWith("without_key=true") ? bare : handed.content;
  response.writeHead(status, { etag: handed.etag, ...(isRefused && handed.retryAfter && { "retry-after": handed.retryAfter }) });
  if (handed.isLate === "rest") {
    response.write(content.subarray(0, 100), () => setTimeout(() => response.destroy(), 100));
    return;
  }
  if (handed.isLate !== "body") {
    response.end(status === 200 ? content : undefined);
    return;
  }
  let at = 0;
  const trickle = setInterval(() => response.write(content.subarray(at, (at += 1))), 20);
  response.on("close", () => clearInterval(trickle));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const client = new Client(url, { patienceSeconds: 0 });
const filter = client.filter("guests");
after(() => {
  client.close();
  server.close();
  server.closeAllConnections?.();
});

function hand(content: Buffer, etag = etagOf(content)): void {
  Object.assign(handed, {
    content, etag, isBroken: false, isUnchanged: false, statuses: [], asked: [], refusals: 0, retryAfter: undefined, isLate: undefined,
  });
}

function fresh(): string {
  return join(mkdtempSync(join(tmpdir(), "synced-")), "guests.cuckoo");
}

async function until(isSo: () => boolean): Promise<void> {
  for (const began = Date.now(); !isSo(); await sleep(10)) assert.ok(Date.now() - began < 30_000);
}

test("a file is fetched once and polled by its ETag", async () => {
  hand(first);
  const path = fresh(), synced = await SyncedFilter.open(filter, { store: keptAt(path), everySeconds: 3600 });
  assert.deepEqual(readFileSync(path), first);
  assert.equal(await synced.refresh(), false);
  assert.deepEqual(handed.statuses, [200, 304]);
  hand(second);
  const before = synced.file;
  assert.equal(await synced.refresh(), true);
  assert.deepEqual(readFileSync(path), second);
  assert.deepEqual(readdirSync(join(path, "..")), ["guests.cuckoo"]);
  // Who asks the old one meanwhile still gets its answers.
  await before.verify();
  assert.ok(synced.ageSeconds < 30);
  synced.close();
  await assert.rejects(synced.refresh(), /kept fresh no longer/);
});

test("a file that was taken away, or could not be kept, is kept with the next answer", async () => {
  hand(first);
  const path = fresh(), store = keptAt(path), errors: unknown[] = [];
  let isFull = true;
  const save: typeof store.save = (...file) => (isFull ? Promise.reject(new Error("the disk is full")) : store.save(...file));
  const synced = await SyncedFilter.open(filter, {
    store: { ...store, save }, everySeconds: 3600, onError: (error) => {
      errors.push(error);
      throw error;
    },
  });
  assert.equal(typeof synced.exists("ada"), "boolean");
  assert.match(String(synced.lastError), /disk is full/);
  assert.equal(errors.length, 1);
  isFull = false;
  assert.equal(await synced.refresh(), false);
  assert.deepEqual(readFileSync(path), first);
  assert.equal(synced.lastError, undefined);
  rmSync(path);
  assert.equal(await synced.refresh(), false);
  assert.deepEqual(readFileSync(path), first);
  synced.close();
  const future = Date.now() / 1000 + 10_000;
  utimesSync(path, future, future);
  handed.isBroken = true;
  const early = await SyncedFilter.open(filter, { store, everySeconds: 3600 });
  assert.equal(early.ageSeconds, Infinity);
  early.close();
});

test("it is kept fresh in the background, also at an address alone", async () => {
  hand(first, '"as a host of files names it"');
  const errors: unknown[] = [];
  const synced = await SyncedFilter.open(new FileAt(`${url}/guests.cuckoo`), {
    everySeconds: 0.02, onError: async (error) => {
      errors.push(error);
      throw error;
    },
  });
  await until(() => handed.statuses.length > 3);
  assert.deepEqual(handed.statuses.slice(0, 3), [200, 304, 304]);
  hand(second);
  await until(() => synced.file.etag === etagOf(second));
  handed.isBroken = true;
  await until(() => synced.lastError !== undefined);
  assert.equal(typeof synced.exists("ada"), "boolean");
  assert.ok(errors.length > 0);
  handed.isBroken = false;
  await until(() => synced.lastError === undefined);
  await assert.rejects(synced.existsConfirmed(Uint8Array.of(0, 0, 0, 0)), /has no server to ask/);
  synced.close();
});

test("what is kept is used while the server is away, and says how old it is", async () => {
  const path = fresh();
  writeFileSync(path, first);
  const then = Date.now() / 1000 - 500;
  utimesSync(path, then, then);
  hand(first);
  handed.isBroken = true;
  const synced = await SyncedFilter.open(filter, { store: keptAt(path), everySeconds: 3600, maxAgeSeconds: 400 });
  let absent = 0;
  while (synced.file.exists(absent)) absent += 1;
  assert.ok(synced.ageSeconds > 490 && synced.ageSeconds < 600);
  assert.equal(synced.exists(absent), undefined);
  await until(() => synced.lastError !== undefined);
  handed.isBroken = false;
  assert.equal(await synced.refresh(), false);
  assert.equal(synced.exists(absent), false);
  assert.ok(Date.now() - statSync(path).mtimeMs < 60_000);
  // The server that hands out files has none of the items.
  const there = Uint8Array.of(0, 0, 0, 0);
  assert.equal(synced.exists(there), true);
  assert.equal(await synced.existsConfirmed(there), false);
  synced.close();
});

/** As another process does. */
function put(path: string, content: Buffer, ageSeconds: number): void {
  const part = `${path}.another`, then = Date.now() / 1000 - ageSeconds;
  writeFileSync(part, content);
  utimesSync(part, then, then);
  renameSync(part, path);
}

test("of somebody else's file it says nothing, and puts its own there again", async () => {
  hand(first);
  const path = fresh(), theirs = `${path}.theirs`;
  const synced = await SyncedFilter.open(filter, { store: keptAt(path), everySeconds: 3600 });
  put(path, second, 5000);
  linkSync(path, theirs);
  assert.equal(await synced.refresh(), false);
  assert.deepEqual(readFileSync(path), first);
  assert.ok(Date.now() - statSync(theirs).mtimeMs > 4_000_000 && Date.now() - statSync(path).mtimeMs < 60_000);
  assert.deepEqual(handed.statuses, [200, 304]);
  // The same file is as current, whoever put it there.
  put(path, first, 5000);
  const { ino } = statSync(path);
  assert.equal(await synced.refresh(), false);
  assert.equal(statSync(path).ino, ino);
  assert.ok(Date.now() - statSync(path).mtimeMs < 60_000);
  synced.close();
});

// It takes 2 GiB of memory.
const isLarge = { skip: process.env["CUCKOOD_LARGE_FILES"] === undefined };
test("what is more than Node reads at once is loaded", isLarge, async () => {
  const path = fresh();
  writeFileSync(path, first);
  truncateSync(path, 2 ** 31 + 1);
  const kept = await keptAt(path).load();
  assert.equal(kept!.bytes.length, 2 ** 31 + 1);
  assert.equal(Buffer.compare(kept!.bytes.subarray(0, first.length), first), 0);
  rmSync(path);
});

test("the first download waits for its turn, the next ones as long as the server says", async () => {
  hand(first);
  Object.assign(handed, { refusals: 2, retryAfter: "1" });
  const patient = new Client(url), began = performance.now(), errors: unknown[] = [];
  const synced = await SyncedFilter.open(patient.filter("guests"), { everySeconds: 0.01, onError: (it) => errors.push(it) });
  assert.ok(performance.now() - began >= 2000);
  assert.deepEqual(handed.statuses.slice(0, 3), [503, 503, 200]);
  Object.assign(handed, { isBroken: true, retryAfter: "2" });
  await until(() => synced.lastError !== undefined);
  const asked = handed.statuses.length;
  await sleep(1000);
  assert.equal(handed.statuses.length, asked);
  synced.close();
  // What waits longer than the patience is an error at once; so is one of a host of files.
  Object.assign(handed, { isBroken: false, refusals: 1, retryAfter: "61" });
  await assert.rejects(patient.filter("guests").dump(), Unavailable);
  handed.refusals = 1;
  await assert.rejects(new FileAt(url).dumpUnless(undefined, { signal: new AbortController().signal }), (error: unknown) =>
    error instanceof Unavailable && error.retryAfterSeconds === 61 && error.detail === `${url} has no file`);
  patient.close();
});

test("what failed at the same time is tried again at different times", async () => {
  hand(first);
  const path = fresh(), { random } = Math;
  writeFileSync(path, first);
  handed.isBroken = true;
  Math.random = () => 0.001;
  const synced = await SyncedFilter.open(filter, { store: keptAt(path), everySeconds: 3600 });
  const began = performance.now();
  await until(() => handed.statuses.length > 3);
  Math.random = random;
  assert.ok(performance.now() - began < 4000);
  synced.close();
});

test("a download that trickles, or never begins, is given up", async () => {
  const cases: [source: () => Parameters<typeof SyncedFilter.open>[0], isLate: "body" | "head", options: SyncedOptions, says: RegExp][] = [
    [() => filter, "body", { downloadTimeoutSeconds: 0.3 }, /takes longer than 0\.3 s: \d+ bytes came/],
    [() => new FileAt(url), "body", { downloadTimeoutSeconds: 0.3 }, /takes longer than 0\.3 s: \d+ bytes came/],
    [() => new FileAt(url, { timeoutSeconds: 0.3 }), "head", {}, /within 0\.3 s/],
    [() => new FileAt(url, { timeoutSeconds: 0.3, fetch: () => new Promise(() => {}) }), "head", {}, /within 0\.3 s/],
    [
      () => ({ dumpUnless: async () => ({ etag: undefined, body: new ReadableStream({ cancel: () => new Promise(() => {}) }) }) }),
      "body", { downloadTimeoutSeconds: 0.3 }, /takes longer than/,
    ],
  ];
  for (const [source, isLate, options, says] of cases) {
    hand(first);
    handed.isLate = isLate;
    const began = performance.now();
    await assert.rejects(SyncedFilter.open(source(), options), says);
    assert.ok(performance.now() - began < 5000);
  }
  hand(first);
  const synced = await SyncedFilter.open(new FileAt(url), { everySeconds: 3600 });
  hand(second);
  handed.isLate = "body";
  const trickling = synced.refresh();
  await until(() => handed.statuses.length > 0);
  setTimeout(() => synced.close(), 50);
  await assert.rejects(trickling, (error: unknown) => error instanceof CuckoodError && /no longer/.test(error.message));
  await assert.rejects(SyncedFilter.open(filter, { downloadTimeoutSeconds: 0 }), RangeError);
});

test("that nothing has changed is no answer to who did not ask whether", async () => {
  hand(first);
  handed.isUnchanged = true;
  const says = /304 unknown: .* did not ask whether/;
  await assert.rejects(SyncedFilter.open(filter), says);
  await assert.rejects(SyncedFilter.open(new FileAt(url)), says);
  await assert.rejects(SyncedFilter.open({ dumpUnless: async () => undefined }), /sent no file/);
  await assert.rejects(filter.dump(), says);
  const blank = new Client({ fetch: async () => new Response(null, { status: 204 }) });
  await assert.rejects(blank.filter("guests").dump(), /204 unknown/);
});

test("a signal ends any number of downloads, and has one listener", async () => {
  const warnings: Error[] = [];
  process.on("warning", (it) => warnings.push(it));
  for (const source of [filter, new FileAt(url)]) {
    hand(first);
    handed.isLate = "body";
    const ends = new AbortController(), { signal } = ends;
    const bodies = await Promise.all(Array.from({ length: 12 }, async () => (await source.dumpUnless(undefined, { signal }))!.body));
    assert.equal(getEventListeners(signal, "abort").length, 1);
    const read = bodies.map((it) => assert.rejects(new Response(it).arrayBuffer(), /enough/));
    ends.abort(new Error("enough"));
    await Promise.all(read);
    await assert.rejects(source.dumpUnless(undefined, { signal }), /enough/);
  }
  assert.deepEqual(warnings, []);
});

test("with a key it asks for files without", async () => {
  hand(first);
  const store = keptAt(fresh()), without = "/filters/guests/dump?without_key=true";
  for (const statuses of [[200], [200, 304]]) {
    const synced = await SyncedFilter.open(filter, { store, everySeconds: 3600, key });
    await until(() => handed.statuses.length === statuses.length);
    assert.deepEqual([handed.statuses, synced.file.describe().hasKey], [statuses, false]);
    assert.equal(synced.exists(Uint8Array.of(0, 0, 0, 0)), true);
    synced.close();
  }
  await (await filter.dump({ withoutKey: true })).cancel();
  await (await filter.dump()).cancel();
  assert.deepEqual(handed.asked, [without, without, without, "/filters/guests/dump"]);
});

test("a path has files of one kind, with their key or without", async () => {
  const path = fresh(), store = keptAt(path);
  for (const [there, other, options, says] of [
    [bare, first, {}, /left out of it: give it as `key`, or take another path/],
    [first, bare, { key }, /not left out of it, but `key` is given: take another path, or no key/],
  ] as const) {
    hand(first);
    writeFileSync(path, there);
    await assert.rejects(SyncedFilter.open(filter, { store, ...options }), says);
    assert.deepEqual(handed.statuses, []);
    rmSync(path);
    // One that is put there later is left there, and nothing is fetched in vain.
    const synced = await SyncedFilter.open(filter, { store, everySeconds: 3600, ...options });
    assert.deepEqual(readFileSync(path), other);
    put(path, there, 5000);
    assert.equal(await synced.refresh(), false);
    assert.match(String(synced.lastError), says);
    assert.deepEqual([handed.statuses, readFileSync(path)], [[200, 304], there]);
    synced.close();
    // Nor is one taken from a host.
    hand(there);
    await assert.rejects(SyncedFilter.open(new FileAt(url), options), says);
  }
});

test("what an ended process has left is removed after an hour", async () => {
  hand(first);
  const path = fresh(), [old, young, stuck] = ["old", "young", "stuck"].map((it) => join(path, "..", `.guests.cuckoo.${it}.part`)) as [string, string, string];
  writeFileSync(old, "");
  writeFileSync(young, "");
  mkdirSync(stuck);
  for (const it of [old, stuck]) utimesSync(it, Date.now() / 1000 - 3700, Date.now() / 1000 - 3700);
  (await SyncedFilter.open(filter, { store: keptAt(path), everySeconds: 3600 })).close();
  assert.deepEqual(readdirSync(join(path, "..")).sort(), [stuck, young, path].map((it) => basename(it)).sort());
});

test("what is no right file never gets the name", async () => {
  const path = fresh();
  writeFileSync(path, "something else");
  hand(first);
  const synced = await SyncedFilter.open(filter, { store: keptAt(path), everySeconds: 3600 });
  const damaged = Buffer.from(second);
  damaged[damaged.length - 100]! ^= 1;
  for (const content of [damaged, second.subarray(0, -1), Buffer.concat([second, Buffer.of(0)]), Buffer.from("no"), Buffer.of()]) {
    hand(content, '"2"');
    await assert.rejects(synced.refresh(), FilterFileError);
    assert.deepEqual(readFileSync(path), first);
  }
  assert.deepEqual(readdirSync(join(path, "..")), ["guests.cuckoo"]);
  synced.close();
});

test("without a file and a server it says why", async () => {
  hand(first);
  handed.isBroken = true;
  await assert.rejects(SyncedFilter.open(filter), Unavailable);
  hand(first);
  handed.isLate = "rest";
  for (const source of [filter, new FileAt(url)]) {
    await assert.rejects(SyncedFilter.open(source), (error: unknown) =>
      error instanceof CuckoodError && /the download broke off after \d+ bytes/.test(error.message));
  }
  await assert.rejects(SyncedFilter.open(new FileAt("http://127.0.0.1:1")), (error: unknown) =>
    error instanceof NoAnswerError && /GET http:\S+: no answer: /.test(error.message));
  await assert.rejects(SyncedFilter.open(filter, { maxAgeSeconds: NaN }), RangeError);
  await assert.rejects(SyncedFilter.open(filter, { everySeconds: 0 }), RangeError);
  await assert.rejects(SyncedFilter.open(filter, { jitter: 1 }), RangeError);
});
