// What the views share: asking again and again, notices, dialogs, bars.

import { h } from "./preact.mjs";
import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "./hooks.mjs";
import { share } from "./format.js";

/**
 * What `load(signal)` answers, asked again after `pause(value)` milliseconds while
 * the page is seen. Old answers stay until new ones come.
 */
export function usePolled(load, pause, inputs) {
  const [state, setState] = useState({ value: null, problem: null });
  const again = useRef(() => {});
  useEffect(() => {
    const stop = new AbortController();
    let [timer, asking, value] = [0, false, null];
    const ask = async () => {
      clearTimeout(timer);
      if (asking || stop.signal.aborted) return;
      asking = true;
      try {
        if (!document.hidden) {
          value = await load(stop.signal);
          if (!stop.signal.aborted) setState({ value, problem: null });
        }
      } catch (problem) {
        if (!stop.signal.aborted) setState((old) => ({ value: old.value, problem }));
      }
      asking = false;
      if (!stop.signal.aborted) timer = setTimeout(ask, pause(value));
    };
    again.current = ask;
    const seen = () => !document.hidden && ask();
    document.addEventListener("visibilitychange", seen);
    setState((old) => (old.value || old.problem ? { value: null, problem: null } : old));
    ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, inputs);
  return { ...state, askAgain: useCallback(() => again.current(), []) };
}

/** A value as it was when it last stood still for so many milliseconds. */
export function useSettled(value, milliseconds) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** What went wrong, in the server's words. */
export function ProblemNotice({ problem, children }) {
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("p", null, h("strong", null, problem.title ?? "The request failed."), " ", problem.message),
    problem.requestId && h("p", { class: "quiet" }, "Request ", h("code", null, problem.requestId)),
    children,
  );
}

/** The state of waiting, said once and not blinking. */
export function Waiting({ what }) {
  return h("p", { class: "quiet waiting", role: "status" }, `Loading ${what} …`);
}

/** How full something is. The figure stands beside it, so it is for the eye. */
export function Bar({ part, level = "" }) {
  return h(
    "span",
    { class: `bar ${level}`, "aria-hidden": "true" },
    h("span", { style: { width: `${(100 * Math.min(1, part)).toFixed(2)}%` } }),
  );
}

/** A share as a bar and in figures. */
export function Fill({ part }) {
  return h("span", { class: "fill" }, h(Bar, { part }), h("span", null, share(part)));
}

/** A labelled input. `error` is the server's sentence about it. */
export function Field({ label, hint, error, ...input }) {
  const id = useId();
  const said = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h("input", {
      id,
      type: "text",
      autocomplete: "off",
      spellcheck: false,
      ...input,
      "aria-invalid": error ? "true" : undefined,
      "aria-describedby": said || undefined,
    }),
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint),
    error && h("p", { class: "error", id: `${id}-error` }, error),
  );
}

/** A labelled choice among `[value, name]`. */
export function Select({ label, options, value, onChange }) {
  const id = useId();
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    h(
      "select",
      { id, value, onChange: (event) => onChange(event.currentTarget.value) },
      options.map(([option, name]) => h("option", { key: option, value: option }, name)),
    ),
  );
}

/** One of a group of choices, of which one is made. */
export function Choice({ group, value, label, hint, checked, onChoose }) {
  return h(
    "label",
    { class: "choice" },
    h("input", { type: "radio", name: group, value, checked, onChange: onChoose }),
    h("span", null, label, hint && h("span", { class: "hint" }, hint)),
  );
}

/** A question that must be answered before something is done. */
export function Confirm({ title, action, onYes, onNo, ready = true, children }) {
  const dialog = useRef(null);
  const id = useId();
  // At once: what is typed next is meant for it.
  useLayoutEffect(() => {
    const [before, it] = [document.activeElement, dialog.current];
    it.showModal();
    return () => {
      // While it is open, nothing else takes the focus.
      it.close();
      if (before?.isConnected) before.focus();
    };
  }, []);
  return h(
    "dialog",
    {
      ref: dialog,
      "aria-labelledby": id,
      onCancel: (event) => {
        event.preventDefault();
        onNo();
      },
    },
    h(
      "form",
      {
        onSubmit: (event) => {
          event.preventDefault();
          if (ready) onYes();
        },
      },
      h("h2", { id }, title),
      children,
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onClick: onNo }, "Cancel"),
        h("button", { type: "submit", class: "danger", disabled: !ready }, action),
      ),
    ),
  );
}

/** The heading of a view: it takes the focus, so that a reader starts there. */
export function Heading({ title, children }) {
  const heading = useRef(null);
  useLayoutEffect(() => {
    document.title = `${title} · cuckood`;
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [title]);
  return h("h1", { ref: heading, tabIndex: -1 }, children ?? title);
}
