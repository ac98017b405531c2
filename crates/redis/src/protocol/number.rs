//! Integers as Redis takes them.

/// Longest text of an integer.
pub(crate) const MAX_DIGITS: usize = 20;

/// Reads an integer as redis' `string2ll`: digits, maybe a minus in front, no
/// plus, no blank, no leading zero, within 64 bits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits == b"0" {
        return (!is_negative).then_some(0);
    }
    if digits.len() >= MAX_DIGITS || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Downwards, because there is one more negative number than positive ones.
        magnitude = magnitude
            .checked_mul(10)?
            .checked_sub(i64::from(digit - b'0'))?;
    }
    match is_negative {
        true => Some(magnitude),
        false => magnitude.checked_neg(),
    }
}

/// Appends a number in digits.
#[inline]
pub(crate) fn push(number: i64, out: &mut Vec<u8>) {
    if let Ok(digit @ 0..=9) = u8::try_from(number) {
        return out.push(b'0' + digit);
    }
    let mut digits = [0; MAX_DIGITS];
    let mut left = number.unsigned_abs();
    let mut length = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
        length += 1;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend(digits.iter().skip(MAX_DIGITS - length));
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
