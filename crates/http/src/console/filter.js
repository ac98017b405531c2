// One filter: what it is, and in files of their own how it has grown, an item to try,
// its end.

import { Fragment, h } from "./preact.mjs";
import { filterPath, get } from "./api.js";
import { useRights } from "./caller.js";
import { away, bytes, count, counted, kindOf, moment, oneDigit, oneIn } from "./format.js";
import { Chain } from "./chain.js";
import { End } from "./end.js";
import { Epochs } from "./epochs.js";
import { Growth } from "./growth.js";
import { History } from "./history.js";
import { Import } from "./import.js";
import { Items } from "./items.js";
import { ErrorNow, Promised } from "./list.js";
import { Heading, ProblemNotice, Waiting, usePolled } from "./parts.js";
import { Values } from "./values.js";

const EVERY_MS = 2000;
/** Values of an attribute that are listed. */
const LABELS_LISTED = 16;

export function Filter({ name }) {
  const { value, problem, askAgain } = usePolled(
    (signal) => get(filterPath(name), { signal }),
    () => EVERY_MS,
    [name],
  );
  const { mayWrite, mayEnd } = useRights();
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
          mayWrite && [h("a", { href: `#/new/${encodeURIComponent(name)}` }, "Create it"), "."],
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
        h(History, { it: value }),
        value.growth ? h(Growth, { it: value }) : h(Chain, { it: value, onChanged: askAgain }),
        value.epochs && h(Epochs, { it: value }),
        h(Items, { it: value, onChanged: askAgain }),
        (value.value_bits || value.attributes) && h(Values, { it: value }),
        h(Import, { it: value, mayWrite, onChanged: askAgain }),
        h(Parameters, { it: value }),
        h(End, { it: value, mayEnd, onChanged: askAgain }),
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

function Parameters({ it }) {
  const rows = [
    ["Keeps", kindOf(it)],
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
    ["Bits per item", it.bits_per_item === null ? "–" : oneDigit(it.bits_per_item)],
    ["Bits per item at capacity", oneDigit(it.bits_per_item_at_capacity)],
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
