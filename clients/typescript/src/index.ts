/** Client of cuckood: named cuckoo filters over HTTP. Begin with `Client`. */
export type { BatchLimits, Entry, Item, Many, Replacement, Row } from "./batches.js";
export { Client, type ClientOptions } from "./client.js";
export type { Fetch } from "./connections.js";
export * from "./errors.js";
export { type FileDescription, FilterFile, type FileOptions } from "./file.js";
export {
  type AddOptions, type AddResult, type Added, type DumpOptions, type ExistsOptions, Filter, type ImportOptions, type ReplaceResult,
  type WhereOptions,
} from "./filter.js";
export type {
  BackupBody, BackupListBody, ClusterBody, CompactionBegunBody, CompactionBody, FilterBody, FilterFields,
  FilterLineBody, FoundBody, ImportBody, LocatedBody, PreviewBody, ProblemField, StageBody, SubFilterBody,
} from "./models/types.gen.js";
export { keptAt } from "./kept.js";
export {
  type Changed, FileAt, type FileAtOptions, type FileSource, type FileStore, SyncedFilter, type SyncedConfirmOptions,
  type SyncedExistsOptions, type SyncedOptions,
} from "./synced.js";
export type { ImportItem, ImportSource } from "./sources.js";
export type { Bytes, CallOptions, ChangeOptions, Retry } from "./transport.js";
