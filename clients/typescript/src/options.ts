/** Which options calls know. It imports nothing of Node. */

/** The options of a call, which knows those of `names`: any other one would be a silent default. */
export function known<T extends object>(call: string, options: T, names: Readonly<Record<keyof T, unknown>>): T {
  // What is inherited, too: an AbortSignal is no options.
  for (const name in options) {
    if (Object.hasOwn(names, name)) continue;
    throw new TypeError(`${name} is no option of ${call}: it knows ${Object.keys(names).join(", ")}`);
  }
  return options;
}

export const CALL = { signal: 0 };
export const CHANGE = { ...CALL, idempotencyKey: 0 };
export const ADD = { onlyIfAbsent: 0, create: 0, ...CHANGE };
export const EXISTS = { withinSeconds: 0, ...CALL };
export const WHERE = { where: 0, ...EXISTS };
export const DUMP = { withoutKey: 0, ...CALL };
