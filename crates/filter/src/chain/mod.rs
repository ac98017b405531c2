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
//! | [`contents`] | what lies in pages, as descriptions tell it and as it is found |
//! | `full_reason`, `futile`, `outcome` | why a filter may not grow; searches in vain; what becomes of items, and what that costs |
//! | [`read`] | exists and count |
//! | [`resident`] | pages in plain memory, changed as they are |
//! | [`rows`] | the rows of items: from labels to a value and back, and conditions on them |
//! | [`plan`] | adds, deletes and compaction, planned over an overlay of the pages |
//! | [`paged`] | the rules of the layout that splits pages |
//! | [`locate`] | in which slots an item lies |
//! | [`union`] | two filters become one |
//! | [`forecast`] | size and false-positive rate of a filter before it is made |
//!
//! # What an add does
//!
//! 1. [`Planner::add`](plan::Planner::add) gets the item's hash. With
//!    [`AddMode::OnlyIfAbsent`](plan::AddMode::OnlyIfAbsent) it first asks
//!    [`read::exists`].
//! 2. The layout gives what a slot is to hold and the two candidate buckets, and
//!    both are probed: which slots match, and which are empty.
//! 3. A class that has its slots there already, one in `paged` and one or more in
//!    `classic`, is counted in a [side counter](counters), and the add is done.
//! 4. Else the item gets an empty slot of the emptier bucket. In `paged` the pages
//!    that are due are split first; in `classic` the older sub-filters are tried,
//!    too.
//! 5. If no candidate has an empty slot, [`KickSearch`] looks for a shortest path of
//!    kick-outs, and what is on it moves, from the empty end backwards.
//! 6. If there is no path, `paged` splits pages, up to 16, until there is a slot;
//!    `classic` grows by a sub-filter, all of whose slots are empty. One that can't
//!    grow refuses the item with a [`FullReason`](meta::FullReason).
//!
//! Every write goes into the [`Overlay`](plan::Overlay) of the plan.
//! [`Planner::finish`](plan::Planner::finish) hands it over with the new
//! [`Chain`](meta::Chain) and [what the algorithm did](plan::PlanStats); the
//! caller makes it durable and publishes it.
//!
//! [`KickSearch`]: crate::cuckoo::kick::KickSearch
//!
//! # What a question does
//!
//! [`read::exists_group`] takes up to 32 items. For each sub-filter, newest
//! first, it computes all candidate buckets and asks for their memory, then
//! looks into the buckets of every item that is not found yet: two pages at
//! most for each item and sub-filter, mostly one.

pub mod address;
pub mod contents;
pub mod counters;
pub mod forecast;
mod full_reason;
mod futile;
pub mod locate;
pub mod meta;
mod outcome;
pub mod paged;
pub mod pages;
pub mod params;
pub mod plan;
pub mod read;
pub mod resident;
pub mod rows;
pub mod union;
