//! Why bytes are no file of a filter.

/// Version of the format.
pub const FILE_VERSION: u16 = 1;

/// Why bytes are no file of a filter, or not one that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// They do not begin like one.
    #[error("it is no file of a filter")]
    Foreign,
    /// A newer program wrote them.
    #[error(
        "the file has format version {found}, this program reads {FILE_VERSION} alone, or it is damaged"
    )]
    Version {
        /// The version found.
        found: u16,
    },
    /// They need what this program does not know.
    #[error("the file has features that this program does not know (bits {unknown:#x})")]
    Features {
        /// The bits of the header that are unknown.
        unknown: u32,
    },
    /// They are not as many as the header says.
    #[error("the file has {found} bytes and should have {told}: it was cut off, or added to")]
    Length {
        /// How many there are.
        found: u64,
        /// How many there should be.
        told: u64,
    },
    /// The header contradicts itself, or was altered.
    #[error("the header of the file is damaged: {0}")]
    Header(&'static str),
    /// The checksums were altered.
    #[error("the checksums of the file are damaged")]
    Checksums,
    /// A block was altered.
    #[error("block {0} of the file is damaged")]
    Block(u64),
    /// All blocks are right, and are not those that the file was made of.
    #[error("the digest of the file is not the one that it has")]
    Digest,
    /// It has not the key of its hash, or that is another.
    #[error("{0}")]
    Key(&'static str),
    /// Its items do not expire, and it was asked when one was seen.
    #[error(
        "the items of the filter do not expire (it was created without window_seconds): leave within_seconds out, or ask files of filters with a window alone"
    )]
    NoWindow,
    /// It was asked for longer than its window, or for no time.
    #[error(
        "within_seconds is {within_seconds}, allowed is 1 to {window_seconds}, the window of the filter"
    )]
    BeyondWindow {
        /// Seconds that were asked for.
        within_seconds: u64,
        /// Seconds of the window.
        window_seconds: u32,
    },
    /// Not as many counters were written as were announced.
    #[error("the filter has {found} counters beside its pages and was said to have {told}")]
    Counters {
        /// How many there are.
        found: u64,
        /// How many there should be.
        told: u64,
    },
}
