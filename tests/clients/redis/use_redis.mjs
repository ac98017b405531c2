// What users of node-redis and of ioredis do.
//
//     use_redis.mjs PORT [CA_FILE KEY]

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createClient } from "redis";
import Ioredis6 from "ioredis";
import Ioredis5 from "ioredis5";

const [port, caFile, key] = process.argv.slice(2);
const ca = caFile && readFileSync(caFile);

async function nodeRedis(RESP) {
  const client = createClient({
    RESP,
    password: key,
    socket: ca ? { host: "localhost", port: Number(port), tls: true, ca } : { host: "127.0.0.1", port: Number(port) },
  });
  client.on("error", (error) => assert.fail(error));
  await client.connect();
  await client.del("n");
  assert.equal(await client.cf.reserve("n", 1000), "OK");
  assert.equal(await client.cf.add("n", "a"), true);
  assert.equal(await client.cf.addNX("n", "a"), false);
  assert.deepEqual(await client.cf.insert("n", ["b", "c"]), [true, true]);
  assert.equal(await client.cf.exists("n", "b"), true);
  assert.equal(await client.cf.exists("n", "zz"), false);
  assert.equal(await client.cf.count("n", "a"), 1);
  assert.equal(await client.cf.del("n", "a"), true);
  const info = await client.cf.info("n");
  assert.equal(Number(info["Number of items inserted"]), 2);
  await assert.rejects(client.cf.info("none"), /not found/);
  const many = Array.from({ length: 1000 }, (_, number) => client.cf.add("n", `i${number}`));
  assert.ok((await Promise.all(many)).every((added) => added === true));
  const [, found] = await client.multi().cf.add("n", "x").cf.exists("n", "x").exec();
  assert.equal(found, true);
  await client.del("b");
  assert.equal(await client.bf.reserve("b", 0.01, 1000, { EXPANSION: 2 }), "OK");
  assert.equal(await client.bf.add("b", "a"), true);
  assert.equal(await client.bf.add("b", "a"), false);
  assert.deepEqual(await client.bf.mAdd("b", ["a", "b", "b"]), [false, true, false]);
  assert.deepEqual(await client.bf.insert("b", ["b", "c"], { NOCREATE: true }), [false, true]);
  assert.equal(await client.bf.exists("b", "c"), true);
  assert.deepEqual(await client.bf.mExists("b", ["c", "zz"]), [true, false]);
  assert.equal(await client.bf.card("b"), 3);
  const { Size, ...bloom } = await client.bf.info("b");
  assert.ok(Size > 0);
  const told = { Capacity: 1000, "Number of filters": 1, "Number of items inserted": 3, "Expansion rate": 2 };
  assert.deepEqual({ ...bloom }, told);
  await assert.rejects(client.bf.info("none"), /not found/);
  await client.del("b");
  const keys = [];
  for await (const some of client.scanIterator({ MATCH: "n*" })) keys.push(...[some].flat());
  assert.deepEqual(keys, ["n"]);
  await client.del("n");
  await client.close();
  console.log(`node-redis works, RESP${RESP}`);
}

async function ioredis(Redis, name, protocol) {
  const options = ca ? { host: "localhost", tls: { ca }, password: key } : { host: "127.0.0.1" };
  const client = new Redis({ ...options, ...protocol, port: Number(port), maxRetriesPerRequest: 1 });
  const yes = (answer) => Boolean(answer);
  await client.del("o");
  assert.ok(yes(await client.call("CF.ADD", "o", "a")));
  assert.ok(!yes(await client.call("CF.ADDNX", "o", "a")));
  assert.deepEqual((await client.call("CF.MEXISTS", "o", "a", "zz")).map(yes), [true, false]);
  const pipeline = client.pipeline();
  for (let number = 0; number < 500; number++) pipeline.call("CF.ADD", "o", `i${number}`);
  assert.ok((await pipeline.exec()).every(([error, added]) => error === null && yes(added)));
  const [[, added], [, found]] = await client.multi().call("CF.ADD", "o", "x").call("CF.EXISTS", "o", "x").exec();
  assert.ok(yes(added) && yes(found));
  assert.equal(await client.exists("o"), 1);
  await assert.rejects(client.call("CF.INFO", "none"), /not found/);
  await client.del("o");
  await client.quit();
  console.log(`${name} works`);
}

await nodeRedis(2);
await nodeRedis(3);
await ioredis(Ioredis6, "ioredis 6, RESP2", { protocol: 2 });
await ioredis(Ioredis6, "ioredis 6, RESP3", { protocol: 3 });
await ioredis(Ioredis5, "ioredis 5");
