import { EventEmitter } from "node:events";
import { open } from "node:fs/promises";
import type { Interface } from "node:readline";
import { Readable, pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { type Entry, type Item, line, lineOf, said } from "./batches.js";
import { CuckoodError } from "./errors.js";

/**
 * What an import takes one of: an item, or for a filter with values or attributes an entry.
 * Of a string the end of the line is left out, and of the first a byte order mark; one with
 * more lines is an error. `{ item: "ada" }` is an item as it is.
 */
export type ImportItem = Exclude<Item, Uint8Array> | { item: Exclude<Item, Uint8Array> } | Entry;

/**
 * What can be imported. Each element is an item: of arrays, sets, maps, generators,
 * Node streams in object mode and web streams. Text, each line of which is an item:
 * Node streams of bytes or text, web streams of bytes, a `Blob`, and `readline` of every
 * kind, also a file handle's `readLines()`.
 */
export type ImportSource =
  | (Iterable<ImportItem> & object) | AsyncIterable<ImportItem | Uint8Array>
  | ReadableStream<ImportItem> | ReadableStream<Uint8Array> | Blob;

/** One request of an import. A broken one is sent again as a whole. */
export interface ChunkLimits {
  lines: number;
  bytes: number;
  /** What a slow source has given is not kept back for longer, once more comes. */
  seconds: number;
}

/** Whole lines. */
export interface Chunk {
  content: Uint8Array | string;
  lines: number;
}

type Pieces = AsyncIterator<unknown> | Iterator<unknown>;

/** What to iterate, whether it is text, and how it is ended while it is waited for. */
interface Opened {
  pieces: Pieces;
  isText: boolean;
  stop?: () => unknown;
}

// The server refuses a line of more than 64 KiB and a value: so much of it says so.
const LONGEST_LINE = 1 << 20;
const LINE_END = 10;
const BOM = [0xef, 0xbb, 0xbf];
const UTF_16 = [[0xff, 0xfe], [0xfe, 0xff]];
const GZIP = [0x1f, 0x8b];
// How that begins as Latin-1, decoded as UTF-8, and encoded again.
const PACKED = /^\x1f(?:[\x8b\ufffd]\x08|\xef\xbf|\xc2\x8b)/;
const TEXT = "text/plain";
const NDJSON = "application/x-ndjson";

/**
 * A source of lines. It is read from the moment that this is made: streams and
 * `readline` go on, whether somebody listens or not.
 */
export class Lines {
  readonly #pieces: Pieces;
  readonly #first: Promise<IteratorResult<unknown>> | IteratorResult<unknown>;
  readonly #isText: boolean;
  readonly #ofText: string;
  readonly #name: string;
  readonly #stop: () => unknown;
  #failed: unknown;

  /** `ofText`: the media type of the lines of a text. */
  constructor(source: ImportSource, ofText = TEXT, name = "the source") {
    this.#ofText = ofText;
    this.#name = name;
    const { pieces, isText, stop } = isReadline(source) ? this.#linesOf(source) : piecesOf(source);
    this.#pieces = pieces;
    this.#stop = stop ?? (() => pieces.return?.());
    const first = pieces.next();
    this.#first = "then" in first ? Promise.resolve(first) : first;
    // It is awaited later, and is no surprise until then.
    if (this.#first instanceof Promise) this.#first.catch(() => {});
    this.#isText = isText;
  }

  /** Of the chunks; as soon as the first one is there. */
  async mediaType(): Promise<string> {
    return (await this.#readsText()) ? this.#ofText : NDJSON;
  }

  /** The chunks behind the first `skip` lines. */
  async *chunks(skip: number, limits: ChunkLimits): AsyncGenerator<Chunk, void> {
    yield* (await this.#readsText()) ? this.#text(skip, limits) : this.#items(skip, limits);
    if (this.#failed !== undefined) throw this.#failed;
  }

  /** Reads no more. What goes wrong with that concerns nobody. */
  end(): void {
    void (async () => this.#stop())().catch(() => {});
  }

  async #readsText(): Promise<boolean> {
    return this.#isText || (this.#pieces instanceof WebPieces && (await this.#first).value instanceof Uint8Array);
  }

  async *#items(skip: number, limits: ChunkLimits): AsyncGenerator<Chunk, void> {
    let [lines, size, number, began] = [[] as string[], 0, 0, performance.now()];
    for (let it = await this.#first; !it.done; ) {
      number += 1;
      if (number > skip) {
        const text = `${this.#asLine(it.value, number)}\n`;
        const bytes = Buffer.byteLength(text);
        const isFull = lines.length >= limits.lines || size + bytes > limits.bytes || isLate(began, limits);
        if (lines.length > 0 && isFull) {
          yield { content: lines.join(""), lines: lines.length };
          [lines, size, began] = [[], 0, performance.now()];
        }
        lines.push(text);
        size += bytes;
      }
      const next = this.#pieces.next();
      it = "then" in next ? await next : next;
    }
    if (number < skip && this.#failed === undefined) throw shorter(skip);
    if (lines.length > 0) yield { content: lines.join(""), lines: lines.length };
  }

  #asLine(item: unknown, number: number): string {
    try {
      if (typeof item === "string") return stringLine(item, number === 1);
      if (item instanceof Uint8Array) {
        throw new TypeError("bytes are no item of an import: for text pass Readable.from(bytes, { objectMode: false }) or a Blob");
      }
      return isBare(item) ? line(item.item) : lineOf(item, line);
    } catch (error) {
      if (error instanceof Error) error.message = `line ${number}: ${error.message}`;
      throw error;
    }
  }

  /** Bytes as they are, but for a byte order mark at their beginning. */
  async *#text(skip: number, limits: ChunkLimits): AsyncGenerator<Chunk, void> {
    const skipped = skip;
    let [gathered, size, lines] = [[] as Uint8Array[], 0, 0];
    // How much is gathered of the line that has not ended.
    let open = 0;
    let began = performance.now();
    const take = (bytes: Uint8Array): void => {
      gathered.push(bytes);
      size += bytes.length;
    };
    const chunk = (): Chunk => {
      const full = { content: Buffer.concat(gathered), lines };
      [gathered, size, lines, open, began] = [[], 0, 0, 0, performance.now()];
      return full;
    };
    for await (const piece of this.#bytes()) {
      // What is before `begin` was taken or skipped; lines before `ended` have ended.
      let [begin, ended] = [0, 0];
      for (let at = piece.indexOf(LINE_END); at >= 0; at = piece.indexOf(LINE_END, ended)) {
        ended = at + 1;
        open = 0;
        if (skip > 0) {
          skip -= 1;
          begin = ended;
          continue;
        }
        lines += 1;
        if (lines < limits.lines && size + ended - begin < limits.bytes && !isLate(began, limits)) continue;
        take(piece.subarray(begin, ended));
        begin = ended;
        yield chunk();
      }
      const rest = Math.min(piece.length - ended, Math.max(0, LONGEST_LINE - open));
      open += rest;
      if (skip === 0 && ended + rest > begin) take(piece.subarray(begin, ended + rest));
    }
    if (skip > Number(open > 0) && this.#failed === undefined) throw shorter(skipped);
    if (open > 0) lines += 1;
    if (size > 0) yield chunk();
  }

  /** The pieces of a text as bytes, without a byte order mark, also one that is cut in two. */
  async *#bytes(): AsyncGenerator<Uint8Array, void> {
    let start: Uint8Array | undefined = new Uint8Array();
    for (let it = await this.#first; !it.done; it = await this.#pieces.next()) {
      const piece: Uint8Array = typeof it.value === "string" ? Buffer.from(it.value) : (it.value as Uint8Array);
      if (!(piece instanceof Uint8Array)) throw new TypeError(`a stream of text has bytes and strings, not ${String(piece)}`);
      if (start === undefined) {
        yield piece;
        continue;
      }
      start = Buffer.concat([start, piece]);
      if (start.length < BOM.length) continue;
      if (UTF_16.some((mark) => beginsWith(start!, mark))) throw new TypeError(`${this.#name} is UTF-16: convert it to UTF-8`);
      refusePacked(Buffer.from(start).toString("latin1", 0, BOM.length));
      yield start.subarray(beginsWith(start, BOM) ? BOM.length : 0);
      start = undefined;
    }
    if (start !== undefined) yield start;
  }

  #linesOf(source: Interface): Opened {
    // Both are undocumented properties of old standing.
    const { input, closed } = source as Interface & { input?: Readable; closed?: boolean };
    if (closed || input?.readableDidRead) {
      throw new CuckoodError(
        "readline has read lines before importItems was called, and they are lost to it: create it right before, or use importFile",
      );
    }
    // It says nothing of an input that ends early.
    const failed = (error?: unknown): void => {
      if (input?.readableEnded !== false) return;
      this.#failed ??= error ?? new CuckoodError("the input of readline was closed before its end");
      source.close();
    };
    input?.once("error", failed).once("close", () => failed());
    return { pieces: withEnds(source[Symbol.asyncIterator]()), isText: true, stop: () => source.close() };
  }
}

/** Of `readline`, `readline/promises` or a file handle's `readLines()`, each of which has a class of its own. */
function isReadline(source: ImportSource): source is Interface {
  return source instanceof EventEmitter && "input" in source && "terminal" in source;
}

/** Whether it is an item as it is. */
function isBare(item: unknown): item is { item: unknown } {
  return typeof item === "object" && item !== null && "item" in item && Object.keys(item).length === 1;
}

function shorter(skipped: number): CuckoodError {
  return new CuckoodError(
    `of this importId ${skipped} lines are committed, and fewer were given: it is that of another or longer list; a new list needs a new importId`,
  );
}

function refusePacked(start: string): void {
  if (!PACKED.test(start)) return;
  throw new TypeError("the source is packed with gzip: importFile(path) unpacks a file, and createGunzip of node:zlib a stream");
}

/** A string without the end of its line, and the first without a byte order mark. */
function stringLine(given: string, isFirst: boolean): string {
  if (isFirst) refusePacked(given);
  const item = given.replace(isFirst ? /^\ufeff|\r?\n$/g : /\r?\n$/, "");
  if (item.includes("\n")) {
    const cut = item.length > 80 ? `${item.slice(0, 80)}…` : item;
    throw new TypeError(
      `${said(cut)} is more than one line: for a file use importFile(path), for text pass bytes before they are decoded ` +
        "or a Blob, for an item with line ends { item }",
    );
  }
  // A blank line is none, and only an empty string is an empty item.
  return item === "" && given !== "" ? "" : line(item);
}

/** The lines of a file, unpacked if it begins as gzip does. */
export async function linesOfFile(file: string | URL): Promise<Lines> {
  const opened = await open(file);
  const start = new Uint8Array(GZIP.length);
  try {
    // From where the file is, and not from its beginning, as a pipe has none.
    const { bytesRead } = await opened.read(start, 0, start.length, null);
    const packed = opened.createReadStream();
    if (bytesRead > 0) packed.unshift(start.subarray(0, bytesRead));
    const bytes = beginsWith(start, GZIP) ? pipeline(packed, createGunzip(), () => {}) : packed;
    const name = file instanceof URL ? file.pathname : file;
    return new Lines(bytes, /\.(ndjson|jsonl)(\.gz)?$/i.test(name) ? NDJSON : TEXT, name);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Lines with their ends. */
async function* withEnds(lines: AsyncIterator<string>): AsyncGenerator<string, void> {
  for (let it = await lines.next(); !it.done; it = await lines.next()) yield `${it.value}\n`;
}

function isLate(began: number, limits: ChunkLimits): boolean {
  return performance.now() - began >= limits.seconds * 1000;
}

function beginsWith(bytes: Uint8Array, mark: number[]): boolean {
  return mark.every((byte, at) => bytes[at] === byte);
}

/** A web stream, which all versions of Node can read so. */
class WebPieces implements AsyncIterator<unknown> {
  readonly #reader: ReadableStreamDefaultReader<unknown>;

  constructor(stream: ReadableStream<unknown>) {
    this.#reader = stream.getReader();
  }

  async next(): Promise<IteratorResult<unknown>> {
    const { done, value } = await this.#reader.read();
    return done ? { done, value: undefined } : { done, value };
  }

  async return(): Promise<IteratorResult<unknown>> {
    await this.#reader.cancel();
    return { done: true, value: undefined };
  }
}

function piecesOf(source: ImportSource): Opened {
  if (source instanceof Blob) return { pieces: new WebPieces(source.stream()), isText: true };
  if (source instanceof ReadableStream) return { pieces: new WebPieces(source), isText: false };
  if (source instanceof Readable) {
    const pieces = source[Symbol.asyncIterator]();
    return { pieces, isText: !source.readableObjectMode, stop: () => source.destroy() };
  }
  if (typeof source === "object" && source !== null && !ArrayBuffer.isView(source)) {
    if (Symbol.asyncIterator in source) return { pieces: source[Symbol.asyncIterator](), isText: false };
    if (Symbol.iterator in source) return { pieces: source[Symbol.iterator](), isText: false };
  }
  throw new TypeError(
    `importItems takes an iterable of items or a stream, not ${said(source)}: for a file use importFile(path), for text a Blob`,
  );
}
