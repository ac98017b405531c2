//! Where a reply ends, of those that another pod has written.

/// Bytes of the reply that comes first; `None`: it is not whole.
pub(crate) fn reply_length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut missing) = (0_usize, 1_u64);
    while missing > 0 {
        let rest = bytes.get(at..)?;
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let (kind, line) = rest.get(..end)?.split_first()?;
        at += end + 2;
        missing -= 1;
        let count = || -> Option<u64> {
            let number: i64 = std::str::from_utf8(line).ok()?.parse().ok()?;
            Some(u64::try_from(number).unwrap_or(0))
        };
        match kind {
            // Minus one is nothing, and nothing follows it.
            b'$' | b'=' | b'!' if line != b"-1" => {
                at = at.checked_add(usize::try_from(count()?).ok()?)? + 2;
            }
            b'*' | b'~' | b'>' => missing = missing.checked_add(count()?)?,
            b'%' => missing = missing.checked_add(count()?.checked_mul(2)?)?,
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::{Replies, Version};
    use proptest::prelude::*;

    #[test]
    fn a_reply_ends_where_the_next_begins() {
        for version in [Version::Resp2, Version::Resp3] {
            let mut ends = Vec::new();
            let mut replies = Replies::default();
            replies.version = version;
            let writes: [fn(&mut Replies); 9] = [
                |it| it.ok(),
                |it| it.error("ERR no"),
                |it| it.integer(-7),
                |it| it.boolean(true),
                |it| it.nil(),
                |it| it.bulk(b"a\r\nb"),
                |it| it.text("line\r\nline"),
                |it| {
                    it.array(3);
                    it.array(0);
                    it.bulk(b"");
                    it.nil();
                },
                |it| {
                    it.map(1);
                    it.bulk(b"key");
                    it.set(1);
                    it.integer(1);
                },
            ];
            for write in writes {
                write(&mut replies);
                ends.push(replies.len());
            }
            let mut at = 0;
            for end in ends {
                let bytes = replies.bytes();
                assert_eq!(reply_length(&bytes[at..]), Some(end - at));
                assert_eq!(reply_length(&bytes[at..end]), Some(end - at));
                assert_eq!(reply_length(&bytes[at..end - 1]), None);
                at = end;
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_end_within_them_or_none(bytes: Vec<u8>) {
            prop_assert!(reply_length(&bytes).is_none_or(|length| length <= bytes.len()));
        }
    }
}
