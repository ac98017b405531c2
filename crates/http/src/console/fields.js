// Which fields a new filter of a kind has, and what is sent of them. Nothing here
// knows the page.

/** Kinds of filters: how each is called, and what its items are asked for. */
export const KINDS = {
  items: ["Items", "“Have we seen this?”"],
  values: ["Items with values", "“And which?” A campaign, a tier, a shard"],
  rows: ["Items with attributes", "“In DE or AT, with plan pro?”"],
  window: ["Items that expire", "“Have we seen this within the last day?”"],
  classic: ["Items, as RedisBloom keeps them", "Layout classic, bit for bit. The more the filter grows, the more false positives it has"],
};

const ALL = ["capacity", "expansion", "max_expansions", "ttl_seconds"];
const PAGED = ["error_rate", "fingerprint_bits", "promised_growth"];
const OF_KIND = {
  items: PAGED,
  values: [...PAGED, "value_bits", "values_per_item"],
  rows: [...PAGED, "values_per_item"],
  window: [...PAGED, "window_seconds", "window_resolution_seconds"],
  classic: ["bucket_size", "max_iterations"],
};

/** Units of the fields that are spans of time, in seconds. */
export const UNITS = [
  ["minutes", 60],
  ["hours", 3600],
  ["days", 86_400],
];

/** A form as it begins. */
export const EMPTY = {
  kind: "items",
  units: { ttl_seconds: 86_400, window_seconds: 86_400, window_resolution_seconds: 3600 },
  value_bits: "8",
  window_seconds: "1",
  attributes: [{ name: "", kept: "exact", labels: "" }],
};

/** What is sent: only what was filled in, and nothing of another kind. */
export function fieldsOf(form) {
  const fields = { layout: form.kind === "classic" ? "classic" : "paged" };
  for (const name of [...ALL, ...OF_KIND[form.kind]]) {
    const text = (form[name] ?? "").trim().replaceAll(/[\s,_]/g, "");
    if (text === "") continue;
    const number = Number(text) * (form.units[name] ?? 1);
    // What is no number is sent as it is: the server says what is allowed.
    fields[name] = Number.isFinite(number) ? number : text;
  }
  if (form.kind === "rows") fields.attributes = form.attributes.map(attributeOf);
  return fields;
}

function attributeOf({ name, kept, labels, bits }) {
  if (kept === "exact") return { name, values: labels.split(",").map((label) => label.trim()) };
  return { name, hash_bits: /^\d+$/.test(bits?.trim() ?? "") ? Number(bits) : bits ?? "" };
}

/** What is still to be filled in before the server is asked; null: nothing. */
export function missing(form) {
  const isOpen = ({ name, kept, labels, bits }) => !name || !(kept === "exact" ? labels : bits)?.trim();
  if (form.kind === "rows" && form.attributes.some(isOpen)) return "Each attribute needs a name and its values or bits.";
  if (form.kind === "values" && !form.value_bits.trim()) return "Values need their bits.";
  if (form.kind === "window" && !form.window_seconds.trim()) return "The window needs a length.";
  return null;
}
