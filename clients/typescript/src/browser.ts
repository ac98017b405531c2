/** What runs in browsers, too: files of filters, which answer without a server. */
export type { Item, Many } from "./batches.js";
export { CuckoodError, FilterFileError, NoAnswerError, ProblemError } from "./errors.js";
export { type FileDescription, FilterFile, type FileOptions } from "./file.js";
export {
  type Changed, FileAt, type FileAtOptions, type FileSource, type FileStore, SyncedFilter, type SyncedConfirmOptions,
  type SyncedExistsOptions, type SyncedOptions,
} from "./synced.js";
