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
  "ttl_seconds",
];
const OF_LAYOUT = {
  paged: ["error_rate", "fingerprint_bits"],
  classic: ["bucket_size", "max_iterations"],
};
const STOPPED = {
  expansion_off: "Then it is full: it does not grow.",
  max_expansions: "Then it is full: it may not grow more often.",
  max_filter_bytes: "Then it is full: the server lets no filter be larger.",
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
    if (pointer) errors[pointer.slice(1)] = `${given} is not taken: allowed is ${allowed}.`;
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
          pattern: "[A-Za-z0-9._:~\\-]{1,255}",
          title: "1 to 255 characters of A-Z a-z 0-9 . _ : ~ -",
          hint: "Letters, digits and . _ : ~ -",
        }),
        field("capacity", "Items it will hold", {
          inputmode: "numeric",
          hint: "Plan for what will come: a filter of the right size is faster and wrong less often.",
        }),
        h(
          "fieldset",
          null,
          h("legend", null, "Layout"),
          choice("paged", "paged", "keeps an error rate while it grows"),
          choice("classic", "classic", "bit for bit RedisBloom’s"),
        ),
        form.layout === "paged"
          ? h(
              Fragment,
              null,
              !(form.fingerprint_bits ?? "").trim() &&
                field("error_rate", "Wrong yeses at most", { hint: "A share: 0.001 is one in a thousand." }),
              !(form.error_rate ?? "").trim() &&
                field("fingerprint_bits", "Bits a slot, instead", { hint: "8, 16 or 32." }),
            )
          : h(
              Fragment,
              null,
              field("bucket_size", "Slots a bucket", { inputmode: "numeric" }),
              field("max_iterations", "Kick-outs a path at most", { inputmode: "numeric" }),
            ),
        h(
          "details",
          null,
          h("summary", null, "Growth and end"),
          field("expansion", "Each further sub-filter larger by", { inputmode: "numeric", hint: "0: it never grows." }),
          field("max_expansions", "Expansions at most", { inputmode: "numeric" }),
          field("ttl_seconds", "Seconds after which it ends", { inputmode: "numeric", placeholder: "never" }),
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
        h("h2", { id: "preview" }, "What it would be"),
        !known && !preview.problem && h(Waiting, { what: "a preview" }),
        elsewhere(preview.problem) && h(ProblemNotice, { problem: preview.problem }),
        preview.problem &&
          !elsewhere(preview.problem) &&
          h("p", { class: "quiet", role: "status" }, "Not with these fields: see beside them what is allowed."),
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
      ` for ${counted(it.capacity, "item")}, ${it.bits_per_item_at_capacity.toFixed(1)} bits each. With all of them in it, of items that were never added `,
      h("strong", null, oneIn(it.expected_false_positive_rate)),
      " is found, too.",
    ),
    h(
      "dl",
      { class: "rows" },
      [
        ["Slots in use by then", share(it.load_at_capacity)],
        ["Bits a slot", count(it.fingerprint_bits)],
        ["Buckets", `${count(it.buckets)} of ${it.bucket_size} slots`],
        ["Pages", count(it.pages)],
        ["Promised", it.error_rate === null ? "nothing" : `${oneIn(it.error_rate)}, up to ${counted(it.promised_sub_filters, "sub-filter")}`],
      ].map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
    ),
    h("h3", null, "When it grows"),
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
            h("th", { scope: "col", class: "number" }, "Sub-filters"),
            h("th", { scope: "col", class: "number" }, "Items that fit"),
            h("th", { scope: "col", class: "number" }, "Size"),
            h("th", { scope: "col", class: "number" }, "Wrong yes when full"),
          ),
        ),
        h(
          "tbody",
          null,
          it.stages.map((stage) =>
            h(
              "tr",
              { key: stage.sub_filters },
              h("th", { scope: "row", class: "number" }, count(stage.sub_filters)),
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
