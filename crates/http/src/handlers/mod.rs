//! The handlers, by resource. Each takes a request apart, asks the engine and
//! puts the answer together; the shapes of its bodies stand beside it.
//!
//! | file | routes |
//! |---|---|
//! | `filters` | `/filters`, `/filters/{key}` |
//! | `filter_body` | what answers say about a filter |
//! | `preview` | `/preview` |
//! | `items` | `/filters/{key}/items`, `…/items/delete`, `…/exists`, `…/count` |
//! | `values` | `/filters/{key}/values`, `…/values/delete`, `…/values/query` |
//! | `history` | `/filters/{key}/history` |
//! | `locate` | `/filters/{key}/locate` |
//! | `lookup` | `/lookup` |
//! | `imports` | `/filters/{key}/import`, `…/imports`, `…/imports/{id}` |
//! | `dumps` | `/filters/{key}/dump` |
//! | `merge` | `/filters/{key}/merge` |
//! | `compaction` | `/filters/{key}/compact`, `…/compaction` |
//! | `backups` | `/admin/backups` and what is under it |
//! | `clock` | `/admin/clock`, `/admin/clock/confirm` |
//! | `caller` | `/caller` |
//! | `operations` | `/livez`, `/readyz`, `/cluster`, `/metrics`, and what no route answers |

mod attributes_body;
pub(super) mod backups;
pub(super) mod caller;
pub(super) mod clock;
pub(super) mod compaction;
pub(super) mod dumps;
pub(super) mod filter_body;
pub(super) mod filters;
pub(super) mod history;
pub(super) mod imports;
pub(super) mod items;
pub(super) mod locate;
pub(super) mod lookup;
pub(super) mod merge;
pub(super) mod operations;
pub(super) mod preview;
pub(super) mod values;
