import { randomUUID } from "node:crypto";
import { type FileHandle, open, rename, rm, utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
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
      const there = await opened(file);
      if (there === undefined) return undefined;
      try {
        // Of the name it may be that of another file, which took this one's place.
        const { size, mtimeMs } = await there.stat();
        return { bytes: await read(there, 0, size), checkedMs: mtimeMs };
      } finally {
        await there.close();
      }
    },
    save: async (bytes, checkedMs) => {
      const part = join(dirname(file), `.${basename(file)}.${randomUUID()}.part`);
      try {
        const out = await open(part, "wx", 0o600);
        try {
          await out.writeFile(bytes);
          await out.sync();
        } finally {
          await out.close();
        }
        await utimes(part, checkedMs / 1000, checkedMs / 1000);
        await rename(part, file);
      } catch (error) {
        await rm(part, { force: true });
        throw error;
      }
    },
    touch: async (checkedMs, bytes) => {
      // Windows sets no time of what is open for reading alone.
      const there = await opened(file, process.platform === "win32" ? "r+" : "r");
      if (there === undefined) return false;
      try {
        const { size } = await there.stat();
        if (size !== bytes.length) return false;
        // What tells files from each other: the fields of the header, and the digest.
        for (const [begin, end] of [[0, Math.min(HEADER, size)], [Math.max(0, size - END), size]] as const) {
          if (Buffer.compare(await read(there, begin, end), bytes.subarray(begin, end)) !== 0) return false;
        }
        // By its handle it is that file, whatever has the name by now.
        await there.utimes(checkedMs / 1000, checkedMs / 1000);
        return true;
      } finally {
        await there.close();
      }
    },
  };
}

const HEADER = 256, END = 48;
// Node reads no more than 2 GiB at once.
const PIECE = 16 << 20;

async function opened(file: string, flags = "r"): Promise<FileHandle | undefined> {
  try {
    return await open(file, flags);
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
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
