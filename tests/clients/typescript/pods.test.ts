// The TypeScript client over three pods, whose addresses test_pods.py passes. The
// first one is killed.

import assert from "node:assert/strict";
import test from "node:test";
import { Client } from "cuckood";
import { Pods, Positions } from "./node_modules/cuckood/dist/pods.js";
import { Attempts } from "./node_modules/cuckood/dist/retry.js";
import { ProblemError } from "cuckood";

const urls = (process.env["PODS"] as string).split(",");
const adds = Number(process.env["ADDS"]);

test("a client goes on with another pod, makes each change once and reads what it wrote", async () => {
  const client = new Client({ url: urls });
  assert.equal((await client.cluster()).cluster, "shop");
  const typed = client.filter("typed");
  await typed.create({ capacity: 1000, fingerprint_bits: 32 });
  for (let number = 0; number < adds; number += 1) {
    if (number === adds / 2) {
      process.kill(Number(process.env["LEADER"]), "SIGKILL");
      const started = performance.now();
      assert.equal(await typed.exists(0), true);
      assert.ok(performance.now() - started < 3000);
    }
    await typed.add(number);
    assert.equal(await typed.exists(number), true);
  }
  const strong = new Client({ url: urls[2] as string, consistency: "strong" });
  assert.equal((await strong.filter("typed").info()).items, adds);
});

test("pods take turns, and each is asked before the first pause", () => {
  const pods = new Pods(["a:1", "http://b:2/"]);
  assert.equal(pods.current, "http://a:1");
  pods.failed("http://a:1");
  pods.failed("http://a:1");
  assert.equal(pods.current, "http://b:2");
  pods.failed("http://b:2");
  assert.equal(pods.current, "http://a:1");
  const attempts = new Attempts({ patience: 60, first: 0.1, longest: 5, chance: () => 1, clock: () => 0 }, 2);
  const busy = new ProblemError({ status: 503, code: "not_leading", detail: "", retryAfterSeconds: 1 });
  const request = { method: "POST", path: "/x", repeatable: true };
  assert.deepEqual([1, 2, 3, 4].map(() => attempts.afterProblem(request, busy)), [0, 1.1, 0, 1.2]);
});

test("the newest position of each lane is kept", () => {
  const positions = new Positions();
  const note = (said: string) => positions.note(new Headers({ "cuckood-position": said }));
  assert.deepEqual(positions.headers(), {});
  for (const said of ["1.0.5", "1.3.9", "1.0.4"]) note(said);
  assert.deepEqual(positions.headers(), { "cuckood-min-position": "1.0.5,1.3.9" });
  note("2.3.1");
  note("1.3.10");
  assert.deepEqual(positions.headers(), { "cuckood-min-position": "2.3.1" });
  assert.equal(positions.forget(), true);
  assert.equal(positions.forget(), false);
});
