// Imports from every kind of source that the client takes, of LINES lines each: all
// of them are at the server afterwards, whether the source or the server is slow.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdtempSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as readline from "node:readline";
import * as readlinePromises from "node:readline/promises";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { createGunzip, gzipSync } from "node:zlib";
import { Client, ImportIncomplete, type ImportBody, type ImportSource } from "cuckood";
import { Lines } from "./node_modules/cuckood/dist/sources.js";

const LINES = Number(process.env["LINES"] ?? 60_000);
const client = new Client();
const range = (length: number) => Array.from({ length }, (_, number) => number);
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const directory = mkdtempSync(join(tmpdir(), "cuckood-imports-"));
function written(name: string, content: string | Uint8Array): string {
  writeFileSync(join(directory, name), content);
  return join(directory, name);
}
const text = range(LINES).map((it) => `line-${it}`).join("\n");
const file = written("lines", `${text}\n`);
const windows = written("windows", Buffer.from(`\ufeff${text.replaceAll("\n", "\r\n")}`));

function* generated(): Generator<string> {
  for (let number = 0; number < LINES; number += 1) yield `line-${number}`;
}
async function* awaited(): AsyncGenerator<string> {
  yield* generated();
}
/** Pauses now and then, also before the first item. */
async function* slow(): AsyncGenerator<string> {
  for (let number = 0; number < LINES; number += 1) {
    if (number % Math.ceil(LINES / 5) === 0) await sleep(30);
    yield `line-${number}`;
  }
}
/** Bytes that are cut anywhere. */
async function* torn(bytes: Uint8Array, size = 7919): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
async function* slowly(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for await (const piece of torn(bytes, Math.ceil(bytes.length / 6))) {
    await sleep(30);
    yield piece;
  }
}
const webOf = <T>(pieces: AsyncIterable<T>) => {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream<T>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
};

/** What no `async` made: its promises are of another kind, and nothing ends it. */
const foreign = (): AsyncIterable<string> => ({
  [Symbol.asyncIterator]: () => {
    const lines = generated();
    return { next: () => ({ then: (resolve: (it: unknown) => void) => resolve(lines.next()) }) as never };
  },
});

/** A file handle of a pipe that is written slowly. */
async function slowHandle() {
  const pipe = join(directory, `pipe-${randomUUID()}`);
  execFileSync("mkfifo", [pipe]);
  const [reading, writing] = await Promise.all([open(pipe), open(pipe, "w")]);
  void pipeline(slowly(Buffer.from(text)), writing.createWriteStream());
  return reading;
}

type Interface = readline.Interface & { input: Readable };
/** All that make an interface of readline of a stream. */
const readlines: Record<string, (input: Readable) => Interface> = {
  "readline": (input) => readline.createInterface({ input }) as Interface,
  "readline of promises": (input) => readlinePromises.createInterface({ input }) as readline.Interface as Interface,
};

const sources: Record<string, () => ImportSource | Promise<ImportSource>> = {
  "an array": () => [...generated()],
  "a set": () => new Set(generated()),
  "a generator": generated,
  "an asynchronous generator": awaited,
  "a slow generator": slow,
  "an iterable with promises of another kind": foreign,
  "readline": () => readline.createInterface({ input: createReadStream(file) }),
  "readline of promises": () => readlinePromises.createInterface({ input: createReadStream(file) }),
  "readline of a file with a byte order mark": () => readline.createInterface({ input: createReadStream(windows), crlfDelay: Infinity }),
  "an iterator of readline": () => readline.createInterface({ input: createReadStream(file) })[Symbol.asyncIterator](),
  "readline of a slow stream": () => readline.createInterface({ input: Readable.from(slowly(Buffer.from(text))) }),
  "readline of promises of a slow stream": () => readlinePromises.createInterface({ input: Readable.from(slowly(Buffer.from(text))) }),
  "an iterator of readline of promises": () => readlinePromises.createInterface({ input: createReadStream(file) })[Symbol.asyncIterator](),
  "lines of a file handle": async () => (await open(file)).readLines(),
  "lines of a slow file handle": async () => (await slowHandle()).readLines(),
  "the stream of a file handle": async () => (await open(file)).createReadStream(),
  "the stream of a slow file handle": async () => (await slowHandle()).createReadStream(),
  "a stream of objects": () => Readable.from(generated()),
  "a slow stream of objects": () => Readable.from(slow()),
  "a stream of bytes": () => createReadStream(file),
  "a stream of text": () => createReadStream(file, "utf8"),
  "a stream of torn bytes": () => Readable.from(torn(Buffer.from(text)), { objectMode: false }),
  "a slow stream of bytes": () => Readable.from(slowly(Buffer.from(text)), { objectMode: false }),
  "a slow stream of text": () => Readable.from(slowly(Buffer.from(text)), { objectMode: false }).setEncoding("utf8"),
  "a stream of bytes with a byte order mark and \\r\\n": () => createReadStream(windows),
  "a web stream of items": () => webOf(awaited()),
  "a slow web stream of items": () => webOf(slow()),
  "a web stream of bytes": () => webOf(torn(Buffer.from(text))),
  "a slow web stream of bytes": () => webOf(slowly(Buffer.from(text))),
  "a web stream of bytes that are cut in the byte order mark": () => webOf(torn(Buffer.from(`\ufeff${text}`), LINES > 100_000 ? 1 << 16 : 2)),
  "the body of an answer": () => new Response(text).body!,
  "a blob": () => new Blob([text]),
};

async function assertThere(key: string, report: ImportBody): Promise<void> {
  assert.deepEqual([report.state, report.committed_lines, report.added, report.bad_lines], ["complete", LINES, LINES, 0]);
  const there = client.filter(key);
  assert.equal((await there.info()).items, LINES);
  const counts = await there.countMany([...generated()]);
  assert.equal(counts.findIndex((it) => it !== 1), -1);
  await there.drop();
}

for (const [name, source] of Object.entries(sources)) {
  test(`${name} is imported whole`, async () => {
    const started = performance.now();
    const key = randomUUID();
    const create = { capacity: LINES, fingerprint_bits: 32 } as const;
    const report = await client.filter(key).importItems(await source(), { create });
    console.log(`${name}: ${LINES} lines in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    await assertThere(key, report);
  });
}

test("a file is imported whole", async () => {
  const create = { capacity: LINES, fingerprint_bits: 32 } as const;
  for (const path of [file, pathToFileURL(windows), written("lines.gz", gzipSync(text))]) {
    const key = randomUUID();
    await assertThere(key, await client.filter(key).importFile(path, { create }));
  }
  await assert.rejects(client.filter("none").importFile(join(directory, "none"), { create }), /ENOENT/);
  assert.equal(await client.filter("none").isThere(), false);
});

test("a packed file is unpacked, and NDJSON read by its name", async () => {
  const items = ["ada", "two\nlines", 7];
  const json = `\ufeff${items.map((it) => JSON.stringify(it)).join("\r\n\r\n")}`;
  const both = Buffer.concat([gzipSync("ada\n7"), gzipSync("\ntwo")]);
  for (const [name, content, there] of [
    ["items.ndjson", json, items], ["ITEMS.JSONL", json, items], ["items.ndjson.gz", gzipSync(json), items],
    // What is packed is seen in the file, not in its name.
    ["packed.txt", both, ["ada", "two", 7]], ["plain.gz", "ada\ntwo\n7", ["ada", "two", 7]],
    ["json.txt", '"ada"', ['"ada"']], ["one", "7", [7]], ["empty.gz", gzipSync(""), []], ["empty", "", []],
  ] as [string, string | Uint8Array, (string | number)[]][]) {
    const filter = client.filter(randomUUID());
    const create = { capacity: 100, fingerprint_bits: 32 } as const;
    const report = await filter.importFile(written(name, content), { create });
    assert.deepEqual([name, report.added], [name, there.length]);
    assert.deepEqual(await filter.countMany(there), there.map(() => 1));
  }
  const values = client.filter(randomUUID());
  const entries = pathToFileURL(written("entries.jsonl.gz", gzipSync('{"item":"ada","value":5}\n')));
  await values.importFile(entries, { create: { capacity: 100, value_bits: 8 } });
  assert.deepEqual(await values.values("ada"), [5]);
  const torn = written("torn.gz", gzipSync(text).subarray(0, 1000));
  await assert.rejects(values.importFile(torn), /unexpected end of file/);
  await assert.rejects(values.importFile(directory), /EISDIR/);
});

test("no line is lost while the server is slow to say how far the import is", async () => {
  const late: typeof fetch = async (...asked) => {
    await sleep(200);
    return fetch(...asked);
  };
  const key = randomUUID();
  const lagging = new Client({ fetch: late }).filter(key);
  await client.filter(key).create({ capacity: LINES, fingerprint_bits: 32 });
  await assertThere(key, await lagging.importItems(readline.createInterface({ input: createReadStream(file) })));
});

test("lines that readline has read before are missed loudly", async () => {
  const makers: Record<string, () => Promise<Interface>> = {
    ...Object.fromEntries(Object.entries(readlines).map(([name, made]) => [name, async () => made(createReadStream(file))])),
    "a file handle": async () => (await open(file)).readLines() as Interface,
  };
  for (const [name, made] of Object.entries(makers)) {
    // All, or an error, however little was read before.
    for (const before of [() => {}, () => sleep(1), () => sleep(5)]) {
      const late = client.filter(randomUUID());
      const lines = await made();
      await late.create({ capacity: LINES, fingerprint_bits: 32 });
      await before();
      await late.importItems(lines).then(
        (report) => assertThere(late.key, report), (error: Error) => assert.match(error.message, /lost to it/),
      );
      lines.input.destroy();
    }
    const lines = await made();
    await once(lines, "line");
    await assert.rejects(client.filter("late").importItems(lines), /lost to it/, name);
    lines.close();
    lines.input.destroy();
    await assert.rejects(client.filter("late").importItems(lines), /lost to it/, name);
  }
});

test("a source that nothing can end any more is an error, and never the end of the process", async () => {
  await client.filter("still").create({ capacity: 100 });
  const { stdout } = await promisify(execFile)(process.execPath, ["still.js"], { timeout: 120_000 });
  assert.deepEqual(stdout.split("\n"), [...Array(4).fill("still: CuckoodError: the source of the import has not ended"), "it is there: true", ""]);
});

test("an input that breaks off is an error, and never the end of the process", async () => {
  const broken = client.filter("broken");
  await broken.create({ capacity: 100 });
  const breaking = (error?: Error) => {
    const input = new PassThrough();
    input.write("a\nb\n");
    setTimeout(() => input.destroy(error), 20);
    return input;
  };
  await assert.rejects(broken.importItems(breaking(new Error("no more tape"))), /no more tape/);
  await assert.rejects(broken.importItems(breaking()), /Premature close/);
  for (const [name, made] of Object.entries(readlines)) {
    await assert.rejects(broken.importItems(made(breaking(new Error("no more tape")))), /no more tape/, name);
    await assert.rejects(broken.importItems(made(breaking())), /closed before its end/, name);
    // Also where more lines are committed than were read.
    const importId = randomUUID();
    await broken.importItems(["a", "b", "c"], { importId });
    await assert.rejects(broken.importItems(made(breaking()), { importId }), /closed before its end/, name);
  }
  const lines = (await open(file)).readLines() as Interface;
  const call = broken.importItems(lines);
  lines.input.destroy();
  await assert.rejects(call, /closed before its end/);
});

test("text has blank lines, carriage returns and a last line without an end, and marks only at its beginning", async () => {
  const text = "\ufeffada\r\n\r\ngrace\n\nalan \r\n\ufeffmary\n7";
  for (const source of [new Blob([text]), Readable.from([Buffer.from(text)], { objectMode: false })]) {
    const lines = client.filter(randomUUID());
    const report = await lines.importItems(source, { create: { capacity: 100, fingerprint_bits: 32 } });
    assert.deepEqual([report.committed_lines, report.added, report.blank_lines], [7, 5, 2]);
    assert.deepEqual(await lines.existsMany(["ada", "grace", "alan ", "\ufeffmary", 7]), Array(5).fill(true));
    assert.deepEqual(await lines.existsMany(["ada\r", "", "alan", "\ufeffada"]), Array(4).fill(false));
  }
});

test("an item is what was given but for the end of its line", async () => {
  const items = client.filter(randomUUID());
  const given = ["\ufeffada", "a\n", "b\r\n", "c\r", "", "\n", "\ufeffmary", 7, { item: "two\nlines" }, { item: "e\n" }];
  const report = await items.importItems(given, { create: { capacity: 100, fingerprint_bits: 32 } });
  assert.deepEqual([report.added, report.blank_lines], [9, 1]);
  const there = ["ada", "a", "b", "c\r", "", "\ufeffmary", "7", "two\nlines", "e\n"];
  assert.deepEqual(await items.countMany(there), there.map(() => 1));
});

test("pieces of a text are not taken for items", async () => {
  const torn = client.filter(randomUUID());
  await torn.create({ capacity: 100 });
  const pieces = async function* () {
    yield "a\n";
    yield "b\nc";
  };
  const decoded = new Blob(["a\nb"]).stream().pipeThrough(new TextDecoderStream()) as ReadableStream<string>;
  const read = createReadStream(file, "utf8")[Symbol.asyncIterator]() as AsyncIterable<string>;
  for (const source of [Readable.from("a\nb\nc\n"), ["a", "a\r\nb"], pieces(), read, decoded]) {
    await assert.rejects(torn.importItems(source), /^TypeError: line [12]: ".+" is more than one line: for a file use importFile/);
  }
  assert.equal((await torn.info()).items, 0);
});

test("what is packed is refused where only a file is unpacked", async () => {
  const packed = client.filter(randomUUID());
  await packed.create({ capacity: LINES });
  const gz = written("stream.gz", gzipSync(text));
  const packedSources: (() => ImportSource)[] = [
    () => createReadStream(gz), () => createReadStream(gz, "utf8"), () => createReadStream(gz, "latin1"),
    () => webOf(torn(gzipSync(text), 2)), () => new Blob([gzipSync(text)]),
    () => readline.createInterface({ input: createReadStream(gz) }),
    () => readline.createInterface({ input: createReadStream(gz) })[Symbol.asyncIterator](),
  ];
  for (const source of packedSources) {
    await assert.rejects(packed.importItems(source()), /TypeError: .*packed with gzip: importFile\(path\) unpacks/);
  }
  assert.equal((await packed.info()).items, 0);
  assert.equal((await packed.importItems(createReadStream(gz).pipe(createGunzip()))).added, LINES);
});

test("a file of UTF-16 is refused", async () => {
  const filter = client.filter(randomUUID());
  await filter.create({ capacity: LINES });
  for (const bytes of [Buffer.from("\ufeffada\n", "utf16le"), Buffer.from("\ufeffada\n", "utf16le").swap16()]) {
    for (const [name, content] of [["utf-16.txt", bytes], ["utf-16.gz", gzipSync(bytes)]] as const) {
      await assert.rejects(filter.importFile(written(name, content)), new RegExp(`${name} is UTF-16: convert it to UTF-8`));
    }
  }
});

test("what a slow source has given is not kept back", async () => {
  const limits = { lines: 1000, bytes: 1 << 20, seconds: 0.02 };
  const pausing = async function* <T>(pieces: T[]) {
    for (const piece of pieces) {
      yield piece;
      await sleep(40);
    }
  };
  const sources = [pausing(["a", "b", "c"]), Readable.from(pausing(["a\n", "b\n", "c"]), { objectMode: false })];
  for (const source of sources) {
    const chunks: number[] = [];
    for await (const { lines } of new Lines(source).chunks(0, limits)) chunks.push(lines);
    assert.ok(chunks.length > 1, `${chunks}`);
    assert.equal(chunks.reduce((sum, it) => sum + it), 3);
  }
});

test("a source that fails is the error, whatever becomes of its end", async () => {
  const failing = client.filter("failing");
  await failing.create({ capacity: 100 });
  const angry = {
    [Symbol.iterator]: () => ({
      next: () => ({ done: false, value: true }),
      return: () => {
        throw new Error("cannot end");
      },
    }),
  };
  await assert.rejects(failing.importItems(angry as never), /line 1: true is no item/);
  const breaking = function* () {
    yield "a";
    throw new Error("no more tape");
  };
  await assert.rejects(failing.importItems(breaking()), /no more tape/);
});

test("what is no source of items is refused in words", async () => {
  const filter = client.filter("refused");
  for (const source of ["abc", Buffer.from("abc"), 7, null, {}, Promise.resolve([])]) {
    await assert.rejects(filter.importItems(source as never), /importItems takes an iterable/);
  }
  await filter.create({ capacity: 100 });
  await assert.rejects(filter.importItems(["a", true] as never), /line 2: true is no item/);
  await assert.rejects(filter.importItems(torn(Buffer.from("a\nb"))), /line 1: bytes are no item of an import/);
  await assert.rejects(filter.importItems(Readable.from(torn(Buffer.from("a\nb")))), /bytes are no item/);
  assert.equal((await filter.info()).items, 0);
});

test("entries and rows are imported, and a bad line is an error that says which", async () => {
  const create = { capacity: 1000, value_bits: 8 };
  const values = client.filter(randomUUID());
  await values.importItems([["ada", 1], { item: "grace", value: 2 }], { create });
  await values.importItems(new Map([["alan", 3]]));
  await values.importItems(new Blob(["mary\t4\n"]));
  await values.importItems(readline.createInterface({ input: Readable.from(["edsger\t5\n"]) }));
  assert.deepEqual(await values.valuesMany(["ada", "grace", "alan", "mary", "edsger"]), [[1], [2], [3], [4], [5]]);
  const plans = client.filter(randomUUID());
  const attributes = [{ name: "plan", values: ["free", "pro"] }];
  await plans.importItems([["ada", { plan: "pro" }]], { create: { capacity: 1000, attributes } });
  assert.deepEqual(await plans.rows("ada"), [{ plan: "pro" }]);
  const refused = await values.importItems([["ada", 6], ["grace", 256], "alan"]).catch((error: unknown) => error);
  assert.ok(refused instanceof ImportIncomplete);
  assert.match(refused.message, /^of 3 lines 2 bad \(line 2: value_too_large, more than value_bits allow; line 3: not_an_entry, no item with/);
  assert.deepEqual([refused.report.added, await values.values("ada")], [1, [1, 6]]);
  assert.equal((await values.importItems(["alan", ["ada", 7]], { allowPartial: true })).bad_lines, 1);
  const seen = client.filter(randomUUID());
  await seen.importItems(["ada", "grace"], { create: { capacity: 100, window_seconds: 60 } });
  assert.deepEqual(await seen.existsMany(["ada", "alan"], { withinSeconds: 60 }), [true, false]);
});

test("items that find no room are an error, and so is a line that is too long", async () => {
  const small = client.filter(randomUUID());
  const full = await small.importItems(range(3000), { create: { capacity: 100, expansion: 0 } }).catch((error: unknown) => error);
  assert.ok(full instanceof ImportIncomplete && full.report.full > 0);
  assert.match(full.message, /without room \(expansion_off\)/);
  const long = client.filter(randomUUID());
  await long.create({ capacity: 100 });
  // So much is not kept in memory.
  const pieces = function* () {
    yield Buffer.from("first\n");
    for (let piece = 0; piece < 64; piece += 1) yield Buffer.alloc(1 << 20, "x");
    yield Buffer.from("\nlast");
  };
  const error = await long.importItems(Readable.from(pieces(), { objectMode: false })).catch((error: unknown) => error);
  assert.ok(error instanceof ImportIncomplete);
  assert.deepEqual(error.report.first_bad_lines, [{ line: 2, reason: "too_long" }]);
  assert.deepEqual(await long.existsMany(["first", "last"]), [true, true]);
});

test("an import tells its progress and resumes where it was", async () => {
  const guests = client.filter("visitors");
  const told: number[] = [];
  const options = {
    importId: "list", create: { capacity: 200_000 }, onProgress: (it: ImportBody) => void told.push(it.committed_lines),
  };
  await guests.importItems(range(120_001), options);
  assert.deepEqual(told, [50_000, 100_000, 120_001]);
  assert.equal((await guests.importItems(range(120_001), options)).added, 120_001);
  assert.deepEqual(told.length, 3);
  await guests.importItems(range(120_003), options);
  assert.deepEqual([told.at(-1), (await guests.info()).items], [120_003, 120_003]);
  assert.equal((await guests.importItems([])).added, 0);
  const text = range(110_000).join("\n");
  const resumed = client.filter("resumed");
  const half = { importId: "text", create: { capacity: 200_000 } };
  await resumed.importItems(new Blob([range(60_000).join("\n")]), half);
  assert.equal((await resumed.importItems(new Blob([text]), half)).added, 110_000);
});

test("fewer lines than are committed are another list", async () => {
  const autumn = client.filter("autumn");
  await autumn.create({ capacity: 100 });
  assert.equal((await autumn.importItems(["a", "b", "c"], { importId: "autumn-1" })).added, 3);
  for (const lines of range(4)) {
    const items = range(lines).map(String);
    for (const text of [items.join("\n"), items.map((it) => `${it}\n`).join("")]) {
      for (const source of [items, new Blob([text]), Readable.from([...text].map((it) => Buffer.from(it)), { objectMode: false })]) {
        const again = autumn.importItems(source, { importId: "autumn-1" });
        if (lines === 3) assert.equal((await again).committed_lines, 3);
        else await assert.rejects(again, /^CuckoodError: of this importId 3 lines are committed.* a new list needs a new importId/);
      }
    }
  }
});

test("an import ends with its signal, although the source waits", async () => {
  const waiting = client.filter("waiting");
  await waiting.create({ capacity: 100 });
  let hasEnded = false;
  const forever = new Readable({ read() {}, destroy: (_, done) => ((hasEnded = true), done(null)) });
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("enough")), 30);
  await assert.rejects(waiting.importItems(forever, { signal: stop.signal }), /enough/);
  await sleep(0);
  assert.equal(hasEnded, true);
  await assert.rejects(waiting.importItems(["a"], { signal: stop.signal }), /enough/);
});
