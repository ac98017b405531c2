// The parts of the console that need no browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";

const SOURCE = new URL("../../crates/http/src/console/", import.meta.url);
// They are modules of a page and lie in no package, so Node is told what they are.
const load = (name) => {
  const text = readFileSync(new URL(name, SOURCE), "utf8");
  return import(`data:text/javascript,${encodeURIComponent(text)}`);
};
const format = await load("format.js");
const metrics = await load("metrics.js");
const { EMPTY, KINDS, fieldsOf, missing } = await load("fields.js");

test("figures read as people write them", () => {
  assert.equal(format.count(104334), "104,334");
  assert.equal(format.counted(1, "sub-filter"), "1 sub-filter");
  assert.equal(format.counted(2, "copy", "copies"), "2 copies");
  assert.equal(format.bytes(0), "0 bytes");
  assert.equal(format.bytes(999), "999 bytes");
  assert.equal(format.bytes(253952), "248 KiB");
  assert.equal(format.bytes(1_052_672), "1 MiB");
  assert.equal(format.bytes(2 ** 50 * 2000), "2,000 PiB");
  assert.equal(format.share(0.8214), "82.1%");
  assert.equal(format.perSecond(null), "–");
  assert.equal(format.perSecond(0), "0");
  assert.equal(format.perSecond(3757.6), "3,758");
  assert.equal(format.seconds(0.000665), "665 µs");
  assert.equal(format.seconds(0.0332), "33.2 ms");
  assert.equal(format.seconds(Infinity), "> 10 s");
});

test("numbers are counted in bins that double", () => {
  const told = (numbers) => format.bins(numbers).map(({ from, to, items }) => [from, to, items]);
  assert.deepEqual(told([0]), [[0, 0, 1]]);
  assert.deepEqual(told([1, 0, 1]), [[0, 0, 1], [1, 1, 2]]);
  const bins = told([1, 2, 3, 4, 5, 8, 9, 1024]);
  assert.deepEqual(bins.slice(0, 6), [[0, 0, 0], [1, 1, 1], [2, 2, 1], [3, 4, 2], [5, 8, 2], [9, 16, 1]]);
  assert.deepEqual(bins.at(-1), [513, 1024, 1]);
  assert.equal(bins.length, 12);
});

test("a small probability is one in so many", () => {
  for (const [probability, said] of [
    [0, "never"],
    [1, "1 in 1"],
    [0.37, "1 in 2.7"],
    [0.001, "1 in 1,000"],
    [0.0001146, "1 in 8,730"],
    [1.77e-9, "1 in 565 million"],
    [9.7e-12, "1 in 103 billion"],
    [1e-16, "1 in 10 quadrillion"],
  ]) {
    assert.equal(format.oneIn(probability), said);
  }
});

test("a moment is as far away as it is", () => {
  const now = Date.parse("2026-11-21T10:00:00Z");
  assert.equal(format.away("2026-11-21T10:00:30Z", now), "in 30 seconds");
  assert.equal(format.away("2026-11-28T10:00:00Z", now), "in 7 days");
  assert.equal(format.away("2026-11-21T09:00:00Z", now), "1 hour ago");
  assert.equal(format.moment("2026-11-21T10:00:00.123Z"), "2026-11-21 10:00:00 UTC");
});

test("of a new filter is sent what goes with its kind, and nothing else", () => {
  const filled = {
    ...EMPTY,
    capacity: "10 000",
    error_rate: "0.01",
    bucket_size: "4",
    value_bits: "12",
    values_per_item: "many",
    window_seconds: "1.5",
    ttl_seconds: "2",
    attributes: [{ name: "plan", kept: "exact", labels: "free, pro" }, { name: "tag", kept: "hash", bits: "5" }],
  };
  const all = { layout: "paged", capacity: 10_000, error_rate: 0.01, ttl_seconds: 172_800 };
  const attributes = [{ name: "plan", values: ["free", "pro"] }, { name: "tag", hash_bits: 5 }];
  const wanted = {
    items: all,
    values: { ...all, value_bits: 12, values_per_item: "many" },
    rows: { ...all, values_per_item: "many", attributes },
    window: { ...all, window_seconds: 129_600 },
    classic: { layout: "classic", capacity: 10_000, ttl_seconds: 172_800, bucket_size: 4 },
  };
  assert.deepEqual(Object.keys(wanted), Object.keys(KINDS));
  for (const [kind, fields] of Object.entries(wanted)) {
    assert.deepEqual(fieldsOf({ ...filled, kind }), fields, kind);
    assert.equal(missing({ ...filled, kind }), null, kind);
  }
  assert.match(missing({ ...EMPTY, kind: "rows" }), /attribute needs/);
});

const scrape = (at, text) => ({ at, families: metrics.parse(text) });

test("metrics are read with their labels", () => {
  const { families } = scrape(
    0,
    '# HELP a_total x\n# TYPE a_total counter\na_total{of="one",with="\\"}"} 3\na_total{of="two"} 4e1\nb 7\n',
  );
  assert.equal(metrics.total(families, "a_total"), 43);
  assert.equal(metrics.total(families, "a_total", (it) => it.of === "one"), 3);
  assert.equal(metrics.total(families, "b"), 7);
  assert.equal(metrics.total(families, "missing"), 0);
});

test("a rate is growth over time, and none after a restart", () => {
  const [before, after] = [scrape(10, "a_total 100\n"), scrape(20, "a_total 350\n")];
  assert.equal(metrics.rate(before, after, "a_total"), 25);
  assert.equal(metrics.rate(after, scrape(30, "a_total 5\n"), "a_total"), null);
  assert.equal(metrics.rate(before, before, "a_total"), null);
});

test("a quantile lies within its bucket as Prometheus has it", () => {
  const histogram = (...counts) =>
    ["0.1", "0.2", "+Inf"].map((le, at) => `t_bucket{le="${le}",r="x"} ${counts[at]}\n`).join("");
  const all = () => true;
  const between = (first, second, part) =>
    metrics.quantile(part, scrape(0, first), scrape(1, second), "t", all);
  const before = histogram(7, 7, 7);
  assert.equal(between(before, histogram(17, 27, 27), 0.5), 0.1);
  assert.ok(Math.abs(between(before, histogram(17, 27, 27), 0.75) - 0.15) < 1e-12);
  assert.equal(between(before, histogram(8, 8, 107), 0.99), Infinity);
  assert.equal(between(before, before, 0.99), null);
});

test("the library in the console is the published one", () => {
  // Its package lets nothing but its entry points be resolved.
  const entry = createRequire(import.meta.url).resolve("preact/hooks");
  const home = join(dirname(entry), "../..");
  for (const [file, published] of [
    ["preact.mjs", "dist/preact.mjs"],
    ["hooks.mjs", "hooks/dist/hooks.mjs"],
    ["LICENSE-preact.txt", "LICENSE"],
  ]) {
    const own = readFileSync(new URL(file, SOURCE), "utf8");
    const theirs = readFileSync(join(home, published), "utf8")
      // A page finds its modules by address; its maps are not handed out.
      .replace('from"preact"', 'from"./preact.mjs"')
      .replace(/^\/\/# sourceMappingURL.*\n?/m, "");
    assert.equal(own.trim(), theirs.trim(), file);
  }
});
