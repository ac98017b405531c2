//! One filter: a chain of sub-filters and the rules of adding, asking,
//! counting, deleting and growing, over pages it is handed.
//!
//! No I/O, no clock, no randomness, no order of a hash map: the same commands
//! in the same order give the same bytes. Where a word of a page is not at
//! hand, the answer is "not known", never a guess.
//!
//! | file | what it owns |
//! |---|---|
//! | [`params`] | what a filter was asked to be, checked |
//! | [`meta`] | the persistent description of a chain: sub-filters, growth, stored bytes |
//! | [`address`] | how pages, words and slots are named |
//! | [`pages`] | the traits by which pages are read and written |
//! | [`counters`] | side counters: the copies of hot items, beside the page |
//! | [`read`] | exists and count |
//! | [`plan`] | adds, deletes and compaction, planned over an overlay of the pages |
//! | [`locate`] | in which slots an item lies |
//! | [`forecast`] | size and false-positive rate of a filter before it is made |
//! | [`resident`] | all of it at work, on pages that are plain memory |
//!
//! # What an add does
//!
//! 1. [`Planner::add`](plan::Planner::add) gets the item's hash. With
//!    [`AddMode::OnlyIfAbsent`](plan::AddMode::OnlyIfAbsent) it first asks
//!    [`read::exists`].
//! 2. In the newest sub-filter [`Layout::candidates`] gives the fingerprint and
//!    the two candidate buckets, and both are probed: how many slots match, how
//!    many are empty, which is the first of each.
//! 3. A class that fills its share of slots there ([`Layout::class_limit`]) is
//!    counted in a [side counter](counters), and the add is done.
//! 4. Else the fingerprint goes into an empty slot of the emptier bucket. If
//!    there is none, the older sub-filters are tried in the same way.
//! 5. If no candidate has an empty slot, [`KickSearch`] looks for a shortest
//!    path of kick-outs in the newest sub-filter, and the fingerprints on it
//!    move, from the empty end backwards.
//! 6. If there is no path, the chain grows by a sub-filter, all of whose slots
//!    are empty, or the item is refused with a [`FullReason`](meta::FullReason).
//!
//! Every write goes into the [`Overlay`](plan::Overlay) of the plan.
//! [`Planner::finish`](plan::Planner::finish) hands it over with the new
//! [`Chain`](meta::Chain) and [what the algorithm did](plan::PlanStats); the
//! caller makes it durable and publishes it.
//!
//! [`Layout::candidates`]: crate::cuckoo::layout::Layout::candidates
//! [`Layout::class_limit`]: crate::cuckoo::layout::Layout::class_limit
//! [`KickSearch`]: crate::cuckoo::kick::KickSearch
//!
//! # What a question does
//!
//! [`read::exists_group`] takes up to 32 items. For each sub-filter, newest
//! first, it computes all candidate buckets and asks for their memory, then
//! looks into the buckets of every item that is not found yet: two pages at
//! most for each item and sub-filter, mostly one.

pub mod address;
pub mod counters;
pub mod forecast;
pub mod locate;
pub mod meta;
pub mod paged;
pub mod pages;
pub mod params;
pub mod plan;
pub mod read;
pub mod resident;
