//! Changes, planned over an overlay of the pages.
//!
//! A [`Planner`] works through the items of one command. It reads words of
//! pages, and what it would change it keeps in an [`Overlay`]; the pages
//! themselves stay as they are until the caller has made the plan durable. So
//! a plan that can't be finished, or a commit that failed, is simply dropped.
//!
//! The rules, newest sub-filter first: a class that fills its share of slots
//! in the newest sub-filter is counted beside the page; else an add takes a
//! free slot in one of the two candidate buckets of any sub-filter; if there
//! is none, a path of kick-outs in the newest; if there is none, a new
//! sub-filter. A delete takes a counted copy, and a slot only where there is
//! none.
//!
//! While a chain is compacted ([`compact`]), "newest" is the newest sub-filter
//! that takes adds; those after it take them again before the chain grows.
//!
//! | file | what it owns |
//! |---|---|
//! | `planner.rs` | [`Planner`]: the rules of adds and deletes |
//! | `slots.rs` | slots probed, read and written through a draft |
//! | `links.rs` | the buckets of a sub-filter, for kick-outs |
//! | `compact.rs` | entries of newer sub-filters moved into older ones |
//! | `overlay.rs` | [`Overlay`]: what differs from the pages |
//! | `union.rs` | another filter, taken in page by page |
//! | `numbers.rs` | numbers of pages, by address |
//! | `words.rs` | the words of pages that change |
//! | `in_order.rs` | [`ChangesInOrder`]: what differs, put in order a part at a time |
//! | `overlaid.rs` | [`OverlaidPages`]: pages seen through overlays |
//! | `changes.rs` | [`PageChanges`]: what differs, in order |

mod changes;
pub mod compact;
mod in_order;
mod links;
mod numbers;
mod overlaid;
mod overlay;
mod planner;
mod slots;
mod union;
mod words;

pub use super::futile::FutileSearches;
pub use super::outcome::{AddMode, AddResult, PlanStats, ReplaceResult, Swept};
pub use changes::{ChangedCounter, ChangedPage, ChangedWord, PageChanges};
pub use in_order::ChangesInOrder;
pub use overlaid::OverlaidPages;
pub use overlay::{Overlay, SpareOverlays};
pub use planner::{PartialPlan, Plan, PlanInput, Planner};

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
