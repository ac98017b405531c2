// What the key that is signed in may do. The server refuses the rest anyway; the
// page does not offer it.

import { createContext } from "./preact.mjs";
import { useContext, useEffect, useState } from "./hooks.mjs";
import { get } from "./api.js";

const SCOPES = ["read", "write", "admin"];
const AGAIN_MS = 5000;

/** What a caller of this scope and prefix may do. */
function rights({ scope, prefix }) {
  const reach = SCOPES.indexOf(scope);
  return {
    prefix: prefix ?? "",
    mayOnlyRead: reach === 0,
    mayWrite: reach >= 1,
    /** What cannot be taken back. */
    mayEnd: reach >= 2,
    /** What is about the server as a whole. */
    mayOperate: reach >= 2 && !prefix,
  };
}

export const Rights = createContext(null);

export const useRights = () => useContext(Rights);

/** What may be offered while it is not known whose key it is. */
const UNKNOWN = rights({ scope: null, prefix: null });

/**
 * The rights of a key; null until there is an answer. If there is none, `problem` says why,
 * nothing is offered that changes something, and the server is asked again.
 */
export function useRightsOf(key) {
  const [known, setKnown] = useState({ key: undefined });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer;
    const ask = () =>
      get("caller", { signal: stop.signal }).then(
        (caller) => setKnown({ key, rights: rights(caller), problem: null }),
        (problem) => {
          if (stop.signal.aborted) return;
          setKnown({ key, rights: UNKNOWN, problem });
          // Another key is signed in first.
          if (problem.status !== 401) timer = setTimeout(ask, AGAIN_MS);
        },
      );
    ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, turn]);
  const { rights: those = null, problem = null } = known.key === key ? known : {};
  return { rights: those, problem, askAgain: () => setTurn(turn + 1) };
}
