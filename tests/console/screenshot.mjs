// Takes the pictures that pages show: node tests/console/screenshot.mjs [directory]

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { aDay, dropFile, fillServer, openPage, startBrowser, startServer } from "./support.mjs";

const directory = process.argv[2] ?? fileURLToPath(new URL("../../docs/", import.meta.url));
const backups = mkdtempSync(join(tmpdir(), "console-backups-"));
const [browser, server] = await Promise.all([startBrowser(), startServer("--backup-dir", backups)]);
await fillServer(server);
await server.ask("PUT", "/filters/seen-today", { capacity: 100_000, window_seconds: 86_400 });
await server.ask("PUT", "/filters/shard-of", { capacity: 50_000, value_bits: 12 });
const attributes = [{ name: "plan", values: ["free", "pro"] }, { name: "country", hash_bits: 8 }];
await server.ask("PUT", "/filters/users-by-plan", { capacity: 20_000, attributes });

/** Opens a view, as narrow as its words stay readable where a page shows it. */
async function open(place, height, options = {}) {
  const view = { deviceScaleFactor: 1.5, viewport: { width: 1120, height }, ...options };
  const { page } = await openPage(browser, server, view);
  // A server that has run for a day.
  const { items, expected_false_positive_rate: rate } = await server.ask("GET", "/filters/emails");
  await page.route("**/history", (route) => route.fulfill({ json: { samples: aDay(items, rate) } }));
  await page.goto(`${server.url}/console${place}`);
  return page;
}

async function take(page, name) {
  await page.evaluate(() => {
    document.activeElement.blur();
    const upload = document.querySelector(".upload") && document.getElementById("import");
    (upload ?? document.body).scrollIntoView();
  });
  await page.screenshot({ path: join(directory, `${name}.png`) });
}

/** For pages that show it as it is. */
const SMALL = { deviceScaleFactor: 1 };

const list = await open("", 710, SMALL);
await list.locator(".filters tbody tr").nth(6).waitFor();
const create = await open("#/new/users-by-tier", 1000, SMALL);
await create.locator(".choice", { hasText: "Items with attributes" }).getByRole("radio").check();
const attribute = create.getByRole("group", { name: "Attribute 1" });
await attribute.getByLabel("Name").fill("plan");
await attribute.getByLabel("Values, with commas between").fill("free, pro, team");
await create.getByLabel("Capacity", { exact: true }).fill("1 000 000");
await create.locator(".lead", { hasText: "1,000,000" }).waitFor();
const into = await open("#/filters/coupons%3Asummer", 412, SMALL);
const lines = Array.from({ length: 150_000 }, (_, at) => (at === 41_999 ? "x".repeat(70_000) : `coupon-${at}`));
await dropFile(into, "coupons-of-august.txt", lines.join("\n"));
await into.getByRole("button", { name: "Import", exact: true }).click();
await into.getByText("complete", { exact: true }).waitFor();
// The same tab says what it has begun.
const work = await open("#/filters/coupons%3Asummer", 900, SMALL);
await dropFile(work, "coupons-of-june.txt", lines.slice(0, 1_000).join("\n"));
await work.getByRole("button", { name: "Import", exact: true }).click();
await work.getByText("complete", { exact: true }).waitFor();
await work.goto(`${server.url}/console#/work`);
await work.getByRole("heading", { name: "coupons-of-june.txt" }).waitFor();
await work.getByRole("button", { name: "Begin a backup" }).click();

// Something to see in the live figures.
let stopped = false;
const keepBusy = async () => {
  for (let turn = 0; !stopped; turn += 1) {
    const many = 400 + Math.round(300 * Math.sin(turn / 25));
    const items = Array.from({ length: many }, (_, at) => `item-${(turn * 97 + at * 7) % 60_000}`);
    await server.ask("POST", "/filters/emails/exists", { items });
    if (turn % 4 === 0) {
      const visits = items.slice(0, 60).map((item) => `${item}?${turn}`);
      await server.ask("POST", "/filters/urls-seen/items", { items: visits });
    }
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
};
const busy = keepBusy();

const pages = [
  ["console-list", list],
  ["console-new", create],
  ["console-import", into],
  ["console-work", work],
];
for (const [name, colorScheme] of [
  ["console", "light"],
  ["console-dark", "dark"],
]) {
  const page = await open("#/filters/emails", 1510, { colorScheme });
  await page.getByLabel("Item", { exact: true }).fill("item-17");
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.locator(".whereabouts").waitFor();
  pages.push([name, page]);
}
// A minute of live figures.
await new Promise((resolve) => setTimeout(resolve, 64_000));
for (const [name, page] of pages) {
  await page.bringToFront();
  await page.waitForTimeout(2500);
  await take(page, name);
}
stopped = true;
await busy;
await browser.close();
await server.stop();
