// The pods of a cluster and its lanes: who leads what, and how far each is.

import { Fragment, h } from "./preact.mjs";
import { useEffect, useState } from "./hooks.mjs";
import { get } from "./api.js";
import { count, counted, span } from "./format.js";
import { Bar, Heading, ProblemNotice, Waiting, usePolled } from "./parts.js";

const EVERY_MS = 1000;
/** Pods hear of each other once a second; after so many the brokers are silent. */
const OLD_SECONDS = 5;

/** Whether the server is a pod of a cluster, so that there is something to see. */
export function useIsPod(input) {
  const [isPod, setIsPod] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    get("cluster", { signal: stop.signal }).then(
      () => setIsPod(true),
      () => !stop.signal.aborted && setIsPod(false),
    );
    return () => stop.abort();
  }, [input]);
  return isPod;
}

/** By how many records a pod is behind, lane by lane. */
function lags(pod, lanes) {
  return lanes.map((it) => Math.max(0, it.newest - (pod.positions[it.lane] ?? 0)));
}

const sum = (numbers) => numbers.reduce((all, it) => all + it, 0);

export function Cluster() {
  const { value, problem, askAgain } = usePolled((signal) => get("cluster", { signal }), () => EVERY_MS, []);
  return h(
    Fragment,
    null,
    h("div", { class: "title" }, h(Heading, { title: value ? `Cluster ${value.cluster}` : "Cluster" })),
    problem && h(ProblemNotice, { problem }, h("button", { type: "button", onClick: askAgain }, "Try again")),
    !value && !problem && h(Waiting, { what: "the cluster" }),
    value && h(Shown, { it: value }),
  );
}

function Shown({ it }) {
  const leaderless = it.lanes.filter((lane) => lane.leader === null).length;
  return h(
    Fragment,
    null,
    h(
      "p",
      { class: "quiet" },
      `${counted(it.pods.length, "pod")}, ${counted(it.lanes.length, "lane")}, each change on ${counted(it.copies, "broker")}, epoch ${it.epoch}. Pods say once a second how far they are.`,
    ),
    leaderless > 0 &&
      h(
        "p",
        { class: "notice warn", role: "status" },
        h("strong", null, `${counted(leaderless, "lane")} without a leader.`),
        " Changes there are refused until a pod leads; questions go on.",
      ),
    it.age_seconds > OLD_SECONDS &&
      h(
        "p",
        { class: "notice warn", role: "status" },
        h("strong", null, "The brokers do not answer."),
        ` This is how the pods were ${span(it.age_seconds)} ago.`,
      ),
    h(Pods, { it }),
    h(Lanes, { it }),
  );
}

function Table({ title, columns, children }) {
  return h(
    "section",
    null,
    h("h2", null, title),
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": title, tabIndex: 0 },
      h(
        "table",
        { class: "chain cluster" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            columns.map(([name, kind]) => h("th", { scope: "col", class: kind, key: name }, name)),
          ),
        ),
        h("tbody", null, children),
      ),
    ),
  );
}

function Pods({ it }) {
  const columns = [["Pod"], ["Leads"], ["Records behind", "number"], ["Version"]];
  return h(
    Table,
    { title: "Pods", columns },
    it.pods.map((pod) =>
      h(
        "tr",
        { key: pod.address },
        h(
          "th",
          { scope: "row" },
          h("code", null, pod.address),
          pod.address === it.answered_by && h("span", { class: "quiet small" }, " this one"),
        ),
        h(
          "td",
          { "data-label": "Leads" },
          h(
            "span",
            { class: "fill" },
            h(Bar, { part: pod.leads / it.lanes.length }),
            h("span", null, counted(pod.leads, "lane")),
          ),
        ),
        h("td", { class: "number", "data-label": "Records behind" }, count(sum(lags(pod, it.lanes)))),
        h("td", { "data-label": "Version" }, pod.version),
      ),
    ),
  );
}

function Lanes({ it }) {
  const columns = [["Lane"], ["Leader"], ["Newest record", "number"], ["Furthest behind", "number"]];
  const behind = it.pods.map((pod) => lags(pod, it.lanes));
  return h(
    Table,
    { title: "Lanes", columns },
    it.lanes.map((lane, at) =>
      h(
        "tr",
        { key: lane.lane },
        h("th", { scope: "row" }, h("span", { class: "of-lane" }, "Lane "), lane.lane),
        h(
          "td",
          { "data-label": "Leader" },
          lane.leader === null ? h("span", { class: "mark bad" }, "none") : h("code", null, lane.leader),
        ),
        h("td", { class: "number", "data-label": "Newest record" }, count(lane.newest)),
        h(
          "td",
          { class: "number", "data-label": "Furthest behind" },
          count(Math.max(0, ...behind.map((lags) => lags[at]))),
        ),
      ),
    ),
  );
}
