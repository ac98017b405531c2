//! What goes on in the background, each on a thread of its own.
//!
//! | file | owns |
//! |---|---|
//! | `compaction` | emptying the newest sub-filters of filters that shrank |
//! | `expiry` | removing what has ended |
//! | `scrub` | reading all that is stored, and comparing it |
//! | `staged` | giving up filters that were not taken in to their end, in a cluster |
//! | `survey` | the metrics about filters |
//! | `sweep` | clearing what has expired on pages that nobody writes to |

pub(super) mod compaction;
pub(super) mod expiry;
pub(super) mod scrub;
pub(super) mod staged;
pub(super) mod survey;
pub(super) mod sweep;
