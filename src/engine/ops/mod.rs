//! What callers may ask of the engine.
//!
//! | file | owns |
//! |---|---|
//! | `changes` | create, add, delete, remove, set the time to live |
//! | `imports` | streams of items of any length |
//! | `lookup` | one question to many filters |
//! | `locate` | in which slots an item lies |

pub(crate) mod changes;
pub(crate) mod imports;
pub(crate) mod locate;
pub(crate) mod lookup;
