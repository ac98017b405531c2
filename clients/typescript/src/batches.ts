import type { ProblemError } from "./errors.js";

/**
 * A string (its UTF-8 bytes), an integer (its decimal digits, so `7`, `7n` and
 * `"7"` are the same item) or bytes.
 */
export type Item = string | number | bigint | Uint8Array;

/** A value for each attribute of a filter, by its name. */
export type Row = Record<string, string>;

/** An item and a value, or a row: as an object or as a pair, so that a `Map` has entries, too. */
export type Entry =
  | { item: Item; value: number } | { item: Item; attributes: Row } | readonly [item: Item, value: number | Row];

/** An item, the value or row that it has, and what comes in its place. */
export type Replacement =
  | { item: Item; from: number | Row; to: number | Row } | readonly [item: Item, from: number | Row, to: number | Row];

/** Several of something. A string or bytes are one item, so neither is taken for several. */
export type Many<T> = Iterable<T> & object;

/**
 * What the server takes in one request: `--max-batch-items`, `--max-body-bytes`.
 * They shrink when the server refuses a part.
 */
export interface BatchLimits {
  items: number;
  bytes: number;
}

// The server refused these as a whole; smaller parts may pass.
const SMALLER_PASS = new Set([
  "batch_too_large", "body_too_large", "too_costly", "too_many_pages",
]);
// Room for the other fields of a body.
const BODY_BYTES = 64 << 10;

// With the flag u those of a pair are one character.
const LONE_SURROGATE = /\p{Surrogate}/u;

/** What a batch is of. */
export type Named = "items" | "entries";

/** Items, or entries, in JSON, and the fields that say how the items are encoded. */
export interface Encoded {
  items: string[];
  fields: { encoding?: "base64" };
}

export function encoded(items: Many<Item | Entry | Replacement>, named: Named): Encoded {
  const all = several(items);
  for (const item of all) {
    if (isEntry(item) === (named === "entries")) continue;
    throw new TypeError(isEntry(item)
      ? `${said(item)} is no item: an item is a string, a number, a bigint or a Uint8Array; several are added with addMany, entries with addValues`
      : `${said(item)} is no entry: an entry is an item with a value or a row, such as ["ada", 17]`);
  }
  const hasBytes = all.some((item) => itemOf(item) instanceof Uint8Array);
  const lines = all.map((item) => lineOf(item, hasBytes ? inBase64 : line));
  return { items: lines, fields: hasBytes ? { encoding: "base64" } : {} };
}

function isEntry(item: unknown): boolean {
  return typeof item === "object" && item !== null && !(item instanceof Uint8Array);
}

/** Items that can be read twice. */
export function several<T>(items: Many<T>): T[] {
  if (typeof items === "object" && items !== null && Symbol.iterator in items && !ArrayBuffer.isView(items)) {
    return [...items];
  }
  throw new TypeError(`several items are an iterable of them, such as an array, not ${said(items)}`);
}

/** The item, which its caller may change until it is sent. */
export function copied<T>(item: T): T {
  return item instanceof Uint8Array ? (new Uint8Array(item) as T & Uint8Array) : item;
}

/** A value in a message. */
export function said(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  const name = value.constructor?.name ?? "value";
  return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
}

/** An item or entry in JSON. */
export function lineOf(item: unknown, ofItem: (item: unknown) => string): string {
  if (typeof item !== "object" || item === null || item instanceof Uint8Array) return ofItem(item);
  const { item: of, ...values } = Array.isArray(item) ? named(item) : (item as Record<string, unknown>);
  for (const value of Object.values(values)) {
    if (typeof value === "object" && value !== null) continue;
    if (!Number.isSafeInteger(value)) throw new RangeError(`${String(value)} is no value: a value is an integer`);
  }
  const fields = Object.entries(values).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{"item":${ofItem(of)}${fields.join("")}}`;
}

/** The fields of an entry that is a pair, or of a replacement of three. */
function named([item, ...values]: readonly unknown[]): Record<string, unknown> {
  if (values.length === 0 || values.length > 2) {
    throw new TypeError("an array that is no entry: an entry is an item and a value or a row, a replacement an item and two");
  }
  if (values.length === 2) return { item, from: values[0], to: values[1] };
  return typeof values[0] === "object" ? { item, attributes: values[0] } : { item, value: values[0] };
}

function itemOf(item: Item | Entry | Replacement): unknown {
  if (Array.isArray(item)) return item[0];
  return typeof item === "object" && item !== null && "item" in item ? item.item : item;
}

function inBase64(item: unknown): string {
  if (!(item instanceof Uint8Array)) line(item);
  const bytes = item instanceof Uint8Array ? item : Buffer.from(String(item));
  return JSON.stringify(Buffer.from(bytes).toString("base64"));
}

/** An item as a line of NDJSON, without its end. */
export function line(item: unknown): string {
  if (typeof item === "string") {
    if (!LONE_SURROGATE.test(item)) return JSON.stringify(item);
    throw new TypeError(`${said(item)} is no item: it has a lone surrogate, which UTF-8 does not encode; add bytes`);
  }
  // Its digits are the item, so no number of JSON has to hold it.
  if (typeof item === "bigint") return `"${item}"`;
  if (typeof item === "number") {
    if (Number.isSafeInteger(item)) return String(item === 0 ? 0 : item);
    throw new RangeError(`${item} is no safe integer: pass a bigint or a string`);
  }
  throw new TypeError(`${said(item)} is no item: an item is a string, a number, a bigint or, except in imports, a Uint8Array`);
}

/** The body of a request for a part. */
export function body(items: readonly string[], fields: object, named: string): string {
  const rest = JSON.stringify(fields).slice(1, -1);
  return `{"${named}":[${items.join(",")}]${rest === "" ? "" : `,${rest}`}}`;
}

/**
 * The parts of a batch, in order; a part that is refused is halved. Nothing of a
 * refused part is done, so its halves are new requests.
 */
export class Parts {
  readonly #waiting: string[][];
  readonly #limits: BatchLimits;
  readonly #whole: boolean;
  #current: string[] = [];

  /** `whole`: the batch goes as one request, or not at all. */
  constructor(items: string[], limits: BatchLimits, whole: boolean) {
    this.#limits = limits;
    this.#whole = whole;
    this.#waiting = whole ? [items] : split(items, limits).reverse();
  }

  next(): string[] | undefined {
    const part = this.#waiting.pop();
    this.#current = part ?? [];
    return part;
  }

  /** Puts the refused part back as two; whether that may help. */
  halve(problem: ProblemError): boolean {
    const half = Math.floor(this.#current.length / 2);
    if (this.#whole || half === 0 || !SMALLER_PASS.has(problem.code)) return false;
    if (problem.code === "batch_too_large") this.#limits.items = Math.min(this.#limits.items, half);
    if (problem.code === "body_too_large") {
      const size = this.#current.reduce((sum, item) => sum + Buffer.byteLength(item), 0);
      this.#limits.bytes = Math.min(this.#limits.bytes, Math.max(Math.floor(size / 2), BODY_BYTES));
    }
    this.#waiting.push(this.#current.slice(half), this.#current.slice(0, half));
    return true;
  }
}

function split(items: string[], limits: BatchLimits): string[][] {
  const room = Math.max(limits.bytes - BODY_BYTES, limits.bytes / 2);
  const parts: string[][] = [];
  let [begin, size] = [0, 0];
  items.forEach((item, at) => {
    const bytes = Buffer.byteLength(item) + 1;
    if (at > begin && (at - begin >= limits.items || size + bytes > room)) {
      parts.push(items.slice(begin, at));
      [begin, size] = [at, 0];
    }
    size += bytes;
  });
  parts.push(items.slice(begin));
  return parts;
}
