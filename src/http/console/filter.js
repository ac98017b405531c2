// One filter: what it is, how it has grown, an item to try, its end.

import { Fragment, h } from "./preact.mjs";
import { useState } from "./hooks.mjs";
import { change, filterPath, get } from "./api.js";
import { away, bytes, count, counted, moment, oneIn, share } from "./format.js";
import { Compact } from "./compact.js";
import { Epochs } from "./epochs.js";
import { Growth } from "./growth.js";
import { Items } from "./items.js";
import { ErrorNow, Promised } from "./list.js";
import { Bar, Confirm, Field, Heading, ProblemNotice, Waiting, usePolled } from "./parts.js";
import { Values } from "./values.js";

const EVERY_MS = 2000;
/** Values of an attribute that are listed. */
const LABELS_LISTED = 16;
const TIMES_AS_LARGE = { 1: "as large as", 2: "twice as large as" };

export function Filter({ name }) {
  const { value, problem, askAgain } = usePolled(
    (signal) => get(filterPath(name), { signal }),
    EVERY_MS,
    [name],
  );
  const gone = problem?.status === 404;
  return h(
    Fragment,
    null,
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Filters")),
    h("div", { class: "title" }, h(Heading, { title: name }, h("code", null, name))),
    gone &&
      h(
        "div",
        { class: "nothing", role: "status" },
        h("p", null, "There is no filter with this key."),
        h(
          "p",
          { class: "quiet" },
          "It may have expired or been deleted. ",
          h("a", { href: `#/new/${encodeURIComponent(name)}` }, "Create it"),
          ".",
        ),
      ),
    problem &&
      !gone &&
      h(ProblemNotice, { problem }, h("button", { type: "button", onClick: askAgain }, "Try again")),
    !value && !problem && h(Waiting, { what: "the filter" }),
    value &&
      !gone &&
      h(
        Fragment,
        null,
        h(Facts, { it: value }),
        value.growth ? h(Growth, { it: value }) : h(Chain, { it: value, onChanged: askAgain }),
        value.epochs && h(Epochs, { it: value }),
        h(Items, { it: value, onChanged: askAgain }),
        (value.value_bits || value.attributes) && h(Values, { it: value }),
        h(Parameters, { it: value }),
        h(End, { it: value, onChanged: askAgain }),
      ),
  );
}

function Fact({ name, children, wide }) {
  return h("div", { class: wide ? "wide" : "" }, h("dt", null, name), h("dd", null, children));
}

function Facts({ it }) {
  return h(
    "dl",
    { class: "facts" },
    h(
      Fact,
      { name: "Items" },
      h("strong", null, count(it.items)),
      h("span", { class: "quiet" }, `capacity ${count(it.capacity)}`),
    ),
    h(
      Fact,
      { name: "False positives, expected now" },
      h("strong", null, h(ErrorNow, {
        rate: it.expected_false_positive_rate,
        promised: it.error_rate,
      })),
      h(
        "span",
        { class: "quiet" },
        it.error_rate === null ? "no rate promised" : ["promised ", h(Promised, { rate: it.error_rate, holds: it.error_rate_holds })],
      ),
    ),
    h(
      Fact,
      { name: "Size" },
      h("strong", null, bytes(it.slot_bytes)),
      h(
        "span",
        { class: "quiet" },
        `${bytes(it.memory_bytes)} in memory, `,
        it.disk_bytes === 0 ? "pages not on disk yet" : `about ${bytes(it.disk_bytes)} on disk`,
      ),
    ),
    h(
      Fact,
      { name: "Adds before it grows" },
      h("strong", null, count(it.adds_before_expansion)),
      h("span", { class: "quiet" }, "an estimate"),
    ),
  );
}

function Chain({ it, onChanged }) {
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
    h(Compact, { name: it.key, subFilters: it.sub_filters.length, onChanged }),
  );
}

function Parameters({ it }) {
  const rows = [
    ["Layout", it.layout],
    ["Capacity", count(it.capacity)],
    ["Bits per slot", count(it.fingerprint_bits)],
    ...(it.attributes ?? []).map((attribute) => [`Attribute ${attribute.name}`, codesOf(attribute)]),
    ["Slots per bucket", count(it.bucket_size)],
    it.max_iterations !== null && ["Kick-outs per path", `up to ${count(it.max_iterations)}`],
    it.layout === "classic" && ["Expansion", it.expansion === 0 ? "off" : `× ${count(it.expansion)}`],
    it.layout === "classic" && ["Expansions, at most", count(it.max_expansions)],
    it.layout === "paged" && ["Doublings, at most", it.expansion === 0 ? "0" : count(it.max_expansions)],
    it.error_rate !== null && ["False positives, promised", oneIn(it.error_rate)],
    it.error_rate !== null && ["Promised up to", `${count(it.promised_growth)} times the capacity`],
    ["False positives when full", oneIn(it.expected_false_positive_rate_full)],
    ["Bits per item", it.bits_per_item === null ? "–" : it.bits_per_item.toFixed(1)],
    ["Bits per item at capacity", it.bits_per_item_at_capacity.toFixed(1)],
    ["Deleted since creation", count(it.deletions)],
    ["Created", h("time", { datetime: it.created_at, title: away(it.created_at) }, moment(it.created_at))],
  ].filter(Boolean);
  return h(
    "section",
    { "aria-labelledby": "parameters" },
    h("h2", { id: "parameters" }, "Parameters"),
    h(
      "dl",
      { class: "rows" },
      rows.map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
    ),
  );
}

/** What an attribute can be: its values, or bits of a hash. */
function codesOf({ values, hash_bits }) {
  if (!values) return `any value, ${counted(hash_bits, "bit")} of its hash`;
  const more = values.length - LABELS_LISTED;
  return `${values.slice(0, LABELS_LISTED).join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

/** Its time to live, and its deletion. */
function End({ it, onChanged }) {
  const [asked, setAsked] = useState(false);
  const [typed, setTyped] = useState("");
  const [days, setDays] = useState("");
  const [problem, setProblem] = useState(null);

  const attempt = async (work) => {
    setProblem(null);
    try {
      await work();
    } catch (failed) {
      setProblem(failed);
    }
  };
  const setTtl = (ttl_seconds) =>
    attempt(async () => {
      await change("PATCH", filterPath(it.key), { ttl_seconds });
      setDays("");
      onChanged();
    });
  const remove = () =>
    attempt(async () => {
      setAsked(false);
      await change("DELETE", filterPath(it.key));
      location.hash = "#/";
    });
  const wanted = Math.round(Number(days) * 86_400);

  return h(
    "section",
    { "aria-labelledby": "end" },
    h("h2", { id: "end" }, "Expiry and deletion"),
    h(
      "p",
      null,
      it.expires_at
        ? [
            "It expires ",
            h("time", { datetime: it.expires_at }, `${away(it.expires_at)}, ${moment(it.expires_at)}`),
            ", with all its items.",
          ]
        : "It does not expire.",
    ),
    problem && h(ProblemNotice, { problem }),
    h(
      "form",
      {
        class: "line",
        onSubmit: (event) => {
          event.preventDefault();
          setTtl(wanted);
        },
      },
      h(Field, {
        label: "Days from now",
        inputmode: "decimal",
        size: 8,
        value: days,
        onInput: (event) => setDays(event.currentTarget.value),
      }),
      h("button", { type: "submit", disabled: !(wanted >= 1) }, "Set expiry"),
      it.expires_at &&
        h("button", { type: "button", onClick: () => setTtl(null) }, "Remove expiry"),
      h(
        "button",
        {
          type: "button",
          class: "danger far",
          onClick: () => {
            setTyped("");
            setAsked(true);
          },
        },
        "Delete filter …",
      ),
    ),
    asked &&
      h(
        Confirm,
        {
          title: "Delete this filter?",
          action: "Delete filter",
          ready: typed === it.key,
          onYes: remove,
          onNo: () => setAsked(false),
        },
        h(
          "p",
          null,
          h("code", null, it.key),
          ` and the ${counted(it.items, "item")} in it are deleted at once. Only a dump or a backup can restore them.`,
        ),
        h(Field, {
          label: "Type the key to confirm",
          value: typed,
          onInput: (event) => setTyped(event.currentTarget.value),
        }),
      ),
  );
}
