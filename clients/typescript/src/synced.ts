/** A file of a filter that is kept fresh, in Node and in browsers: it imports nothing of Node. */
import { withoutUser } from "./address.js";
import { type Item, type Many, several } from "./batches.js";
import { either, onAbort, within } from "./calls.js";
import { CuckoodError, FilterFileError, NoAnswerError, ProblemError } from "./errors.js";
import { FilterFile, checkKind, toldBytes } from "./file.js";
import { DUMP, EXISTS, known } from "./options.js";
import { problemOf } from "./problem.js";

/** A file, and how its source names the state that it is of. */
export interface Changed {
  etag: string | undefined;
  body: ReadableStream<Uint8Array>;
}

/** What gives files of a filter: a `Filter`, or a `FileAt`. */
export interface FileSource {
  /** A file, unless the filter still has this `ETag`; with `withoutKey` one that the key of its hash is left out of. */
  dumpUnless(etag: string | undefined, options: { signal: AbortSignal; withoutKey?: boolean }): Promise<Changed | undefined>;
  /** Asks the server itself. */
  existsMany?(items: Many<Item>, options: SyncedConfirmOptions): Promise<boolean[]>;
}

/** The file of an answer; undefined: the source still has that of this `ETag`. */
export async function changedOf(
  answer: Response, etag: string | undefined, asked?: string, otherwise?: string,
): Promise<Changed | undefined> {
  if (answer.status === 304 && etag) return undefined;
  if (answer.ok && answer.body !== null) return { etag: answer.headers.get("etag") ?? undefined, body: answer.body };
  const why = answer.status === 304 ? "nothing has changed, it says, but the request did not ask whether" : otherwise;
  throw problemOf(answer.status, answer.headers, await answer.text(), asked, why);
}

/** Where a file is kept while the program does not run. */
export interface FileStore {
  /** What is kept, and when the server last said that it is current, in milliseconds since 1970. */
  load(): Promise<{ bytes: Uint8Array; checkedMs: number } | undefined>;
  /** Puts a file in place of another one, at once or not at all, and of one with its key none without, or the reverse. */
  save(bytes: Uint8Array, checkedMs: number): Promise<void>;
  /**
   * Notes that what is kept is current, if it is these bytes; false: nothing is kept any more,
   * or, where others may keep theirs in its place, something else.
   */
  touch(checkedMs: number, bytes: Uint8Array): Promise<boolean>;
}

/** How a file is kept fresh. */
export interface SyncedOptions {
  /** Where it is kept: in Node `keptAt(path)`. Without it in memory alone. */
  store?: FileStore;
  /** Seconds between two questions to the server, 60 by default. */
  everySeconds?: number;
  /** Each is longer or shorter by up to this part of it, a tenth by default. */
  jitter?: number;
  /** Beyond it a "no" is none: `exists` answers undefined. */
  maxAgeSeconds?: number;
  /** Seconds for the body of a download; without them 60, and one more for each 16 KiB that came. */
  downloadTimeoutSeconds?: number;
  /**
   * The 16 bytes of the hash key, of files that it is left out of, as a `Filter` is asked to. A
   * path has files of one kind: all that keep it fresh give the key, or none does.
   */
  key?: Uint8Array;
  /** Called when a file could not be renewed or kept, which is tried again. What it throws is ignored. */
  onError?: (error: unknown) => void;
}

/** Of questions. */
export interface SyncedExistsOptions {
  /** Of a filter with a window: whether it was seen within the last so many seconds. */
  withinSeconds?: number;
}

/** Of questions that the server may be asked. */
export interface SyncedConfirmOptions extends SyncedExistsOptions {
  /** Ends the call early. */
  signal?: AbortSignal;
}

const OPTIONS = { store: 0, everySeconds: 0, jitter: 0, maxAgeSeconds: 0, downloadTimeoutSeconds: 0, key: 0, onError: 0 };
const OF_FILE_AT = { headers: 0, timeoutSeconds: 0, fetch: 0 };
const ASKED = { withinSeconds: 0 };
// Seconds after a download that failed within which the next begins; longer after each that
// follows.
const AGAIN = 5;
// Beyond so many a server that wants to be left alone is asked again.
const LONGEST_WAIT = 24 * 3600;
// Seconds for any download, and bytes for which it has one more. With fewer a second the server
// itself closes the connection.
const FIRST = 60, BYTES = 16 << 10;
// Timers know no more milliseconds.
const LONGEST = 2 ** 31 - 1;

/**
 * Answers from a file of a filter, which it keeps fresh, also while the server is away.
 * Begin with `SyncedFilter.open`, end with `close`.
 */
export class SyncedFilter {
  readonly #source: FileSource;
  readonly #options: SyncedOptions;
  readonly #closed = new AbortController();
  #file: FilterFile | undefined;
  #bytes: Uint8Array | undefined;
  #etag: string | undefined;
  #checkedMs = 0;
  #checkedAt = 0;
  #isKept = false;
  #running: Promise<boolean> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #lastError: unknown;

  /** What is kept is used at once; without it the first download is waited for. */
  static async open(source: FileSource, options: SyncedOptions = {}): Promise<SyncedFilter> {
    known("SyncedFilter.open", options, OPTIONS);
    const { everySeconds = 60, jitter = 0.1, maxAgeSeconds = Infinity, downloadTimeoutSeconds = Infinity } = options;
    for (const [name, seconds] of Object.entries({ everySeconds, maxAgeSeconds, downloadTimeoutSeconds })) {
      if (!(seconds > 0)) throw new RangeError(`${name} is ${seconds}: a number above 0 is allowed`);
    }
    if (!(jitter >= 0 && jitter < 1)) throw new RangeError("jitter is a number from 0, and less than 1");
    const synced = new SyncedFilter(source, options);
    await synced.#load();
    const isKept = synced.#file !== undefined;
    if (!isKept) await synced.refresh();
    synced.#plan(isKept ? 0 : synced.#apart());
    return synced;
  }

  private constructor(source: FileSource, options: SyncedOptions) {
    this.#source = source;
    this.#options = options;
  }

  /** Keeps the file fresh no longer, and ends a download that has begun. */
  close(): void {
    this.#closed.abort(new CuckoodError("the file is kept fresh no longer"));
    clearTimeout(this.#timer);
  }

  /** The file that answers now. */
  get file(): FilterFile {
    return this.#file!;
  }

  /**
   * Seconds since the server last said that the file is current; infinite where that is not
   * known, since this machine's clock is behind the time of the file.
   */
  get ageSeconds(): number {
    // One clock may be set back, the other one may stand still while the machine sleeps.
    return Math.max(0, Date.now() - this.#checkedMs, performance.now() - this.#checkedAt) / 1000;
  }

  /** Why the last question to the server had no answer, or its file was not kept; undefined: neither. */
  get lastError(): unknown {
    return this.#lastError;
  }

  /**
   * Whether the filter contains the item; undefined: unknown, since the file is older than
   * `maxAgeSeconds`. A "no" is certain for what was added before the file was made.
   */
  exists(item: Item, options: SyncedExistsOptions = {}): boolean | undefined {
    return this.#told(this.file.exists(item, known("exists", options, ASKED)));
  }

  /** The same of many items, in their order. */
  existsMany(items: Many<Item>, options: SyncedExistsOptions = {}): (boolean | undefined)[] {
    return this.file.existsMany(items, known("existsMany", options, ASKED)).map((it) => this.#told(it));
  }

  /** The same, where each "yes" is asked of the server, which may have forgotten the item since. */
  async existsManyConfirmed(items: Many<Item>, options: SyncedConfirmOptions = {}): Promise<(boolean | undefined)[]> {
    const { signal: _, ...ofFile } = known("existsManyConfirmed", options, EXISTS);
    const asked = several(items), answers = this.existsMany(asked, ofFile);
    const again = asked.filter((_, at) => answers[at] === true);
    if (again.length === 0) return answers;
    if (this.#source.existsMany === undefined) throw new TypeError("a FileAt has no server to ask: open it with a Filter");
    const told = await this.#source.existsMany(again, options);
    let next = 0;
    return answers.map((it) => (it === true ? told[next++] : it));
  }

  /** The same of one item. */
  async existsConfirmed(item: Item, options: SyncedConfirmOptions = {}): Promise<boolean | undefined> {
    return (await this.existsManyConfirmed([item], known("existsConfirmed", options, EXISTS)))[0];
  }

  /** Asks the server now; whether there was a new file. */
  async refresh(): Promise<boolean> {
    this.#closed.signal.throwIfAborted();
    this.#running ??= this.#download()
      .catch((error: unknown) => {
        this.#lastError = error;
        throw error;
      })
      .finally(() => (this.#running = undefined));
    return this.#running;
  }

  #told(found: boolean): boolean | undefined {
    return found || this.ageSeconds <= (this.#options.maxAgeSeconds ?? Infinity) ? found : undefined;
  }

  /** Seconds between two questions. */
  #apart(): number {
    const { everySeconds = 60, jitter = 0.1 } = this.#options;
    return everySeconds * (1 + jitter * (2 * Math.random() - 1));
  }

  #plan(seconds: number): void {
    if (this.#closed.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#turn(), Math.min(seconds * 1000, LONGEST));
    // In Node a timer keeps the process from ending.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async #turn(): Promise<void> {
    const { everySeconds = 60 } = this.#options;
    try {
      await this.refresh();
      this.#failures = 0;
      this.#plan(this.#apart());
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      const wanted = error instanceof ProblemError ? error.retryAfterSeconds ?? 0 : 0;
      // Many that were refused at the same time come back at different times.
      const pause = Math.random() * Math.min(everySeconds, AGAIN * 2 ** Math.min(this.#failures, 30));
      this.#plan(Math.min(wanted, LONGEST_WAIT) + pause);
      this.#failures += 1;
      this.#tell(error);
    }
  }

  #tell(error: unknown): void {
    // What it throws, now or, if it is asynchronous, later, would end the process.
    (async () => this.#options.onError?.(error))().catch(() => {});
  }

  async #load(): Promise<void> {
    const kept = await this.#options.store?.load();
    if (kept === undefined) return;
    checkKind(kept.bytes, this.#options.key !== undefined, "what is kept");
    try {
      this.#file = await this.#verified(kept.bytes);
      this.#bytes = kept.bytes;
      this.#etag = this.#file.etag;
      this.#checkedMs = kept.checkedMs;
      const age = Date.now() - kept.checkedMs;
      this.#checkedAt = performance.now() - (age >= 0 ? age : Infinity);
      this.#isKept = true;
    } catch (error) {
      if (!(error instanceof FilterFileError)) throw error;
      this.#tell(error);
    }
  }

  async #download(): Promise<boolean> {
    const began = Date.now(), beganAt = performance.now(), { signal } = this.#closed;
    const download = new AbortController();
    const forget = onAbort(signal, () => download.abort(signal.reason));
    let isNew: boolean;
    try {
      isNew = await unlessAborted(this.#fetch(download), download.signal);
    } finally {
      forget();
    }
    this.#checkedMs = began;
    this.#checkedAt = beganAt;
    this.#lastError = undefined;
    await this.#keep(began);
    return isNew;
  }

  /** Whether the source had another file. */
  async #fetch(download: AbortController): Promise<boolean> {
    const { signal } = download, { key, downloadTimeoutSeconds } = this.#options;
    const changed = await this.#source.dumpUnless(this.#etag, { signal, ...(key !== undefined && { withoutKey: true }) });
    if (signal.aborted) {
      changed?.body.cancel().catch(() => {});
      throw signal.reason;
    }
    if (changed === undefined) {
      if (this.#file === undefined) throw new FilterFileError("the server sent no file, although none was there");
      return false;
    }
    const bytes = await bytesOf(changed.body, download, downloadTimeoutSeconds);
    checkKind(bytes, key !== undefined, "what came");
    const file = await this.#verified(bytes);
    signal.throwIfAborted();
    this.#file = file;
    this.#bytes = bytes;
    this.#etag = changed.etag || file.etag;
    this.#isKept = false;
    return true;
  }

  /** Where it can't be kept, memory has it, and the next answer of the server is the next try. */
  async #keep(checkedMs: number): Promise<void> {
    const { store } = this.#options;
    if (store === undefined) return;
    try {
      if (this.#isKept && (await store.touch(checkedMs, this.#bytes!))) return;
      this.#isKept = false;
      await store.save(this.#bytes!, checkedMs);
      this.#isKept = true;
    } catch (error) {
      this.#lastError = error;
      this.#tell(error);
    }
  }

  async #verified(bytes: Uint8Array): Promise<FilterFile> {
    const file = new FilterFile(bytes, { key: this.#options.key });
    await file.verify();
    return file;
  }
}

/** What the work gives, or what the signal says, whether the work heeds it or not. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_, reject) => onAbort(signal, () => reject(signal.reason)));
  return Promise.race([work, aborted]);
}

/**
 * The bytes of a file, which may not be longer than it says that it is. A download that takes
 * too long is ended: by its pieces alone one of a byte now and then would never be.
 */
async function bytesOf(
  stream: ReadableStream<Uint8Array>, download: AbortController, seconds: number | undefined,
): Promise<Uint8Array> {
  const reader = stream.getReader(), pieces: Uint8Array[] = [], began = performance.now();
  let size = 0, told: number | undefined, timer: ReturnType<typeof setTimeout> | undefined;
  // What is not read to its end may never answer to that.
  const end = (error: unknown): void => void reader.cancel(error).catch(() => {});
  onAbort(download.signal, () => end(download.signal.reason));
  const limit = (): void => {
    const allowed = seconds ?? FIRST + size / BYTES;
    const late = (): void =>
      download.abort(new CuckoodError(`the download takes longer than ${allowed.toFixed(1)} s: ${size} bytes came`));
    clearTimeout(timer);
    timer = setTimeout(late, Math.min(allowed * 1000 - (performance.now() - began), LONGEST));
  };
  try {
    limit();
    for (let it = await reader.read(); !it.done; it = await reader.read()) {
      pieces.push(it.value);
      size += it.value.length;
      if (told === undefined && size >= 256) told = toldBytes(joined(pieces, size));
      if (told !== undefined && size > told) {
        throw new FilterFileError(`the server sent more than the ${told} bytes of the file`);
      }
      limit();
    }
  } catch (error) {
    end(error);
    throw error instanceof CuckoodError ? error : new CuckoodError(`the download broke off after ${size} bytes`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
  return joined(pieces, size);
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** How a host of files is asked. */
export interface FileAtOptions {
  /** Sent along, such as `authorization`. */
  headers?: Record<string, string>;
  /** For the beginning of an answer, 30 by default. */
  timeoutSeconds?: number;
  /** In place of the platform's. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** Files at an address that has an `ETag`: what `cuckood build` made, on a host of files. */
export class FileAt implements FileSource {
  readonly #url: string;
  readonly #options: FileAtOptions;

  constructor(url: string | URL, options: FileAtOptions = {}) {
    this.#url = String(url);
    this.#options = known("FileAt", options, OF_FILE_AT);
  }

  async dumpUnless(
    etag: string | undefined, options: { signal: AbortSignal; withoutKey?: boolean },
  ): Promise<Changed | undefined> {
    const { signal } = known("dumpUnless", options, DUMP);
    const { headers, timeoutSeconds = 30, fetch: ask = fetch } = this.#options;
    const asked = { ...headers, ...(etag && { "if-none-match": etag }) };
    try {
      return await within(timeoutSeconds, signal, async (begins) => {
        // The cache of a browser would answer in place of the server.
        const answer = await ask(this.#url, { headers: asked, signal: either(signal, begins), cache: "no-store" });
        return changedOf(answer, etag, undefined, withoutUser(`${this.#url} has no file`));
      });
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof CuckoodError ? error : new NoAnswerError("GET", this.#url, error);
    }
  }
}
