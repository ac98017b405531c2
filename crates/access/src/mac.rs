//! Keyed hashes (HMAC-SHA256): those who share a secret tell each other's messages
//! from those of anybody else. The secret itself is never sent.

use ring::{hkdf, hmac};
use std::sync::Arc;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 32;

/// There is no secret that a key could be derived from.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("there is no secret to derive a key from")]
pub struct NoKey;

/// A key for one purpose.
#[derive(Clone)]
pub struct MacKey(hmac::Key);

/// The keys of those who share several secrets while one is replaced: tags are made
/// with the first one, and any is believed.
#[derive(Clone)]
pub struct MacKeys(Arc<[MacKey]>);

impl MacKey {
    /// Derives one (HKDF) from a secret, for one purpose: a key for another purpose, or
    /// with another salt, says nothing about it.
    ///
    /// # Errors
    /// Never, for a key of this length.
    pub fn derive(secret: &str, salt: &[u8], purpose: &str) -> Result<MacKey, NoKey> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, salt);
        let extracted = salt.extract(secret.as_bytes());
        let purpose = [purpose.as_bytes()];
        let key = extracted.expand(&purpose, hmac::HMAC_SHA256);
        Ok(MacKey(key.map_err(|_| NoKey)?.into()))
    }

    /// The tag of a message that has these parts.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let tag = hmac::sign(&self.0, &framed(parts));
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Whether a tag is that of a message. How long that takes tells nothing.
    pub fn is(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        hmac::verify(&self.0, &framed(parts), tag).is_ok()
    }
}

impl MacKeys {
    /// Those that are derived from several secrets.
    ///
    /// # Errors
    /// There is no secret.
    pub fn derive<'a>(
        secrets: impl IntoIterator<Item = &'a str>,
        salt: &[u8],
        purpose: &str,
    ) -> Result<MacKeys, NoKey> {
        let keys = secrets.into_iter();
        let keys: Arc<[MacKey]> = keys
            .map(|it| MacKey::derive(it, salt, purpose))
            .collect::<Result<_, _>>()?;
        match keys.is_empty() {
            true => Err(NoKey),
            false => Ok(MacKeys(keys)),
        }
    }

    /// The one that tags are made with.
    pub fn first(&self) -> Option<&MacKey> {
        self.0.first()
    }

    /// The one that a tag was made with; `None`: somebody else made it.
    pub fn of(&self, parts: &[&[u8]], tag: &[u8]) -> Option<&MacKey> {
        self.0.iter().find(|it| it.is(parts, tag))
    }
}

/// Parts one behind the other, each behind its length, so that no two messages are
/// the same bytes.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_that_of_its_key_its_purpose_and_its_parts_alone() {
        let key = |secret: &str, salt: &[u8], purpose: &str| {
            MacKey::derive(secret, salt, purpose).unwrap()
        };
        let own = key("secret", b"salt", "purpose");
        let tag = own.tag(&[b"ab", b"c"]);
        assert!(key("secret", b"salt", "purpose").is(&[b"ab", b"c"], &tag));
        for other in [
            key("other", b"salt", "purpose"),
            key("secret", b"other", "purpose"),
            key("secret", b"salt", "other"),
        ] {
            assert!(!other.is(&[b"ab", b"c"], &tag));
        }
        for parts in [&[&b"a"[..], b"bc"][..], &[b"abc"], &[b"ab", b"c", b""], &[]] {
            assert!(!own.is(parts, &tag));
        }
        assert!(!own.is(&[b"ab", b"c"], &tag[1..]));
        assert!(!own.is(&[b"ab", b"c"], &[]));
    }

    /// As Python's `hmac` has it, by the steps of RFC 5869 and RFC 2104.
    #[test]
    fn a_tag_is_pinned() {
        let key = MacKey::derive("secret", b"salt", "purpose").unwrap();
        assert_eq!(hex::encode(key.tag(&[b"one", b"two"])), PINNED);
    }

    const PINNED: &str = "17631b67c32bb5d87c24f969cd249c3b34e20cfb4d33180f50ad87e3d3beda0d";

    #[test]
    fn the_first_secret_makes_tags_and_each_is_believed() {
        let keys = |secrets: &[&'static str]| {
            MacKeys::derive(secrets.iter().copied(), b"", "purpose").unwrap()
        };
        let (old, both, new) = (keys(&["old"]), keys(&["old", "new"]), keys(&["new"]));
        let tag = |keys: &MacKeys| keys.first().unwrap().tag(&[b"said"]);
        assert_eq!(tag(&old), tag(&both));
        assert!(both.of(&[b"said"], &tag(&new)).is_some());
        assert!(old.of(&[b"said"], &tag(&new)).is_none());
        assert!(MacKeys::derive([], b"", "purpose").is_err());
    }
}
