// Takes the picture of the README: node tests/console/screenshot.mjs [directory]

import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { fillServer, openPage, startBrowser, startServer } from "./support.mjs";

const directory = process.argv[2] ?? fileURLToPath(new URL("../../docs/", import.meta.url));
const [browser, server] = await Promise.all([startBrowser(), startServer()]);
await fillServer(server);

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

const pages = [];
for (const [name, colorScheme, place] of [
  ["console", "light", "#/filters/emails"],
  ["console-dark", "dark", "#/filters/emails"],
]) {
  const options = { colorScheme, deviceScaleFactor: 1.5, viewport: { width: 1120, height: 1180 } };
  const { page } = await openPage(browser, server, options);
  await page.goto(`${server.url}/console${place}`);
  await page.getByLabel("Item", { exact: true }).fill("item-17");
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await page.locator(".whereabouts").waitFor();
  pages.push([name, page]);
}
// A minute of live figures.
await new Promise((resolve) => setTimeout(resolve, 64_000));
for (const [name, page] of pages) {
  await page.bringToFront();
  await page.evaluate(() => document.activeElement.blur());
  await page.waitForTimeout(2500);
  await page.screenshot({ path: join(directory, `${name}.png`) });
}
stopped = true;
await busy;
await browser.close();
await server.stop();
