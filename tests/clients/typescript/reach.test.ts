// The TypeScript client and a pod whose host is cut off: test_pods.py passes its address,
// and that of a server that is well.

import assert from "node:assert/strict";
import test from "node:test";
import { Client } from "cuckood";
import { NotReached, Reach } from "./node_modules/cuckood/dist/reach.js";

const [deaf, well] = (process.env["PODS"] as string).split(",") as [string, string];

async function seconds(work: Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work;
  return (performance.now() - started) / 1000;
}

test("a pod that accepts no connection is left after a second", async () => {
  const client = new Client({ url: [deaf, well] });
  // Several at once wait for one look.
  const made = Promise.all(["a", "b", "c"].map((key) => client.filter(key).create({ capacity: 100 })));
  const took = await seconds(made);
  // The rest is for a busy machine: fetch alone waits for 10 s.
  assert.ok(took > 0.9 && took < 5, `${took}`);
  assert.equal(client.url, well);
});

test("nothing was sent, so what must not be sent twice goes on, too", async () => {
  const source = new Client({ url: well });
  await source.filter("source").create({ capacity: 100 });
  await source.filter("source").add("x");
  const pieces: Uint8Array[] = [];
  for await (const piece of await source.filter("source").dump()) pieces.push(piece);
  const client = new Client({ url: [deaf, well] });
  await client.filter("copy").restore(Buffer.concat(pieces));
  assert.equal(await client.filter("copy").exists("x"), true);
});

test("where no pod accepts connections, fetch is asked whether it knows a way", async () => {
  const reach = new Reach(2);
  await assert.rejects(reach.check(deaf), NotReached);
  await assert.rejects(reach.check("http://127.0.0.1:2"), NotReached);
  assert.ok((await seconds(reach.check(deaf))) < 0.9);
  // One that is alone is not looked at.
  assert.ok((await seconds(new Reach(1).check(deaf))) < 0.9);
});
