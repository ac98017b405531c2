//! The fuzz targets of this package.

use super::protocol::fuzz_targets::resp;
#[cfg(test)]
use super::protocol::fuzz_targets::seeds;

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[("resp", resp)];

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
