//! The persistent description of a chain: all that is known of a filter
//! beside its pages.
//!
//! | file | what it owns |
//! |---|---|
//! | `chain.rs` | [`Chain`]: parameters, sub-filters, growth |
//! | `sub_filter.rs` | [`SubFilter`]: one link, and how many of its slots may be used |
//! | `estimates.rs` | loads, false-positive rates, room that is left |
//! | `compaction.rs` | which sub-filters take adds while others are emptied |
//! | `encoding.rs` | the stored bytes and their versions |
//! | `transfer.rs` | chains for another server, and from another program |

mod chain;
mod compaction;
mod encoding;
mod estimates;
mod sub_filter;
mod transfer;

pub(in crate::chain) use chain::MAX_ITEMS;
pub use chain::{Chain, FullReason};
pub use encoding::{META_VERSION, MetaError};
pub use sub_filter::SubFilter;
pub use transfer::ForeignChain;

#[cfg(test)]
mod tests;
