/** Client of cuckood: named cuckoo filters over HTTP. Begin with `Client`. */
export type { BatchLimits, Entry, Item, Replacement, Row } from "./batches.js";
export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export { type AddOptions, type ChangeOptions, type ExistsOptions, Filter, type ImportOptions } from "./filter.js";
export type {
  AddedBody, BackupBody, BackupListBody, ClusterBody, CompactionBegunBody, CompactionBody, FilterBody, FilterFields,
  FilterLineBody, FoundBody, ImportBody, LocatedBody, PreviewBody, ProblemField, StageBody, SubFilterBody,
  ValueListsBody,
} from "./models/types.gen.js";
export type { Bytes } from "./transport.js";
