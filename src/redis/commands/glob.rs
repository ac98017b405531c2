//! Patterns of `SCAN`, `KEYS` and `CONFIG GET`: `*`, `?`, `[a-z]`, `[^x]`, and
//! `\` before what stands for itself, as redis has them.
//!
//! Without recursion, and going back to the last star alone, so that no pattern
//! takes longer than its length times that of the text.

/// Whether a text matches a pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut left) = (pattern, text);
    // Behind the last star, and the text that it has not taken.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match (rest, left) {
            ([b'*', behind @ ..], _) => {
                again = Some((behind, left));
                rest = behind;
                continue;
            }
            ([], []) => return true,
            ([_, ..], [byte, behind @ ..]) => {
                let (next, is_match) = one(rest, *byte);
                if is_match {
                    (rest, left) = (next, behind);
                    continue;
                }
            }
            _ => {}
        }
        // The last star takes one more.
        let Some((pattern, [_, behind @ ..])) = again else {
            return false;
        };
        again = Some((pattern, behind));
        (rest, left) = (pattern, behind);
    }
}

/// Compares the first element of a pattern, which is no star, with a byte; what
/// follows it.
fn one(pattern: &[u8], byte: u8) -> (&[u8], bool) {
    match pattern {
        [] => (pattern, false),
        [b'?', rest @ ..] => (rest, true),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', escaped, rest @ ..] => (rest, *escaped == byte),
        [same, rest @ ..] => (rest, *same == byte),
    }
}

/// Compares the inside of brackets with a byte; what follows them. Brackets that
/// are not closed end with the pattern.
fn class(inside: &[u8], byte: u8) -> (&[u8], bool) {
    let (is_negated, mut rest) = match inside {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => return (rest, is_in != is_negated),
            [b']', behind @ ..] => return (behind, is_in != is_negated),
            [b'\\', escaped, behind @ ..] => {
                is_in |= *escaped == byte;
                behind
            }
            [low, b'-', high, behind @ ..] => {
                is_in |= (*low.min(high)..=*low.max(high)).contains(&byte);
                behind
            }
            [same, behind @ ..] => {
                is_in |= *same == byte;
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "abd", false),
            ("a*b*c", "axxbyyc", true),
            ("?", "", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("[abc", "b", true),
            ("a\\", "a\\", true),
            ("shop:*", "shop:1", true),
            ("shop:*", "sho", false),
            ("a", "", false),
        ] {
            let matched = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matched, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_time() {
        let (pattern, text) = ("a*".repeat(2000) + "b", "a".repeat(4000));
        let started = Instant::now();
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
        assert!(started.elapsed() < Duration::from_secs(2));
    }

    /// The meaning, with all the recursion that takes.
    fn meant(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], text) => {
                (0..=text.len()).any(|taken| meant(rest, text.get(taken..).unwrap()))
            }
            ([b'?', rest @ ..], [_, behind @ ..]) => meant(rest, behind),
            ([same, rest @ ..], [byte, behind @ ..]) => same == byte && meant(rest, behind),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn stars_take_what_they_must(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text), meant(pattern, text));
        }
    }
}
