//! The lanes: the single writers of their filters.
//!
//! | file | owns |
//! |---|---|
//! | `command` | what a lane can be asked to do, and what comes of it |
//! | `submit` | putting commands into lanes, with the pages that they need, and waiting |
//! | `request` | a command, with what its caller holds for it |
//! | `shares` | what may be in the queues, in all and of each API key |
//! | `progress` | whether a command is withdrawn or committed |
//! | `queue` | what waits for a lane, fair to API keys and filters |
//! | `fair` | whose turn it is |
//! | `units` | what is done in one go, in units of cost |
//! | `run` | a lane's thread |
//! | `group_commit` | planning what waits, and committing it at once |
//! | `sliced` | a plan that takes more than one slice, as far as it came |
//! | `slices` | what is done with it in each of its turns, between other commits |
//! | `memory` | memory that plans take one after another |
//! | `allowance` | how many pages lanes may hold while they plan |
//! | `items` | work on a command's items, as far as it came |
//! | `lifecycle` | commands that have a commit of their own |
//! | `words` | the words that a lane plans over |
//! | `changes` | what a commit changes in filters, and its redo record |
//! | `ordering` | what orders the commits of lanes that several engines share |
//! | `record` | what a commit says by itself, read before it is sent and before it is applied |
//! | `follow` | applying what is settled and was not planned here |
//! | `frames` | the frames of the pages that a commit changes |
//! | `commit` | what a lane works with; one write to the store, then publication and answers |
//!
//! # Three ways to one commit
//! All end in `Lane::commit`, and what changes in pages is encoded by `Encoding` alone.
//! A group commit plans commands of many filters on top of each other, and
//! leaves out one whose pages are missing; its pins end with it. A sliced plan is of one
//! command, and keeps pins and overlay from turn to turn, so that only its own filter
//! waits. A group commit whose first command is too long becomes one, with what is
//! planned. What is done alone (`lifecycle`) plans no items: there is nothing to
//! suspend, and names, ends and numbers are looked at when it is committed.

pub(super) mod allowance;
mod changes;
pub(super) mod command;
pub(super) mod commit;
mod fair;
mod follow;
mod frames;
mod group_commit;
mod items;
mod lifecycle;
mod memory;
pub(super) mod ordering;
mod progress;
pub(super) mod queue;
mod record;
mod request;
mod run;
pub(super) mod shares;
mod sliced;
mod slices;
pub(super) mod submit;
pub(super) mod units;
mod words;
