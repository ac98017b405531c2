//! The persistent description of a filter: all that is known of it beside its
//! pages.
//!
//! | file | what it owns |
//! |---|---|
//! | `chain.rs` | [`Chain`]: parameters, and the pages of either layout |
//! | `links.rs` | the sub-filters of `classic`, and how they become more |
//! | `table/` | [`Table`]: the pages of `paged`, when to split and when to merge |
//! | `sub_filter.rs` | [`SubFilter`]: pages that are numbered together |
//! | `estimates.rs` | loads, false-positive rates, room that is left |
//! | `compaction.rs` | which sub-filters take adds while others are emptied |
//! | `encoding.rs` | the stored bytes and their versions |
//! | `readable.rs` | chains that can be asked and nothing else |
//! | `transfer.rs` | chains for another server, and from another program |
//! | `version.rs` | [`FilterVersion`]: which state of which filter it is |

mod chain;
mod compaction;
mod encoding;
mod estimates;
mod links;
mod readable;
mod sub_filter;
mod table;
mod transfer;
mod version;

pub use super::full_reason::FullReason;
pub use chain::Chain;
pub use encoding::{META_VERSION, MetaError};
pub(in crate::chain) use sub_filter::Link;
pub use sub_filter::SubFilter;
pub use table::{Epochs, Known, Table};
pub(in crate::chain) use table::{MAX_ITEMS, is_sparse};
pub use transfer::ForeignChain;
pub use version::{FilterVersion, Lineage};

#[cfg(test)]
mod tests;
