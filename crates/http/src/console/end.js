// When a filter expires, and its deletion.

import { h } from "./preact.mjs";
import { useState } from "./hooks.mjs";
import { change, filterPath } from "./api.js";
import { away, counted, moment } from "./format.js";
import { Confirm, Field, ProblemNotice } from "./parts.js";

export function End({ it, mayEnd, onChanged }) {
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
    h("h2", { id: "end" }, mayEnd ? "Expiry and deletion" : "Expiry"),
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
    mayEnd && h(
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
