//! Patterns of `SCAN`, `KEYS` and `CONFIG GET`: `*`, `?`, `[a-z]`, `[^x]`, and
//! `\` before what stands for itself, as redis has them.
//!
//! A pattern is taken apart once, so that brackets are one step, however much
//! stands in them. Without recursion, and going back to the last star alone, no
//! text takes more steps than its length times that of the pattern.

/// Longest pattern, and all patterns of one command together, in bytes.
const MAX_BYTES: usize = 1024;

/// A pattern, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Vec<Element>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    /// Any bytes, or none.
    Star,
    /// A byte of these.
    One(ByteSet),
}

/// Which bytes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteSet([u128; 2]);

impl ByteSet {
    const ALL: ByteSet = ByteSet([u128::MAX; 2]);
    const NONE: ByteSet = ByteSet([0; 2]);

    fn of(byte: u8) -> ByteSet {
        let mut set = ByteSet::NONE;
        set.add(byte, byte);
        set
    }

    fn add(&mut self, low: u8, high: u8) {
        for byte in low..=high {
            let [below, above] = &mut self.0;
            let half = if byte < 128 { below } else { above };
            *half |= 1 << (byte % 128);
        }
    }

    fn but(self) -> ByteSet {
        ByteSet(self.0.map(|half| !half))
    }

    fn has(&self, byte: u8) -> bool {
        let [below, above] = self.0;
        let half = if byte < 128 { below } else { above };
        half >> (byte % 128) & 1 == 1
    }
}

impl Pattern {
    /// Takes the patterns of one command apart.
    ///
    /// # Errors
    /// They are too long.
    pub(crate) fn all<'a>(
        patterns: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<Vec<Pattern>, String> {
        let bytes: usize = patterns.clone().map(<[u8]>::len).sum();
        match bytes <= MAX_BYTES {
            true => Ok(patterns.map(Pattern::parse).collect()),
            false => Err(format!(
                "ERR the patterns of a command have {MAX_BYTES} bytes at most, these have {bytes}: send shorter ones, or ask for all and choose"
            )),
        }
    }

    fn parse(mut rest: &[u8]) -> Pattern {
        let mut elements = Vec::with_capacity(rest.len());
        while let [first, behind @ ..] = rest {
            let (element, next) = match (first, behind) {
                // Stars in a row are one.
                (b'*', _) if elements.last() == Some(&Element::Star) => {
                    rest = behind;
                    continue;
                }
                (b'*', _) => (Element::Star, behind),
                (b'?', _) => (Element::One(ByteSet::ALL), behind),
                (b'[', _) => {
                    let (set, next) = class(behind);
                    (Element::One(set), next)
                }
                (b'\\', [escaped, next @ ..]) => (Element::One(ByteSet::of(*escaped)), next),
                _ => (Element::One(ByteSet::of(*first)), behind),
            };
            elements.push(element);
            rest = next;
        }
        Pattern(elements)
    }

    /// Whether a text matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.matches_in(text, || ())
    }

    /// The same, telling of each step.
    fn matches_in(&self, text: &[u8], mut step: impl FnMut()) -> bool {
        let (mut rest, mut left) = (self.0.as_slice(), text);
        // Behind the last star, and the text that it has not taken.
        let mut again: Option<(&[Element], &[u8])> = None;
        loop {
            step();
            match (rest, left) {
                // What ends with a star takes all that is left.
                ([Element::Star], _) | ([], []) => return true,
                ([Element::Star, behind @ ..], _) => {
                    again = Some((behind, left));
                    rest = behind;
                    continue;
                }
                ([Element::One(set), next @ ..], [byte, behind @ ..]) if set.has(*byte) => {
                    (rest, left) = (next, behind);
                    continue;
                }
                _ => {}
            }
            // The last star takes one more.
            let Some((elements, [_, behind @ ..])) = again else {
                return false;
            };
            again = Some((elements, behind));
            (rest, left) = (elements, behind);
        }
    }
}

/// Takes the inside of brackets apart; what follows them. Brackets that are not
/// closed end with the pattern.
fn class(inside: &[u8]) -> (ByteSet, &[u8]) {
    let (is_negated, mut rest) = match inside {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut set = ByteSet::NONE;
    let behind = loop {
        rest = match rest {
            [] => break rest,
            [b']', behind @ ..] => break behind,
            [b'\\', escaped, behind @ ..] => {
                set.add(*escaped, *escaped);
                behind
            }
            [low, b'-', high, behind @ ..] => {
                set.add(*low.min(high), *low.max(high));
                behind
            }
            [same, behind @ ..] => {
                set.add(*same, *same);
                behind
            }
        };
    };
    (if is_negated { set.but() } else { set }, behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(pattern: &[u8]) -> Pattern {
        let mut all = Pattern::all([pattern].into_iter()).unwrap();
        all.pop().unwrap()
    }

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
            ("h[c-a]llo", "hdllo", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("[abc", "b", true),
            ("[", "a", false),
            ("[^", "a", true),
            ("[!-~]", "~", true),
            ("a\\", "a\\", true),
            ("shop:*", "shop:1", true),
            ("shop:*", "sho", false),
            ("a", "", false),
        ] {
            let matched = parse(pattern.as_bytes()).matches(text.as_bytes());
            assert_eq!(matched, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_of_a_command_have_a_kibibyte() {
        let (half, more) = ([b'*'; 512], [b'*'; 513]);
        assert!(Pattern::all([half.as_slice(), &half].into_iter()).is_ok());
        let refused = Pattern::all([half.as_slice(), &more].into_iter()).unwrap_err();
        assert!(refused.contains("1024 bytes at most, these have 1025"));
    }

    /// The dearest patterns there are, of names of one letter.
    #[test]
    fn a_text_takes_no_more_steps_than_its_length_times_that_of_the_pattern() {
        let text = [b'a'; 255];
        let class = [b"*[".as_slice(), &[b'b'; 1022]].concat();
        let classes = b"[a-z]".repeat(200);
        let of_classes = [b"*".as_slice(), &classes, b"b"].concat();
        for pattern in [
            "a*".repeat(511) + "b",
            "*".to_owned() + &"a".repeat(127) + "b",
            "*".to_owned() + &"?".repeat(1022) + "b",
            "*?".repeat(511) + "b",
            String::from_utf8(class).unwrap(),
            String::from_utf8(of_classes).unwrap(),
        ] {
            let mut steps = 0;
            assert!(!parse(pattern.as_bytes()).matches_in(&text, || steps += 1));
            let most = (text.len() + 1) * (pattern.len() + 1);
            assert!(steps <= most, "{steps} {pattern}");
            // However long the pattern: no more than half of the text's square.
            assert!(steps <= 34_000, "{steps} {pattern}");
        }
    }

    /// The meaning, with all the recursion that takes.
    fn meant(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], text) => {
                (0..=text.len()).any(|taken| meant(rest, text.get(taken..).unwrap()))
            }
            ([b'?', rest @ ..], [_, behind @ ..]) => meant(rest, behind),
            ([b'[', low, b'-', high, b']', rest @ ..], [byte, behind @ ..]) => {
                (low.min(high)..=low.max(high)).contains(&byte) && meant(rest, behind)
            }
            ([same, rest @ ..], [byte, behind @ ..]) => same == byte && meant(rest, behind),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn stars_take_what_they_must(
            pattern in "([ab*?]|\\[[abc]-[abc]\\]){0,8}",
            text in "[abc]{0,10}",
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            let mut steps = 0;
            let matched = parse(pattern).matches_in(text, || steps += 1);
            prop_assert_eq!(matched, meant(pattern, text));
            prop_assert!(steps <= (pattern.len() + 1) * (text.len() + 1) + 1, "{}", steps);
        }
    }
}
