// Files of every shape answer as the server does, of which they are.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FilterFile } from "cuckood";
import { FilterFile as InBrowsers } from "cuckood/browser";

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
  test(shape, () => {
    const bytes = readFileSync(it.path);
    const file = new FilterFile(bytes);
    assert.deepEqual([file.verify(), file.etag], [it.digest, it.etag]);
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
