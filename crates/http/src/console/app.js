// The console: which view is shown, and who is signed in.

import { Fragment, h, render } from "./preact.mjs";
import { useEffect, useState } from "./hooks.mjs";
import { keyIsWanted, session, watchSession } from "./api.js";
import { Rights, useRightsOf } from "./caller.js";
import { Cluster, useIsPod } from "./cluster.js";
import { Create } from "./create.js";
import { Curl } from "./curl.js";
import { Filter } from "./filter.js";
import { List } from "./list.js";
import { Field, Heading, ProblemNotice, Waiting } from "./parts.js";
import { Vitals } from "./vitals.js";
import { Work } from "./work.js";

/** The view that the address names. */
function viewOf(hash) {
  const [, place, rest] = /^#\/([^/]*)\/?(.*)$/.exec(hash) ?? [];
  let name;
  try {
    name = decodeURIComponent(rest ?? "");
  } catch {
    name = "";
  }
  if (place === "filters" && name) return { view: Filter, name };
  if (place === "new") return { view: Create, name };
  if (place === "cluster") return { view: Cluster };
  if (place === "work") return { view: Work };
  return { view: List };
}

function SignIn({ wrong }) {
  const [key, setKey] = useState("");
  return h(
    "form",
    {
      class: "stack signin",
      onSubmit: (event) => {
        event.preventDefault();
        session.signIn(key.trim());
      },
    },
    h(Heading, { title: "Sign in" }),
    h("p", { class: "quiet" }, "This server requires an API key. The key stays in this tab until you close it or sign out."),
    h(Field, {
      label: "API key",
      type: "password",
      autocomplete: "current-password",
      required: true,
      value: key,
      error: wrong ? "The server does not know this key." : undefined,
      onInput: (event) => setKey(event.currentTarget.value),
    }),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Sign in")),
  );
}

/** Nothing is offered of which it is not known whether it is allowed. */
function Unknown({ problem, askAgain }) {
  return h(
    ProblemNotice,
    { problem },
    h("p", null, "What you may do is not known, so nothing is offered that changes something."),
    h("button", { type: "button", onClick: askAgain }, "Ask again"),
  );
}

function App() {
  const [at, setAt] = useState(location.hash);
  const [, setTurn] = useState(0);
  useEffect(() => {
    const moved = () => setAt(location.hash);
    addEventListener("hashchange", moved);
    const unwatch = watchSession(() => setTurn((turn) => turn + 1));
    return () => {
      removeEventListener("hashchange", moved);
      unwatch();
    };
  }, []);
  const { view, name } = viewOf(at);
  const key = session.key;
  const wanted = keyIsWanted();
  const isPod = useIsPod(key);
  const { rights, problem, askAgain } = useRightsOf(key);
  return h(
    Fragment,
    null,
    h("a", { class: "skip", href: "#main", onClick: toMain }, "Skip to the content"),
    h(
      "header",
      { class: "head" },
      h(
        "div",
        { class: "inner" },
        h(
          "a",
          { class: "brand", href: "#/" },
          h("img", { src: "console/egg.svg", alt: "", width: 22, height: 22 }),
          "cuckood",
        ),
        h(
          "nav",
          { "aria-label": "Other pages of this server" },
          !wanted && h("a", { href: "#/work" }, "Imports and backups"),
          isPod && !wanted && h("a", { href: "#/cluster" }, "Cluster"),
          h("a", { href: "docs/" }, "API"),
          key && !wanted && h("button", { type: "button", class: "link", onClick: () => session.signOut() }, "Sign out"),
        ),
      ),
    ),
    h(
      "main",
      { id: "main", tabIndex: -1 },
      wanted
        ? h(SignIn, { wrong: key !== null })
        : h(
            Rights.Provider,
            { value: rights, key: key ?? "" },
            h(Vitals),
            problem && h(Unknown, { problem, askAgain }),
            rights ? h(view, { key: `${at}`, name }) : h(Waiting, { what: "what the key allows" }),
            h(Curl, { isKeyed: key !== null }),
          ),
    ),
  );
}

/** The address names the view, so it can't name a place within it. */
function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

/** A file that is dropped where none is taken does not lead the browser away from the page. */
function missed(event) {
  if (event.defaultPrevented || !event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "none";
}

addEventListener("dragover", missed);
addEventListener("drop", missed);

const root = document.getElementById("app");
root.replaceChildren();
render(h(App), root);
