export { Client } from "./client.js";
export * from "./errors.js";
export { Filter } from "./filter.js";
