//! The lanes: the single writers of their filters.
//!
//! | file | owns |
//! |---|---|
//! | `command` | what a lane can be asked to do, and what comes of it |
//! | `request` | a command on its way, with what its caller holds meanwhile |
//! | `submit` | putting commands into lanes, with the pages that they need, and waiting |
//! | `run` | a lane's thread |
//! | `drain` | planning what waits, for one commit |
//! | `lifecycle` | commands that have a commit of their own |
//! | `context` | what a lane works with; commit, then answer |
//! | `apply` | a planned command, worked through by a planner |
//! | `words` | the words that a lane plans over |
//! | `changes` | what a commit changes in filters, and its redo record |
//! | `commit` | one write to the store, then publication |

mod apply;
mod changes;
pub(super) mod command;
pub(super) mod commit;
pub(super) mod context;
mod drain;
mod lifecycle;
pub(super) mod request;
mod run;
pub(super) mod submit;
mod words;
