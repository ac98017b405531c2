// The list of filters: all of them, up to a bound, sorted and looked through here.

import { Fragment, h } from "./preact.mjs";
import { useState } from "./hooks.mjs";
import { get } from "./api.js";
import { useRights } from "./caller.js";
import { away, bytes, count, counted, kindOf, moment, oneIn } from "./format.js";
import { Fill, Heading, ProblemNotice, Select, Waiting, usePolled, useSettled } from "./parts.js";

/** Filters that are seen at once, that a request gets, and that are listed at most. */
const PAGE = 50;
const AT_ONCE = 1000;
const MOST = 10_000;
/** Requests for one list at most: a server with a million filters is not read to its end. */
const REQUESTS = 40;
/** A long list is asked for less often. */
const pause = (value) => Math.max(5000, 5 * (value?.filters.length ?? 0));

const byNumber = (of) => (one, other) => of(other) - of(one);
const ends = (it) => (it.expires_at ? Date.parse(it.expires_at) : Infinity);
const ORDERS = {
  key: ["Key", null],
  items: ["Most items", byNumber((it) => it.items)],
  size: ["Largest", byNumber((it) => it.bytes)],
  load: ["Fullest", byNumber((it) => it.load)],
  rate: ["Most false positives", byNumber((it) => it.expected_false_positive_rate)],
  promise: ["Promise broken first", byNumber((it) => it.expected_false_positive_rate / (it.error_rate ?? Infinity))],
  newest: ["Newest", byNumber((it) => Date.parse(it.created_at))],
  end: ["Ends first", (one, other) => (ends(one) === ends(other) ? 0 : ends(one) - ends(other))],
};

/** The filters whose keys contain this, up to the bounds, and whether these are all. */
async function load(part, signal) {
  const filters = [];
  let cursor = null;
  for (let asked = 0; asked < REQUESTS && filters.length < MOST; asked += 1) {
    const query = new URLSearchParams({ limit: AT_ONCE });
    if (part) query.set("contains", part);
    if (cursor) query.set("cursor", cursor);
    const page = await get(`filters?${query}`, { signal });
    filters.push(...page.filters);
    cursor = page.next_cursor;
    if (!cursor) return { filters, looked: null };
  }
  return { filters, looked: cursor };
}

export function List() {
  const [typed, setTyped] = useState("");
  const [order, setOrder] = useState("key");
  const { mayWrite, prefix } = useRights();
  const part = useSettled(typed.trim(), 200);
  // Another list begins at its first page.
  const shown = `${order} ${part}`;
  const [turned, setTurned] = useState({ shown, page: 0 });
  const { value, problem, askAgain } = usePolled((signal) => load(part, signal), pause, [part]);
  const sorted = value && (ORDERS[order][1] ? value.filters.toSorted(ORDERS[order][1]) : value.filters);
  const pages = value ? Math.max(1, Math.ceil(sorted.length / PAGE)) : 1;
  const page = turned.shown === shown ? Math.min(turned.page, pages - 1) : 0;
  const turn = (to) => {
    setTurned({ shown, page: to });
    document.getElementById("total")?.focus();
  };

  return h(
    Fragment,
    null,
    h(
      "div",
      { class: "title" },
      h(Heading, { title: "Filters" }),
      mayWrite && h("a", { class: "button primary", href: "#/new" }, "New filter"),
    ),
    h(
      "search",
      { class: "line" },
      h(
        "div",
        { class: "field" },
        h("label", { for: "part" }, "Key contains"),
        h("input", {
          id: "part",
          type: "search",
          autocomplete: "off",
          spellcheck: false,
          value: typed,
          onInput: (event) => setTyped(event.currentTarget.value),
        }),
      ),
      h(Select, {
        label: "Sort by",
        options: Object.entries(ORDERS).map(([id, [label]]) => [id, label]),
        value: order,
        onChange: setOrder,
      }),
    ),
    prefix && h("p", { class: "quiet small" }, "Your key is for filters whose keys begin with ", h("code", null, prefix), "."),
    problem &&
      h(ProblemNotice, { problem }, h("button", { type: "button", onClick: askAgain }, "Try again")),
    !value && !problem && h(Waiting, { what: "the filters" }),
    value && sorted.length === 0 && !value.looked && h(Nothing, { part, mayWrite }),
    value && (sorted.length > 0 || value.looked) && h(Total, { value }),
    value && sorted.length > 0 && h(Found, { filters: sorted.slice(page * PAGE, (page + 1) * PAGE) }),
    pages > 1 &&
      h(
        "nav",
        { class: "pager", "aria-label": "Pages of the list" },
        h("button", { type: "button", disabled: page === 0, onClick: () => turn(page - 1) }, "Previous"),
        h("span", null, `Page ${count(page + 1)} of ${count(pages)}`),
        h("button", { type: "button", disabled: page === pages - 1, onClick: () => turn(page + 1) }, "Next"),
      ),
  );
}

/** What all of them are together. */
function Total({ value: { filters, looked } }) {
  const sum = (of) => filters.reduce((total, it) => total + of(it), 0);
  return h(
    Fragment,
    null,
    h(
      "p",
      { class: "total", id: "total", role: "status", tabIndex: -1 },
      looked && "The first ",
      h("strong", null, counted(filters.length, "filter")),
      `, ${counted(sum((it) => it.items), "item")}, ${bytes(sum((it) => it.bytes))}`,
    ),
    looked &&
      h(
        "p",
        { class: "notice warn" },
        "There are more filters than are listed here: those up to ",
        h("code", null, looked),
        " were looked at. A part of a key finds the others.",
      ),
  );
}

function Nothing({ part, mayWrite }) {
  return h(
    "div",
    { class: "nothing", role: "status" },
    part
      ? h("p", null, "There is no filter whose key contains ", h("code", null, part), ".")
      : h(
          Fragment,
          null,
          h("p", null, "There is no filter yet."),
          h(
            "p",
            { class: "quiet" },
            "A filter stores which items were added to it, in one or two bytes per item. ",
            mayWrite && [h("a", { href: "#/new" }, "Create the first one"), "."],
          ),
        ),
  );
}

function Found({ filters }) {
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
          h("th", { scope: "col" }, "Keeps"),
          h("th", { scope: "col", class: "number" }, "Items"),
          h("th", { scope: "col" }, "Slots in use"),
          h("th", { scope: "col", class: "number" }, "False positives"),
          h("th", { scope: "col", class: "number" }, "Promised"),
          h("th", { scope: "col", class: "number" }, "Size"),
          h("th", { scope: "col" }, "Expires"),
        ),
      ),
      h(
        "tbody",
        null,
        filters.map((it) => h(Line, { key: it.key, it })),
      ),
    ),
  );
}

function Line({ it }) {
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, h("a", { href: `#/filters/${encodeURIComponent(it.key)}` }, it.key)),
    h("td", { class: "kind", "data-label": "Keeps" }, kindOf(it)),
    h("td", { class: "number", "data-label": "Items" }, count(it.items)),
    h("td", { "data-label": "Slots in use" }, h(Fill, { part: it.load })),
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
