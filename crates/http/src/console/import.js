// A file of items into a filter.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useId, useRef, useState } from "./hooks.mjs";
import { filterPath, get } from "./api.js";
import { away, bytes, count, counted, share } from "./format.js";
import { Bar, Choice, Field, ProblemNotice, usePolled } from "./parts.js";
import { begin, formatOf, nameFor, useUploads } from "./uploads.js";

const EVERY_MS = 5000;

/** Why a line was left out. */
const BAD = {
  too_long: "longer than 64 KiB",
  not_json: "not JSON",
  not_an_item: "neither a string nor an integer",
  not_an_entry: "not an item with a value or a row",
  value_too_large: "a value with too many bits",
  unknown_value: "a value that the filter does not know",
};

/** What a line of such a filter is, in words: as text and as JSON. */
export function linesOf({ attributes, value_bits }) {
  if (attributes) {
    const names = attributes.map((it) => it.name);
    const row = names.map((name) => `"${name}": …`).join(", ");
    return [["an item", ...names].join(", TAB, "), `{"item": …, "attributes": {${row}}}`];
  }
  if (value_bits) return ["an item, TAB, a value", '{"item": …, "value": …}'];
  return ["an item", "a string or an integer"];
}

/** Imports into a filter: of a file by who may, and those that are known. */
export function Import({ it, mayWrite, onChanged }) {
  const uploads = useUploads(it.key);
  const running = uploads.some((upload) => upload.state === "running");
  useEffect(() => {
    if (!running) onChanged();
  }, [running]);

  return h(
    "section",
    { "aria-labelledby": "import" },
    h("h2", { id: "import" }, mayWrite ? "Import a file" : "Imports of the last week"),
    mayWrite && h(Choosing, { it }),
    uploads.map((upload) => h(Upload, { key: upload.id, it: upload })),
    h(Earlier, { filter: it.key, uploads, mayWrite }),
  );
}

/** Takes files, each of which is looked at before it is imported. */
function Choosing({ it }) {
  const [chosen, setChosen] = useState(null);
  const [refused, setRefused] = useState(null);
  const [isOver, setOver] = useState(false);
  const input = useRef(null);
  const id = useId();

  const choose = async (files) => {
    const [file] = files;
    if (!file) return;
    setChosen(null);
    setRefused(files.length > 1 ? `One at a time: of ${count(files.length)} files this is the first.` : null);
    try {
      setChosen({ file, id: nameFor(file), onlyIfAbsent: false, ...(await formatOf(file)) });
    } catch {
      setRefused(`${file.name} cannot be read. Choose a file, no directory.`);
    }
  };
  const clear = () => {
    setChosen(null);
    setRefused(null);
    input.current.value = "";
  };
  const start = (event) => {
    event.preventDefault();
    begin(it.key, chosen.id, chosen.file, chosen);
    clear();
  };
  const [text, json] = linesOf(it);
  return h(
    Fragment,
    null,
    h("p", { class: "quiet" }, `As text each line is ${text}; as NDJSON ${json}. Also gzipped. It may have any length, and is committed as it comes.`),
    h(
      "div",
      {
        class: `drop ${isOver ? "over" : ""}`,
        onDragOver: (event) => {
          event.preventDefault();
          setOver(true);
        },
        onDragLeave: () => setOver(false),
        onDrop: (event) => {
          event.preventDefault();
          setOver(false);
          choose(event.dataTransfer.files);
        },
      },
      h("label", { for: id }, "Drop a file here, or choose one"),
      h("input", { id, ref: input, type: "file", onChange: (event) => choose(event.currentTarget.files) }),
    ),
    refused && h("p", { class: "notice warn", role: "status" }, refused),
    chosen && h(Chosen, { chosen, setChosen, start, clear }),
  );
}

/** Imports of the last week that this page has not begun. */
function Earlier({ filter, uploads, mayWrite }) {
  const { value } = usePolled((signal) => get(filterPath(filter, "/imports"), { signal }), () => EVERY_MS, [filter]);
  const own = new Set(uploads.map((upload) => upload.id));
  const others = value?.imports.filter((known) => !own.has(known.import_id)) ?? [];
  return h(
    Fragment,
    null,
    mayWrite && others.length > 0 && h("h3", { class: "earlier" }, uploads.length > 0 ? "Other imports of the last week" : "Imports of the last week"),
    !mayWrite && value?.imports.length === 0 && h("p", { class: "quiet" }, "There was none."),
    others.map((known) => h(Known, { key: known.import_id, it: known })),
    value?.next_cursor && h("p", { class: "quiet" }, "There are more; the page of imports finds one by its name."),
  );
}

/** An import as the server knows it. */
function Known({ it }) {
  return h(
    "details",
    { class: "known" },
    h("summary", null, h("strong", null, it.import_id), `, ${it.state}, ${counted(it.committed_lines, "line")}, ${away(it.updated_at)}`),
    h(Report, { it }),
  );
}

function Chosen({ chosen, setChosen, start, clear }) {
  const set = (changes) => setChosen({ ...chosen, ...changes });
  const type = (value, label) =>
    h(Choice, { group: "type", value, label, checked: chosen.type === value, onChoose: () => set({ type: value }) });
  return h(
    "form",
    { class: "stack chosen", onSubmit: start },
    h("p", null, h("strong", null, chosen.file.name), `, ${bytes(chosen.file.size)}${chosen.isZipped ? ", gzipped" : ""}`),
    h("fieldset", null, h("legend", null, "Its lines"), type("text/plain", "are text"), type("application/x-ndjson", "are JSON (NDJSON)")),
    h(
      "label",
      { class: "choice" },
      h("input", { type: "checkbox", checked: chosen.onlyIfAbsent, onChange: (event) => set({ onlyIfAbsent: event.currentTarget.checked }) }),
      h("span", null, "Leave out items that are there"),
    ),
    h(Field, {
      label: "Name of the import",
      required: true,
      maxLength: 100,
      pattern: "[A-Za-z0-9._:~\\-]{1,100}",
      title: "1 to 100 letters, digits and . _ : ~ -",
      hint: "Under the same name an import goes on where it ended, and adds nothing twice.",
      value: chosen.id,
      onInput: (event) => set({ id: event.currentTarget.value }),
    }),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onClick: clear }, "Cancel"),
      h("button", { type: "submit", class: "primary" }, "Import"),
    ),
  );
}

const STATES = { running: "running", complete: "complete", stopped: "stopped" };

/** An import that this page has begun, and how far it is. */
export function Upload({ it, named = false }) {
  const part = it.state === "complete" ? 1 : it.sent / (it.file.size || 1);
  const again = () => begin(it.filter, it.id, it.file, it.options);
  return h(
    "article",
    { class: "upload", "aria-label": `Import ${it.id}` },
    h("h3", null, it.id, named && [" into ", h("a", { href: `#/filters/${encodeURIComponent(it.filter)}` }, it.filter)]),
    h("p", { class: "fill" }, h(Bar, { part }), h("span", null, `${share(part)} of ${bytes(it.file.size)} sent, `, h("strong", null, STATES[it.state]))),
    it.problem && h(ProblemNotice, { problem: it.problem }),
    h("div", { role: "status" }, it.report && h(Report, { it: it.report })),
    it.state === "running" && h("button", { type: "button", onClick: it.stop }, "Stop"),
    it.state === "stopped" && h("button", { type: "button", onClick: again }, "Go on"),
  );
}

/** What became of the lines of an import. */
export function Report({ it }) {
  const rows = [
    ["Lines committed", it.committed_lines],
    ["Added", it.added],
    ["There already", it.exists],
    ["No room", it.full],
    ["Blank", it.blank_lines],
    ["Bad, left out", it.bad_lines],
  ];
  const more = it.bad_lines - it.first_bad_lines.length;
  return h(
    Fragment,
    null,
    h(
      "dl",
      { class: "rows report" },
      rows.map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, count(value)))),
    ),
    it.full_reason && h("p", { class: "notice warn" }, "The filter took not all: ", h("code", null, it.full_reason), "."),
    it.first_bad_lines.length > 0 &&
      h(
        "ul",
        { class: "bad-lines small" },
        it.first_bad_lines.map(({ line, reason }) => h("li", { key: line }, `Line ${count(line)}: ${BAD[reason] ?? reason}`)),
        more > 0 && h("li", { class: "quiet" }, `and ${counted(more, "more line")}`),
      ),
  );
}
