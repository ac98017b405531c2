// The real server as a process, and Debian's Chromium looking at it.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
export const BINARY = join(TARGET, "release/cuckood");
const BROKER = process.env.NATS_SERVER ?? join(ROOT, ".venv/bin/nats-server");
const BROWSER = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Longest wait for a server to be ready. */
const PATIENCE_MS = 60_000;

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

/** The environment less what would tell a server something. */
function withoutSettings() {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("CUCKOOD_"));
  return Object.fromEntries(kept);
}

/** Starts a server on a free port and waits until it is ready. */
export async function startServer(...flags) {
  return startServerAt(await freePort(), ...flags);
}

async function startServerAt(port, ...flags) {
  const home = mkdtempSync(join(tmpdir(), "console-"));
  const log = openSync(join(home, "log"), "w");
  const child = spawn(
    BINARY,
    ["serve", "--listen", `127.0.0.1:${port}`, "--data-dir", join(home, "data"), ...flags],
    { env: withoutSettings(), stdio: ["ignore", log, log] },
  );
  const ended = once(child, "exit");
  const url = `http://127.0.0.1:${port}`;
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
    rmSync(home, { recursive: true, force: true });
  };
  for (const started = Date.now(); Date.now() - started < PATIENCE_MS; await sleep(20)) {
    if (child.exitCode !== null) break;
    const ready = await fetch(`${url}/readyz`).catch(() => null);
    if (ready?.ok) return { url, stop, ask: (...request) => ask(url, ...request) };
  }
  const said = readFileSync(join(home, "log"), "utf8");
  await stop();
  throw new Error(`the server is not ready:\n${said}`);
}

/** A broker, and two pods of a cluster that it keeps the log of. */
export async function startCluster() {
  const home = mkdtempSync(join(tmpdir(), "console-broker-"));
  const [port, monitor] = [await freePort(), await freePort()];
  const config = join(home, "conf");
  writeFileSync(
    config,
    `listen: 127.0.0.1:${port}\nhttp: 127.0.0.1:${monitor}\n` +
      `jetstream { store_dir: "${home}/data", sync_interval: always }\n`,
  );
  const broker = spawn(BROKER, ["--config", config], { stdio: "ignore" });
  const ended = once(broker, "exit");
  const brokers = [
    ...["--log", `nats://127.0.0.1:${port}`, "--log-monitor", `http://127.0.0.1:${monitor}`],
    ...["--cluster", "shop"],
  ];
  const stopBroker = async () => {
    broker.kill("SIGKILL");
    await ended;
  };
  const found = ["cluster", "found", "--unless-founded", "--lanes", "4", "--copies", "1", ...brokers];
  for (const started = Date.now(); ; await sleep(100)) {
    try {
      execFileSync(BINARY, found, { env: withoutSettings(), stdio: "pipe" });
      break;
    } catch (error) {
      if (Date.now() - started < PATIENCE_MS) continue;
      await stopBroker();
      throw error;
    }
  }
  const start = async () => {
    const at = await freePort();
    return startServerAt(at, ...brokers, "--advertise", `http://127.0.0.1:${at}`);
  };
  const pods = [await start(), await start()];
  const stop = async () => {
    await Promise.all(pods.map((it) => it.stop()));
    await stopBroker();
    rmSync(home, { recursive: true, force: true });
  };
  return { pods, stopBroker, stop };
}

/** A file of API keys, and the keys in it by their names. */
export function makeKeys(wanted) {
  const file = join(mkdtempSync(join(tmpdir(), "console-keys-")), "keys.json");
  const keys = {};
  for (const [name, ...flags] of wanted) {
    const line = ["keys", "add", name, "--keys-file", file, ...flags];
    keys[name] = execFileSync(BINARY, line, { encoding: "utf8", env: withoutSettings() }).trim();
  }
  return { file, keys };
}

async function ask(url, method, path, json, headers = {}) {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    body: json === undefined ? undefined : JSON.stringify(json),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
}

export function startBrowser() {
  return chromium.launch({
    executablePath: BROWSER,
    // Tests run as root and in containers, where Chromium has no sandbox.
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
}

/** Has the page's files come as they are on the disk, with the headers of the server's. */
async function serveFromDisk(page) {
  await page.route("**/console/*", async (route) => {
    const name = new URL(route.request().url()).pathname.split("/").at(-1);
    const path = join(ROOT, "crates/http/src/console", name);
    if (!existsSync(path)) return route.continue();
    const { headers } = await fetch(route.request().url().replace(name, "app.js"));
    const policy = headers.get("content-security-policy");
    return route.fulfill({ path, headers: { "content-security-policy": policy } });
  });
}

/** A page, and what it did that it should not have done. */
export async function openPage(browser, server, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1200, height: 900 },
    reducedMotion: "reduce",
    ...options,
  });
  const page = await context.newPage();
  if (process.env.CONSOLE_FROM_DISK) await serveFromDisk(page);
  page.setDefaultTimeout(10_000);
  const wrong = [];
  const home = new URL(server.url).origin;
  // Sees what the page asks of any host, also what its policy then stops.
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== home && protocol !== "data:") wrong.push(`asked ${request.url()}`);
  });
  page.on("pageerror", (error) => wrong.push(`threw ${error}`));
  page.on("console", (message) => {
    // Answers that say no are tested for what the page makes of them.
    const refusal = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !refusal) wrong.push(`said ${message.text()}`);
  });
  return { page, wrong, close: () => context.close() };
}

/** Three filters that show what there is to see. */
export async function fillServer(server) {
  const items = (from, to) => Array.from({ length: to - from }, (_, at) => `item-${from + at}`);
  await server.ask("PUT", "/filters/coupons:summer", { capacity: 60_000, error_rate: 0.001 });
  await server.ask("POST", "/filters/coupons:summer/items", { items: items(0, 41_000) });
  await server.ask("PUT", "/filters/emails", { capacity: 5_000, error_rate: 0.01 });
  await server.ask("POST", "/filters/emails/items", { items: items(0, 48_000) });
  await server.ask("PUT", "/filters/campaign-17", {
    capacity: 4_000,
    bucket_size: 4,
    ttl_seconds: 600_000,
  });
  await server.ask("POST", "/filters/campaign-17/items", { items: items(0, 9_000) });
  await server.ask("PUT", "/filters/urls-seen", { capacity: 1_000_000, error_rate: 1e-6 });
}

/** A filter that has grown for a day to so many items and this rate, in samples. */
export function aDay(items, rate) {
  return Array.from({ length: 288 }, (_, at) => {
    const grown = 0.2 + 0.8 * (at / 288) + 0.03 * (1 - at / 288) * Math.sin(at / 20);
    const passed = new Date(Date.now() - (288 - at) * 300_000);
    return {
      at: passed.toISOString(),
      items: Math.round(items * grown),
      slot_bytes: 188_416,
      expected_false_positive_rate: rate * grown ** 1.5,
    };
  });
}

/** Has a file dropped onto the page's place for it. */
export async function dropFile(page, name, bytes) {
  const data = await page.evaluateHandle(
    ([name, content]) => {
      const transfer = new DataTransfer();
      const decoded = Uint8Array.from(atob(content), (char) => char.charCodeAt(0));
      transfer.items.add(new File([decoded], name, { lastModified: Date.parse("2026-11-20T10:00:00Z") }));
      return transfer;
    },
    [name, Buffer.from(bytes).toString("base64")],
  );
  await page.locator(".drop").dispatchEvent("drop", { dataTransfer: data });
}
