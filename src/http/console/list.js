// The list of filters, a page at a time.

import { Fragment, h } from "./preact.mjs";
import { useState } from "./hooks.mjs";
import { get } from "./api.js";
import { away, bytes, count, moment, oneIn } from "./format.js";
import { Fill, Heading, ProblemNotice, Waiting, usePolled, useSettled } from "./parts.js";

const PAGE = 50;
const EVERY_MS = 5000;

export function List() {
  const [typed, setTyped] = useState("");
  const prefix = useSettled(typed.trim(), 200);
  // Where each page up to this one begins; the first begins at the beginning,
  // and with another prefix it all begins anew.
  const [turned, setTurned] = useState({ prefix, cursors: [null] });
  const cursors = turned.prefix === prefix ? turned.cursors : [null];
  const setCursors = (cursors) => setTurned({ prefix, cursors });
  const cursor = cursors.at(-1);
  const { value, problem, askAgain } = usePolled(
    (signal) => {
      const query = new URLSearchParams({ limit: PAGE });
      if (prefix) query.set("prefix", prefix);
      if (cursor) query.set("cursor", cursor);
      return get(`filters?${query}`, { signal });
    },
    EVERY_MS,
    [prefix, cursor],
  );

  return h(
    Fragment,
    null,
    h(
      "div",
      { class: "title" },
      h(Heading, { title: "Filters" }),
      h("a", { class: "button primary", href: "#/new" }, "New filter"),
    ),
    h(
      "search",
      { class: "field" },
      h("label", { for: "prefix" }, "Key begins with"),
      h("input", {
        id: "prefix",
        type: "search",
        autocomplete: "off",
        spellcheck: false,
        value: typed,
        onInput: (event) => setTyped(event.currentTarget.value),
      }),
    ),
    problem &&
      h(ProblemNotice, { problem }, h("button", { type: "button", onClick: askAgain }, "Try again")),
    !value && !problem && h(Waiting, { what: "the filters" }),
    value && h(Found, { value, prefix }),
    value &&
      (cursors.length > 1 || value.next_cursor) &&
      h(
        "nav",
        { class: "pager", "aria-label": "Pages of the list" },
        h(
          "button",
          {
            type: "button",
            disabled: cursors.length === 1,
            onClick: () => setCursors(cursors.slice(0, -1)),
          },
          "Previous",
        ),
        h("span", null, `Page ${cursors.length}`),
        h(
          "button",
          {
            type: "button",
            disabled: !value.next_cursor,
            onClick: () => setCursors([...cursors, value.next_cursor]),
          },
          "Next",
        ),
      ),
  );
}

function Found({ value, prefix }) {
  if (value.filters.length === 0) {
    return h(
      "div",
      { class: "nothing", role: "status" },
      prefix
        ? h("p", null, "There is no filter whose key begins with ", h("code", null, prefix), ".")
        : h(
            Fragment,
            null,
            h("p", null, "There is no filter yet."),
            h(
              "p",
              { class: "quiet" },
              "A filter stores which items were added to it, in one or two bytes per item. ",
              h("a", { href: "#/new" }, "Create the first one"),
              ".",
            ),
          ),
    );
  }
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Filters", tabIndex: 0 },
    h(
      "table",
      { class: "filters" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Key"),
          h("th", { scope: "col", class: "number" }, "Items"),
          h("th", { scope: "col" }, "Slots in use"),
          h("th", { scope: "col", class: "number" }, "Sub-filters"),
          h("th", { scope: "col", class: "number" }, "False positives"),
          h("th", { scope: "col", class: "number" }, "Promised"),
          h("th", { scope: "col", class: "number" }, "Size"),
          h("th", { scope: "col" }, "Expires"),
        ),
      ),
      h(
        "tbody",
        null,
        value.filters.map((it) => h(Line, { key: it.key, it })),
      ),
    ),
  );
}

function Line({ it }) {
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row" },
      h("a", { href: `#/filters/${encodeURIComponent(it.key)}` }, it.key),
      h("span", { class: "quiet small" }, ` ${it.layout}`),
    ),
    h("td", { class: "number", "data-label": "Items" }, count(it.items)),
    h("td", { "data-label": "Slots in use" }, h(Fill, { part: it.load })),
    h("td", { class: "number", "data-label": "Sub-filters" }, count(it.sub_filters)),
    h(
      "td",
      { class: "number", "data-label": "False positives" },
      h(ErrorNow, { rate: it.expected_false_positive_rate, promised: it.error_rate }),
    ),
    h(
      "td",
      { class: "number", "data-label": "Promised" },
      h(Promised, { rate: it.error_rate, holds: it.error_rate_holds }),
    ),
    h("td", { class: "number", "data-label": "Size" }, bytes(it.bytes)),
    h(
      "td",
      { "data-label": "Expires" },
      it.expires_at
        ? h("time", { datetime: it.expires_at, title: moment(it.expires_at) }, away(it.expires_at))
        : h("span", { class: "quiet" }, "never"),
    ),
  );
}

/** The expected error, marked where it exceeds the promise. */
export function ErrorNow({ rate, promised }) {
  const broken = promised !== null && rate > promised;
  return h(
    "span",
    { class: broken ? "mark bad" : "", title: rate.toPrecision(3) },
    oneIn(rate),
    broken && h("span", { class: "unseen" }, ", more than promised"),
  );
}

/** The promise, and whether it still holds. */
export function Promised({ rate, holds }) {
  if (rate === null) return h("span", { class: "quiet" }, "none");
  if (holds) return h("span", { title: String(rate) }, oneIn(rate));
  return h(
    Fragment,
    null,
    h("s", { class: "quiet" }, oneIn(rate)),
    h("span", { class: "small" }, " no longer"),
  );
}
