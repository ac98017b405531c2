import { onAbort } from "./calls.js";
import { CuckoodError, InvalidRequest } from "./errors.js";

/** Items of one request: 10,000 questions at once are ten. */
const MOST = 1000;

/** Sends items in their order, and returns their results. The signal says that nobody waits for them any longer. */
type SendAll<Item> = (items: Item[], signal: AbortSignal) => Promise<readonly unknown[]>;

interface Single<Item> {
  item: Item;
  signal: AbortSignal | undefined;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

/** Joins what is asked of the same route at the same time, an item each, to batches. Sends nothing itself. */
export class Coalescer<Item> {
  readonly #gathered = new Map<string, Single<Item>[]>();

  /** The result of one item; `route` names what may be sent together. */
  async one(route: string, item: Item, send: SendAll<Item>, signal?: AbortSignal): Promise<unknown> {
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => reject(signal?.reason));
      const settled = <T>(settle: (value: T) => void) => (value: T): void => {
        forget();
        settle(value);
      };
      this.#gather(route, send).push({ item, signal, resolve: settled(resolve), reject: settled(reject) });
    });
  }

  #gather(route: string, send: SendAll<Item>): Single<Item>[] {
    const gathered = this.#gathered.get(route) ?? [];
    if (gathered.length > 0) return gathered;
    this.#gathered.set(route, gathered);
    // After all that can be asked without waiting for anything was asked.
    setImmediate(() => {
      this.#gathered.delete(route);
      const asked = gathered.filter((it) => !it.signal?.aborted);
      for (let at = 0; at < asked.length; at += MOST) void settle(asked.slice(at, at + MOST), send);
    });
    return gathered;
  }
}

/** Has each hear its own result. Nobody is refused for what another one asked. */
async function settle<Item>(asked: Single<Item>[], send: SendAll<Item>): Promise<void> {
  const gone = new AbortController();
  const leave = (): void => {
    if (asked.every((it) => it.signal?.aborted)) gone.abort(asked[0]?.signal?.reason);
  };
  const forget = asked.map((it) => onAbort(it.signal, leave));
  leave();
  try {
    const results = await send(asked.map((it) => it.item), gone.signal);
    asked.forEach((it, at) => it.resolve(results[at]));
  } catch (error) {
    const done = error instanceof CuckoodError ? error.completed : [];
    done.forEach((result, at) => asked[at]?.resolve(result));
    const left = asked.slice(done.length);
    const refused = new Set(left.length > 1 ? pointedAt(error) : []);
    if (refused.size === 0) {
      if (error instanceof CuckoodError) error.completed = [];
      for (const it of left) it.reject(error);
      return;
    }
    // Of a refused batch nothing was done.
    for (const it of left.filter((_, at) => refused.has(at))) void settle([it], send);
    const others = left.filter((_, at) => !refused.has(at));
    if (others.length > 0) await settle(others, send);
  } finally {
    forget.forEach((it) => it());
  }
}

/** Which items of a batch were refused. */
function pointedAt(error: unknown): number[] {
  if (!(error instanceof InvalidRequest)) return [];
  return error.errors.flatMap(({ pointer }) => {
    const found = /^\/(?:items|entries)\/(\d+)/.exec(pointer ?? "");
    return found ? [Number(found[1])] : [];
  });
}
