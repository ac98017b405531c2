import { randomUUID } from "node:crypto";
import { type Entry, type Item, type Many, type Replacement, copied, line, several } from "./batches.js";
import { onAbort, onStillness } from "./calls.js";
import { CuckoodError, FilterDiffers, FilterNotFound, ImportIncomplete, ImportNotFound, NotUnderstoodError } from "./errors.js";
import type {
  AddedBody, CompactionBegunBody, CompactionBody, CountsBody, FilterBody, FilterFields, FlagsBody, ImportBody,
  LocatedBody, ReplacedBody, ValueListsBody,
} from "./models/types.gen.js";
import { ADD, CALL, CHANGE, DUMP, WHERE, known } from "./options.js";
import { type ImportSource, Lines, linesOfFile } from "./sources.js";
import type { Changed } from "./synced.js";
import { type Batch, type Bytes, type CallOptions, type ChangeOptions, type Transport, path } from "./transport.js";

const IMPORT = { importId: 0, onlyIfAbsent: 0, create: 0, allowPartial: 0, onProgress: 0, ...CALL };
const CHUNK = { lines: 50_000, bytes: 4 << 20, seconds: 5 };

/** What became of an item that was to be added. */
export type AddResult = "added" | "refreshed" | "exists" | "full";

/** What became of an entry that was to have another value. */
export type ReplaceResult = "replaced" | "absent" | "full";

/** Results of adding, in the order of the items; if one is `full`, why and what helps. */
export interface Added extends Omit<AddedBody, "results"> {
  results: AddResult[];
}

/** Of adding. */
export interface AddOptions extends ChangeOptions {
  /** Do not add items that the filter already contains. */
  onlyIfAbsent?: boolean;
  /** Parameters with which the filter is created if there is none. */
  create?: FilterFields;
}

/** Of questions. */
export interface ExistsOptions extends CallOptions {
  /** Of a filter with a window: whether it was seen within the last so many seconds. */
  withinSeconds?: number;
}

/** Of questions to one filter. */
export interface WhereOptions extends ExistsOptions {
  /** Of a filter with attributes: whether one row has one of the listed values of each of these. */
  where?: Record<string, string[]>;
}

/** Of dumps. */
export interface DumpOptions extends CallOptions {
  /**
   * Leaves the secret key of the hash out. Who asks the file has to have it from elsewhere,
   * and it can't be restored.
   */
  withoutKey?: boolean | undefined;
}

/** Of imports. */
export interface ImportOptions extends CallOptions {
  /** A name by which the import can be resumed. */
  importId?: string;
  /** Do not add items that the filter already contains. */
  onlyIfAbsent?: boolean;
  /** Parameters with which the filter is created if there is none. */
  create?: FilterFields;
  /** Take lines that are bad or find no room as a part of the report, not as an error. */
  allowPartial?: boolean;
  /** Called after each request, of up to 50,000 lines, with the report so far. */
  onProgress?: (report: ImportBody) => void | Promise<void>;
}

/** A filter by its key. Errors are `CuckoodError`, without the filter `FilterNotFound`, and of bad arguments `TypeError` or `RangeError`. */
export class Filter {
  readonly key: string;
  readonly #transport: Transport;
  readonly #path: string;

  /** Made by `Client.filter`. */
  constructor(transport: Transport, key: string) {
    if (key === "") throw new RangeError("the key of the filter is empty");
    this.key = key;
    this.#transport = transport;
    this.#path = path("filters", key);
  }

  /**
   * Creates the filter; the server's defaults fill in missing fields. Changes
   * nothing if it exists with these parameters. Throws `FilterDiffers` if it has
   * others, and with `onlyNew` `FilterExists` if it exists at all.
   */
  async create(fields: FilterFields = {}, options: ChangeOptions & { onlyNew?: boolean } = {}): Promise<FilterBody> {
    known("create", options, { onlyNew: 0, ...CHANGE });
    const headers: Record<string, string> = options.onlyNew ? { "if-none-match": "*" } : {};
    return this.#transport.change("PUT", this.#path, fields, options, headers);
  }

  /** Its parameters, how full it is, its false-positive rate. */
  async info(options: CallOptions = {}): Promise<FilterBody> {
    return this.#transport.ask(this.#path, known("info", options, CALL));
  }

  /** Whether there is the filter itself. */
  async isThere(options: CallOptions = {}): Promise<boolean> {
    try {
      await this.info(known("isThere", options, CALL));
      return true;
    } catch (error) {
      if (error instanceof FilterNotFound) return false;
      throw error;
    }
  }

  /** Lets the filter expire so many seconds from now; null: never. */
  async expireAfter(seconds: number | null, options: ChangeOptions = {}): Promise<FilterBody> {
    return this.#transport.change("PATCH", this.#path, { ttl_seconds: seconds }, known("expireAfter", options, CHANGE));
  }

  /** Deletes the whole filter. */
  async drop(options: ChangeOptions = {}): Promise<void> {
    return this.#transport.change("DELETE", this.#path, undefined, known("drop", options, CHANGE));
  }

  /** Adds an item, as `addMany`. Look at the result: a full filter answers `full`. */
  async add(item: Item, options: AddOptions = {}): Promise<AddResult> {
    return (await this.#transport.changeOne(this.#adding(known("add", options, ADD)), item, options)) as AddResult;
  }

  /**
   * Adds items. An item that was added twice has two copies.
   *
   * Results, in order: `added`; `refreshed`, in a filter with a window, if the filter
   * contained it; `exists`, with `onlyIfAbsent`, if the filter
   * contained it; `full`, with `full_reason` and `full_detail`.
   *
   * A batch beyond the limits is sent in parts, each of which is made as a whole or
   * not at all; an error's `completed` has the results of those before it.
   */
  async addMany(items: Many<Item>, options: AddOptions = {}): Promise<Added> {
    return added(await this.#transport.changeBatch<Added>(this.#adding(known("addMany", options, ADD)), items, options));
  }

  #adding({ onlyIfAbsent = false, create }: AddOptions): Batch {
    return this.#batch("items", { only_if_absent: onlyIfAbsent, ...(create && { create }) });
  }

  /**
   * Whether the filter contains the item. False is certain; true can be a false
   * positive. Items that are asked for one by one at the same time go as batches.
   */
  async exists(item: Item, options: WhereOptions = {}): Promise<boolean> {
    return (await this.#transport.askOne(this.#asking(known("exists", options, WHERE)), item, options)) as boolean;
  }

  /** The same of many items, in their order. */
  async existsMany(items: Many<Item>, options: WhereOptions = {}): Promise<boolean[]> {
    known("existsMany", options, WHERE);
    return joined(await this.#transport.askBatch<FlagsBody>(this.#asking(options), items, options));
  }

  #asking({ withinSeconds, where }: WhereOptions): Batch {
    return this.#batch("exists", {
      ...(withinSeconds !== undefined && { within_seconds: withinSeconds }),
      ...(where !== undefined && { where }),
    });
  }

  /** Copies of the item: never too low, too high as often as a false positive occurs. */
  async count(item: Item, options: CallOptions = {}): Promise<number> {
    return (await this.#transport.askOne(this.#batch("count"), item, known("count", options, CALL))) as number;
  }

  /** The same of many items, in their order. */
  async countMany(items: Many<Item>, options: CallOptions = {}): Promise<number[]> {
    return joined(await this.#transport.askBatch<CountsBody>(this.#batch("count"), items, known("countMany", options, CALL)));
  }

  /** Deletes one copy of the item, as `deleteMany`. */
  async delete(item: Item, options: ChangeOptions = {}): Promise<boolean> {
    return (await this.#transport.changeOne(this.#batch("items/delete"), item, known("delete", options, CHANGE))) as boolean;
  }

  /**
   * Deletes one copy of each item; whether there was one, in their order.
   *
   * Delete only what was added: deleting another item can remove the fingerprint of
   * one that was. Batches are split as in `addMany`.
   */
  async deleteMany(items: Many<Item>, options: ChangeOptions = {}): Promise<boolean[]> {
    known("deleteMany", options, CHANGE);
    return joined(await this.#transport.changeBatch<FlagsBody>(this.#batch("items/delete"), items, options));
  }

  /**
   * Adds a value to each item, in a filter that was created with `value_bits`, or a
   * row, in one with `attributes`; results as of `addMany`.
   */
  async addValues(entries: Many<Entry>, options: AddOptions = {}): Promise<Added> {
    known("addValues", options, ADD);
    const batch = this.#batch("values", { only_if_absent: options.onlyIfAbsent ?? false }, "entries");
    const all = several(entries);
    const add = (): Promise<Added[]> => this.#transport.changeBatch<Added>(batch, all, options);
    try {
      return added(await add());
    } catch (error) {
      if (!(error instanceof FilterNotFound) || options.create === undefined) throw error;
    }
    await this.#createIfMissing(options.create, options.signal);
    return added(await add());
  }

  async #createIfMissing(fields: FilterFields, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.create(fields, { signal });
    } catch (error) {
      // Somebody else has created it meanwhile.
      if (!(error instanceof FilterDiffers)) throw error;
    }
  }

  /** The values of the item, ascending. None is missing; a value of another item can be among them. */
  async values(item: Item, options: CallOptions = {}): Promise<number[]> {
    return (await this.#transport.askOne(this.#batch("values/query"), item, known("values", options, CALL))) as number[];
  }

  /** The same of many items, in their order. */
  async valuesMany(items: Many<Item>, options: CallOptions = {}): Promise<number[][]> {
    known("valuesMany", options, CALL);
    const answers = await this.#transport.askBatch<ValueListsBody>(this.#batch("values/query"), items, options);
    return joined(answers) as number[][];
  }

  /**
   * The rows of the item, in a filter with attributes: of an exact one the value, of a
   * hashed one its bits. None is missing; a row of another item can be among them.
   */
  async rows(item: Item, options: CallOptions = {}): Promise<Record<string, string | number>[]> {
    known("rows", options, CALL);
    return (await this.#transport.askOne(this.#batch("values/query"), item, options)) as Record<string, string | number>[];
  }

  /** The same of many items, in their order. */
  async rowsMany(items: Many<Item>, options: CallOptions = {}): Promise<Record<string, string | number>[][]> {
    known("rowsMany", options, CALL);
    const answers = await this.#transport.askBatch<ValueListsBody>(this.#batch("values/query"), items, options);
    return joined(answers) as Record<string, string | number>[][];
  }

  /**
   * Has each item have one value, or row, in place of another, or leaves it as it is:
   * `replaced`; `absent`: it was not found with the old one; `full`. Replace only what
   * was added.
   */
  async replaceValues(entries: Many<Replacement>, options: ChangeOptions = {}): Promise<ReplaceResult[]> {
    known("replaceValues", options, CHANGE);
    const batch = this.#batch("values/replace", {}, "entries");
    return joined(await this.#transport.changeBatch<ReplacedBody>(batch, entries, options)) as ReplaceResult[];
  }

  /** Whether the item has the value. False is certain. */
  async hasValue(item: Item, value: number, options: CallOptions = {}): Promise<boolean> {
    known("hasValue", options, CALL);
    const entry = { item: copied(item), value };
    return (await this.#transport.askOne(this.#batch("exists", {}, "entries"), entry, options)) as boolean;
  }

  /** The same of many items with a value, or row, each, in their order. */
  async hasValues(entries: Many<Entry>, options: CallOptions = {}): Promise<boolean[]> {
    known("hasValues", options, CALL);
    return joined(await this.#transport.askBatch<FlagsBody>(this.#batch("exists", {}, "entries"), entries, options));
  }

  /** Deletes one copy of each entry; whether there was one, in their order. Delete only what was added. */
  async deleteValues(entries: Many<Entry>, options: ChangeOptions = {}): Promise<boolean[]> {
    const batch = this.#batch("values/delete", {}, "entries");
    return joined(await this.#transport.changeBatch<FlagsBody>(batch, entries, known("deleteValues", options, CHANGE)));
  }

  /**
   * Adds any number of items, or entries, while it reads them, and returns the report.
   *
   * Throws `ImportIncomplete`, with the report, if lines were bad or found no room; all
   * others are imported then. With an `importId` the import is resumed where it was:
   * call again with the same items in the same order, also from another process, and
   * those that are committed are not sent again. A new list needs a new id: as
   * many of its lines as are committed are passed over, and a shorter one is refused. The
   * server remembers an import for a week.
   */
  async importItems(source: ImportSource, options: ImportOptions = {}): Promise<ImportBody> {
    known("importItems", options, IMPORT).signal?.throwIfAborted();
    // Before anything is awaited: some sources do not wait.
    return this.#importAll(new Lines(source), options);
  }

  /**
   * Adds each line of a file, as `importItems`. A file that begins as gzip does is
   * unpacked. One whose name ends with `.ndjson` or `.jsonl` (and `.gz` after it) has an
   * item or entry in JSON in each line; any other one text, and for a filter with values a
   * tab and the value after each item.
   */
  async importFile(file: string | URL, options: ImportOptions = {}): Promise<ImportBody> {
    known("importFile", options, IMPORT).signal?.throwIfAborted();
    return this.#importAll(await linesOfFile(file), options);
  }

  async #importAll(lines: Lines, options: ImportOptions): Promise<ImportBody> {
    const { signal } = options;
    let forget: (() => void)[] = [];
    const ended = new Promise<never>((_, reject) => {
      const still = "the source of the import has not ended, and nothing is left that could end it: what it reads was closed";
      forget = [onAbort(signal, () => reject(signal?.reason)), onStillness(() => reject(new CuckoodError(still)))];
    });
    try {
      // Also while the source has others wait.
      return await Promise.race([ended, this.#import(lines, options)]);
    } catch (error) {
      lines.end();
      throw error;
    } finally {
      forget.forEach((it) => it());
    }
  }

  async #import(lines: Lines, options: ImportOptions): Promise<ImportBody> {
    const { signal, create, importId = randomUUID() } = options;
    signal?.throwIfAborted();
    if (create !== undefined && !(await this.isThere({ signal }))) await this.#createIfMissing(create, signal);
    let report = await this.#progress(importId, { signal });
    let sent = report?.committed_lines ?? 0;
    const request = {
      method: "POST", path: `${this.#path}/import`, signal,
      headers: { "content-type": await lines.mediaType() },
    };
    const send = async (content: Uint8Array | string, count: number): Promise<ImportBody> => {
      // Lines that were committed although their answer was lost are skipped by their
      // numbers, so the same request can be sent again.
      const query = { import_id: importId, only_if_absent: String(options.onlyIfAbsent ?? false), from_line: String(sent + 1) };
      const progress = await this.#transport.send<ImportBody>({ ...request, query, content });
      sent += count;
      if (progress.committed_lines < sent) {
        throw new NotUnderstoodError(`${sent} lines of the import ${importId} were sent, and ${progress.committed_lines} are committed`);
      }
      await options.onProgress?.(progress);
      return progress;
    };
    for await (const { content, lines: count } of lines.chunks(sent, CHUNK)) report = await send(content, count);
    report ??= await send("", 0);
    if (!options.allowPartial && (report.bad_lines > 0 || report.full > 0)) throw new ImportIncomplete(report);
    return report;
  }

  /** How far an import is. Throws `ImportNotFound`. */
  async importProgress(importId: string, options: CallOptions = {}): Promise<ImportBody> {
    return this.#transport.ask(`${this.#path}${path("imports", importId)}`, known("importProgress", options, CALL));
  }

  async #progress(importId: string, options: CallOptions): Promise<ImportBody | undefined> {
    try {
      return await this.importProgress(importId, options);
    } catch (error) {
      if (error instanceof ImportNotFound) return undefined;
      throw error;
    }
  }

  /**
   * Makes the filter the union of itself and others, which stay as they are. They must be
   * siblings, created with `sibling_of`; else the code is `not_siblings`.
   */
  async merge(others: readonly string[], options: ChangeOptions = {}): Promise<FilterBody> {
    return this.#transport.change("POST", `${this.#path}/merge`, { from: others }, known("merge", options, CHANGE));
  }

  /** Starts to remove the newest sub-filters, after many deletes. */
  async compact(options: ChangeOptions = {}): Promise<CompactionBegunBody> {
    return this.#transport.change("POST", `${this.#path}/compact`, undefined, known("compact", options, CHANGE));
  }

  /** The state of the compaction. */
  async compaction(options: CallOptions = {}): Promise<CompactionBody> {
    return this.#transport.ask(`${this.#path}/compaction`, known("compaction", options, CALL));
  }

  /** The slots in which the item may lie. */
  async locate(item: string | number | bigint, options: CallOptions = {}): Promise<LocatedBody> {
    const asked = known("locate", options, CALL);
    return this.#transport.ask(`${this.#path}/locate`, asked, { item: line(item) && String(item) });
  }

  /** A consistent copy of the filter. Its end is reached only if the copy is whole. */
  async dump(options: DumpOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.download(`${this.#path}/dump`, ofDump(known("dump", options, DUMP)), options);
  }

  /**
   * A dump, or undefined while the filter has this `ETag`, which is that of a `FilterFile`.
   * `SyncedFilter` uses it. With an `ETag` the server is asked once, without patience.
   */
  async dumpUnless(etag: string | undefined, options: DumpOptions = {}): Promise<Changed | undefined> {
    return this.#transport.downloadUnless(etag, `${this.#path}/dump`, ofDump(known("dumpUnless", options, DUMP)), options);
  }

  /**
   * Makes the filter from a dump; with `replace` in place of one that exists. Not
   * sent again if no answer arrives: ask `info()` what is there then.
   */
  async restore(dump: Bytes, options: { replace?: boolean } & CallOptions = {}): Promise<FilterBody> {
    known("restore", options, { replace: 0, ...CALL });
    return this.#transport.upload(`${this.#path}/dump`, options.replace ? { replace: "true" } : {}, dump, options);
  }

  #batch(name: string, fields: object = {}, named: Batch["named"] = "items"): Batch {
    return { at: `${this.#path}/${name}`, fields, named };
  }
}

function ofDump({ withoutKey }: DumpOptions): Record<string, string> {
  return withoutKey ? { without_key: "true" } : {};
}

function added(answers: Added[]): Added {
  // Later parts only repeat why the filter is full.
  const full = answers.find((answer) => answer.full_reason !== undefined);
  return { ...full, results: answers.flatMap((answer) => answer.results) };
}

// Null stands for blank lines of plain text, which is not sent here.
function joined<T>(answers: { results: (T | null)[] }[]): T[] {
  return answers.flatMap((answer) => answer.results as T[]);
}
