// The values or rows of some items, and how many each of these has.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useId, useRef, useState } from "./hooks.mjs";
import { ask as query, filterPath } from "./api.js";
import { bins, count, counted } from "./format.js";
import { Bar, ProblemNotice } from "./parts.js";

/** Items that are asked for at once. */
const ITEMS = 1000;
/** Items whose values are listed, and values of each. */
const LISTED = 50;
const VALUES_LISTED = 100;

export function Values({ it }) {
  const [lines, setLines] = useState("");
  const [told, setTold] = useState(null);
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  const id = useId();
  useEffect(() => setTold(null), [it.key]);
  const noun = it.attributes ? "row" : "value";

  const ask = async (event) => {
    event.preventDefault();
    const turn = ++latest.current;
    const given = [...new Set(lines.split("\n").filter((line) => line !== ""))];
    const items = given.slice(0, ITEMS);
    setBusy(true);
    let next;
    try {
      const { results } = await query(filterPath(it.key, "/values/query"), { items });
      next = { left: given.length - items.length, lists: items.map((item, at) => [item, results[at]]) };
    } catch (problem) {
      next = { problem };
    }
    if (turn !== latest.current) return;
    setTold(next);
    setBusy(false);
  };
  return h(
    "section",
    { "aria-labelledby": "values" },
    h("h2", { id: "values" }, `${capital(noun)}s of items`),
    h(
      "p",
      { class: "quiet" },
      `No ${noun} is missing; ${noun}s of other items can be among them. Up to ${count(ITEMS)} items, one a line.`,
    ),
    h(
      "form",
      { class: "line", onSubmit: ask },
      h(
        "div",
        { class: "field" },
        h("label", { for: id }, "Items, one a line"),
        h("textarea", {
          id,
          rows: 4,
          spellcheck: false,
          value: lines,
          onInput: (input) => setLines(input.currentTarget.value),
        }),
      ),
      h("button", { type: "submit", class: "primary", disabled: busy }, `List ${noun}s`),
    ),
    told?.problem && h(ProblemNotice, { problem: told.problem }),
    h("div", { role: "status" }, told?.lists && h(Answer, { ...told, noun })),
  );
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);

function Answer({ lists, left, noun }) {
  if (lists.length === 0) return h("p", { class: "quiet" }, "No items were given.");
  const unlisted = lists.length - LISTED;
  return h(
    Fragment,
    null,
    left > 0 && h("p", { class: "notice warn" }, `${counted(left, "further item")} not asked for.`),
    h(Histogram, { lists, noun }),
    h(
      "dl",
      { class: "values", "aria-label": `${capital(noun)}s by item` },
      lists.slice(0, LISTED).map(([item, values]) =>
        h(Fragment, { key: item }, h("dt", null, h("q", null, item)), h("dd", null, listOf(values))),
      ),
    ),
    unlisted > 0 && h("p", { class: "quiet" }, `${capital(noun)}s of ${counted(unlisted, "more item")} are not listed.`),
  );
}

function listOf(values) {
  if (values.length === 0) return h("span", { class: "quiet" }, "none");
  const more = values.length - VALUES_LISTED;
  const listed = values.slice(0, VALUES_LISTED);
  // Rows are objects, and may have blanks.
  const text = typeof listed[0] === "object" ? listed.map(rowOf).join("; ") : listed.join(" ");
  return [text, more > 0 && h("span", { class: "quiet" }, ` and ${count(more)} more`)];
}

const rowOf = (row) =>
  Object.entries(row)
    .map(([name, label]) => `${name}: ${label}`)
    .join(", ");

function Histogram({ lists, noun }) {
  const rows = bins(lists.map(([, values]) => values.length));
  const most = Math.max(...rows.map((row) => row.items));
  const title = `${capital(noun)}s an item, of ${lists.length === 1 ? "the item" : `the ${count(lists.length)} items`} asked for`;
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": `${capital(noun)}s an item`, tabIndex: 0 },
    h(
      "table",
      { class: "chain ages numbers" },
      h("caption", null, title),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, `${capital(noun)}s`),
          h("th", { scope: "col", class: "drawing" }, h("span", { class: "unseen" }, "Share of the most")),
          h("th", { scope: "col", class: "number" }, "Items"),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map(({ from, to, items }) =>
          h(
            "tr",
            { key: from },
            h("th", { scope: "row" }, from === to ? count(to) : `${count(from)} to ${count(to)}`),
            h("td", { class: "drawing" }, h(Bar, { part: items / most })),
            h("td", { class: "number", "data-label": "Items" }, count(items)),
          ),
        ),
      ),
    ),
  );
}
