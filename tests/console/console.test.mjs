// The console in a real browser, against the real server.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import {
  aDay, dropFile, fillServer, makeKeys, openPage, startBrowser, startCluster, startServer,
} from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core"), "utf8");

const { file: keysFile, keys } = makeKeys([
  ["admin", "--scope", "admin"],
  ["reader", "--scope", "read"],
  ["shop", "--scope", "write", "--prefix", "shop:"],
]);

let browser;
let server;
let keyed;
/** It has backups, and no filters at first. */
let fresh;

before(async () => {
  [browser, server, keyed, fresh] = await Promise.all([
    startBrowser(),
    startServer(),
    startServer("--keys-file", keysFile),
    startServer("--backup-dir", mkdtempSync(join(tmpdir(), "console-backups-"))),
  ]);
  await fillServer(server);
});
after(async () => {
  await browser?.close();
  await Promise.all([server?.stop(), keyed?.stop(), fresh?.stop()]);
});

/** Runs a test on a page of its own, which must do nothing wrong. */
function onPage(name, work, { options, of = () => server } = {}) {
  test(name, async () => {
    const { page, wrong, close } = await openPage(browser, of(), options);
    try {
      const go = (place = "#/") => page.goto(`${of().url}/console${place}`);
      await work(page, go);
      assert.deepEqual(wrong, []);
    } finally {
      await close();
    }
  });
}

const button = (page, name) => page.getByRole("button", { name, exact: true });
const label = (page, name) => page.getByLabel(name, { exact: true });
const heading = (page, name) => page.getByRole("heading", { name, exact: true }).waitFor();
const told = (page, text) => page.locator(".told", { hasText: text }).waitFor();

onPage("a filter is created, used and deleted", async (page, go) => {
  await go();
  await page.getByRole("link", { name: "New filter" }).click();
  await heading(page, "New filter");
  await label(page, "Key").fill("visitors");
  await label(page, "Capacity").fill("100 000");
  await label(page, "False-positive rate, at most").fill("0.001");
  // The preview is the server's, which the filter then keeps to.
  const foretold = await server.ask("POST", "/preview", { capacity: 100_000, error_rate: 0.001 });
  const size = `${(foretold.slot_bytes / 1024).toFixed(0)} KiB`;
  await page.locator(".lead", { hasText: `${size} for 100,000 items` }).waitFor();
  await button(page, "Create filter").click();
  await heading(page, "visitors");
  const made = await server.ask("GET", "/filters/visitors");
  assert.equal(made.slot_bytes, foretold.slot_bytes);
  assert.equal(made.error_rate, 0.001);

  await label(page, "Item").fill("cuckoo");
  await label(page, "Item").press("Enter");
  await told(page, "It is not in the filter.");
  await heading(page, "Where it would lie");
  await button(page, "Add").click();
  await told(page, "Added.");
  await button(page, "Add").click();
  await heading(page, "Where its fingerprint lies");
  await button(page, "Count").click();
  await told(page, "2 copies.");
  // The first has a slot, the second is counted beside it.
  assert.equal(await page.locator(".whereabouts .bucket .slot.match").count(), 1);
  await page.getByText("and 1 copy counted beside the page").waitFor();
  await button(page, "Ask").click();
  await told(page, "It is probably in the filter.");

  await button(page, "Delete …").click();
  await page.getByRole("dialog").getByText("Delete only what was added.").waitFor();
  await button(page, "Cancel").click();
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.equal((await server.ask("GET", "/filters/visitors")).items, 2);
  await button(page, "Delete …").click();
  await button(page, "Delete one copy").click();
  await told(page, "One copy deleted.");
  assert.equal((await server.ask("GET", "/filters/visitors/count?item=cuckoo")).count, 1);

  await button(page, "Delete filter …").click();
  assert.ok(await button(page, "Delete filter").isDisabled());
  await label(page, "Type the key to confirm").fill("visitor");
  assert.ok(await button(page, "Delete filter").isDisabled());
  await label(page, "Type the key to confirm").fill("visitors");
  await button(page, "Delete filter").click();
  await heading(page, "Filters");
  await page.getByRole("link", { name: "emails" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "visitors" }).count(), 0);
});

for (const [kind, fill, wanted, keeps] of [
  ["Items with values", [["Bits of a value", "12"], ["Values an item", "4"]], { value_bits: 12, values_per_item: 4 }, "values of 12 bits"],
  ["Items that expire", [["Found for", "2"], ["In steps of", "6"], ["Items of one window", "5000"]], { window_seconds: 172_800, window_resolution_seconds: 21_600, capacity: 5000 }, "items, for 2 days"],
  ["Items, as RedisBloom keeps them", [["Slots per bucket", "4"]], { layout: "classic", bucket_size: 4 }, "items, classic"],
]) {
  onPage(`a filter is created that keeps: ${kind}`, async (page, go) => {
    const key = `kind:${keeps.replaceAll(/\W+/g, "-")}`;
    await go("#/new");
    await label(page, "Key").fill(key);
    const choice = page.locator(".choice", { hasText: kind }).getByRole("radio");
    await choice.check();
    // What does not go with the kind is not offered.
    const isClassic = wanted.layout === "classic";
    assert.equal(await label(page, "False-positive rate, at most").count(), isClassic ? 0 : 1);
    assert.equal(await label(page, "Found for").count(), wanted.window_seconds ? 1 : 0);
    assert.equal(await label(page, "Bits of a value").count(), wanted.value_bits ? 1 : 0);
    for (const [name, text] of fill) await label(page, name).fill(text);
    await page.getByText("Growth and expiry").click();
    await page.getByRole("group", { name: "The whole filter expires after, with its unit" }).getByRole("textbox").fill("3");
    await page.locator(".lead").waitFor();
    await button(page, "Create filter").click();
    await heading(page, key);
    const made = await server.ask("GET", `/filters/${key}`);
    for (const [field, value] of Object.entries({ ...wanted, ttl_seconds: 259_200 })) assert.equal(made[field], value, field);
    await go();
    const row = page.locator(".filters tbody tr", { hasText: key });
    await row.getByText(keeps, { exact: true }).waitFor();
    await row.getByText("in 3 days").waitFor();
  });
}

onPage("a filter is created whose items have attributes", async (page, go) => {
  await go("#/new/by-plan");
  await page.locator(".choice", { hasText: "Items with attributes" }).getByRole("radio").check();
  await page.getByText("Each attribute needs a name").waitFor();
  assert.ok(await button(page, "Create filter").isDisabled());
  const attribute = (at) => page.getByRole("group", { name: `Attribute ${at}` });
  await attribute(1).getByLabel("Name").fill("plan");
  await attribute(1).getByLabel("Values, with commas between").fill("free, pro");
  await button(page, "Add an attribute").click();
  await attribute(2).getByLabel("Name").fill("tag");
  await attribute(2).getByLabel("Kept as").selectOption("bits of a hash");
  await attribute(2).getByLabel("Bits").fill("40");
  // The server's word stands beside the field that it is about.
  await attribute(2).locator(".error", { hasText: "40 is not allowed" }).waitFor();
  await attribute(2).getByLabel("Bits").fill("5");
  await button(page, "Add an attribute").click();
  await attribute(3).getByRole("button", { name: "Remove" }).click();
  await page.locator(".lead").waitFor();
  await button(page, "Create filter").click();
  await heading(page, "by-plan");
  const { attributes } = await server.ask("GET", "/filters/by-plan");
  assert.deepEqual(attributes, [
    { name: "plan", values: ["free", "pro"] },
    { name: "tag", hash_bits: 5 },
  ]);
  await go();
  await page.locator(".filters tbody tr", { hasText: "by-plan" }).getByText("rows: plan, tag").waitFor();
});

const reported = (page, id) => {
  const article = page.getByRole("article", { name: `Import ${id}` });
  return (name) => article.locator(".report > div", { hasText: name }).locator("dd").textContent();
};
const ended = (page, id, state) =>
  page.getByRole("article", { name: `Import ${id}` }).getByText(state, { exact: true }).waitFor();

onPage("a dropped file is imported, and what became of its lines is reported", async (page, go) => {
  await server.ask("PUT", "/filters/imported", { capacity: 50_000 });
  await go("#/filters/imported");
  const lines = Array.from({ length: 20_000 }, (_, at) => (at === 16 ? "x".repeat(70_000) : `line-${at}`));
  await dropFile(page, "my guests.txt", lines.join("\n"));
  // Its name is made of the file's.
  const id = await label(page, "Name of the import").inputValue();
  assert.match(id, /^my-guests\.txt-2026-11-20-[0-9a-f]{8}$/);
  await button(page, "Import").click();
  await ended(page, "my-guests.txt-2026-11-20", "complete");
  const line = reported(page, "my-guests.txt-2026-11-20");
  assert.equal(await line("Lines committed"), "20,000");
  assert.equal(await line("Added"), "19,999");
  assert.equal(await line("Bad, left out"), "1");
  await page.getByText("Line 17: longer than 64 KiB").waitFor();
  await page.locator(".facts", { hasText: "19,999" }).waitFor();
  assert.deepEqual(
    await server.ask("POST", "/filters/imported/exists", { items: ["line-0", "line-19999", "line-16"] }),
    { results: [true, true, false] },
  );
  // The same file under the same name adds nothing twice.
  await dropFile(page, "my guests.txt", lines.join("\n"));
  await button(page, "Import").click();
  await ended(page, "my-guests.txt-2026-11-20", "complete");
  assert.equal(await line("Added"), "19,999");
  // Those that others began are known to the server.
  assert.equal(await page.locator(".known").count(), 0);
  const other = await fetch(`${server.url}/filters/imported/import?import_id=nightly`, { method: "POST", body: "x\ny\n", headers: { "content-type": "text/plain" } });
  assert.equal(other.status, 200);
  const known = page.locator(".known", { hasText: "nightly, complete, 2 lines" });
  await known.locator("summary").click();
  await known.locator(".report > div", { hasText: "Added" }).getByText("2", { exact: true }).waitFor();
  // Its command names the file, and the page of imports lists it.
  await page.getByText("Done last, as a command").click();
  await page.locator(".curl pre", { hasText: "-T 'my guests.txt'" }).waitFor();
  await page.getByRole("link", { name: "Imports and backups" }).click();
  await heading(page, "Imports and backups");
  await ended(page, "my-guests.txt-2026-11-20", "complete");
  await label(page, "Filter").fill("imported");
  await label(page, "Name of an import").fill("none");
  await button(page, "Look it up").click();
  await page.getByRole("region", { name: "Imports" }).getByRole("alert").waitFor();
  await label(page, "Name of an import").fill(id);
  await button(page, "Look it up").click();
  await page.getByText("last commit").waitFor();
});

onPage("files of one name and day are imported each, also where only letters beyond ASCII differ", async (page, go) => {
  await server.ask("PUT", "/filters/named", { capacity: 1000 });
  await go("#/filters/named");
  const files = [["export.txt", "monday-1\nmonday-2"], ["export.txt", "tuesday-1\ntuesday-2\ntuesday-3"], ["名前.txt", "name-1\nname-2"], ["住所.txt", "place-1\nplace-2"]];
  for (const [at, [name, text]] of files.entries()) {
    await dropFile(page, name, text);
    await button(page, "Import").click();
    await page.waitForFunction((count) => document.querySelectorAll("article .report").length === count, at + 1);
  }
  const items = files.flatMap(([, text]) => text.split("\n"));
  const { results } = await server.ask("POST", "/filters/named/exists", { items });
  assert.ok(results.every((found) => found));
});

onPage("values come as gzipped NDJSON, and rows as lines", async (page, go) => {
  await server.ask("PUT", "/filters/joined", { capacity: 1000, value_bits: 4 });
  await go("#/filters/joined");
  const entries = [...Array.from({ length: 10 }, (_, at) => ({ item: "ada", value: at })), { item: "bob" }, { item: "bob", value: 16 }];
  await dropFile(page, "joins.ndjson.gz", gzipSync(entries.map((it) => JSON.stringify(it)).join("\n")));
  await page.getByText("gzipped").last().waitFor();
  assert.ok(await label(page, "are JSON (NDJSON)").isChecked());
  await button(page, "Import").click();
  await ended(page, "joins.ndjson.gz-2026-11-20", "complete");
  await page.getByText("Line 11: not an item with a value or a row").waitFor();
  await page.getByText("Line 12: a value with too many bits").waitFor();
  const { values } = await server.ask("GET", "/filters/joined/values?item=ada");
  assert.equal(values.length, 10);

  await server.ask("PUT", "/filters/tagged", { capacity: 1000, attributes: [{ name: "plan", values: ["free", "pro"] }] });
  await go("#/filters/tagged");
  await page.getByText("an item, TAB, plan").waitFor();
  await dropFile(page, "rows.tsv", "ada\tpro\nbob\tgold\n");
  await button(page, "Import").click();
  await ended(page, "rows.tsv-2026-11-20", "complete");
  await page.getByText("Line 2: a value that the filter does not know").waitFor();
});

onPage("an import is stopped, seen elsewhere, and goes on where it ended", async (page, go) => {
  await server.ask("PUT", "/filters/halted", { capacity: 1000 });
  // As a slow line has it: what is sent never arrives.
  let isSlow = true;
  await page.route("**/import?*", async (route) => (isSlow ? undefined : route.continue()));
  await go("#/filters/halted");
  await dropFile(page, "slow.txt", "a\nb\nc\n");
  await label(page, "Leave out items that are there").check();
  await button(page, "Import").click();
  await ended(page, "slow.txt-2026-11-20", "running");
  await page.getByRole("link", { name: "Imports and backups" }).click();
  await ended(page, "slow.txt-2026-11-20", "running");
  await button(page, "Stop").click();
  await ended(page, "slow.txt-2026-11-20", "stopped");
  assert.equal((await server.ask("GET", "/filters/halted")).items, 0);
  isSlow = false;
  await button(page, "Go on").click();
  await ended(page, "slow.txt-2026-11-20", "complete");
  assert.equal((await server.ask("GET", "/filters/halted")).items, 3);
  // What is refused is said.
  await server.ask("DELETE", "/filters/halted");
  await page.getByRole("link", { name: "halted" }).waitFor();
});

onPage("a file that misses its place does not lead the browser away", async (page, go) => {
  await server.ask("PUT", "/filters/missed", { capacity: 1000 });
  await go("#/filters/missed");
  const [path, place] = [join(mkdtempSync(join(tmpdir(), "console-dropped-")), "guests.txt"), page.locator(".drop")];
  writeFileSync(path, "ada\nbob\n");
  await place.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await place.boundingBox();
  const drop = async (data, at) => {
    for (const type of ["dragEnter", "dragOver", "drop"]) {
      await devTools.send("Input.dispatchDragEvent", { type, ...at, data: { items: [], dragOperationsMask: 1, ...data } });
    }
  };
  const devTools = await page.context().newCDPSession(page);
  // What this browser does not do by itself where nobody sees it: go to the file.
  await page.evaluate(() => {
    globalThis.over = [];
    for (const type of ["dragover", "drop"]) {
      addEventListener(type, ({ defaultPrevented, dataTransfer }) => globalThis.over.push([type, defaultPrevented, dataTransfer.dropEffect]));
    }
  });
  await drop({ files: [path] }, { x: x + width / 2, y: y + height + 30 });
  await drop({ files: [path, path] }, { x: x + width - 20, y: y + height / 2 });
  await page.getByText("of 2 files this is the first").waitFor();
  const over = await page.evaluate(() => globalThis.over);
  assert.deepEqual([over[0], over.at(-1).slice(0, 2)], [["dragover", true, "none"], ["drop", true]], JSON.stringify(over));
  assert.ok(over.every(([, isTaken]) => isTaken), JSON.stringify(over));
  await page.locator(".chosen", { hasText: "guests.txt" }).waitFor();
  await drop({ files: [tmpdir()] }, { x: x + width - 20, y: y + height / 2 });
  await page.getByText("Choose a file, no directory.").waitFor();
  assert.equal(await button(page, "Import").count(), 0);
});

onPage("who leaves while an import runs is asked first", async (page, go) => {
  await server.ask("PUT", "/filters/left", { capacity: 1000 });
  let isSlow = true;
  await page.route("**/import?*", async (route) => (isSlow ? undefined : route.continue()));
  await go("#/filters/left");
  await dropFile(page, "left.txt", "a\nb\n");
  await button(page, "Import").click();
  await ended(page, "left.txt-2026-11-20", "running");
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    return dialog.dismiss();
  });
  await page.goto("about:blank").catch(() => {});
  assert.deepEqual(asked, ["beforeunload"]);
  await button(page, "Stop").click();
  await ended(page, "left.txt-2026-11-20", "stopped");
  isSlow = false;
  await button(page, "Go on").click();
  await ended(page, "left.txt-2026-11-20", "complete");
  await page.goto("about:blank");
  assert.deepEqual(asked, ["beforeunload"]);
});

onPage("while it is not known what a key may do, nothing is offered that changes something", async (page, go) => {
  let isBroken = true;
  await page.route("**/caller", (route) => (isBroken ? route.fulfill({ status: 503, body: "starting" }) : route.continue()));
  await go("#/filters/emails");
  await page.getByRole("alert").getByText("What you may do is not known").waitFor();
  await button(page, "Ask").waitFor();
  for (const name of ["Add", "Delete …", "Set expiry", "Delete filter …"]) {
    assert.equal(await button(page, name).count(), 0, name);
  }
  assert.equal(await page.locator(".drop").count(), 0);
  isBroken = false;
  await button(page, "Ask again").click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await button(page, "Delete filter …").waitFor();
  // Without a click it asks again by itself.
  isBroken = true;
  await page.reload();
  await page.getByRole("alert").waitFor();
  isBroken = false;
  await page.getByRole("alert").waitFor({ state: "detached" });
  await button(page, "Add").waitFor();
});

onPage(
  "backups are begun, followed and downloaded",
  async (page, go) => {
    await go("#/work");
    await page.getByText("There is none yet.").waitFor();
    await button(page, "Begin a backup").click();
    const row = page.getByRole("region", { name: "Backups" }).locator("tbody tr").first();
    await row.getByText("complete", { exact: true }).waitFor({ timeout: 30_000 });
    const download = page.waitForEvent("download");
    await row.getByRole("link", { name: "Download" }).click();
    assert.match((await download).suggestedFilename(), /^.*\.tar$/);
    const { backups } = await fresh.ask("GET", "/admin/backups");
    assert.equal(backups[0].state, "complete");
  },
  { of: () => fresh },
);

onPage("where there are no backups it says why", async (page, go) => {
  await go("#/work");
  await page.getByRole("region", { name: "Backups" }).getByText("--backup-dir").waitFor();
  // It is as it was told to be, and nothing went wrong.
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.equal(await button(page, "Begin a backup").count(), 0);
});

onPage(
  "how a filter has grown is drawn from its first samples on",
  async (page, go) => {
    const key = "grown";
    await fresh.ask("PUT", `/filters/${key}`, { capacity: 1000, error_rate: 0.01 });
    await fresh.ask("POST", `/filters/${key}/items`, { items: ["a", "b", "c"] });
    // A server without filters looks every few seconds for the first one.
    let samples = [];
    for (const started = Date.now(); samples.length === 0 && Date.now() - started < 30_000; await page.waitForTimeout(100)) {
      ({ samples } = await fresh.ask("GET", `/filters/${key}/history`));
    }
    assert.equal(samples[0].items, 3);
    const more = Array.from({ length: 500 }, (_, at) => `more-${at}`);
    await fresh.ask("POST", `/filters/${key}/items`, { items: more });
    await go(`#/filters/${key}`);
    const drawn = page.getByRole("img", { name: /^Items: 3 .* ago, 503 now$/ });
    await drawn.waitFor();
    await page.getByRole("img", { name: /^False positives, expected: .* now$/ }).waitFor();
    const ends = await drawn.locator("polyline").evaluate((it) => it.getAttribute("points").split(" ").map((at) => at.split(",").map(Number)));
    assert.equal(ends.length, samples.length + 1);
    assert.ok(ends[0][0] === 0 && ends.at(-1)[0] === 600 && ends[0][1] > ends.at(-1)[1], `${ends}`);
  },
  { of: () => fresh },
);

onPage("what is done is told as a command that does the same", async (page, go) => {
  const odd = "it's \"here\" $HOME";
  await go("#/filters/emails");
  await label(page, "Item").fill(odd);
  await button(page, "Add").click();
  await told(page, "Added.");
  const { count: before } = await server.ask("GET", `/filters/emails/count?${new URLSearchParams({ item: odd })}`);
  await page.getByText("Done last, as a command").click();
  const command = await page.locator(".curl pre").textContent();
  const said = JSON.parse(execFileSync("sh", ["-c", `${command} --silent`], { encoding: "utf8" }));
  assert.deepEqual(said, { results: ["added"] });
  const { count: after } = await server.ask("GET", `/filters/emails/count?${new URLSearchParams({ item: odd })}`);
  assert.equal(after, before + 1);
  await button(page, "Ask").click();
  await told(page, "It is probably in the filter.");
  await page.locator(".curl pre", { hasText: "/exists" }).waitFor();
});

onPage("what is drawn of an item is where the server says it lies", async (page, go) => {
  await go("#/filters/emails");
  await label(page, "Item").fill("item-17");
  await button(page, "Ask").click();
  await heading(page, "Where its fingerprint lies");
  const { places } = await server.ask("GET", "/filters/emails/locate?item=item-17");
  const found = places.filter((place) => place.buckets.some((it) => it.slots.includes("match")));
  assert.equal(found.length, 1);
  for (const [at, bucket] of found[0].buckets.entries()) {
    const box = page.locator(".place .bucket").nth(at);
    await box.getByText(`page ${bucket.page},`).waitFor();
    const slots = await box.locator(".slot").evaluateAll((all) => all.map((it) => it.classList[1]));
    assert.deepEqual(slots, bucket.slots);
  }
});

onPage("of a chain that holds an item in some sub-filters, those are drawn", async (page, go) => {
  await go("#/filters/campaign-17");
  await label(page, "Item").fill("item-8000");
  await button(page, "Ask").click();
  await heading(page, "Where its fingerprint lies");
  const { places } = await server.ask("GET", "/filters/campaign-17/locate?item=item-8000");
  const found = places.filter((place) => place.buckets.some((it) => it.slots.includes("match")));
  assert.ok(found.length > 0 && found.length < places.length);
  assert.equal(await page.locator(".place").count(), found.length);
  for (const place of found) {
    await page.locator(".place", { hasText: `Sub-filter ${place.sub_filter}` }).waitFor();
  }
});

onPage("the growth of a filter that splits its pages is drawn as it is", async (page, go) => {
  await go("#/filters/emails");
  const it = await server.ask("GET", "/filters/emails");
  const { pages_split: split, pages_to_split: left, entries_by_level: levels } = it.growth;
  assert.ok(split > 0 && left > 0 && levels.length > 2, JSON.stringify(it.growth));
  const growth = page.getByRole("region", { name: "Entries by age" });
  await page.getByText(`has doubled ${it.expansions} times`).waitFor();
  await page.getByText(`${split} of ${split + left} pages split`).waitFor();
  const parts = await page
    .locator(".shares .bar")
    .evaluateAll((all) => all.map((it) => it.firstChild.offsetWidth / it.offsetWidth));
  for (const [at, part] of [it.sub_filters[0].load, split / (split + left)].entries()) {
    assert.ok(Math.abs(parts[at] - part) < 0.02, `${parts}`);
  }
  const rows = growth.locator("tbody tr");
  assert.equal(await rows.count(), levels.length);
  for (const [at, entries] of levels.entries()) {
    await rows.nth(at).getByText(entries.toLocaleString("en"), { exact: true }).waitFor();
  }
  // Nothing is appended to it, so nothing is compacted.
  assert.equal(await button(page, "Compact").count(), 0);
});

onPage("items that expire are drawn by age, and refreshed", async (page, go) => {
  await server.ask("PUT", "/filters/seen", { capacity: 1000, window_seconds: 3600, window_resolution_seconds: 600 });
  await server.ask("POST", "/filters/seen/items", { items: ["ada", "bob"] });
  await go("#/filters/seen");
  const { epochs } = await server.ask("GET", "/filters/seen");
  assert.equal(epochs.length, 7);
  const rows = page.getByRole("region", { name: "Items by age" }).locator("tbody tr");
  await rows.first().waitFor();
  assert.equal(await rows.count(), epochs.length);
  await label(page, "Item").fill("ada");
  await button(page, "Add").click();
  await told(page, "Refreshed.");
  // Nothing is deleted from it.
  assert.equal(await button(page, "Delete …").count(), 0);
});

onPage("values of items are listed, added and deleted, and counted by items", async (page, go) => {
  await server.ask("PUT", "/filters/joins", { capacity: 1000, value_bits: 12, values_per_item: 4 });
  const entries = [["ada", 3], ["ada", 17], ["bob", 4000], ["eve", 1], ["eve", 2], ["eve", 3], ["eve", 5]];
  await server.ask("POST", "/filters/joins/values", { entries: entries.map(([item, value]) => ({ item, value })) });
  await go("#/filters/joins");
  await label(page, "Items, one a line").fill("ada\nbob\n\nnobody\nada\neve\n");
  await button(page, "List values").click();
  await page.getByText("Values an item, of the 4 items asked for").waitFor();
  const texts = (what) => page.locator(what).allTextContents();
  assert.deepEqual(await texts(".values dt"), ["ada", "bob", "nobody", "eve"]);
  assert.deepEqual(await texts(".values dd"), ["3 17", "4000", "none", "1 2 3 5"]);
  const rows = page.getByRole("region", { name: "Values an item" }).locator("tbody tr");
  const row = async (at) => (await rows.nth(at).locator("th, .number").allTextContents()).join(": ");
  assert.equal(await rows.count(), 4);
  assert.deepEqual(await Promise.all([0, 1, 2, 3].map(row)), ["0: 1", "1: 1", "2: 1", "3 to 4: 1"]);

  await label(page, "Item").fill("ada");
  await button(page, "Add").click();
  await page.getByRole("alert").waitFor();
  await label(page, "Value").fill("9");
  await button(page, "Ask").click();
  await told(page, "It does not have the value 9.");
  await button(page, "Add").click();
  await told(page, "Added.");
  await button(page, "Ask").click();
  await told(page, "It probably has the value 9.");
  await button(page, "Delete …").click();
  await button(page, "Delete one copy").click();
  await told(page, "One copy deleted.");
  const { values } = await server.ask("GET", "/filters/joins/values?item=ada");
  assert.deepEqual(values, [3, 17]);
});

onPage("rows of items are listed, asked for, added and deleted by their attributes", async (page, go) => {
  const tags = Array.from({ length: 20 }, (_, at) => `t${at}`);
  await server.ask("PUT", "/filters/plans", {
    capacity: 1000,
    attributes: [{ name: "plan", values: ["free", "pro"] }, { name: "tag", values: tags }, { name: "city", hash_bits: 4 }],
  });
  const row = (plan, tag) => ({ item: "ada", attributes: { plan, tag, city: "Graz" } });
  await server.ask("POST", "/filters/plans/values", { entries: [row("free", "t3"), row("pro", "t4")] });
  await go("#/filters/plans");
  const described = page.getByRole("region", { name: "Parameters" });
  await described.getByText("free, pro", { exact: true }).waitFor();
  await described.getByText(`${tags.slice(0, 16).join(", ")} and 4 more`).waitFor();
  await described.getByText("any value, 4 bits of its hash").waitFor();
  await label(page, "Items, one a line").fill("ada\nnobody\n");
  await button(page, "List rows").click();
  await page.getByText("Rows an item, of the 2 items asked for").waitFor();
  const { values } = await server.ask("GET", "/filters/plans/values?item=ada");
  const listed = values.map(({ plan, tag, city }) => `plan: ${plan}, tag: ${tag}, city: ${city}`);
  assert.equal(listed.length, 2);
  assert.deepEqual(await page.locator(".values dd").allTextContents(), [listed.join("; "), "none"]);

  assert.equal(await label(page, "Value").count(), 0);
  await label(page, "Item").fill("ada");
  await button(page, "Ask").click();
  await told(page, "It is probably in the filter.");
  await label(page, "plan").fill("pro");
  await label(page, "tag").fill("t3");
  await button(page, "Ask").click();
  await told(page, "It has no row with plan: pro, tag: t3.");
  // A row has a value of each attribute.
  await button(page, "Add").click();
  await page.getByRole("alert").waitFor();
  await label(page, "city").fill("Graz");
  await button(page, "Add").click();
  await told(page, "Added.");
  await button(page, "Ask").click();
  await told(page, "It probably has a row with plan: pro, tag: t3, city: Graz.");
  await button(page, "Delete …").click();
  await page.getByText("One copy of the row plan: pro, tag: t3, city: Graz of").waitFor();
  await button(page, "Delete one copy").click();
  await told(page, "One copy deleted.");
  const left = await server.ask("GET", "/filters/plans/values?item=ada");
  assert.deepEqual(left.values, values);
});

onPage("the chain is drawn as it is", async (page, go) => {
  await go("#/filters/campaign-17");
  const { sub_filters } = await server.ask("GET", "/filters/campaign-17");
  assert.ok(sub_filters.length > 1);
  await page.locator(".chain tbody tr").first().waitFor();
  const lengths = await page.locator(".chain .length").evaluateAll((all) => all.map((it) => it.offsetWidth));
  assert.equal(lengths.length, sub_filters.length);
  for (const [at, sub] of sub_filters.entries()) {
    const part = sub.bytes / sub_filters.at(-1).bytes;
    assert.ok(Math.abs(lengths[at] / lengths.at(-1) - part) < 0.02, `${lengths}`);
    const row = page.locator(".chain tbody tr").nth(at);
    await row.getByText(`${(100 * sub.load).toFixed(1)}%`).waitFor();
  }
});

onPage("a chain whose newest sub-filter holds too much is not compacted", async (page, go) => {
  await go("#/filters/campaign-17");
  await button(page, "Compact").click();
  await page.getByText("Nothing to compact").waitFor();
});

onPage("refused fields are told beside the field, in the server's words", async (page, go) => {
  await go("#/new");
  await label(page, "Capacity").fill("many");
  const field = label(page, "Capacity");
  await page.locator(".field .error").waitFor();
  assert.equal(await field.getAttribute("aria-invalid"), "true");
  const described = await field.getAttribute("aria-describedby");
  const said = await page.locator(`#${described.split(" ").at(-1)}`).textContent();
  assert.match(said, /many.*allowed is .*integer/);
  await field.fill("10");
  await page.locator(".field .error").waitFor({ state: "detached" });

  // A filter that is there already is not taken for the new one.
  await label(page, "Key").fill("emails");
  await button(page, "Create filter").click();
  await page.getByRole("alert").getByText("exists").first().waitFor();
});

onPage("a long list is counted, sorted, searched within keys, and comes in pages", async (page, go) => {
  const keys = Array.from({ length: 303 }, (_, at) => `of-${at % 2}:long-${String(at).padStart(3, "0")}`);
  await Promise.all(keys.map((key) => server.ask("PUT", `/filters/${key}`, { ttl_seconds: key.endsWith("7") ? 10_000 : 90_000 })));
  await server.ask("POST", "/filters/of-1:long-055/items", { items: ["a", "b", "c"] });
  await go();
  const rows = page.locator(".filters tbody tr");
  const first = (key) => rows.first().getByRole("link", { name: key, exact: true }).waitFor();
  await label(page, "Key contains").fill("long-");
  await page.locator(".total", { hasText: "303 filters, 3 items" }).waitFor();
  assert.equal(await rows.count(), 50);
  await first("of-0:long-000");
  await page.getByText("Page 1 of 7").waitFor();
  for (const key of ["of-0:long-100", "of-0:long-200", "of-0:long-300", "of-1:long-097", "of-1:long-197", "of-1:long-297"]) {
    await button(page, "Next").click();
    await first(key);
  }
  assert.equal(await rows.count(), 3);
  assert.ok(await button(page, "Next").isDisabled());
  await button(page, "Previous").click();
  await first("of-1:long-197");
  // Another order begins at the first page.
  await label(page, "Sort by").selectOption("Most items");
  await first("of-1:long-055");
  await label(page, "Sort by").selectOption("Ends first");
  await page.locator(".filters tbody tr:first-child", { hasText: "in 3 hours" }).waitFor();
  assert.match(await rows.first().textContent(), /long-..7/);
  await label(page, "Key contains").fill("g-11");
  await page.locator(".total", { hasText: "10 filters, 0 items" }).waitFor();
  await label(page, "Key contains").fill("none-");
  await page.getByText("There is no filter whose key contains").waitFor();
  await label(page, "Key contains").fill("nö");
  await page.getByRole("alert").waitFor();
});

onPage("as many filters as are listed at most are counted, turned through and sorted", async (page, go) => {
  const { filters: [one] } = await server.ask("GET", "/filters?limit=1");
  // 7919 and 10,000 have no common divisor: each filter has another number of items.
  const all = Array.from({ length: 10_000 }, (_, at) => (
    { ...one, key: `k${String(at).padStart(4, "0")}`, items: (7919 * at) % 10_000 }
  ));
  await page.route("**/filters?*", (route) => {
    const cursor = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
    const next = cursor + 1000;
    return route.fulfill({ json: { filters: all.slice(cursor, next), next_cursor: next < all.length ? `${next}` : null } });
  });
  await go();
  await page.locator(".total", { hasText: "10,000 filters, 49,995,000 items" }).waitFor();
  const rows = page.locator(".filters tbody tr");
  assert.equal(await rows.count(), 50);
  await page.getByText("Page 1 of 200").waitFor();
  // Within the page: 199 clicks from here take long.
  await page.evaluate(async () => {
    const next = () => document.querySelector(".pager button:last-child");
    while (!next().disabled) {
      next().click();
      await new Promise(requestAnimationFrame);
    }
  });
  await page.getByText("Page 200 of 200").waitFor();
  await rows.last().getByRole("link", { name: "k9999", exact: true }).waitFor();
  assert.equal(await rows.count(), 50);
  await label(page, "Sort by").selectOption("Most items");
  const most = all.find((it) => it.items === 9999);
  await rows.first().getByRole("link", { name: most.key, exact: true }).waitFor();
  await page.getByText("Page 1 of 200").waitFor();
});

onPage("of more filters than are listed it says how far it looked", async (page, go) => {
  // As a server answers whose descriptions are many.
  const { filters } = await server.ask("GET", "/filters?limit=1");
  let asked = 0;
  await page.route("**/filters?*", (route) => {
    asked += 1;
    return route.fulfill({ json: { filters: [{ ...filters[0], key: `k${asked}` }], next_cursor: `k${asked}` } });
  });
  await go();
  await page.getByText("There are more filters than are listed here: those up to k40 were looked at.").waitFor();
  assert.ok(asked >= 40 && asked % 40 === 0, `${asked}`);
});

onPage("live figures follow what is asked", async (page, go) => {
  await go();
  const figure = page.locator(".vitals dd").first();
  await page.locator(".vitals").waitFor();
  const items = Array.from({ length: 5000 }, (_, at) => `item-${at}`);
  const deadline = Date.now() + 15_000;
  let asked = 0;
  while (!(asked > 0) && Date.now() < deadline) {
    await server.ask("POST", "/filters/emails/exists", { items });
    await page.waitForTimeout(200);
    asked = Number((await figure.textContent()).replaceAll(",", ""));
  }
  assert.ok(asked > 0, "the rate stays at nothing");
  await page.locator(".vitals dd", { hasText: /\d (µs|ms|s)$/ }).first().waitFor();
});

onPage("a clock that is not believed is said, until it is confirmed", async (page, go) => {
  let jumped = 172_800;
  await page.route("**/metrics", async (route) => {
    const answer = await route.fetch();
    const text = await answer.text();
    assert.match(text, /^cuckood_clock_jump_seconds 0$/m);
    const body = text.replace(/^cuckood_clock_jump_seconds 0$/m, `cuckood_clock_jump_seconds ${jumped}`);
    await route.fulfill({ response: answer, body });
  });
  await go();
  const notice = page.locator(".vitals .notice", { hasText: "Filters do not expire" });
  await notice.waitFor();
  assert.match(await notice.textContent(), /jumped ahead by 2 days.*POST \/admin\/clock\/confirm/);
  jumped = 0;
  await notice.waitFor({ state: "detached" });
});

onPage("everything can be done without a mouse", async (page, go) => {
  await go();
  await page.getByRole("link", { name: "emails" }).waitFor();
  const press = (key) => page.keyboard.press(key);
  const reach = async (name) => {
    for (let steps = 0; steps < 60; steps += 1) {
      const at = await page.evaluate(() => {
        const it = document.activeElement;
        return it.labels?.[0]?.textContent ?? it.textContent;
      });
      if (at.trim() === name) return;
      await press("Tab");
    }
    assert.fail(`the focus does not come to ${name}`);
  };
  await reach("New filter");
  await press("Enter");
  await heading(page, "New filter");
  // The view's heading has the focus, so a screen reader begins there.
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await reach("Key");
  await page.keyboard.type("typed");
  await press("Enter");
  await heading(page, "typed");
  // The dialog takes the focus, and only then what is typed.
  const asked = () => page.locator("dialog input:focus").waitFor();
  await reach("Delete filter …");
  await press("Enter");
  await asked();
  await page.keyboard.type("typ");
  await press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Delete filter …");
  await press("Enter");
  await asked();
  await page.keyboard.type("typed");
  await page.locator("dialog button[type=submit]:enabled").waitFor();
  await press("Enter");
  await heading(page, "Filters");
});

onPage("a filter's expiry is set and removed", async (page, go) => {
  await server.ask("PUT", "/filters/ending", {});
  await go("#/filters/ending");
  await label(page, "Days from now").fill("2");
  await button(page, "Set expiry").click();
  await page.getByText("It expires in 2 days").waitFor();
  assert.equal((await server.ask("GET", "/filters/ending")).ttl_seconds, 172_800);
  await button(page, "Remove expiry").click();
  await page.getByText("It does not expire.").waitFor();
  assert.equal((await server.ask("GET", "/filters/ending")).ttl_seconds, null);
  // Deleted by somebody else.
  await server.ask("DELETE", "/filters/ending");
  await page.getByText("There is no filter with this key.").waitFor();
});

test("of a cluster its pods, lanes, leaders and what is behind are shown", async () => {
  const cluster = await startCluster();
  const [pod] = cluster.pods;
  const { page, wrong, close } = await openPage(browser, pod);
  try {
    for (const [at, of] of cluster.pods.entries()) {
      await of.ask("PUT", `/filters/lists-${at}`, { capacity: 100 });
    }
    await page.goto(`${pod.url}/console`);
    await page.getByRole("link", { name: "Cluster", exact: true }).click();
    await heading(page, "Cluster shop");
    await page.getByText("2 pods, 4 lanes, each change on 1 broker, epoch 1.").waitFor();
    const region = (name) => page.getByRole("region", { name, exact: true });
    const text = async (row) => (await row.textContent()).trim();
    // Until each lane has its leader, and everybody has said where he is.
    let [known, before] = [null, null];
    for (const started = Date.now(); Date.now() - started < 20_000; await page.waitForTimeout(1200)) {
      [before, known] = [known, await pod.ask("GET", "/cluster")];
      delete known.age_seconds;
      const isSettled = known.lanes.every((it) => it.leader) && known.pods.every((it) => it.lanes_behind === 0);
      if (isSettled && JSON.stringify(known) === JSON.stringify(before)) break;
    }
    assert.equal(known.answered_by, pod.url);
    await region("Pods").locator("tbody tr", { hasText: "this one" }).getByText(pod.url).waitFor();
    for (const it of known.pods) {
      const row = region("Pods").locator("tbody tr", { hasText: it.address });
      await row.getByText(`${it.leads} lane${it.leads === 1 ? "" : "s"}`, { exact: true }).waitFor();
    }
    const lanes = region("Lanes").locator("tbody tr");
    assert.equal(await lanes.count(), 4);
    for (const it of known.lanes) {
      const row = lanes.nth(it.lane);
      await row.getByText(it.leader).waitFor();
      assert.match(await text(row), new RegExp(`${it.newest}0$`));
    }
    assert.deepEqual(await violations(page), []);
    // Without the brokers it says so, and how it was.
    await cluster.stopBroker();
    await page.getByText("The brokers do not answer.").waitFor({ timeout: 20_000 });
    await page.getByText("lanes without a leader.").waitFor({ timeout: 20_000 });
    assert.deepEqual(wrong, []);
  } finally {
    await close();
    await cluster.stop();
  }
});

onPage("a server in no cluster shows none", async (page, go) => {
  await go();
  await page.getByRole("link", { name: "API", exact: true }).waitFor();
  await page.locator(".vitals dd").first().waitFor();
  assert.equal(await page.getByRole("link", { name: "Cluster", exact: true }).count(), 0);
  await go("#/cluster");
  await page.getByRole("alert").getByText("in no cluster").first().waitFor();
});

const signIn = async (page, key) => {
  await heading(page, "Sign in");
  await label(page, "API key").fill(key);
  await button(page, "Sign in").click();
};

onPage(
  "with keys a user signs in, and may do what the key may do",
  async (page, go) => {
    await go();
    await signIn(page, "no such key");
    await page.getByText("The server does not know this key.").waitFor();
    await signIn(page, keys.admin);
    await page.getByText("There is no filter yet.").waitFor();
    await page.getByRole("link", { name: "New filter" }).click();
    await label(page, "Key").fill("shop:guests");
    await page.locator(".lead").waitFor();
    await button(page, "Create filter").click();
    await heading(page, "shop:guests");
    await label(page, "Item").fill("ada");
    await button(page, "Add").click();
    await told(page, "Added.");
    await dropFile(page, "guests.txt", "bob\n");
    await button(page, "Import").click();
    await ended(page, "guests.txt-2026-11-20", "complete");
    // The key is where the page said it would be, and nowhere else.
    const kept = await page.evaluate(() => [
      ...Object.values(sessionStorage),
      ...Object.values(localStorage),
      document.cookie,
      location.href,
    ]);
    assert.deepEqual(kept.filter((it) => it.includes(keys.admin)), [keys.admin]);

    await button(page, "Sign out").click();
    await signIn(page, keys.reader);
    await heading(page, "shop:guests");
    await label(page, "Item").fill("ada");
    await button(page, "Ask").click();
    await told(page, "It is probably in the filter.");
    // What the key may not do is not offered.
    for (const name of ["Add", "Delete …", "Set expiry", "Delete filter …"]) {
      assert.equal(await button(page, name).count(), 0, name);
    }
    assert.equal(await page.locator(".drop").count(), 0);
    // Of imports it may know, but not that this tab began them with another key.
    await page.locator(".known", { hasText: /^guests\.txt-.*, complete, 1 line,/ }).waitFor();
    assert.equal(await page.getByRole("article").count(), 0);
    await page.getByText("Done last, as a command").click();
    const command = await page.locator(".curl pre").textContent();
    assert.ok(command.includes('"authorization: Bearer $CUCKOOD_API_KEY"') && !command.includes(keys.reader), command);
    await page.getByRole("link", { name: "Imports and backups" }).click();
    await heading(page, "Imports and backups");
    assert.equal(await page.getByRole("heading", { name: "Backups", exact: true }).count(), 0);
    await go();
    await page.getByRole("link", { name: "shop:guests" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "New filter" }).count(), 0);
    await go("#/new");
    await page.getByText("The key that is signed in may only read.").waitFor();
    assert.equal(await page.getByRole("textbox").count(), 0);
    await go("#/filters/shop%3Aguests");

    await button(page, "Sign out").click();
    await signIn(page, keys.shop);
    await heading(page, "shop:guests");
    await page.getByText("No live figures").waitFor();
    await button(page, "Add").waitFor();
    assert.equal(await button(page, "Set expiry").count(), 0);
    await go("#/new");
    assert.equal(await label(page, "Key").inputValue(), "shop:");
    await page.getByText("Begins with shop:").waitFor();
    await go();
    await page.getByText("Your key is for filters whose keys begin with shop:").waitFor();
    await go("#/new/other");
    await page.locator(".lead").waitFor();
    await button(page, "Create filter").click();
    await page.getByRole("alert").getByText("shop:").first().waitFor();

    await button(page, "Sign out").click();
    await signIn(page, keys.admin);
    await go("#/filters/shop%3Aguests");
    await button(page, "Delete filter …").click();
    await label(page, "Type the key to confirm").fill("shop:guests");
    await button(page, "Delete filter").click();
    await page.getByText("There is no filter yet.").waitFor();
  },
  { of: () => keyed },
);

for (const colorScheme of ["light", "dark"]) {
  onPage(
    `axe finds nothing wrong with signing in: ${colorScheme}`,
    async (page, go) => {
      await go();
      await signIn(page, "wrong");
      await page.getByText("The server does not know this key.").waitFor();
      assert.deepEqual(await violations(page), []);
    },
    { of: () => keyed, options: { colorScheme } },
  );
}

onPage("items and keys are text, whatever is in them", async (page, go) => {
  await go("#/filters/emails");
  const odd = `<img src=x onerror="document.title='broken'">&amp;+%41 ü`;
  await label(page, "Item").fill(odd);
  await button(page, "Add").click();
  await told(page, "Added.");
  assert.equal(await page.locator(".answer q").textContent(), odd);
  assert.deepEqual(
    await server.ask("POST", "/filters/emails/exists", { items: [odd] }),
    { results: [true] },
  );
  await page.locator(".whereabouts").waitFor();
  await go(`#/filters/${encodeURIComponent("<b>x</b>")}`);
  await heading(page, "<b>x</b>");
  await page.getByText("There is no filter with this key.").waitFor();
  assert.notEqual(await page.title(), "broken");
});

test("a server that stops answering is told of, and found again", async () => {
  const short = await startServer();
  const { page, close } = await openPage(browser, short);
  await page.goto(`${short.url}/console`);
  await page.getByText("There is no filter yet.").waitFor();
  await page.route("**/filters?*", (route) => route.abort());
  await page.getByRole("alert").getByText("does not answer").waitFor();
  await page.unroute("**/filters?*");
  await button(page, "Try again").click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await close();
  await short.stop();
});

test("what asks another host is noticed, and the page's policy stops it", async () => {
  const { page, wrong, close } = await openPage(browser, server);
  await page.goto(`${server.url}/console`);
  const stopped = await page.evaluate(() =>
    fetch("http://another.example/").then(() => false, () => true),
  );
  assert.ok(stopped);
  assert.ok(wrong.some((it) => /another\.example|Content Security Policy/.test(it)), wrong.join());
  // Neither code nor style that stands in the page itself.
  const inline = await page.evaluate(() => {
    document.body.insertAdjacentElement("beforeend", document.createElement("p")).id = "inked";
    document.getElementById("inked").setAttribute("style", "color: red");
    return getComputedStyle(document.getElementById("inked")).color;
  });
  assert.notEqual(inline, "rgb(255, 0, 0)");
  await close();
});

/** Everything that axe finds wrong, in a few words. */
async function violations(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((it) => it.html).join(" ")}`);
}

for (const [name, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["narrow", { colorScheme: "light", viewport: { width: 360, height: 740 } }],
  ["narrow-dark", { colorScheme: "dark", viewport: { width: 360, height: 740 } }],
]) {
  onPage(
    `axe finds nothing wrong: ${name}`,
    async (page, go) => {
      const look = async (what) => {
        assert.deepEqual(await violations(page), [], what);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        assert.ok(!wide, `${what}: the page is wider than the screen`);
      };
      await go();
      await page.getByRole("link", { name: "emails" }).waitFor();
      await look("list");
      await label(page, "Key contains").fill("none-");
      await page.getByText("There is no filter whose key contains").waitFor();
      await look("list without a filter");

      await go("#/new");
      await page.locator(".lead").waitFor();
      await page.getByText("Growth and expiry").click();
      await look("new filter");
      await label(page, "Capacity").fill("x");
      await page.locator(".field .error").waitFor();
      await look("new filter with a refused field");

      for (const kind of ["values", "rows", "window", "classic"]) {
        await page.locator(`input[value=${kind}]`).check();
        await look(`new filter: ${kind}`);
      }

      await go("#/work");
      await page.getByText("None was begun in this tab.").waitFor();
      await look("imports and backups");

      await page.route("**/history", (route) => route.fulfill({ json: { samples: aDay(46_000, 0.006) } }));
      await go("#/filters/emails");
      await page.locator(".curve").first().waitFor();
      await label(page, "Item").fill("item-17");
      await button(page, "Ask").click();
      await page.locator(".whereabouts").waitFor();
      await page.getByText("Done last, as a command").click();
      await dropFile(page, "axe.txt", `axe-${name}\n${"x".repeat(70_000)}\n`);
      await label(page, "Name of the import").fill(`axe-${name}`);
      await look("filter, with a file chosen");
      await button(page, "Import").click();
      await ended(page, `axe-${name}`, "complete");
      await look("filter");
      await button(page, "Delete …").click();
      await look("dialog about an item");
      await button(page, "Cancel").click();
      await button(page, "Delete filter …").click();
      await look("dialog about a filter");
      await go("#/filters/missing");
      await page.getByText("There is no filter with this key.").waitFor();
      await look("missing filter");
    },
    { options },
  );
}
