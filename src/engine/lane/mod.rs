//! The lanes: the single writers of their filters.
//!
//! | file | owns |
//! |---|---|
//! | `command` | what a lane can be asked to do, and what comes of it |
//! | `submit` | putting commands into lanes, with the pages that they need and what their callers hold, and waiting |
//! | `shares` | what each API key may have in the queues |
//! | `progress` | whether a command is withdrawn or committed |
//! | `run` | a lane's thread |
//! | `drain` | planning what waits, and committing it at once |
//! | `lifecycle` | commands that have a commit of their own |
//! | `words` | the words that a lane plans over |
//! | `changes` | what a commit changes in filters, and its redo record |
//! | `commit` | what a lane works with; one write to the store, then publication and answers |

mod changes;
pub(super) mod command;
pub(super) mod commit;
mod drain;
mod lifecycle;
mod progress;
mod run;
pub(super) mod shares;
pub(super) mod submit;
mod words;
