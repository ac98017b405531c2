//! Backups: a directory of archives, each a whole data directory as of one
//! moment in a file of its own.
//!
//! A backup begins with a frozen copy of the store, which takes no time. The
//! copy is written into an [archive], file by file with their SHA-256, beside
//! everything else that the server does. The archive is read again from its
//! start to its end before it counts, and what the copy contains is compared
//! with its descriptions: bytes that are stored wrong are no backup. Then older
//! ones are dropped, so that never fewer than asked for are whole. [restore] makes
//! a data directory of an archive.
//!
//! | file | what it owns |
//! |---|---|
//! | `backups.rs` | [`Backups`]: what is under way, and how far |
//! | `catalog.rs` | the directory of archives |
//! | `archive.rs` | the bytes of an archive |
//! | `restore.rs` | a data directory from an archive |
//! | `snapshots.rs` | [`Snapshots`]: archives that go straight to another server |
//! | `id.rs` | the names of backups |
//! | `error.rs` | what can go wrong |
//!
//! The clock is read outside; the names of archives are times.

pub mod archive;
mod backups;
mod catalog;
mod error;
mod id;
pub mod restore;
mod snapshots;

use cuckood_pages::store;
use {cuckood_codes as codes, cuckood_metrics as metrics};

pub use backups::{BackupInfo, BackupOptions, BackupState, Backups, ContentCheck, RESERVED_BYTES};
pub use error::BackupError;
pub use id::BackupId;
pub use snapshots::{Snapshot, Snapshots};
