// A new filter, with what it would be before it is made. Every figure comes
// from the server: this page has no formula.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useState } from "./hooks.mjs";
import { change, filterPath, post } from "./api.js";
import { useRights } from "./caller.js";
import { EMPTY, KINDS, UNITS, fieldsOf, missing } from "./fields.js";
import { bytes, count, counted, oneDigit, oneIn, share } from "./format.js";
import { Choice, Field, Heading, ProblemNotice, Select, Waiting, useSettled } from "./parts.js";

const STOPPED = {
  expansion_off: "Then it is full, because it does not grow.",
  max_expansions: "Then it is full, because it has reached its number of expansions.",
  growth_limit: "Then it is full, because its slots record no more growth.",
  max_filter_bytes: "Then it is full, because the server allows no larger filter.",
};

/** What the filter that a form describes would be, as soon as the form stands still. */
function usePreview(form) {
  const [preview, setPreview] = useState({ value: null, problem: null });
  const isOpen = missing(form) !== null;
  const settled = useSettled(JSON.stringify(fieldsOf(form)), 150);
  useEffect(() => {
    if (isOpen) {
      setPreview({ value: null, problem: null });
      return undefined;
    }
    const stop = new AbortController();
    post("preview", JSON.parse(settled), { signal: stop.signal }).then(
      (value) => setPreview({ value, problem: null }),
      (problem) => {
        if (!stop.signal.aborted) setPreview({ value: null, problem });
      },
    );
    return () => stop.abort();
  }, [settled, isOpen]);
  return preview;
}

export function Create({ name }) {
  const { mayWrite, mayOnlyRead } = useRights();
  if (mayWrite) return h(Form, { name });
  return h(
    Fragment,
    null,
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Filters")),
    h("div", { class: "title" }, h(Heading, { title: "New filter" })),
    mayOnlyRead && h("p", null, "The key that is signed in may only read. To make a filter, sign in with one of scope write or admin."),
  );
}

function Form({ name }) {
  const { prefix } = useRights();
  const [form, setForm] = useState({ ...EMPTY, key: name || prefix });
  const [refused, setRefused] = useState(null);
  const [busy, setBusy] = useState(false);
  const preview = usePreview(form);
  const open = missing(form);

  const problem = refused ?? preview.problem;
  const errors = {};
  for (const { pointer, given, allowed } of problem?.errors ?? []) {
    if (pointer) errors[pointer.slice(1)] = `${given} is not allowed; allowed is ${allowed}.`;
  }
  const known = preview.value;
  const set = (changes) => {
    setRefused(null);
    setForm({ ...form, ...changes });
  };
  const field = (id, label, more = {}) =>
    h(Field, {
      label,
      name: id,
      inputmode: "decimal",
      value: form[id] ?? "",
      error: errors[id],
      placeholder: known?.[id] ?? "",
      onInput: (event) => set({ [id]: event.currentTarget.value }),
      ...more,
    });
  const span = (id, label, more = {}) =>
    h(
      "div",
      { class: "span", role: "group", "aria-label": `${label}, with its unit` },
      field(id, label, { placeholder: "", ...more }),
      h(Select, {
        label: "Unit",
        options: UNITS.map(([unit, length]) => [length, unit]),
        value: form.units[id],
        onChange: (unit) => set({ units: { ...form.units, [id]: Number(unit) } }),
      }),
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
  const isPaged = form.kind !== "classic";

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
          hint: prefix ? `Begins with ${prefix}` : "Letters, digits and signs, no blanks",
        }),
        h(
          "fieldset",
          null,
          h("legend", null, "What it keeps"),
          Object.entries(KINDS).map(([kind, [label, hint]]) =>
            h(Choice, { key: kind, group: "kind", value: kind, label, hint, checked: form.kind === kind, onChoose: () => set({ kind }) }),
          ),
        ),
        field("capacity", form.kind === "window" ? "Items of one window" : "Capacity", {
          inputmode: "numeric",
          hint: "Items that the filter is made for, those to come included. A filter that grows beyond it has more false positives.",
        }),
        form.kind === "window" && span("window_seconds", "Found for"),
        form.kind === "window" &&
          span("window_resolution_seconds", "In steps of", { hint: "An item expires up to one step late. Left out: a 24th of the window." }),
        form.kind === "values" &&
          field("value_bits", "Bits of a value", {
            inputmode: "numeric",
            hint: /^\d{1,2}$/.test(form.value_bits.trim()) ? `A value is 0 to ${count(2 ** Number(form.value_bits) - 1)}.` : "1 to 16",
          }),
        form.kind === "rows" && h(Attributes, { attributes: form.attributes, errors, onChange: (attributes) => set({ attributes }) }),
        (form.kind === "values" || form.kind === "rows") &&
          field("values_per_item", form.kind === "rows" ? "Rows an item" : "Values an item", {
            inputmode: "numeric",
            hint: "So many are expected, on average; up to 1,024 are taken.",
          }),
        isPaged
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
          isPaged &&
            field("promised_growth", "Growth that keeps the rate", { inputmode: "numeric", hint: "How many times its capacity the filter may have and keep its false-positive rate." }),
          isPaged
            ? field("expansion", "Expansion", { inputmode: "numeric", hint: "0: the filter never grows." })
            : field("expansion", "Expansion", { inputmode: "numeric", hint: "How many times as large as the sub-filter before each new one is. 0: the filter never grows." }),
          field("max_expansions", isPaged ? "Doublings, at most" : "Expansions, at most", { inputmode: "numeric" }),
          span("ttl_seconds", "The whole filter expires after", { placeholder: "never" }),
        ),
        refused && elsewhere(refused) && h(ProblemNotice, { problem: refused }),
        h(
          "div",
          { class: "buttons" },
          h("a", { class: "button", href: "#/" }, "Cancel"),
          h("button", { type: "submit", class: "primary", disabled: busy || open !== null }, "Create filter"),
        ),
      ),
      h(
        "section",
        { class: "preview", "aria-labelledby": "preview" },
        h("h2", { id: "preview" }, "Preview"),
        open && h("p", { class: "quiet", role: "status" }, open),
        !open && !known && !preview.problem && h(Waiting, { what: "a preview" }),
        elsewhere(preview.problem) && h(ProblemNotice, { problem: preview.problem }),
        preview.problem &&
          !elsewhere(preview.problem) &&
          h("p", { class: "quiet", role: "status" }, "These fields are not allowed. The form says beside each what is allowed."),
        known && h(Preview, { it: known }),
      ),
    ),
  );
}

/** Of what the rows of items consist. */
function Attributes({ attributes, errors, onChange }) {
  const edit = (at, changes) =>
    onChange(attributes.map((it, other) => (other === at ? { ...it, ...changes } : it)));
  const errorOf = (at, names) => {
    const wrong = Object.keys(errors).find((pointer) => names.some((name) => pointer.startsWith(`attributes/${at}${name}`)));
    return wrong && errors[wrong];
  };
  return h(
    "fieldset",
    { class: "stack" },
    h("legend", null, "Attributes"),
    attributes.map((it, at) =>
      h(
        "div",
        { class: "attribute", key: at, role: "group", "aria-label": `Attribute ${at + 1}` },
        h(Field, { label: "Name", value: it.name, error: errorOf(at, ["/name"]), placeholder: "plan", onInput: (event) => edit(at, { name: event.currentTarget.value }) }),
        h(Select, {
          label: "Kept as",
          options: [
            ["exact", "exact values"],
            ["hash", "bits of a hash"],
          ],
          value: it.kept,
          onChange: (kept) => edit(at, { kept }),
        }),
        it.kept === "exact"
          ? h(Field, { label: "Values, with commas between", value: it.labels, error: errorOf(at, ["/values"]), placeholder: "free, pro", onInput: (event) => edit(at, { labels: event.currentTarget.value }) })
          : h(Field, { label: "Bits", inputmode: "numeric", value: it.bits ?? "", error: errorOf(at, ["/hash_bits"]), placeholder: "5", onInput: (event) => edit(at, { bits: event.currentTarget.value }) }),
        attributes.length > 1 &&
          h("button", { type: "button", class: "link", onClick: () => onChange(attributes.filter((_, other) => other !== at)) }, "Remove"),
      ),
    ),
    errors.attributes && h("p", { class: "error" }, errors.attributes),
    h(
      "p",
      null,
      h("button", { type: "button", onClick: () => onChange([...attributes, { name: "", kept: "exact", labels: "" }]) }, "Add an attribute"),
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
      ` for ${counted(it.capacity, "item")}, ${oneDigit(it.bits_per_item_at_capacity)} bits each. False-positive rate with all of them added: `,
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
