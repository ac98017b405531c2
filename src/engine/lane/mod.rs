//! The lanes: the single writers of their filters.
//!
//! | file | owns |
//! |---|---|
//! | `command` | what a lane can be asked to do, and what comes of it |
//! | `run` | planning what waits, and answering |
//! | `commit` | one write to the store, then publication |

pub(crate) mod command;
pub(crate) mod commit;
pub(crate) mod run;
