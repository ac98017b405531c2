// One item to try: ask, count, add, delete, and see where it lies.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useRef, useState } from "./hooks.mjs";
import { ask as query, change, filterPath, get } from "./api.js";
import { useRights } from "./caller.js";
import { count, counted, oneIn } from "./format.js";
import { Confirm, Field, ProblemNotice } from "./parts.js";

/** Longest item that a query takes, in bytes. */
const LONGEST_IN_QUERY = 4096;
/** Values of an attribute that are shown in its field. */
const LABELS_SHOWN = 3;
/** Sub-filters that are drawn at most. */
const DRAWN = 8;
/** Those that are drawn of an item that is in none. */
const DRAWN_OF_NONE = 2;

export function Items({ it, onChanged }) {
  const [item, setItem] = useState("");
  const [value, setValue] = useState("");
  const [row, setRow] = useState({});
  const [told, setTold] = useState(null);
  const [asked, setAsked] = useState(false);
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  const { mayWrite } = useRights();
  useEffect(() => {
    setTold(null);
    setValue("");
    setRow({});
  }, [it.key]);

  const attempt = async (work) => {
    const turn = ++latest.current;
    setBusy(true);
    let next;
    try {
      const said = await work();
      next = { item, said, located: await whereabouts(it.key, item) };
    } catch (problem) {
      next = { item, problem };
    }
    if (turn !== latest.current) return;
    setTold(next);
    setBusy(false);
    onChanged();
  };
  const path = (rest) => filterPath(it.key, rest);
  const attributes = it.attributes ?? [];
  const valued = Boolean(it.value_bits) || attributes.length > 0;
  const labelOf = (name) => (Object.hasOwn(row, name) ? row[name] : "");
  const filled = attributes.map(({ name }) => [name, labelOf(name)]).filter(([, label]) => label !== "");
  const ofRow = filled.map(([name, label]) => `${name}: ${label}`).join(", ");
  const what = attributes.length > 0 ? `row ${ofRow}` : `value ${value}`;
  // The server says what is wrong with a value or a row, or that it is missing.
  const held = () =>
    attributes.length > 0 ? { attributes: Object.fromEntries(filled) } : { value: value === "" ? undefined : Number(value) };
  const entry = () => ({ entries: [{ item, ...held() }] });
  const ask = () =>
    attempt(async () => {
      if (filled.length > 0) {
        const where = Object.fromEntries(filled.map(([name, label]) => [name, [label]]));
        const { results } = await query(path("/exists"), { items: [item], where });
        return results[0]
          ? ["maybe", `It probably has a row with ${ofRow}.`, ""]
          : ["no", `It has no row with ${ofRow}.`, " This is certain."];
      }
      if (it.value_bits && value !== "") {
        const { results } = await query(path("/exists"), entry());
        return results[0]
          ? ["maybe", `It probably has the value ${value}.`, ""]
          : ["no", `It does not have the value ${value}.`, " This is certain."];
      }
      const { results } = await query(path("/exists"), { items: [item] });
      return results[0]
        ? ["maybe", "It is probably in the filter.", ` False-positive rate: ${oneIn(it.expected_false_positive_rate)}.`]
        : ["no", "It is not in the filter.", " This is certain."];
    });
  const countCopies = () =>
    attempt(async () => {
      const { results } = await query(path("/count"), { items: [item] });
      return ["plain", `${counted(results[0], "copy", "copies")}.`, " A count is never too low. It includes items with the same fingerprint and buckets."];
    });
  const add = () =>
    attempt(async () => {
      const answer = valued
        ? await change("POST", path("/values"), entry())
        : await change("POST", path("/items"), { items: [item] });
      const { results, full_detail } = await answer.json();
      if (results[0] === "refreshed") return ["yes", "Refreshed.", " It was there, and expires later from now on."];
      return results[0] === "added"
        ? ["yes", "Added.", " The server answers after the commit; --wal-sync says when the commit is on disk."]
        : ["no", "Not added: the filter is full.", ` ${full_detail}.`];
    });
  const remove = () =>
    attempt(async () => {
      setAsked(false);
      const answer = valued
        ? await change("POST", path("/values/delete"), entry())
        : await change("POST", path("/items/delete"), { items: [item] });
      const { results } = await answer.json();
      const absent = valued ? ` The item does not have the ${what}.` : " The item is not in the filter.";
      return results[0] ? ["yes", "One copy deleted.", ""] : ["no", "Nothing deleted.", absent];
    });

  return h(
    "section",
    { "aria-labelledby": "try" },
    h("h2", { id: "try" }, "Try an item"),
    h(
      "form",
      {
        class: "line",
        onSubmit: (event) => {
          event.preventDefault();
          ask();
        },
      },
      h(Field, {
        label: "Item",
        value: item,
        onInput: (event) => setItem(event.currentTarget.value),
      }),
      attributes.map(({ name, values }) =>
        h(Field, {
          key: name,
          label: name,
          placeholder: values ? values.slice(0, LABELS_SHOWN).join(", ") : "any",
          value: labelOf(name),
          onInput: (event) => setRow({ ...row, [name]: event.currentTarget.value }),
        }),
      ),
      it.value_bits &&
        h(Field, {
          label: "Value",
          inputmode: "numeric",
          value,
          onInput: (event) => setValue(event.currentTarget.value),
        }),
      h("button", { type: "submit", class: "primary", disabled: busy }, "Ask"),
      h("button", { type: "button", disabled: busy, onClick: countCopies }, "Count"),
      mayWrite && h("button", { type: "button", disabled: busy, onClick: add }, "Add"),
      mayWrite && !it.epochs && h(
        "button",
        { type: "button", class: "danger", disabled: busy, onClick: () => setAsked(true) },
        "Delete …",
      ),
    ),
    h(
      "div",
      { class: "told", role: "status" },
      told?.said &&
        h(
          "p",
          { class: `answer ${told.said[0]}` },
          h("q", null, told.item),
          " ",
          h("strong", null, told.said[1]),
          told.said[2],
        ),
    ),
    told?.problem && h(ProblemNotice, { problem: told.problem }),
    told?.located && h(Whereabouts, { located: told.located, it }),
    asked &&
      h(
        Confirm,
        {
          title: "Delete one copy?",
          action: "Delete one copy",
          onYes: remove,
          onNo: () => setAsked(false),
        },
        h(
          "p",
          null,
          valued ? `One copy of the ${what} of ` : "One copy of ",
          h("q", null, item),
          " is deleted, if one is found.",
        ),
        h(
          "p",
          { class: "notice warn" },
          h("strong", null, "Delete only what was added."),
          " Two items can have the same fingerprint. Deleting an item that was never added can remove the fingerprint of another item, which is then no longer found.",
        ),
      ),
  );
}

/** Where the item lies; nothing if it is too long to be asked for this way. */
async function whereabouts(key, item) {
  if (new TextEncoder().encode(item).length > LONGEST_IN_QUERY) return null;
  return get(filterPath(key, `/locate?${new URLSearchParams({ item })}`));
}

const holds = (place) =>
  place.buckets.some((bucket) => bucket.slots.includes("match")) || place.counted > 0;

function Whereabouts({ located, it }) {
  // Newest first, as a question goes.
  const places = located.places.toReversed();
  const holding = places.filter(holds);
  const drawn = holding.length > 0 ? holding.slice(0, DRAWN) : places.slice(0, DRAWN_OF_NONE);
  const left = located.sub_filters - drawn.length;
  return h(
    "div",
    { class: "whereabouts" },
    h("h3", null, located.count > 0 ? "Where its fingerprint lies" : "Where it would lie"),
    drawn.map((place) => h(Place, { key: place.sub_filter, place, sub: it.sub_filters[place.sub_filter] })),
    left > 0 &&
      h(
        "p",
        { class: "quiet" },
        drawn.length < holding.length
          ? `It also lies in some of the other ${counted(left, "sub-filter")}.`
          : `Not in the other ${left === 1 ? "sub-filter" : counted(left, "sub-filter")}.`,
      ),
    h(
      "ul",
      { class: "legend", "aria-label": "Legend" },
      h("li", null, h("span", { class: "slot match", "aria-hidden": "true" }), "fingerprint of the item"),
      h("li", null, h("span", { class: "slot other", "aria-hidden": "true" }), "another fingerprint"),
      h("li", null, h("span", { class: "slot", "aria-hidden": "true" }), "empty"),
    ),
  );
}

function Place({ place, sub }) {
  return h(
    "div",
    { class: "place" },
    h(
      "h4",
      null,
      // A filter that splits its pages has one.
      sub?.layout === "paged" ? "Its pages" : `Sub-filter ${count(place.sub_filter)}`,
      h("span", { class: "quiet" }, ` fingerprint ${place.fingerprint.toString(16)}`),
    ),
    sub && h(Pages, { place, pages: sub.pages }),
    h(
      "div",
      { class: "buckets" },
      place.buckets.map((bucket) => h(Bucket, { key: bucket.bucket, bucket })),
    ),
    place.counted > 0 &&
      h("p", null, `and ${counted(place.counted, "copy", "copies")} counted beside the page`),
  );
}

/** All pages of the sub-filter as a line, with the ones it may lie on. */
function Pages({ place, pages }) {
  const [width, height] = [600, 10];
  const holds = (bucket) => bucket.slots.includes("match");
  // What matches is drawn last, over its neighbour on the same page.
  const marks = place.buckets.toSorted((one, other) => holds(one) - holds(other));
  return h(
    "svg",
    { class: "pages", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    h("line", { x1: 0, x2: width, y1: height / 2, y2: height / 2 }),
    marks.map((bucket) =>
      h("rect", {
        key: bucket.bucket,
        class: holds(bucket) ? "match" : "",
        x: ((width - 6) * (bucket.page + 0.5)) / pages,
        y: 0,
        width: 6,
        height,
      }),
    ),
  );
}

function Bucket({ bucket }) {
  const matching = bucket.slots.flatMap((slot, at) => (slot === "match" ? [at] : []));
  const used = bucket.slots.filter((slot) => slot !== "empty").length;
  const found = matching.length === 0 ? "not here" : `in slot ${matching.join(", ")}`;
  return h(
    Fragment,
    null,
    h(
      "div",
      { class: "bucket" },
      h(
        "span",
        {
          class: "slots",
          role: "img",
          "aria-label": `${found}; ${used} of ${bucket.slots.length} slots in use`,
        },
        bucket.slots.map((slot, at) => h("span", { key: at, class: `slot ${slot}` })),
      ),
      h(
        "span",
        { class: "quiet" },
        `bucket ${count(bucket.bucket)}, page ${count(bucket.page)}, slots ${bucket.first_slot}–${bucket.first_slot + bucket.slots.length - 1}`,
      ),
    ),
  );
}
