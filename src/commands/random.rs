//! Numbers that nobody can foresee.

use super::failure::Result;

/// 128 random bits.
pub(super) fn bits() -> Result<[u8; 16]> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)?;
    Ok(bits)
}
