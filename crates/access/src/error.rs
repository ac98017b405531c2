//! What can be wrong with keys and their file.

use super::grant::KeyName;
use std::path::PathBuf;

/// What can be wrong with keys and their file.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file can't be read.
    #[error("the keys file {path} can't be read: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The file can't be written.
    #[error("the keys file {path} can't be written: {source}")]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// What is in the file is not what should be.
    #[error("the keys file {path} is invalid: {reason}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "the keys file {path} has version {found}, this program knows 1: a newer cuckood wrote it"
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// There is a key of that name.
    #[error("a key named {name} exists in {path}: choose another name, or remove that key first")]
    NameTaken {
        /// The name.
        name: KeyName,
        /// Where.
        path: PathBuf,
    },
    /// It could never be used.
    #[error("the key would have expired already: choose a time to come")]
    ExpiredAlready,
    /// There is no key of that name.
    #[error("there is no key named {name} in {path}; cuckood keys list lists all keys")]
    NameUnknown {
        /// The name.
        name: KeyName,
        /// Where.
        path: PathBuf,
    },
    /// There are as many keys as there may be.
    #[error("there are {most} keys in {path}, the largest number allowed: remove some")]
    TooMany {
        /// Where.
        path: PathBuf,
        /// As many as there may be.
        most: usize,
    },
    /// The file with the key of a cluster can't be read.
    #[error("--cluster-key-file {path} can't be read: {source}")]
    ClusterKeyUnreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// It is no such file.
    #[error("--cluster-key-file {path} is invalid: {reason}")]
    ClusterKeyMalformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system gives no random bits.
    #[error("the operating system provides no random bits: {0}")]
    NoRandomness(getrandom::Error),
}
