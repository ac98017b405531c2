// Adds each line of the standard input once to the filter `counted` of the server
// in CUCKOOD_SERVER, eight at a time, and prints a line after each add.

import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { Client } from "cuckood";

const counted = new Client({ patienceSeconds: 120 }).filter("counted");
const items = (await text(process.stdin)).split("\n").values();

async function work(): Promise<void> {
  for (const item of items) {
    assert.equal(await counted.add(item), "added");
    console.log("added");
  }
}
await Promise.all(Array.from({ length: 8 }, work));
