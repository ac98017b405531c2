import type { Fields } from "./connections.js";

/** The addresses of the pods of a cluster, or of one server. One is asked until it
 * fails, then the next one. Sends nothing itself. */
export class Pods {
  readonly #urls: string[];
  #at = 0;

  constructor(urls: readonly string[]) {
    this.#urls = urls.map((url) => {
      const given = url.trim();
      const address = given.includes("://") ? given : `http://${given}`;
      if (!/^https?:/i.test(address) || !isUrl(address)) {
        throw new TypeError(`${JSON.stringify(given)} is no address of a server, such as http://127.0.0.1:8080`);
      }
      return new URL(address).href.replace(/\/+$/, "");
    });
  }

  get length(): number {
    return this.#urls.length;
  }

  /** The one to ask. */
  get current(): string {
    return this.#urls[this.#at] as string;
  }

  /** Turns to the next one, unless another request has done so. */
  failed(url: string): void {
    if (url === this.current) this.#at = (this.#at + 1) % this.#urls.length;
  }
}

function isUrl(address: string): boolean {
  try {
    return Boolean(new URL(address));
  } catch {
    return false;
  }
}

/** The newest change of each lane of the cluster that this client was told of. */
export class Positions {
  #epoch = 0;
  #lanes = new Map<number, number>();

  /** Notes what an answer says. */
  note(headers: Fields): void {
    const said = headers.get("cuckood-position");
    if (said === null) return;
    const [epoch = 0, lane = 0, record = 0] = said.split(".").map(Number);
    if (epoch > this.#epoch) {
      this.#epoch = epoch;
      this.#lanes = new Map();
    }
    if (epoch === this.#epoch) this.#lanes.set(lane, Math.max(record, this.#lanes.get(lane) ?? 0));
  }

  /** Forgets all, where the cluster does not know them; whether there were any. */
  forget(): boolean {
    const known = this.#lanes.size > 0;
    this.#lanes = new Map();
    return known;
  }

  /** What a question has to say, so that its answer takes these into account. */
  headers(): Record<string, string> {
    if (this.#lanes.size === 0) return {};
    const said = [...this.#lanes].map(([lane, record]) => `${this.#epoch}.${lane}.${record}`);
    return { "cuckood-min-position": said.join(",") };
  }
}
