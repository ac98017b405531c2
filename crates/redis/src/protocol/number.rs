//! Integers as Redis takes them.

/// Longest text of an integer.
pub(crate) const MAX_DIGITS: usize = 20;

/// Reads an integer as redis' `string2ll`: digits, maybe a minus in front, no
/// plus, no blank, no leading zero, within 64 bits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = text == b"0" || matches!(digits.first(), Some(b'1'..=b'9'));
    let number = std::str::from_utf8(text).ok()?.parse().ok();
    number.filter(|_| is_plain)
}

/// Appends a number in digits.
#[inline]
pub(crate) fn push(number: i64, out: &mut Vec<u8>) {
    if let Ok(digit @ 0..=9) = u8::try_from(number) {
        return out.push(b'0' + digit);
    }
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_redis_does_not_take_is_refused() {
        for text in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "05",
            " 1",
            "1 ",
            "1e3",
            "1.0",
            "x",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999999",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_are_written(number: i64) {
            for number in [number, number >> 32, number >> 56, i64::MIN, i64::MAX, 0] {
                let mut text = Vec::new();
                push(number, &mut text);
                prop_assert_eq!(String::from_utf8_lossy(&text), number.to_string());
                prop_assert_eq!(integer(&text), Some(number));
            }
        }
    }
}
