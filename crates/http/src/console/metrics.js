// Reads the text format of Prometheus, and makes rates and quantiles of two
// scrapes, the way Prometheus itself does. Nothing here knows the page.

/** Samples by name: `[{labels, value}]`. */
export function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!found) continue;
    const [, name, inner = "", value] = found;
    const labels = {};
    for (const [, label, content] of inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[label] = content;
    }
    if (!families.has(name)) families.set(name, []);
    families.get(name).push({ labels, value: Number(value.replace("Inf", "Infinity")) });
  }
  return families;
}

/** Sum of a family's samples whose labels are wanted. */
export function total(families, name, wanted = () => true) {
  let sum = 0;
  for (const { labels, value } of families.get(name) ?? []) {
    if (wanted(labels)) sum += value;
  }
  return sum;
}

/** Growth of a counter a second; null when it was set back or no time passed. */
export function rate(before, after, name, wanted) {
  const grown = total(after.families, name, wanted) - total(before.families, name, wanted);
  const passed = after.at - before.at;
  return passed > 0 && grown >= 0 ? grown / passed : null;
}

/** A quantile of what a histogram counted in between; null when nothing was. */
export function quantile(part, before, after, name, wanted) {
  const counts = new Map();
  const add = (families, sign) => {
    for (const { labels, value } of families.get(`${name}_bucket`) ?? []) {
      if (!wanted(labels)) continue;
      const bound = Number(labels.le.replace("+Inf", "Infinity"));
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value);
    }
  };
  add(after.families, 1);
  add(before.families, -1);
  const buckets = [...counts].sort(([a], [b]) => a - b);
  const all = buckets.at(-1)?.[1] ?? 0;
  if (!(all > 0)) return null;
  const rank = part * all;
  let [below, lower] = [0, 0];
  for (const [bound, upTo] of buckets) {
    if (upTo >= rank) {
      if (bound === Infinity) return Infinity;
      return lower + ((bound - lower) * (rank - below)) / (upTo - below);
    }
    [below, lower] = [upTo, bound];
  }
  return null;
}
