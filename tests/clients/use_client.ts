// What somebody does with the generated TypeScript client; the server's address
// is the first argument.

import assert from "node:assert/strict";
import { client } from "./client/client.gen.js";
import {
  addItems, checkItems, countItems, deleteFilter, deleteItems, dumpFilter, getFilter, getItemCount,
  getItemExists, listFilters, lookUpItems, patchFilter, putFilter, restoreFilter,
} from "./client/sdk.gen.js";

client.setConfig({ baseUrl: process.argv[2] as string });
const path = { key: "coupons" };

const made = await putFilter({ path, body: { capacity: 1000, error_rate: 0.001 } });
assert.equal(made.data?.capacity, 1000);
const add = () =>
  addItems({ path, body: { items: ["SPRING-24", 17] }, headers: { "Idempotency-Key": "first" } });
assert.deepEqual((await add()).data?.results, ["added", "added"]);
assert.equal((await add()).response?.headers.get("Idempotency-Replayed"), "true");
const found = await checkItems({ path, body: { items: ["SPRING-24", "other"] } });
assert.deepEqual(found.data?.results, [true, false]);
assert.deepEqual((await countItems({ path, body: { items: [17] } })).data?.results, [1]);
assert.equal((await getItemExists({ path, query: { item: "SPRING-24" } })).data?.exists, true);
assert.equal((await getItemCount({ path, query: { item: "17" } })).data?.count, 1);
const lookup = await lookUpItems({ body: { items: ["17"], prefix: "cou" } });
assert.deepEqual(lookup.data?.results, [["coupons"]]);
assert.deepEqual((await deleteItems({ path, body: { items: [17] } })).data?.results, [true]);
assert.equal((await patchFilter({ path, body: { ttl_seconds: 3600 } })).data?.ttl_seconds, 3600);

const dump = (await dumpFilter({ path })).data;
assert(dump instanceof Blob);
const copy = await restoreFilter({ path: { key: "copy" }, body: dump });
assert.equal(copy.data?.items, 1, JSON.stringify(copy.error));
const listed = await listFilters({ query: { limit: 1 } });
assert.equal(listed.data?.filters[0]?.key, "copy");
assert.equal(listed.data?.next_cursor, "copy");

const missing = await getFilter({ path: { key: "nothing" } });
assert.equal(missing.error?.code, "filter_not_found");
const refused = await putFilter({ path: { key: "f" }, body: { capacity: 1e18 } });
assert.equal(refused.error?.errors?.[0]?.pointer, "/capacity");
assert.equal((await deleteFilter({ path: { key: "copy" } })).response?.status, 204);
