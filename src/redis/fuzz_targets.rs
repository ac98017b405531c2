//! The fuzz targets of this room; see [`crate::fuzz_targets`].

pub(crate) use super::protocol::fuzz_targets::resp;
#[cfg(test)]
pub(crate) use super::protocol::fuzz_targets::seeds;
