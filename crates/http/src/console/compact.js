// Gives back the newest sub-filters of a filter that shrank, and follows that.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useState } from "./hooks.mjs";
import { change, filterPath, get } from "./api.js";
import { counted } from "./format.js";
import { ProblemNotice } from "./parts.js";

const EVERY_MS = 1000;

/** What became of it, by its state. */
const ENDED = {
  done: (it) => `Compacted: ${counted(it.dropped_sub_filters, "sub-filter")} removed.`,
  overtaken: () => "Stopped: adds needed the sub-filters that were being emptied.",
  no_room: () => "Stopped: an entry did not fit into the older sub-filters.",
  failed: () => "Stopped: the storage failed, or the page cache is too small.",
};

export function Compact({ name, subFilters, onChanged }) {
  const [state, setState] = useState({ it: null, problem: null, busy: false });
  const running = state.it?.state === "running";

  useEffect(() => {
    if (!running) return undefined;
    const stop = new AbortController();
    const timer = setInterval(async () => {
      try {
        const it = await get(filterPath(name, "/compaction"), { signal: stop.signal });
        setState({ it, problem: null, busy: false });
        if (it.state !== "running") onChanged();
      } catch (problem) {
        if (!stop.signal.aborted) setState({ it: null, problem, busy: false });
      }
    }, EVERY_MS);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [name, running]);

  const begin = async () => {
    setState({ it: null, problem: null, busy: true });
    try {
      const begun = await (await change("POST", filterPath(name, "/compact"))).json();
      const it =
        begun.closed_sub_filters === 0
          ? { state: "nothing" }
          : await get(filterPath(name, "/compaction"));
      setState({ it, problem: null, busy: false });
      onChanged();
    } catch (problem) {
      setState({ it: null, problem, busy: false });
    }
  };

  // A chain of one has nothing to give back.
  if (subFilters < 2 && !state.it) return null;
  const said = {
    running: () => `Compacting: ${counted(state.it.moved, "entry", "entries")} moved so far.`,
    nothing: () => "Nothing to compact: the entries of the newest sub-filter do not fit into the older ones.",
    ...ENDED,
  }[state.it?.state];
  return h(
    Fragment,
    null,
    h(
      "div",
      { class: "line" },
      h(
        "button",
        { type: "button", disabled: running || state.busy || subFilters < 2, onClick: begin },
        "Compact",
      ),
      h("p", { class: "quiet", role: "status" }, said ? said() : "After many deletions: moves the entries of the newest sub-filters into the older ones and removes them."),
    ),
    state.problem && h(ProblemNotice, { problem: state.problem }),
  );
}
