// The items of a filter with a window, by when they were seen last.

import { h } from "./preact.mjs";
import { count, moment, span } from "./format.js";
import { Bar } from "./parts.js";

export function Epochs({ it }) {
  const most = Math.max(1, ...it.epochs.map((epoch) => epoch.items));
  return h(
    "section",
    { "aria-labelledby": "epochs" },
    h("h2", { id: "epochs" }, "Items by age"),
    h(
      "p",
      { class: "quiet" },
      `An item expires ${span(it.window_seconds)} after it was added last, and up to ${span(it.window_resolution_seconds)} late.`,
    ),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Items by age", tabIndex: 0 },
      h(
        "table",
        { class: "chain ages moments" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Seen last from"),
            h("th", { scope: "col", class: "drawing" }, h("span", { class: "unseen" }, "Share of the most")),
            h("th", { scope: "col", class: "number" }, "Items"),
          ),
        ),
        h(
          "tbody",
          null,
          it.epochs.map(({ from, items }) =>
            h(
              "tr",
              { key: from },
              h("th", { scope: "row" }, h("time", { datetime: from }, moment(from))),
              h("td", { class: "drawing" }, h(Bar, { part: items / most })),
              h("td", { class: "number", "data-label": "Items" }, count(items)),
            ),
          ),
        ),
      ),
    ),
  );
}
