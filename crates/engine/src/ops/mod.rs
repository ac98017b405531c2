//! What callers may ask of the engine, each file a few methods of it.
//!
//! | file | owns |
//! |---|---|
//! | `items` | add and delete items |
//! | `ask` | whether, and how often, items are there |
//! | `values` | values of items: add, delete, ask for them |
//! | `lookup` | one question to many filters |
//! | `lanes` | where lanes stand that others have, too |
//! | `locate` | in which slots an item lies |
//! | `create` | make a filter, or say what it would be |
//! | `filters` | describe, list and remove filters, set their time to live |
//! | `names` | count names of filters, and list them |
//! | `compaction` | compact a filter, and say how far that is |
//! | `merge` | make a filter the union of itself and others |
//! | `imports` | streams of items of any length |
//! | `slots` | hand out the slots of a filter, part by part |
//! | `dumps` | dump a filter, take one in, and give it its name |

mod ask;
mod compaction;
mod create;
pub(super) mod dumps;
mod filters;
pub(super) mod imports;
mod items;
mod lanes;
mod locate;
mod lookup;
mod merge;
pub(super) mod names;
pub(super) mod slots;
pub(super) mod values;
