// What was done last, as a command for a shell.

import { h } from "./preact.mjs";
import { useEffect, useState } from "./hooks.mjs";
import { onDone, urlOf } from "./api.js";

/** A text as one word of a shell. */
export function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A request as a command. The key stands in it by the name of a variable. */
export function curlOf({ method, path, json, file, into, headers = {} }, isKeyed) {
  const lines = [`curl ${method === "GET" || json !== undefined && method === "POST" ? "" : `-X ${method} `}${quoted(urlOf(path))}`];
  if (isKeyed) lines.push('-H "authorization: Bearer $CUCKOOD_API_KEY"');
  const sent = json === undefined ? headers : { "content-type": "application/json", ...headers };
  for (const [name, value] of Object.entries(sent)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (json !== undefined) lines.push(`-d ${quoted(JSON.stringify(json))}`);
  if (file !== undefined) lines.push(`-T ${quoted(file)}`);
  if (into !== undefined) lines.push(`-o ${quoted(into)}`);
  return lines.join(" \\\n  ");
}

/** The last thing that was done, for those who want to do it without this page. */
export function Curl({ isKeyed }) {
  const [done, setDone] = useState(null);
  const [copied, setCopied] = useState(false);
  useEffect(
    () =>
      onDone((request) => {
        setDone(request);
        setCopied(false);
      }),
    [],
  );
  if (!done) return null;
  const text = curlOf(done, isKeyed);
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true));
  return h(
    "details",
    { class: "curl" },
    h("summary", null, "Done last, as a command"),
    h("pre", { tabIndex: 0, "aria-label": "Command" }, h("code", null, text)),
    // Browsers have none where the page did not come by TLS or from this machine.
    navigator.clipboard && h("button", { type: "button", onClick: copy }, copied ? "Copied" : "Copy"),
  );
}
