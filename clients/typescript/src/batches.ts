import type { ProblemError } from "./errors.js";

/**
 * A string (its UTF-8 bytes), an integer (its decimal digits, so `7`, `7n` and
 * `"7"` are the same item) or bytes.
 */
export type Item = string | number | bigint | Uint8Array;

/** A value for each attribute of a filter, by its name. */
export type Row = Record<string, string>;

/** An item and a value, or a row. */
export type Entry = { item: Item; value: number } | { item: Item; attributes: Row };

/** An item, the value or row that it has, and what comes in its place. */
export interface Replacement {
  item: Item;
  from: number | Row;
  to: number | Row;
}

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

/** Items, or entries, in JSON, and the fields that say how the items are encoded. */
export interface Encoded {
  items: string[];
  fields: { encoding?: "base64" };
}

export function encoded(items: Iterable<Item | Entry | Replacement>): Encoded {
  const all = [...items];
  const hasBytes = all.some((item) => (isEntry(item) ? item.item : item) instanceof Uint8Array);
  const lineOf = hasBytes ? inBase64 : line;
  const lines = all.map((item) => {
    if (!isEntry(item)) return lineOf(item);
    const { item: of, ...values } = item;
    for (const value of Object.values(values) as (number | Row)[]) {
      if (typeof value === "object" && value !== null) continue;
      if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no value: a value is an integer`);
    }
    return `{"item":${lineOf(of)},${JSON.stringify(values).slice(1)}`;
  });
  return { items: lines, fields: hasBytes ? { encoding: "base64" } : {} };
}

function isEntry(item: Item | Entry | Replacement): item is Entry | Replacement {
  return typeof item === "object" && item !== null && !(item instanceof Uint8Array) && "item" in item;
}

function inBase64(item: Item): string {
  if (!(item instanceof Uint8Array)) line(item);
  const bytes = item instanceof Uint8Array ? item : Buffer.from(String(item));
  return JSON.stringify(Buffer.from(bytes).toString("base64"));
}

/** An item as a line of NDJSON, without its end. */
export function line(item: unknown): string {
  if (typeof item === "string") return JSON.stringify(item);
  // Its digits are the item, so no number of JSON has to hold it.
  if (typeof item === "bigint") return `"${item}"`;
  if (typeof item === "number") {
    if (Number.isSafeInteger(item)) return String(item === 0 ? 0 : item);
    throw new RangeError(`${item} is no safe integer: pass a bigint or a string`);
  }
  throw new TypeError(`${String(item)} is no item: an item is a string, a number, a bigint or, except in imports, a Uint8Array`);
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

/** Chunks of NDJSON, without the first `skip` items. */
export async function* chunks(
  items: Iterable<unknown> | AsyncIterable<unknown>, skip: number, maxLines: number, maxBytes: number,
): AsyncGenerator<string> {
  let [lines, size, number] = [[] as string[], 0, 0];
  for await (const item of items) {
    number += 1;
    if (number <= skip) continue;
    const text = `${line(item)}\n`;
    const bytes = Buffer.byteLength(text);
    if (lines.length > 0 && (lines.length >= maxLines || size + bytes > maxBytes)) {
      yield lines.join("");
      [lines, size] = [[], 0];
    }
    lines.push(text);
    size += bytes;
  }
  if (lines.length > 0) yield lines.join("");
}
