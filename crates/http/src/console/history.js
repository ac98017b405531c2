// How a filter has grown within the last day, as two curves.

import { h } from "./preact.mjs";
import { filterPath, get } from "./api.js";
import { count, oneIn, span } from "./format.js";
import { ProblemNotice, usePolled } from "./parts.js";

const EVERY_MS = 60_000;
/** Of a curve, in units of its drawing. */
const [WIDTH, HEIGHT] = [600, 96];

/** Points of a curve from the oldest sample to the newest, and from 0 to the most. */
export function points(samples, of, most) {
  const times = samples.map((it) => Date.parse(it.at));
  const [from, all] = [times[0], times.at(-1) - times[0] || 1];
  return samples.map((it, at) => [
    (WIDTH * (times[at] - from)) / all,
    HEIGHT - (HEIGHT * of(it)) / (most || 1),
  ]);
}

export function History({ it }) {
  const { value, problem } = usePolled((signal) => get(filterPath(it.key, "/history"), { signal }), () => EVERY_MS, [it.key]);
  const now = { ...it, at: new Date().toISOString() };
  const samples = value && [...value.samples, now];
  const passed = value && (Date.parse(now.at) - Date.parse(samples[0].at)) / 1000;
  const rate = (sample) => sample.expected_false_positive_rate;
  return h(
    "section",
    { "aria-labelledby": "history" },
    h("h2", { id: "history" }, "The last day"),
    problem && h(ProblemNotice, { problem }),
    value &&
      h(
        "p",
        { class: "quiet" },
        samples.length < 2
          ? "The server notes from its start on, every five minutes or less often, how each filter is. This one is not noted yet."
          : "As the server has noted it since its start, for a day at most.",
      ),
    samples?.length > 1 &&
      h(
        "div",
        { class: "curves" },
        h(Curve, { name: "Items", samples, of: (sample) => sample.items, said: count, passed }),
        h(Curve, { name: "False positives, expected", samples, of: rate, said: oneIn, passed, bound: it.error_rate }),
      ),
  );
}

/** One curve; what it says to the eye stands beneath it in words. */
function Curve({ name, samples, of, said, passed, bound = null }) {
  const highest = Math.max(...samples.map(of));
  // A promise that is far away would press the curve flat.
  const isNear = bound !== null && bound < 4 * highest;
  const most = 1.05 * Math.max(highest, isNear ? bound : 0);
  const line = points(samples, of, most).map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  const first = said(of(samples[0]));
  const last = said(of(samples.at(-1)));
  const level = HEIGHT - (HEIGHT * bound) / most;
  return h(
    "figure",
    { class: "curve" },
    h("figcaption", null, name, isNear && h("span", { class: "quiet" }, `, dashed: ${said(bound)} promised`)),
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${first} ${span(passed)} ago, ${last} now` },
      h("polygon", { points: `0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}` }),
      h("polyline", { points: line }),
      isNear && h("line", { x1: 0, x2: WIDTH, y1: level, y2: level }),
    ),
    h(
      "p",
      { class: "ends", "aria-hidden": "true" },
      h("span", null, `${span(passed)} ago: ${first}`),
      h("span", null, `now: ${last}`),
    ),
  );
}
