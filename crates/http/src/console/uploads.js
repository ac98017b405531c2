// Imports that this page has begun. They go on while other views are seen.

import { useEffect, useState } from "./hooks.mjs";
import { Problem, done, filterPath, get, session, upload } from "./api.js";

const EVERY_MS = 700;

/** The imports of this page, the newest first. */
let all = [];
const watchers = new Set();

function changed() {
  all = [...all];
  for (const watcher of watchers) watcher(all);
}

/** Asks before the page is left, and with it what runs. */
addEventListener("beforeunload", (event) => {
  if (all.some((it) => it.state === "running")) event.preventDefault();
});

/** Those that the key of this session has begun, into a filter or into any. */
export function useUploads(filter) {
  const [known, setKnown] = useState(all);
  useEffect(() => {
    watchers.add(setKnown);
    setKnown(all);
    return () => watchers.delete(setKnown);
  }, []);
  return known.filter((it) => it.key === session.key && (filter === undefined || it.filter === filter));
}

/** What a file seems to be, by its name and its first bytes. */
export async function formatOf(file) {
  const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return {
    isZipped: head[0] === 0x1f && head[1] === 0x8b,
    type: /\.(ndjson|jsonl)(\.gz)?$/i.test(file.name) ? "application/x-ndjson" : "text/plain",
  };
}

/**
 * A name for an import of this file: the same for the same file, so that it can be taken up
 * again, and another one for any other: what is under a name is skipped.
 */
export function nameFor(file) {
  let hash = 0;
  for (const unit of `${file.name} ${file.size} ${file.lastModified}`) {
    hash = (Math.imul(hash, 31) + unit.codePointAt(0)) >>> 0;
  }
  const day = new Date(file.lastModified).toISOString().slice(0, 10);
  const mark = hash.toString(16).padStart(8, "0");
  return `${file.name.replaceAll(/[^\w.:~-]/g, "-").slice(0, 80)}-${day}-${mark}`;
}

/**
 * Begins an import, or takes it up: what is committed under its name is skipped. `options`
 * has `type`, `isZipped` and `onlyIfAbsent`.
 */
export function begin(filter, id, file, options) {
  const query = new URLSearchParams({ import_id: id });
  if (options.onlyIfAbsent) query.set("only_if_absent", "true");
  const path = filterPath(filter, `/import?${query}`);
  const headers = { "content-type": options.type };
  if (options.isZipped) headers["content-encoding"] = "gzip";
  done({ method: "POST", path, headers, file: file.name });
  const it = { key: session.key, filter, id, file, options, sent: 0, state: "running", report: null, problem: null };
  const { answer, stop } = upload(path, file, headers, (sent) => {
    it.sent = sent;
    changed();
  });
  it.stop = stop;
  const isSame = (other) => other.key === it.key && other.filter === filter && other.id === id;
  all = [it, ...all.filter((other) => !isSame(other))];
  changed();
  follow(it, answer);
  return it;
}

async function report(it) {
  return get(filterPath(it.filter, `/imports/${encodeURIComponent(it.id)}`));
}

async function follow(it, answer) {
  const timer = setInterval(async () => {
    // Before its first commit there is none.
    const known = await report(it).catch(() => null);
    if (known && it.state === "running") {
      it.report = known;
      changed();
    }
  }, EVERY_MS);
  try {
    it.report = await answer;
    it.state = "complete";
  } catch (problem) {
    it.state = "stopped";
    if (problem instanceof Problem) it.problem = problem;
  }
  clearInterval(timer);
  changed();
  if (it.state === "stopped") {
    it.report = await report(it).catch(() => it.report);
    changed();
  }
}
