// Damaged and hostile files are refused, or answer as they do in Python.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FilterFile, FilterFileError } from "cuckood";

type Answers = [exists: boolean | null, count: number | null, values: number[] | null];

const { items, cases } = JSON.parse(readFileSync(process.env["DAMAGED"]!, "utf8")) as {
  items: string[];
  cases: { path: string; answers: Answers[] | null }[];
};

/** What a file says, or null if it refuses to. */
function said<T>(ask: () => T): T | null {
  try {
    return ask();
  } catch (error) {
    if (!(error instanceof FilterFileError)) throw error;
    assert.notEqual(error.message, "");
    return null;
  }
}

test("damaged and hostile files", () => {
  let opened = 0;
  for (const { path, answers } of cases) {
    const file = said(() => new FilterFile(readFileSync(path)));
    assert.equal(file === null, answers === null, path);
    if (file === null || answers === null) continue;
    opened += 1;
    const nowMs = 1e12;
    const asked = items.map((digits) => Buffer.from(digits, "hex")).map((item) =>
      [() => file.exists(item, { nowMs }), () => file.count(item, { nowMs }), () => file.values(item)].map((ask) => said<unknown>(ask)),
    );
    assert.deepEqual(asked, answers, path);
  }
  console.log(`${opened} of ${cases.length} opened`);
  assert.ok(opened > 50);
});

test("cut off anywhere a file is refused, and by its bytes nothing else is read", async () => {
  const whole = readFileSync(cases[0]!.path.replace(/-\d+\.damaged$/, ".whole"));
  for (let end = 0; end < whole.length; end += 97) {
    // The bytes behind it are there, as those of another file may be.
    assert.throws(() => new FilterFile(whole.subarray(0, end)), FilterFileError);
  }
  await new FilterFile(whole).verify();
});
