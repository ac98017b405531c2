import { randomUUID } from "node:crypto";
import { type FileHandle, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkKind, hasKey } from "./file.js";
import type { FileStore } from "./synced.js";

/**
 * Keeps a file of a filter at a path. A new one gets the name when it is whole, by renaming.
 * The time of the file is when the server last said that it is current, so other processes
 * may read it, too.
 */
export function keptAt(path: string | URL): FileStore {
  const file = path instanceof URL ? fileURLToPath(path) : path;
  return {
    load: async () => {
      await removeLeft(file);
      return inFile(file, "r", async (there) => {
        // Of the name it may be that of another file, which took this one's place.
        const { size, mtimeMs } = await there.stat();
        return { bytes: await read(there, 0, size), checkedMs: mtimeMs };
      });
    },
    save: async (bytes, checkedMs) => {
      await inFile(file, "r", async (there) => checkKind(await read(there, 0, HEADER), hasKey(bytes) === false, file));
      const part = join(dirname(file), `.${basename(file)}.${randomUUID()}.part`);
      try {
        await inFile(part, "wx", async (out) => {
          await out.writeFile(bytes);
          await out.sync();
        });
        // It fails if the directory is missing.
        await utimes(part, checkedMs / 1000, checkedMs / 1000);
        await rename(part, file);
      } catch (error) {
        await rm(part, { force: true });
        throw error;
      }
    },
    touch: async (checkedMs, bytes) => {
      // Windows sets no time of what is open for reading alone.
      const isKept = await inFile(file, process.platform === "win32" ? "r+" : "r", async (there) => {
        const { size } = await there.stat();
        if (size !== bytes.length) return false;
        // What tells files from each other: the fields of the header, and the digest.
        for (const [begin, end] of [[0, Math.min(HEADER, size)], [Math.max(0, size - END), size]] as const) {
          if (Buffer.compare(await read(there, begin, end), bytes.subarray(begin, end)) !== 0) return false;
        }
        // By its handle it is that file, whatever has the name by now.
        await there.utimes(checkedMs / 1000, checkedMs / 1000);
        return true;
      });
      return isKept ?? false;
    },
  };
}

const HEADER = 256, END = 48;
// What a process that was ended has left of a file is removed when it is so old.
const LEFT_MS = 3600 * 1000;
// Node reads no more than 2 GiB at once.
const PIECE = 16 << 20;

async function removeLeft(file: string): Promise<void> {
  const directory = dirname(file), begin = `.${basename(file)}.`;
  for (const name of await readdir(directory).catch(() => [])) {
    if (!name.startsWith(begin) || !name.endsWith(".part")) continue;
    const part = join(directory, name), ageMs = await stat(part).then((it) => Date.now() - it.mtimeMs, () => 0);
    // What somebody else removes first, or who may not, is in nobody's way.
    if (ageMs > LEFT_MS) await rm(part).catch(() => {});
  }
}

/** What the work gives that is done with a file; undefined: there is none. */
async function inFile<T>(file: string, flags: string, work: (there: FileHandle) => Promise<T>): Promise<T | undefined> {
  let there: FileHandle;
  try {
    there = await open(file, flags, 0o600);
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return await work(there);
  } finally {
    await there.close();
  }
}

/** What is there from one byte to another. */
async function read(file: FileHandle, begin: number, end: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(end - begin);
  let size = 0;
  while (size < bytes.length) {
    const { bytesRead } = await file.read(bytes, size, Math.min(PIECE, bytes.length - size), begin + size);
    if (bytesRead === 0) break;
    size += bytesRead;
  }
  return bytes.subarray(0, size);
}
