// The console in a real browser, against the real server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { fillServer, makeKeys, openPage, startBrowser, startCluster, startServer } from "./support.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core"), "utf8");

const { file: keysFile, keys } = makeKeys([
  ["admin", "--scope", "admin"],
  ["reader", "--scope", "read"],
  ["shop", "--scope", "write", "--prefix", "shop:"],
]);

let browser;
let server;
let keyed;

before(async () => {
  [browser, server, keyed] = await Promise.all([
    startBrowser(),
    startServer(),
    startServer("--keys-file", keysFile),
  ]);
  await fillServer(server);
});
after(async () => {
  await browser?.close();
  await Promise.all([server?.stop(), keyed?.stop()]);
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

onPage("a long list comes in pages, and by the start of its keys", async (page, go) => {
  for (let at = 0; at < 120; at += 1) {
    await server.ask("PUT", `/filters/long-${String(at).padStart(3, "0")}`, {});
  }
  await go();
  await label(page, "Key begins with").fill("long-");
  const rows = page.locator(".filters tbody tr");
  await page.getByRole("link", { name: "emails" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "long-000" }).waitFor();
  assert.equal(await rows.count(), 50);
  await button(page, "Next").click();
  await page.getByRole("link", { name: "long-050" }).waitFor();
  await button(page, "Next").click();
  await page.getByRole("link", { name: "long-119" }).waitFor();
  assert.equal(await rows.count(), 20);
  assert.ok(await button(page, "Next").isDisabled());
  await button(page, "Previous").click();
  await page.getByRole("link", { name: "long-099" }).waitFor();
  await label(page, "Key begins with").fill("none-");
  await page.getByText("There is no filter whose key begins with").waitFor();
  await label(page, "Key begins with").fill("nö");
  await page.getByRole("alert").waitFor();
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
    await button(page, "Add").click();
    await page.getByRole("alert").getByText("scope").first().waitFor();

    await button(page, "Sign out").click();
    await signIn(page, keys.shop);
    await heading(page, "shop:guests");
    await page.getByText("No live figures").waitFor();
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
      await label(page, "Key begins with").fill("none-");
      await page.getByText("There is no filter whose key begins with").waitFor();
      await look("list without a filter");

      await go("#/new");
      await page.locator(".lead").waitFor();
      await page.getByText("Growth and expiry").click();
      await look("new filter");
      await label(page, "Capacity").fill("x");
      await page.locator(".field .error").waitFor();
      await look("new filter with a refused field");

      await go("#/filters/emails");
      await label(page, "Item").fill("item-17");
      await button(page, "Ask").click();
      await page.locator(".whereabouts").waitFor();
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
