// How far a filter that splits its pages has grown, and what its entries know.

import { Fragment, h } from "./preact.mjs";
import { count, counted, share } from "./format.js";
import { Bar } from "./parts.js";

/** Whether and how it grows, in a sentence. */
function course(it, first) {
  if (it.expansion === 0) return "The filter never grows.";
  const grown =
    it.expansions === 0
      ? "It has not doubled yet."
      : `It began with ${counted(first, "page")} and has doubled ${it.expansions === 1 ? "once" : `${count(it.expansions)} times`}.`;
  return `${grown} It grows by splitting one page after another.`;
}

export function Growth({ it }) {
  const [table] = it.sub_filters;
  const { pages_split: split, pages_to_split: left, entries_by_level: levels } = it.growth;
  const first = (split + left) / 2 ** it.expansions;
  return h(
    "section",
    { "aria-labelledby": "growth" },
    h("h2", { id: "growth" }, "Growth"),
    h("p", { class: "quiet" }, course(it, first)),
    h(
      "dl",
      { class: "shares" },
      h(Share, {
        name: "Slots in use",
        part: table.load,
        said: `${share(table.load)} of ${counted(table.pages, "page")}`,
        more: table.counted > 0 && `and ${counted(table.counted, "copy", "copies")} counted beside pages`,
      }),
      it.expansion > 0 && h(Share, {
        name: "This doubling",
        part: split / (split + left),
        said: `${count(split)} of ${counted(split + left, "page")} split`,
        more: it.max_growth && `doubling ${count(it.expansions + 1)} of ${count(Math.floor(Math.log2(it.max_growth)))} that slots record`,
      }),
    ),
    levels.length > 1 && h(Ages, { levels }),
  );
}

function Share({ name, part, said, more }) {
  return h(
    "div",
    null,
    h("dt", null, name),
    h("dd", null, h(Bar, { part }), said, more && h("span", { class: "quiet small block" }, more)),
  );
}

/** Entries by what is known of them: the older ones know less, so more absent items meet them. */
function Ages({ levels }) {
  const most = Math.max(...levels);
  const weights = levels.map((entries, at) => entries / 2 ** at);
  const weight = weights.reduce((sum, one) => sum + one, 0);
  return h(
    Fragment,
    null,
    h("h3", null, "Entries by age"),
    h(
      "p",
      { class: "quiet small" },
      "How often a page had been split when they were added. With each split before, half as many absent items are taken for an entry.",
    ),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Entries by age", tabIndex: 0 },
      h(
        "table",
        { class: "chain ages" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Splits"),
            h("th", { scope: "col", class: "drawing" }, h("span", { class: "unseen" }, "Share of the most")),
            h("th", { scope: "col", class: "number" }, "Entries"),
            h("th", { scope: "col", class: "number" }, "Of all false positives"),
          ),
        ),
        h(
          "tbody",
          null,
          levels.map((entries, at) =>
            h(
              "tr",
              { key: at },
              h("th", { scope: "row" }, at === 0 ? "0–1" : count(at + 1)),
              h("td", { class: "drawing" }, h(Bar, { part: entries / most })),
              h("td", { class: "number", "data-label": "Entries" }, count(entries)),
              h("td", { class: "number", "data-label": "Of all false positives" }, share(weights[at] / weight)),
            ),
          ),
        ),
      ),
    ),
  );
}
