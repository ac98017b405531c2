// Files of every shape answer as the server does, of which they are.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FilterFile } from "cuckood";
import { FilterFile as InBrowsers } from "cuckood/browser";
import { crc32 } from "./node_modules/cuckood/dist/hashes.js";

interface Case {
  path: string;
  items: string[];
  exists?: boolean[];
  counts?: number[];
  values?: number[][];
  windows?: { now: number; seconds: number | null; exists: boolean[] }[];
  digest: string;
  etag: string;
}

const cases = JSON.parse(readFileSync(process.env["CASES"]!, "utf8")) as Record<string, Case>;

for (const [shape, it] of Object.entries(cases)) {
  test(shape, async () => {
    const bytes = readFileSync(it.path);
    const file = new FilterFile(bytes);
    assert.deepEqual([await file.verify(), file.etag], [it.digest, it.etag]);
    for (const { now, seconds, exists } of it.windows ?? []) {
      const options = { nowMs: now * 1000, ...(seconds !== null && { withinSeconds: seconds }) };
      assert.deepEqual(file.existsMany(it.items, options), exists);
    }
    if (it.exists && it.counts) {
      assert.deepEqual(file.existsMany(it.items), it.exists);
      const began = performance.now();
      for (let turn = 0; turn < 20; turn += 1) for (const item of it.items) file.exists(item);
      const rate = (20 * it.items.length) / (performance.now() - began) * 1000;
      console.log(`${shape}: ${Math.round(rate)}/s in TypeScript`);
      assert.deepEqual(file.countMany(it.items), it.counts);
      // Items are what they are for a client, too.
      for (const item of ["7", 7, 7n, new TextEncoder().encode("7")]) assert.equal(file.exists(item), file.exists("7"));
    }
    if (it.values) assert.deepEqual(file.valuesMany(it.items), it.values);
  });
}

test("what browsers load is the same", () => assert.equal(InBrowsers, FilterFile));

test("what browsers load has nothing of Node", () => {
  const loaded = new Set<string>(), waiting = ["browser.js"];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    loaded.add(name);
    const source = readFileSync(`node_modules/cuckood/dist/${name}`, "utf8");
    for (const [, from] of source.matchAll(/ from "([^"]+)"/g)) {
      assert.match(from!, /^\.\/\w+\.js$/, name);
      if (!loaded.has(from!.slice(2))) waiting.push(from!.slice(2));
    }
  }
  assert.ok(loaded.has("synced.js"));
});

/** An empty filter of so many buckets, and the digest of its file. */
function large(buckets: number): { bytes: Uint8Array; digest: string } {
  const size = 8, head = 4096, sumsAt = head + buckets * size, blocks = (buckets * size) / 4096;
  const bytes = Buffer.alloc(sumsAt + 4 * blocks + 48);
  bytes.write("CUCKFILE");
  bytes.writeUInt16LE(1, 8);
  bytes.writeUInt16LE(1, 10);
  for (const [at, value] of [[16, bytes.length], [24, head], [32, blocks], [72, sumsAt], [256, buckets], [264, head]] as const) {
    bytes.writeBigUInt64LE(BigInt(value), at);
  }
  for (const [at, value] of [[200, size], [204, 1], [208, 256]] as const) bytes.writeUInt32LE(value, at);
  const sum = crc32(new Uint8Array(4096));
  for (let block = 0; block < blocks; block += 1) bytes.writeUInt32LE(sum, sumsAt + 4 * block);
  const end = bytes.length - 48;
  bytes.writeUInt32LE(crc32(bytes.subarray(sumsAt, end)), end);
  const digest = createHash("sha256").update(bytes.subarray(0, end + 8)).digest();
  digest.copy(bytes, end + 8);
  bytes.write("CUCKEND1", bytes.length - 8);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, head)), 12);
  return { bytes, digest: digest.toString("hex") };
}

for (const [name, buckets, subtle] of [["small", 1 << 22, true], ["large", 1 << 23, true], ["small without TLS", 1 << 22, false]] as const) {
  test(`while a ${name} file is verified others get their turns`, async () => {
    const { bytes, digest } = large(buckets), { crypto } = globalThis;
    let turns = 0, isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    Object.defineProperty(globalThis, "crypto", { value: subtle ? crypto : undefined, configurable: true, writable: true });
    try {
      setImmediate(turn);
      assert.equal(await new FilterFile(bytes).verify(), digest);
    } finally {
      isOver = true;
      Object.defineProperty(globalThis, "crypto", { value: crypto, configurable: true, writable: true });
    }
    assert.ok(turns > 3, `${turns}`);
    bytes[5000] = 1;
    await assert.rejects(new FilterFile(bytes).verify(), /damaged/);
    bytes[5000] = 0;
    bytes[bytes.length - 20]! ^= 1;
    await assert.rejects(new FilterFile(bytes).verify(), /digest/);
  });
}
