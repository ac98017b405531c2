// Asks COUNT questions at once, and prints how many were answered. If the process
// ends before, its exit code is not 0. All have one signal.

import { Client } from "cuckood";

const asked = new Client().filter("asked");
// Each alone: this is about connections.
const { signal } = new AbortController();
const count = Number(process.env["COUNT"]);
const questions = Array.from({ length: count }, (_, number) => asked.existsMany([number], { signal }));
await asked.exists(0, { signal });
console.log((await Promise.all(questions)).length);
