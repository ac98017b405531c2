// What of openapi/openapi.json becomes types: the bodies. The calls are written
// by hand, so the types of each route would be read by nobody.
export default {
  plugins: ["@hey-api/typescript"],
  parser: { filters: { operations: { exclude: ["/.*/"] }, orphans: true } },
};
