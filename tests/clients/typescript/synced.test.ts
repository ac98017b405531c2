// A file that is kept fresh: fetched once, polled by its ETag, kept by renaming.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, FileAt, FilterFile, FilterFileError, SyncedFilter, Unavailable, keptAt } from "cuckood";

const first = readFileSync(process.env["FIRST"]!), second = readFileSync(process.env["SECOND"]!);
const etagOf = (bytes: Uint8Array): string => new FilterFile(bytes).etag;

const handed = { content: first, etag: etagOf(first), isBroken: false, statuses: [] as number[] };
const server = createServer((request, response) => {
  if (request.method === "POST") {
    request.resume().on("end", () => response.end(JSON.stringify({ results: [false] })));
    return;
  }
  const isKnown = request.headers["if-none-match"] === handed.etag;
  const status = handed.isBroken ? 503 : isKnown ? 304 : 200;
  handed.statuses.push(status);
  response.writeHead(status, { etag: handed.etag }).end(status === 200 ? handed.content : undefined);
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
  Object.assign(handed, { content, etag, isBroken: false, statuses: [] });
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
    everySeconds: 0.02, onError: (error) => errors.push(error),
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
  handed.isBroken = true;
  await assert.rejects(SyncedFilter.open(filter), Unavailable);
  await assert.rejects(SyncedFilter.open(filter, { everySeconds: 0 }), RangeError);
  await assert.rejects(SyncedFilter.open(filter, { jitter: 1 }), RangeError);
});
