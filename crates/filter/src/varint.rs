//! Unsigned numbers in as few bytes as they need: seven bits a byte, the
//! lowest first, the top bit set on every byte but the last (LEB128).

/// Appends `value`, 1 to 10 bytes.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one number off the front. `None` if the bytes end within it or it
/// does not fit 64 bits; `bytes` is then left where the number began.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut rest = *bytes;
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            *bytes = rest;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_takes_one_byte_per_seven_bits() {
        let mut out = Vec::new();
        put(&mut out, 0);
        put(&mut out, 127);
        put(&mut out, 128);
        assert_eq!(out, [0, 0x7f, 0x80, 0x01]);
        let mut largest = Vec::new();
        put(&mut largest, u64::MAX);
        assert_eq!(largest.len(), 10);
    }

    #[test]
    fn a_number_that_ends_early_or_is_too_long_is_refused() {
        assert_eq!(take(&mut [].as_slice()), None);
        assert_eq!(take(&mut [0x80].as_slice()), None);
        assert_eq!(take(&mut [0xff; 11].as_slice()), None);
        let mut too_wide = [0xff; 10];
        too_wide[9] = 2;
        assert_eq!(take(&mut too_wide.as_slice()), None);
    }

    proptest! {
        #[test]
        fn every_number_comes_back(value: u64, after: Vec<u8>) {
            let mut out = Vec::new();
            put(&mut out, value);
            out.extend_from_slice(&after);
            let mut rest = out.as_slice();
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(rest, after.as_slice());
        }
    }
}
