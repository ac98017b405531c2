import { type BatchLimits, type Item, type Many, copied, several } from "./batches.js";
import type { Fetch } from "./connections.js";
import { InvalidRequest } from "./errors.js";
import { Filter, type ExistsOptions } from "./filter.js";
import type {
  BackupBody, BackupListBody, ClusterBody, FilterFields, FilterLineBody, FilterListBody, FoundBody, PreviewBody,
} from "./models/types.gen.js";
import { CALL, EXISTS, known } from "./options.js";
import { Pods } from "./pods.js";
import { backoff } from "./retry.js";
import { type CallOptions, type Retry, Transport, path } from "./transport.js";

/** How a server is reached and asked. */
export interface ClientOptions {
  /**
   * Address of the server, or those of pods; without it `CUCKOOD_SERVER`, in which
   * commas separate several, else http://127.0.0.1:8080.
   */
  url?: string | readonly string[];
  /** API key; without it `CUCKOOD_API_KEY`, else none. */
  apiKey?: string;
  /** Seconds in which one request is to be answered, 30 by default. */
  timeoutSeconds?: number;
  /** Seconds after the first attempt in which others may begin, 60 by default; 0: none. */
  patienceSeconds?: number;
  /**
   * Requests that are under way at a time, 64 by default. The rest wait, which costs
   * neither timeout nor patience. Dumps, restores and downloads are not counted.
   */
  maxInFlight?: number;
  /**
   * Whether single items that are added or deleted at the same time go as one
   * request, as those that are asked for do; those with an `idempotencyKey` do not. It is
   * committed as a whole or not at all.
   */
  coalesceChanges?: boolean;
  /**
   * `local`, or `strong` for questions about one filter that are answered with
   * everything that was acknowledged before, to whomever. Without it `local`.
   */
  consistency?: "local" | "strong";
  /** What the server takes in one request. Larger batches are split. */
  limits?: BatchLimits;
  /** Sent with each request. */
  headers?: Record<string, string>;
  /** In place of connections of its own, for example with a proxy or certificates. */
  fetch?: Fetch;
  /** Is told of each attempt that another one follows, for logs. */
  onRetry?: (retry: Retry) => void;
}

const OPTIONS = {
  url: 0, apiKey: 0, timeoutSeconds: 0, patienceSeconds: 0, maxInFlight: 0, coalesceChanges: 0, consistency: 0, limits: 0,
  headers: 0, fetch: 0, onRetry: 0,
};
// Items of a lookup that is sent with others.
const FEW = 10;
const LOOKUP = { filters: 0, prefix: 0, first: 0, ...EXISTS };

/**
 * A cuckood server, or a cluster of them.
 *
 * Questions and changes are sent again until they are answered, for `patience`
 * seconds: after broken connections and after answers that pass (429, 503 and the
 * like), with growing random pauses, and not before `Retry-After`. Each change has
 * an `Idempotency-Key`, so it is made once.
 *
 * Of a cluster name several pods: one is asked until it fails, then the next one, at
 * once and with the same `Idempotency-Key`. Questions are answered with all changes
 * that this client has made, whichever pod it asks.
 */
export class Client {
  readonly #transport: Transport;

  /** Of the server at this address, or the pods at these, or, without one, at that of the environment. */
  constructor(url: string | URL | readonly string[], options?: Omit<ClientOptions, "url">);
  constructor(options?: ClientOptions);
  constructor(...given: [(string | URL | readonly string[] | ClientOptions)?, ClientOptions?]) {
    const options = checked(given.length === 0 ? {} : asOptions(given[0], given[1]));
    const urls = options.url ?? (process.env["CUCKOOD_SERVER"] || "http://127.0.0.1:8080").split(",");
    // What is read from a file ends with its line.
    const key = (options.apiKey ?? process.env["CUCKOOD_API_KEY"])?.trim();
    if (key !== undefined && !/^[!-~]*$/.test(key)) {
      throw new TypeError("apiKey has other characters than visible ASCII: give it as `cuckood keys add` printed it");
    }
    const headers = Object.fromEntries(new Headers(options.headers));
    this.#transport = new Transport({
      pods: new Pods(typeof urls === "string" ? urls.split(",") : urls),
      headers: { ...(key && { authorization: `Bearer ${key}` }), ...headers },
      consistency: options.consistency,
      timeoutSeconds: options.timeoutSeconds ?? 30,
      backoff: backoff(options.patienceSeconds ?? 60),
      maxInFlight: options.maxInFlight ?? 64,
      coalesceChanges: options.coalesceChanges ?? false,
      limits: options.limits ?? { items: 250_000, bytes: 32 << 20 },
      fetch: options.fetch,
      onRetry: options.onRetry,
    });
  }

  /** Ends the calls that are under way, refuses others, and closes the connections. */
  close(): void {
    this.#transport.close();
  }

  /** Address of the server, or of the pod that is asked now. */
  get url(): string {
    return this.#transport.url;
  }

  /** The filter of this key, whether it exists or not. Sends nothing. */
  filter(key: string): Filter {
    return new Filter(this.#transport, key);
  }

  /** All filters whose keys start with `prefix`, in byte order; one request for `page` of them. */
  async *filters(
    prefix = "", options: { page?: number } & CallOptions = {},
  ): AsyncGenerator<FilterLineBody, void> {
    const { page = 1000 } = known("filters", options, { page: 0, ...CALL });
    const query: Record<string, string> = { prefix, limit: String(page) };
    for (;;) {
      const listed = await this.#transport.ask<FilterListBody>("/filters", options, query);
      yield* listed.filters;
      if (listed.next_cursor == null) return;
      query["cursor"] = listed.next_cursor;
    }
  }

  /** What a filter with these parameters would be; nothing is created. */
  async preview(fields: FilterFields, options: CallOptions = {}): Promise<PreviewBody> {
    return this.#transport.askWith("/preview", fields, known("preview", options, CALL));
  }

  /**
   * For each item the keys of the filters that contain it. Asks these `filters`, in
   * their order, or all whose keys start with `prefix`; with `first` only up to the
   * first that contains the item; with `withinSeconds`, of filters with windows, which
   * of them saw the item so lately. Lookups of up to ten items that are asked of the same
   * filters at the same time go as batches.
   */
  async lookup(
    items: Many<Item>,
    ask: ({ filters: string[] } | { prefix: string }) & { first?: boolean } & ExistsOptions,
  ): Promise<FoundBody> {
    const { withinSeconds, signal, ...asked } = known("lookup", ask, LOOKUP);
    const fields = { ...asked, ...(withinSeconds !== undefined && { within_seconds: withinSeconds }) };
    if ("filters" in fields && Array.isArray(fields.filters)) fields.filters = [...fields.filters];
    const batch = { at: "/lookup", fields }, all = several(items).map(copied);
    const alone = (): Promise<FoundBody[]> => this.#transport.askBatch(batch, all, { signal });
    const isFew = all.length > 0 && all.length <= FEW;
    const route = isFew ? JSON.stringify(batch) : "";
    const one = (item: Item) => this.#transport.askOne(batch, item, { signal }, eachOf, route) as Promise<FoundBody>;
    const answers = await (isFew ? Promise.all(all.map(one)) : alone()).catch((error: unknown) => {
      // Of several items, which one is refused.
      if (isFew && all.length > 1 && error instanceof InvalidRequest) return alone();
      throw error;
    });
    return {
      results: answers.flatMap((answer) => answer.results),
      missing_filters: [...new Set(answers.flatMap((answer) => answer.missing_filters))],
    };
  }

  /** Whether the server takes requests now. Asks once. */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    known("isReady", options, CALL);
    try {
      return await this.#transport.isWell("/readyz", options.signal);
    } catch {
      options.signal?.throwIfAborted();
      return false;
    }
  }

  /** The lanes and pods of the cluster, as far as the asked pod knows. */
  async cluster(options: CallOptions = {}): Promise<ClusterBody> {
    return this.#transport.ask("/cluster", known("cluster", options, CALL));
  }

  /** The backups, newest first. */
  async backups(options: CallOptions = {}): Promise<BackupListBody> {
    return this.#transport.ask("/admin/backups", known("backups", options, CALL));
  }

  /** Starts a backup. Throws `ProblemError` `backup_running` if one is running. */
  async createBackup(options: CallOptions = {}): Promise<BackupBody> {
    const { signal } = known("createBackup", options, CALL);
    return this.#transport.send({ method: "POST", path: "/admin/backups", repeatable: false, signal });
  }

  /** The state of a backup. */
  async backup(id: string, options: CallOptions = {}): Promise<BackupBody> {
    return this.#transport.ask(path("admin", "backups", id, "status"), known("backup", options, CALL));
  }

  /** A complete backup, a tar archive. */
  async downloadBackup(id: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#transport.download(path("admin", "backups", id), {}, known("downloadBackup", options, CALL));
  }
}

/** The answer of each item. */
function eachOf({ results, missing_filters }: FoundBody): FoundBody[] {
  return results.map((keys) => ({ results: [keys], missing_filters }));
}

/** What a caller gave, which JavaScript does not check. */
function asOptions(server: string | URL | readonly string[] | ClientOptions | undefined, more?: ClientOptions): ClientOptions {
  if (server instanceof URL) return { ...more, url: server.href };
  if (typeof server === "string" || server === undefined || Array.isArray(server)) {
    return { ...more, url: server as string | readonly string[] };
  }
  if (typeof server === "object" && server !== null) return server as ClientOptions;
  throw new TypeError(`${String(server)} is no address of a server`);
}

function checked(options: ClientOptions): ClientOptions {
  if ("url" in known("Client", options, OPTIONS) && (options.url === undefined || options.url.length === 0)) {
    throw new TypeError("url is empty: give the address of the server, or leave it out to use CUCKOOD_SERVER");
  }
  const { timeoutSeconds = 30, patienceSeconds = 60, maxInFlight = 64 } = options;
  if (!(timeoutSeconds > 0 && timeoutSeconds < Infinity)) throw new RangeError("timeoutSeconds is a number above 0");
  if (!(patienceSeconds >= 0)) throw new RangeError("patienceSeconds is a number from 0");
  if (!(maxInFlight >= 1 && Number.isInteger(maxInFlight))) throw new RangeError("maxInFlight is an integer from 1");
  return options;
}
