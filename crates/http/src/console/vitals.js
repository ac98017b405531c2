// The strip of live figures, from two scrapes of the metrics.

import { h } from "./preact.mjs";
import { useEffect, useRef, useState } from "./hooks.mjs";
import { send } from "./api.js";
import { perSecond, seconds, share, span } from "./format.js";
import { parse, quantile, rate, total } from "./metrics.js";

const EVERY_MS = 2000;
/** Scrapes that are kept: a minute. */
const KEPT = 31;
/** Scrapes over which a rate is taken: ten seconds. */
const WINDOW = 5;

const QUESTIONS = new Set(["exists", "count", "lookup"]);
const CHANGES = new Set(["add", "delete"]);
const ASKING = new Set(["/filters/{key}/exists", "/filters/{key}/count", "/lookup"]);
const CHANGING = new Set(["/filters/{key}/items", "/filters/{key}/items/delete"]);
const TIMES = "cuckood_http_request_duration_seconds";

const of = (operations) => (labels) => operations.has(labels.operation);
const on = (routes) => (labels) => routes.has(labels.route);

/** Rates between neighbouring scrapes, for the eye. */
function course(scrapes, operations) {
  const rates = [];
  for (let at = 1; at < scrapes.length; at += 1) {
    rates.push(rate(scrapes[at - 1], scrapes[at], "cuckood_items_total", of(operations)) ?? 0);
  }
  return rates;
}

function figures(scrapes) {
  const last = scrapes.at(-1);
  const recent = scrapes.at(-1 - WINDOW) ?? scrapes[0];
  const oldest = scrapes[0];
  const pages = (source) =>
    rate(oldest, last, "cuckood_page_reads_total", source && ((it) => it.source === source));
  const [all, cached] = [pages(), pages("cache")];
  return {
    asked: rate(recent, last, "cuckood_items_total", of(QUESTIONS)),
    changed: rate(recent, last, "cuckood_items_total", of(CHANGES)),
    askedCourse: course(scrapes, QUESTIONS),
    changedCourse: course(scrapes, CHANGES),
    question: quantile(0.99, oldest, last, TIMES, on(ASKING)),
    change: quantile(0.99, oldest, last, TIMES, on(CHANGING)),
    cached: all > 0 ? cached / all : null,
    jumped: total(last.families, "cuckood_clock_jump_seconds"),
  };
}

/** A minute as a line; the figures beside it say the same. */
function Course({ values }) {
  const [width, height] = [88, 22];
  const top = Math.max(...values, 1);
  const step = width / (KEPT - 2);
  const from = width - step * (values.length - 1);
  const points = values.map(
    (value, at) => `${(from + at * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`,
  );
  return h(
    "svg",
    { class: "course", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    h("polyline", { points: points.join(" ") }),
  );
}

function Vital({ name, hint, children }) {
  return h("div", null, h("dt", { title: hint }, name), h("dd", null, children));
}

/** Nothing ends until somebody says whether the clock is right. */
function ClockJump({ jumped }) {
  return h(
    "p",
    { class: "notice warn", role: "status" },
    h("strong", null, "Filters do not expire."),
    ` The system's clock has jumped ahead by ${span(jumped)}. Put it right, or confirm it with POST /admin/clock/confirm.`,
  );
}

export function Vitals() {
  const scrapes = useRef([]);
  const [state, setState] = useState({ figures: null, problem: null });
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const scrape = async () => {
      let wanted = true;
      if (!document.hidden) {
        try {
          const text = await (await send("GET", "metrics", { signal: stop.signal })).text();
          scrapes.current.push({ at: performance.now() / 1000, families: parse(text) });
          scrapes.current = scrapes.current.slice(-KEPT);
          setState({ figures: figures(scrapes.current), problem: null });
        } catch (problem) {
          if (stop.signal.aborted) return;
          scrapes.current = [];
          setState({ figures: null, problem });
          // They are served elsewhere, or to others: asking on would not help.
          wanted = ![401, 403, 404].includes(problem.status);
        }
      }
      if (wanted && !stop.signal.aborted) timer = setTimeout(scrape, EVERY_MS);
    };
    scrape();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, []);

  if (state.problem) {
    const elsewhere = state.problem.status === 404;
    return h(
      "p",
      { class: "vitals quiet" },
      elsewhere
        ? "Live figures are available on another address of the server."
        : `No live figures: ${state.problem.message}`,
    );
  }
  const it = state.figures ?? { asked: null, changed: null, question: null, change: null, cached: null };
  return h(
    "section",
    { class: "vitals", "aria-label": "Live figures" },
    it.jumped > 0 && h(ClockJump, { jumped: it.jumped }),
    h(
      "dl",
      null,
      h(
        Vital,
        { name: "Questions per second", hint: "Items in questions, over the last 10 seconds" },
        perSecond(it.asked),
        h(Course, { values: it.askedCourse ?? [] }),
      ),
      h(
        Vital,
        { name: "Changes per second", hint: "Items added and deleted, over the last 10 seconds" },
        perSecond(it.changed),
        h(Course, { values: it.changedCourse ?? [] }),
      ),
      h(
        Vital,
        { name: "Questions, p99", hint: "99 of 100 requests with questions were answered within this time, over the last minute" },
        seconds(it.question),
      ),
      h(
        Vital,
        { name: "Changes, p99", hint: "99 of 100 requests with changes were answered within this time, over the last minute" },
        seconds(it.change),
      ),
      h(
        Vital,
        { name: "Pages from the cache", hint: "Share of the pages read from the cache, over the last minute" },
        it.cached === null ? "–" : share(it.cached),
      ),
    ),
  );
}
