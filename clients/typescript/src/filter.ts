import { randomUUID } from "node:crypto";
import { type Entry, type Item, type Replacement, chunks } from "./batches.js";
import { FilterNotFound, ImportNotFound } from "./errors.js";
import type {
  AddedBody, CompactionBegunBody, CompactionBody, CountsBody, FilterBody, FilterFields, FlagsBody, ImportBody,
  LocatedBody, ReplacedBody, ValueListsBody,
} from "./models/types.gen.js";
import { type Bytes, type Transport, path } from "./transport.js";

// One request of an import. A broken one is sent again as a whole.
const CHUNK_LINES = 50_000;
const CHUNK_BYTES = 4 << 20;

/** Of a change. */
export interface ChangeOptions {
  /**
   * A key of your own, so that the change is also made once if your program is
   * restarted and calls again within 24 hours. A batch with such a key is never
   * split. Without it each change gets a random one.
   */
  idempotencyKey?: string;
}

/** Of adding. */
export interface AddOptions extends ChangeOptions {
  /** Do not add items that the filter already contains. */
  onlyIfAbsent?: boolean;
  /** Parameters with which the filter is created if there is none. */
  create?: FilterFields;
}

/** Of questions. */
export interface ExistsOptions {
  /** Of a filter with a window: whether it was seen within the last so many seconds. */
  withinSeconds?: number;
}

/** Of questions to one filter. */
export interface WhereOptions extends ExistsOptions {
  /** Of a filter with attributes: whether one row has one of the listed values of each of these. */
  where?: Record<string, string[]>;
}

/** Of imports. */
export interface ImportOptions {
  /** A name by which the import can be resumed. */
  importId?: string;
  /** Do not add items that the filter already contains. */
  onlyIfAbsent?: boolean;
}

/** A filter by its key. All errors are `CuckoodError`; without the filter `FilterNotFound`. */
export class Filter {
  readonly key: string;
  readonly #transport: Transport;
  readonly #path: string;

  /** Made by `Client.filter`. */
  constructor(transport: Transport, key: string) {
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
    const headers: Record<string, string> = options.onlyNew ? { "if-none-match": "*" } : {};
    return this.#transport.change("PUT", this.#path, fields, options.idempotencyKey, headers);
  }

  /** Its parameters, how full it is, its false-positive rate. */
  async info(): Promise<FilterBody> {
    return this.#transport.ask(this.#path);
  }

  /** Whether the filter exists. */
  async isThere(): Promise<boolean> {
    try {
      await this.info();
      return true;
    } catch (error) {
      if (error instanceof FilterNotFound) return false;
      throw error;
    }
  }

  /** Lets the filter expire so many seconds from now; null: never. */
  async expireAfter(ttlSeconds: number | null, options: ChangeOptions = {}): Promise<FilterBody> {
    return this.#transport.change("PATCH", this.#path, { ttl_seconds: ttlSeconds }, options.idempotencyKey);
  }

  /** Deletes the whole filter. */
  async drop(options: ChangeOptions = {}): Promise<void> {
    return this.#transport.change("DELETE", this.#path, undefined, options.idempotencyKey);
  }

  /** Adds an item, as `addMany`. Look at the result: a full filter answers `full`. */
  async add(item: Item, options: AddOptions = {}): Promise<"added" | "refreshed" | "exists" | "full"> {
    return (await this.addMany([item], options)).results[0]!;
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
  async addMany(items: Iterable<Item>, options: AddOptions = {}): Promise<AddedBody> {
    const fields = {
      only_if_absent: options.onlyIfAbsent ?? false,
      ...(options.create && { create: options.create }),
    };
    const answers = await this.#transport.changeBatch<AddedBody>(
      `${this.#path}/items`, items, fields, options.idempotencyKey,
    );
    return added(answers);
  }

  /** Whether the filter contains the item. False is certain; true can be a false positive. */
  async exists(item: Item, options: WhereOptions = {}): Promise<boolean> {
    return (await this.existsMany([item], options))[0]!;
  }

  /** The same of many items, in their order. */
  async existsMany(items: Iterable<Item>, options: WhereOptions = {}): Promise<boolean[]> {
    const { withinSeconds, where } = options;
    const fields = {
      ...(withinSeconds !== undefined && { within_seconds: withinSeconds }),
      ...(where !== undefined && { where }),
    };
    return joined(await this.#transport.askBatch<FlagsBody>(`${this.#path}/exists`, items, fields));
  }

  /** Copies of the item: never too low, too high as often as a false positive occurs. */
  async count(item: Item): Promise<number> {
    return (await this.countMany([item]))[0]!;
  }

  /** The same of many items, in their order. */
  async countMany(items: Iterable<Item>): Promise<number[]> {
    return joined(await this.#transport.askBatch<CountsBody>(`${this.#path}/count`, items, {}));
  }

  /** Deletes one copy of the item, as `deleteMany`. */
  async delete(item: Item, options: ChangeOptions = {}): Promise<boolean> {
    return (await this.deleteMany([item], options))[0]!;
  }

  /**
   * Deletes one copy of each item; whether there was one, in their order.
   *
   * Delete only what was added: deleting another item can remove the fingerprint of
   * one that was. Batches are split as in `addMany`.
   */
  async deleteMany(items: Iterable<Item>, options: ChangeOptions = {}): Promise<boolean[]> {
    const at = `${this.#path}/items/delete`;
    return joined(await this.#transport.changeBatch<FlagsBody>(at, items, {}, options.idempotencyKey));
  }

  /** Adds a value to each item, in a filter that was created with `value_bits`; results as of `addMany`. */
  async addValues(
    entries: Iterable<Entry>, options: ChangeOptions & { onlyIfAbsent?: boolean } = {},
  ): Promise<AddedBody> {
    const fields = { only_if_absent: options.onlyIfAbsent ?? false };
    return added(await this.#transport.changeBatch<AddedBody>(
      `${this.#path}/values`, entries, fields, options.idempotencyKey, "entries",
    ));
  }

  /** The values of the item, ascending. None is missing; a value of another item can be among them. */
  async values(item: Item): Promise<number[]> {
    return (await this.valuesMany([item]))[0]!;
  }

  /** The same of many items, in their order. */
  async valuesMany(items: Iterable<Item>): Promise<number[][]> {
    const answers = await this.#transport.askBatch<ValueListsBody>(`${this.#path}/values/query`, items, {});
    return joined(answers) as number[][];
  }

  /**
   * The rows of the item, in a filter with attributes: of an exact one the value, of a
   * hashed one its bits. None is missing; a row of another item can be among them.
   */
  async rows(item: Item): Promise<Record<string, string | number>[]> {
    return (await this.rowsMany([item]))[0]!;
  }

  /** The same of many items, in their order. */
  async rowsMany(items: Iterable<Item>): Promise<Record<string, string | number>[][]> {
    const answers = await this.#transport.askBatch<ValueListsBody>(`${this.#path}/values/query`, items, {});
    return joined(answers) as Record<string, string | number>[][];
  }

  /**
   * Has each item have one value, or row, in place of another, or leaves it as it is:
   * `replaced`; `absent`: it was not found with the old one; `full`. Replace only what
   * was added.
   */
  async replaceValues(entries: Iterable<Replacement>, options: ChangeOptions = {}): Promise<string[]> {
    const at = `${this.#path}/values/replace`;
    const changed = this.#transport.changeBatch<ReplacedBody>(at, entries, {}, options.idempotencyKey, "entries");
    return joined(await changed) as string[];
  }

  /** Whether the item has the value. False is certain. */
  async hasValue(item: Item, value: number): Promise<boolean> {
    return (await this.hasValues([{ item, value }]))[0]!;
  }

  /** The same of many items with a value each, in their order. */
  async hasValues(entries: Iterable<Entry>): Promise<boolean[]> {
    return joined(await this.#transport.askBatch<FlagsBody>(`${this.#path}/exists`, entries, {}, "entries"));
  }

  /** Deletes one copy of each entry; whether there was one, in their order. Delete only what was added. */
  async deleteValues(entries: Iterable<Entry>, options: ChangeOptions = {}): Promise<boolean[]> {
    const at = `${this.#path}/values/delete`;
    return joined(await this.#transport.changeBatch<FlagsBody>(at, entries, {}, options.idempotencyKey, "entries"));
  }

  /**
   * Adds any number of items, and yields the progress after each request.
   *
   * Nothing is sent unless you iterate. With an `importId` the import is resumed
   * where it was: call again with the same items in the same order, also from
   * another process, and those that are committed are not sent again. The server
   * remembers an import for a week.
   */
  async *importItems(
    items: Iterable<string | number | bigint> | AsyncIterable<string | number | bigint>, options: ImportOptions = {},
  ): AsyncGenerator<ImportBody, void> {
    const importId = options.importId ?? randomUUID();
    const query = { import_id: importId, only_if_absent: String(options.onlyIfAbsent ?? false) };
    let progress = await this.#progress(importId);
    let sent = false;
    for await (const chunk of chunks(items, progress?.committed_lines ?? 0, CHUNK_LINES, CHUNK_BYTES)) {
      progress = await this.#import(query, progress?.committed_lines ?? 0, chunk);
      sent = true;
      yield progress;
    }
    if (!sent) yield progress ?? (await this.#import(query, 0, ""));
  }

  async #import(query: Record<string, string>, committed: number, content: string): Promise<ImportBody> {
    // Lines that were committed although their answer was lost are skipped by their
    // numbers, so the same request can be sent again.
    return this.#transport.send({
      method: "POST", path: `${this.#path}/import`, query: { ...query, from_line: String(committed + 1) },
      headers: { "content-type": "application/x-ndjson" }, content,
    });
  }

  /** How far an import is. Throws `ImportNotFound`. */
  async importProgress(importId: string): Promise<ImportBody> {
    return this.#transport.ask(`${this.#path}${path("imports", importId)}`);
  }

  async #progress(importId: string): Promise<ImportBody | undefined> {
    try {
      return await this.importProgress(importId);
    } catch (error) {
      if (error instanceof ImportNotFound) return undefined;
      throw error;
    }
  }

  /** Starts to remove the newest sub-filters, after many deletes. */
  async compact(options: ChangeOptions = {}): Promise<CompactionBegunBody> {
    return this.#transport.change("POST", `${this.#path}/compact`, undefined, options.idempotencyKey);
  }

  /** The state of the compaction. */
  async compaction(): Promise<CompactionBody> {
    return this.#transport.ask(`${this.#path}/compaction`);
  }

  /** The slots in which the item may lie. */
  async locate(item: string | number | bigint): Promise<LocatedBody> {
    return this.#transport.ask(`${this.#path}/locate`, { item: String(item) });
  }

  /** A consistent copy of the filter. Its end is reached only if the copy is whole. */
  async dump(): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.download(`${this.#path}/dump`);
  }

  /**
   * Makes the filter from a dump; with `replace` in place of one that exists. Not
   * sent again if no answer arrives: ask `info()` what is there then.
   */
  async restore(dump: Bytes, options: { replace?: boolean } = {}): Promise<FilterBody> {
    return this.#transport.upload(`${this.#path}/dump`, options.replace ? { replace: "true" } : {}, dump);
  }
}

function added(answers: AddedBody[]): AddedBody {
  // Later parts only repeat why the filter is full.
  const full = answers.find((answer) => answer.full_reason !== undefined);
  return { ...full, results: answers.flatMap((answer) => answer.results) };
}

// Null stands for blank lines of plain text, which is not sent here.
function joined<T>(answers: { results: (T | null)[] }[]): T[] {
  return answers.flatMap((answer) => answer.results as T[]);
}
