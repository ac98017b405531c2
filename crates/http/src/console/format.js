// Figures as people read them. Nothing here knows the page.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const percent = new Intl.NumberFormat("en", {
  style: "percent",
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const LARGE = [
  ["quadrillion", 1e15],
  ["trillion", 1e12],
  ["billion", 1e9],
  ["million", 1e6],
];
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 104334 as 104,334. */
export function count(number) {
  return whole.format(number);
}

/** With a digit after the point. */
export function oneDigit(number) {
  return tenths.format(number);
}

/** A count with its noun, in the singular or the plural. */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Bytes in the unit that keeps them short. */
export function bytes(number) {
  let [value, unit] = [number, 0];
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${three.format(value)} ${UNITS[unit]}`;
}

/** A share from 0 to 1 in percent. */
export function share(number) {
  return percent.format(number);
}

/** A small probability as people say it: one in so many. */
export function oneIn(probability) {
  if (probability <= 0) return "never";
  return `1 in ${compact(1 / probability)}`;
}

/** Three digits, and words where there would be many noughts. */
function compact(number) {
  for (const [word, size] of LARGE) {
    if (number >= size) return `${three.format(number / size)} ${word}`;
  }
  return three.format(number);
}

/** Events a second. */
export function perSecond(number) {
  if (number === null) return "–";
  return number >= 100 ? count(number) : three.format(number);
}

/** Seconds in the unit that keeps them short. */
export function seconds(number) {
  if (number === null) return "–";
  if (number === Infinity) return "> 10 s";
  if (number < 0.001) return `${three.format(number * 1e6)} µs`;
  if (number < 1) return `${three.format(number * 1e3)} ms`;
  return `${three.format(number)} s`;
}

/** A time to live in its largest whole-ish unit. */
export function span(number) {
  for (const [unit, length] of [
    ["day", 86_400],
    ["hour", 3600],
    ["minute", 60],
  ]) {
    if (number >= length) return counted(Math.round(number / length), unit);
  }
  return counted(Math.max(0, Math.round(number)), "second");
}

/** How far a moment is away. */
export function away(iso, now = Date.now()) {
  const left = (Date.parse(iso) - now) / 1000;
  return left >= 0 ? `in ${span(left)}` : `${span(-left)} ago`;
}

/** A moment as written on a calendar, in UTC like the server's own. */
export function moment(iso) {
  return iso.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
}

/** How many of some numbers are 0, 1, 2, 3 to 4, 5 to 8, and so on up to the largest. */
export function bins(numbers) {
  const place = (number) => (number === 0 ? 0 : 1 + Math.ceil(Math.log2(number)));
  const all = Array.from({ length: 1 + Math.max(...numbers.map(place)) }, (_, at) => ({
    from: at < 2 ? at : 2 ** (at - 2) + 1,
    to: at < 1 ? 0 : 2 ** (at - 1),
    items: 0,
  }));
  for (const number of numbers) all[place(number)].items += 1;
  return all;
}

/** What the items of a filter are, in a few words. */
export function kindOf({ layout, attributes, value_bits, window_seconds }) {
  if (attributes) return `rows: ${attributes.map((it) => it.name ?? it).join(", ")}`;
  if (value_bits) return `values of ${counted(value_bits, "bit")}`;
  if (window_seconds) return `items, for ${span(window_seconds)}`;
  return layout === "classic" ? "items, classic" : "items";
}
