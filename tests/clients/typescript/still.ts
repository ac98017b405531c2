// Imports from sources that never end by themselves, while nothing else happens in the
// process, and prints what each is told. The last question shows that the process goes on.

import * as readline from "node:readline";
import * as readlinePromises from "node:readline/promises";
import { PassThrough } from "node:stream";
import { Client } from "cuckood";

const still = new Client().filter("still");

/** An input that closes before its end, which readline tells nobody. */
function closing(): PassThrough {
  const input = new PassThrough();
  input.write("a\nb\n");
  setTimeout(() => input.destroy(), 20);
  return input;
}

for (const source of [
  readline.createInterface({ input: closing() })[Symbol.asyncIterator](),
  readlinePromises.createInterface({ input: closing() })[Symbol.asyncIterator](),
  { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) },
  new ReadableStream<string>(),
]) {
  await still.importItems(source).catch((error: Error) => console.log(`still: ${error.name}: ${error.message.split(",")[0]}`));
}
console.log(`it is there: ${await still.isThere()}`);
