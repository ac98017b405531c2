import { connect } from "node:net";
import { withoutUser } from "./address.js";

/** Seconds in which a pod accepts a connection, where others can be asked. */
const CONNECT = 1;

/** Seconds after an answer for which a pod is not looked at: fetch keeps idle connections for longer. */
const KNOWN = 2;

/** A pod accepts no connection. Nothing was sent. */
export class NotReached extends Error {}

/**
 * Sees whether pods accept connections before they are asked. fetch would wait ten
 * seconds for that, which nobody can change.
 */
export class Reach {
  readonly #pods: number;
  readonly #answered = new Map<string, number>();
  readonly #looks = new Map<string, Promise<void>>();
  readonly #deaf = new Set<string>();

  constructor(pods: number) {
    this.#pods = pods;
  }

  /** Notes that a pod has answered. */
  answered(url: string): void {
    this.#answered.set(url, performance.now());
  }

  /** Throws if a pod accepts no connection within a second, and another one may. */
  async check(url: string): Promise<void> {
    const answered = this.#answered.get(url) ?? -Infinity;
    if (this.#pods === 1 || performance.now() - answered < KNOWN * 1000) return;
    const look = this.#looks.get(url) ?? this.#look(url);
    // Where none accepts one, fetch may know a way, such as a proxy.
    if (this.#deaf.size < this.#pods) await look;
    else look.catch(() => {});
  }

  #look(url: string): Promise<void> {
    const look = accepts(url)
      .then(() => void this.#deaf.delete(url))
      .catch((cause) => {
        this.#deaf.add(url);
        throw new NotReached("no connection", { cause });
      })
      .finally(() => this.#looks.delete(url));
    this.#looks.set(url, look);
    return look;
  }
}

function accepts(url: string): Promise<void> {
  const { protocol, hostname, port } = new URL(url);
  const at = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (protocol === "https:" ? 443 : 80)) };
  const socket = connect({ ...at, autoSelectFamily: true });
  const accepted = new Promise<void>((resolve, reject) => {
    socket.on("connect", resolve);
    socket.on("error", reject);
    socket.setTimeout(CONNECT * 1000, () => reject(new Error(`no connection to ${withoutUser(url)} within ${CONNECT} s`)));
  });
  return accepted.finally(() => socket.destroy());
}
