// The sub-filters of a filter of the layout `classic`, and their compaction.

import { h } from "./preact.mjs";
import { useRights } from "./caller.js";
import { bytes, count, counted, oneIn, share } from "./format.js";
import { Compact } from "./compact.js";
import { Bar } from "./parts.js";

const TIMES_AS_LARGE = { 1: "as large as", 2: "twice as large as" };

export function Chain({ it, onChanged }) {
  const { mayEnd } = useRights();
  const largest = Math.max(...it.sub_filters.map((sub) => sub.bytes));
  return h(
    "section",
    { "aria-labelledby": "chain" },
    h("h2", { id: "chain" }, "Chain"),
    h(
      "p",
      { class: "quiet" },
      it.sub_filters.length === 1
        ? "One sub-filter: the filter has not grown. "
        : `${counted(it.sub_filters.length, "sub-filter")}, oldest first. The length of a bar shows the size. `,
      it.expansion === 0
        ? "The filter never grows."
        : `The next one is ${TIMES_AS_LARGE[it.expansion] ?? `${count(it.expansion)} times as large as`} the newest.`,
    ),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Sub-filters", tabIndex: 0 },
      h(
        "table",
        { class: "chain" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, h("span", { class: "unseen" }, "Sub-filter")),
            h("th", { scope: "col", class: "drawing" }, "Slots in use"),
            h("th", { scope: "col", class: "number" }, "Load"),
            h("th", { scope: "col", class: "number" }, "Items"),
            h("th", { scope: "col", class: "number" }, "Pages"),
            h("th", { scope: "col", class: "number" }, "Size"),
            h("th", { scope: "col", class: "number" }, "False positives"),
          ),
        ),
        h(
          "tbody",
          null,
          it.sub_filters.map((sub, position) =>
            h(
              "tr",
              { key: position },
              h("th", { scope: "row" }, count(position)),
              h(
                "td",
                { class: "drawing" },
                h(
                  "span",
                  { class: "length", style: { width: `${(100 * sub.bytes) / largest}%` } },
                  h(Bar, { part: sub.load }),
                ),
              ),
              h("td", { class: "number", "data-label": "Load" }, share(sub.load)),
              h(
                "td",
                { class: "number", "data-label": "Items" },
                count(sub.items),
                sub.counted > 0 &&
                  h("span", { class: "quiet small block" }, `${count(sub.counted)} counted`),
              ),
              h("td", { class: "number", "data-label": "Pages" }, count(sub.pages)),
              h("td", { class: "number", "data-label": "Size" }, bytes(sub.bytes)),
              h(
                "td",
                { class: "number", "data-label": "False positives" },
                oneIn(sub.expected_false_positive_rate),
              ),
            ),
          ),
        ),
      ),
    ),
    mayEnd && h(Compact, { name: it.key, subFilters: it.sub_filters.length, onChanged }),
  );
}
