import { Filter } from "./filter.js";
import { Pods } from "./pods.js";
import { backoff } from "./retry.js";
import { Transport, path } from "./transport.js";
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
    #transport;
    constructor(options = {}) {
        const urls = options.url ?? (process.env["CUCKOOD_SERVER"] || "http://127.0.0.1:8080").split(",");
        const key = options.apiKey ?? process.env["CUCKOOD_API_KEY"];
        this.#transport = new Transport(new Pods(typeof urls === "string" ? [urls] : urls), key ? { authorization: `Bearer ${key}` } : {}, options.consistency, options.timeout ?? 30, backoff(options.patience ?? 60), options.limits ?? { items: 250_000, bytes: 32 << 20 });
    }
    /** Address of the server, or of the pod that is asked now. */
    get url() {
        return this.#transport.url;
    }
    /** The filter of this key, whether it exists or not. Sends nothing. */
    filter(key) {
        return new Filter(this.#transport, key);
    }
    /** All filters whose keys start with `prefix`, in byte order; one request for `page` of them. */
    async *filters(prefix = "", page = 1000) {
        const query = { prefix, limit: String(page) };
        for (;;) {
            const listed = await this.#transport.ask("/filters", query);
            yield* listed.filters;
            if (listed.next_cursor == null)
                return;
            query["cursor"] = listed.next_cursor;
        }
    }
    /** What a filter with these parameters would be; nothing is created. */
    async preview(fields) {
        return this.#transport.askWith("/preview", fields);
    }
    /**
     * For each item the keys of the filters that contain it. Asks these `filters`, in
     * their order, or all whose keys start with `prefix`; with `first` only up to the
     * first that contains the item; with `withinSeconds`, of filters with windows, which
     * of them saw the item so lately.
     */
    async lookup(items, ask) {
        const { withinSeconds, ...fields } = ask;
        const answers = await this.#transport.askBatch("/lookup", items, {
            ...fields,
            ...(withinSeconds !== undefined && { within_seconds: withinSeconds }),
        });
        return {
            results: answers.flatMap((answer) => answer.results),
            missing_filters: [...new Set(answers.flatMap((answer) => answer.missing_filters))],
        };
    }
    /** Whether the server takes requests now. Asks once. */
    async isReady() {
        try {
            return await this.#transport.isWell("/readyz");
        }
        catch {
            return false;
        }
    }
    /** The lanes and pods of the cluster, as far as the asked pod knows. */
    async cluster() {
        return this.#transport.ask("/cluster");
    }
    /** The backups, newest first. */
    async backups() {
        return this.#transport.ask("/admin/backups");
    }
    /** Starts a backup. Throws `ProblemError` `backup_running` if one is running. */
    async createBackup() {
        return this.#transport.send({ method: "POST", path: "/admin/backups", repeatable: false });
    }
    /** The state of a backup. */
    async backup(id) {
        return this.#transport.ask(path("admin", "backups", id, "status"));
    }
    /** A complete backup, a tar archive. */
    async downloadBackup(id) {
        return this.#transport.download(path("admin", "backups", id));
    }
}
