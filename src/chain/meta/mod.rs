//! The persistent description of a filter: all that is known of it beside its
//! pages.
//!
//! | file | what it owns |
//! |---|---|
//! | `chain.rs` | [`Chain`]: parameters, and the pages of either layout |
//! | `full_reason.rs` | [`FullReason`]: what ends the growth |
//! | `links.rs` | the sub-filters of `classic`, and how they become more |
//! | `sub_filter.rs` | [`SubFilter`]: pages that are numbered together |
//! | `estimates.rs` | loads, false-positive rates, room that is left |
//! | `compaction.rs` | which sub-filters take adds while others are emptied |
//! | `encoding.rs` | the stored bytes and their versions |
//! | `transfer.rs` | chains for another server, and from another program |

mod chain;
mod compaction;
mod encoding;
mod estimates;
mod full_reason;
mod links;
mod sub_filter;
mod transfer;

pub use chain::Chain;
pub(in crate::chain) use chain::MAX_ITEMS;
pub use encoding::{META_VERSION, MetaError};
pub use full_reason::FullReason;
pub(in crate::chain) use sub_filter::Link;
pub use sub_filter::SubFilter;
pub use transfer::ForeignChain;

#[cfg(test)]
mod tests;
