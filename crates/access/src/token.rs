//! The key itself: 256 random bits in base64url behind a word that tells
//! people, and programs that search for leaked secrets, what it is.

use super::error::AccessError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// What every key starts with.
const MARK: &str = "cuckood_";

/// A key. It is shown once, when it is made, so it has no `Debug`.
pub struct Token(String);

impl Token {
    /// Makes a new key.
    ///
    /// # Errors
    /// The system gives no random bits.
    pub fn generate() -> Result<Token, AccessError> {
        let mut bits = [0; 32];
        getrandom::fill(&mut bits).map_err(AccessError::NoRandomness)?;
        Ok(Token::of(&bits))
    }

    fn of(bits: &[u8; 32]) -> Token {
        Token(format!("{MARK}{}", URL_SAFE_NO_PAD.encode(bits)))
    }

    /// The key as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(&self.0)
    }
}

/// SHA-256 of a key's text, to look the key up by. How long that takes tells something
/// about the digest of what was sent, which leads back to no key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of whatever a caller sent as a key.
    pub fn of(text: &str) -> TokenDigest {
        TokenDigest(Sha256::digest(text).into())
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<TokenDigest> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(TokenDigest(bytes))
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_digest_are_pinned() {
        let token = Token::of(&[7; 32]);
        assert_eq!(
            token.as_str(),
            "cuckood_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc"
        );
        let digest = token.digest().to_string();
        assert_eq!(
            digest,
            "22eb3d14fcfe89d33133915ec4397ff6b9acc469facb75ec84e4dc25a9b898bc"
        );
        assert!(TokenDigest::parse(&digest).unwrap() == token.digest());
    }

    #[test]
    fn two_keys_are_never_the_same() {
        let (one, two) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_ne!(one.as_str(), two.as_str());
        assert!(one.digest() != two.digest());
        assert_eq!(one.as_str().len(), MARK.len() + 43);
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let right = Token::of(&[7; 32]).digest().to_string();
        for wrong in [
            "",
            "ab",
            right.get(1..).unwrap(),
            &right.replacen(right.get(..2).unwrap(), "+1", 1),
            &right.replacen(right.get(..2).unwrap(), "zz", 1),
            &format!("{right}00"),
            &"ä".repeat(32),
        ] {
            assert!(TokenDigest::parse(wrong).is_none(), "{wrong}");
        }
    }
}
