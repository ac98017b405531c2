import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm, stat, utimes } from "node:fs/promises";
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
  const touch = (at: string, ms: number): Promise<void> => utimes(at, ms / 1000, ms / 1000);
  return {
    load: async () => {
      try {
        return { bytes: await readFile(file), checkedMs: (await stat(file)).mtimeMs };
      } catch (error) {
        if ((error as { code?: string }).code === "ENOENT") return undefined;
        throw error;
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
        await touch(part, checkedMs);
        await rename(part, file);
      } catch (error) {
        await rm(part, { force: true });
        throw error;
      }
    },
    touch: async (checkedMs) => {
      try {
        await touch(file, checkedMs);
        return true;
      } catch (error) {
        if ((error as { code?: string }).code === "ENOENT") return false;
        throw error;
      }
    },
  };
}
