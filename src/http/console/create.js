// A new filter, with what it would be before it is made. Every figure comes
// from the server: this page has no formula.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useState } from "./hooks.mjs";
import { change, filterPath, post } from "./api.js";
import { bytes, count, counted, oneIn, share } from "./format.js";
import { Field, Heading, ProblemNotice, Waiting, useSettled } from "./parts.js";

const NUMBERS = [
  "capacity",
  "error_rate",
  "fingerprint_bits",
  "bucket_size",
  "max_iterations",
  "expansion",
  "max_expansions",
  "promised_growth",
  "ttl_seconds",
];
const OF_LAYOUT = {
  paged: ["error_rate", "promised_growth", "fingerprint_bits"],
  classic: ["bucket_size", "max_iterations"],
};
const STOPPED = {
  expansion_off: "Then it is full, because it does not grow.",
  max_expansions: "Then it is full, because it has reached its number of expansions.",
  growth_limit: "Then it is full, because its slots record no more growth.",
  max_filter_bytes: "Then it is full, because the server allows no larger filter.",
};

/** What is sent: only what was filled in, and nothing of the other layout. */
function fieldsOf(form) {
  const fields = { layout: form.layout };
  const other = OF_LAYOUT[form.layout === "paged" ? "classic" : "paged"];
  for (const name of NUMBERS) {
    const text = (form[name] ?? "").trim().replaceAll(/[\s,_]/g, "");
    if (text === "" || other.includes(name)) continue;
    // What is no number is sent as it is: the server says what is allowed.
    const number = Number(text);
    fields[name] = Number.isFinite(number) ? number : text;
  }
  return fields;
}

export function Create({ name }) {
  const [form, setForm] = useState({ key: name ?? "", layout: "paged" });
  const [preview, setPreview] = useState({ value: null, problem: null });
  const [refused, setRefused] = useState(null);
  const [busy, setBusy] = useState(false);
  const settled = useSettled(JSON.stringify(fieldsOf(form)), 150);

  useEffect(() => {
    const stop = new AbortController();
    post("preview", JSON.parse(settled), { signal: stop.signal }).then(
      (value) => setPreview({ value, problem: null }),
      (problem) => {
        if (!stop.signal.aborted) setPreview({ value: null, problem });
      },
    );
    return () => stop.abort();
  }, [settled]);

  const problem = refused ?? preview.problem;
  const errors = {};
  for (const { pointer, given, allowed } of problem?.errors ?? []) {
    if (pointer) errors[pointer.slice(1)] = `${given} is not allowed; allowed is ${allowed}.`;
  }
  const known = preview.value;
  const field = (id, label, more = {}) =>
    h(Field, {
      label,
      name: id,
      inputmode: "decimal",
      value: form[id] ?? "",
      error: errors[id],
      placeholder: known?.[id] ?? "",
      onInput: (event) => {
        setRefused(null);
        setForm({ ...form, [id]: event.currentTarget.value });
      },
      ...more,
    });
  const choice = (layout, label, hint) =>
    h(
      "label",
      { class: "choice" },
      h("input", {
        type: "radio",
        name: "layout",
        value: layout,
        checked: form.layout === layout,
        onChange: () => {
          setRefused(null);
          setForm({ ...form, layout });
        },
      }),
      h("span", null, label, h("span", { class: "hint" }, hint)),
    );
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setRefused(null);
    try {
      await change("PUT", filterPath(form.key), fieldsOf(form), { "if-none-match": "*" });
      location.hash = `#/filters/${encodeURIComponent(form.key)}`;
    } catch (failed) {
      setRefused(failed);
      setBusy(false);
    }
  };
  const elsewhere = (it) => it && (it.status === 0 || it.errors.every(({ pointer }) => !pointer));

  return h(
    Fragment,
    null,
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Filters")),
    h("div", { class: "title" }, h(Heading, { title: "New filter" })),
    h(
      "div",
      { class: "halves" },
      h(
        "form",
        { class: "stack", onSubmit: submit },
        field("key", "Key", {
          required: true,
          inputmode: "text",
          placeholder: "",
          maxLength: 255,
          pattern: "[!-~]{1,255}",
          title: "1 to 255 visible ASCII characters, no blanks, but neither . nor ..",
          hint: "Letters, digits and signs, no blanks",
        }),
        field("capacity", "Capacity", {
          inputmode: "numeric",
          hint: "Items that the filter is made for, those to come included. A filter that grows beyond it has more false positives.",
        }),
        h(
          "fieldset",
          null,
          h("legend", null, "Layout"),
          choice("paged", "paged", "keeps its false-positive rate while it grows"),
          choice("classic", "classic", "RedisBloom’s, bit for bit"),
        ),
        form.layout === "paged"
          ? h(
              Fragment,
              null,
              !(form.fingerprint_bits ?? "").trim() &&
                field("error_rate", "False-positive rate, at most", { hint: "The share of items that were never added and get a “yes”: 0.001 is one in a thousand." }),
              !(form.error_rate ?? "").trim() &&
                field("fingerprint_bits", "Bits per slot, instead", { hint: "12, 16, 21 or 32." }),
            )
          : h(
              Fragment,
              null,
              field("bucket_size", "Slots per bucket", { inputmode: "numeric" }),
              field("max_iterations", "Kick-outs per path, at most", { inputmode: "numeric" }),
            ),
        h(
          "details",
          null,
          h("summary", null, "Growth and expiry"),
          form.layout === "paged" &&
            field("promised_growth", "Growth that keeps the rate", { inputmode: "numeric", hint: "How many times its capacity the filter may have and keep its false-positive rate." }),
          form.layout === "paged"
            ? field("expansion", "Expansion", { inputmode: "numeric", hint: "0: the filter never grows." })
            : field("expansion", "Expansion", { inputmode: "numeric", hint: "How many times as large as the sub-filter before each new one is. 0: the filter never grows." }),
          field("max_expansions", form.layout === "paged" ? "Doublings, at most" : "Expansions, at most", { inputmode: "numeric" }),
          field("ttl_seconds", "Seconds until it expires", { inputmode: "numeric", placeholder: "never" }),
        ),
        refused && elsewhere(refused) && h(ProblemNotice, { problem: refused }),
        h(
          "div",
          { class: "buttons" },
          h("a", { class: "button", href: "#/" }, "Cancel"),
          h("button", { type: "submit", class: "primary", disabled: busy }, "Create filter"),
        ),
      ),
      h(
        "section",
        { class: "preview", "aria-labelledby": "preview" },
        h("h2", { id: "preview" }, "Preview"),
        !known && !preview.problem && h(Waiting, { what: "a preview" }),
        elsewhere(preview.problem) && h(ProblemNotice, { problem: preview.problem }),
        preview.problem &&
          !elsewhere(preview.problem) &&
          h("p", { class: "quiet", role: "status" }, "These fields are not allowed. The form says beside each what is allowed."),
        known && h(Preview, { it: known }),
      ),
    ),
  );
}

function Preview({ it }) {
  return h(
    Fragment,
    null,
    h(
      "p",
      { class: "lead", role: "status" },
      h("strong", null, bytes(it.slot_bytes)),
      ` for ${counted(it.capacity, "item")}, ${it.bits_per_item_at_capacity.toFixed(1)} bits each. False-positive rate with all of them added: `,
      h("strong", null, oneIn(it.expected_false_positive_rate)),
      ".",
    ),
    h(
      "dl",
      { class: "rows" },
      [
        ["Slots in use at capacity", share(it.load_at_capacity)],
        ["Bits per slot", count(it.fingerprint_bits)],
        ["Buckets", `${count(it.buckets)} of ${it.bucket_size} slots`],
        ["Pages", count(it.pages)],
        ["False positives, promised", it.error_rate === null ? "none" : oneIn(it.error_rate)],
        it.error_rate !== null && ["Promised up to", `${count(it.promised_growth)} times the capacity`],
      ]
        .filter(Boolean)
        .map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
    ),
    h("h3", null, "Growth"),
    h("p", { class: "quiet small" }, "The filter when full, by its size as a multiple of the first."),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Growth", tabIndex: 0 },
      h(
        "table",
        { class: "stages" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col", class: "number" }, "Growth"),
            h("th", { scope: "col", class: "number" }, "Items"),
            h("th", { scope: "col", class: "number" }, "Size"),
            h("th", { scope: "col", class: "number" }, "False positives"),
          ),
        ),
        h(
          "tbody",
          null,
          it.stages.map((stage) =>
            h(
              "tr",
              { key: stage.growth },
              h("th", { scope: "row", class: "number" }, `${count(stage.growth)} ×`),
              h("td", { class: "number" }, count(stage.items)),
              h("td", { class: "number" }, bytes(stage.bytes)),
              h("td", { class: "number" }, oneIn(stage.expected_false_positive_rate)),
            ),
          ),
        ),
      ),
    ),
    it.stopped_by && h("p", { class: "quiet" }, STOPPED[it.stopped_by]),
  );
}
