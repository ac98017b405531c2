// Imports and backups: what this page has begun, an import by its name, and what the
// server keeps of itself.

import { Fragment, h } from "./preact.mjs";
import { useState } from "./hooks.mjs";
import { change, done, filterPath, get, session, send } from "./api.js";
import { useRights } from "./caller.js";
import { away, bytes, moment, share } from "./format.js";
import { Report, Upload } from "./import.js";
import { Bar, Field, Heading, ProblemNotice, Waiting, usePolled } from "./parts.js";
import { useUploads } from "./uploads.js";

const EVERY_MS = 1500;

export function Work() {
  const { mayWrite, mayOperate } = useRights();
  return h(
    Fragment,
    null,
    h("div", { class: "title" }, h(Heading, { title: "Imports and backups" })),
    h(Imports, { mayWrite }),
    mayOperate && h(Backups),
  );
}

function Imports({ mayWrite }) {
  const uploads = useUploads();
  const [filter, setFilter] = useState("");
  const [id, setId] = useState("");
  const [told, setTold] = useState(null);
  const ask = async (event) => {
    event.preventDefault();
    try {
      setTold({ id, it: await get(filterPath(filter, `/imports/${encodeURIComponent(id)}`)) });
    } catch (problem) {
      setTold({ problem });
    }
  };
  return h(
    "section",
    { "aria-labelledby": "imports" },
    h("h2", { id: "imports" }, "Imports"),
    uploads.length === 0 && h("p", { class: "quiet" }, `None was begun in this tab. A filter’s page ${mayWrite ? "takes files, and " : ""}has its imports of the last week.`),
    uploads.map((it) => h(Upload, { key: `${it.filter} ${it.id}`, it, named: true })),
    h(
      "form",
      { class: "line", onSubmit: ask },
      h(Field, { label: "Filter", required: true, value: filter, onInput: (event) => setFilter(event.currentTarget.value) }),
      h(Field, { label: "Name of an import", required: true, value: id, onInput: (event) => setId(event.currentTarget.value) }),
      h("button", { type: "submit" }, "Look it up"),
    ),
    told?.problem && h(ProblemNotice, { problem: told.problem }),
    h(
      "div",
      { role: "status" },
      told?.it &&
        h(
          "article",
          { class: "upload", "aria-label": `Import ${told.id}` },
          h("h3", null, told.id),
          h("p", null, h("strong", null, told.it.state), `, last commit ${away(told.it.updated_at)}`),
          h(Report, { it: told.it }),
        ),
    ),
  );
}

/** What a backup's state means. */
const STATES = {
  writing: "being written",
  verifying: "being verified",
  complete: "complete",
  failed: "failed",
};

function Backups() {
  const { value, problem, askAgain } = usePolled((signal) => get("admin/backups", { signal }), () => EVERY_MS, []);
  const [refused, setRefused] = useState(null);
  const begin = async () => {
    setRefused(null);
    done({ method: "POST", path: "admin/backups" });
    // A backup that is begun twice is refused by the server.
    await send("POST", "admin/backups").catch(setRefused);
    askAgain();
  };
  // Without a directory for them, or on another listener, there are none.
  const off = problem && (problem.status === 404 || problem.code === "backups_off");
  const running = value?.backups.some((it) => it.state === "writing" || it.state === "verifying");
  return h(
    "section",
    { "aria-labelledby": "backups" },
    h("h2", { id: "backups" }, "Backups"),
    off && h("p", { class: "quiet" }, problem.status === 404 ? "They are on another address of the server." : problem.message),
    problem && !off && h(ProblemNotice, { problem }),
    refused && h(ProblemNotice, { problem: refused }),
    !value && !problem && h(Waiting, { what: "the backups" }),
    value &&
      h(
        Fragment,
        null,
        h("p", { class: "quiet" }, `Of everything that was acknowledged when it began. The last ${value.keep} are kept.`),
        value.backups.length === 0
          ? h("p", { role: "status" }, "There is none yet.")
          : h(Table, { backups: value.backups }),
        h("div", { class: "line" }, h("button", { type: "button", class: "primary", disabled: running, onClick: begin }, "Begin a backup")),
      ),
  );
}

function Table({ backups }) {
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Backups", tabIndex: 0 },
    h(
      "table",
      { class: "filters backups" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Begun"),
          h("th", { scope: "col" }, "State"),
          h("th", { scope: "col", class: "number" }, "Size"),
          h("th", { scope: "col" }, "Archive"),
        ),
      ),
      h(
        "tbody",
        null,
        backups.map((it) => h(Backup, { key: it.id, it })),
      ),
    ),
  );
}

function Backup({ it }) {
  const runs = it.state === "writing" || it.state === "verifying";
  const path = `admin/backups/${it.id}`;
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, h("time", { datetime: it.begun_at, title: away(it.begun_at) }, moment(it.begun_at))),
    h(
      "td",
      { "data-label": "State" },
      runs
        ? h("span", { class: "fill" }, h(Bar, { part: it.done_bytes / (it.bytes || 1) }), `${STATES[it.state]}, ${share(it.done_bytes / (it.bytes || 1))}`)
        : h("span", { class: it.state === "failed" ? "mark bad" : "" }, STATES[it.state]),
      it.failure && h("span", { class: "block small" }, it.failure),
    ),
    h("td", { class: "number", "data-label": "Size" }, bytes(it.bytes)),
    h(
      "td",
      { "data-label": "Archive" },
      it.state !== "complete"
        ? h("span", { class: "quiet" }, "–")
        : // A link can't show a key: then it is a matter for the shell.
          session.key
          ? h("button", { type: "button", class: "link", onClick: () => done({ method: "GET", path, headers: {}, into: `${it.id}.tar` }) }, "As a command")
          : h("a", { href: path, download: "" }, "Download"),
    ),
  );
}
