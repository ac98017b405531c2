//! A commit as bytes, for those who are to make the same one in a store of
//! their own. Its sequence is not in it: every store has its own.
//!
//! The redo record is taken as it is; `docs/format.md` says how the rest is written.

use super::commit::Commit;
use super::error::{Result, StoreError};
use crate::page::Sequence;

/// Version of these bytes, the first of them.
const VERSION: u8 = 1;

/// The bytes of a commit, but for its sequence.
pub fn encode(commit: &Commit) -> Vec<u8> {
    // Nothing that a commit has can't be written; nothing reads no bytes.
    postcard::to_extend(commit, vec![VERSION]).unwrap_or_default()
}

/// The commit of these bytes, with this sequence.
///
/// # Errors
/// They are anything but exactly one commit, or of a newer program.
pub fn decode(bytes: &[u8], sequence: Sequence) -> Result<Commit> {
    let nonsense = || StoreError::corrupt("a commit", "its bytes make no sense");
    match bytes.split_first() {
        Some((&VERSION, commit)) => match postcard::take_from_bytes::<Commit>(commit) {
            Ok((commit, [])) => Ok(Commit { sequence, ..commit }),
            _ => Err(nonsense()),
        },
        None | Some((0, _)) => Err(nonsense()),
        Some((&found, _)) => Err(StoreError::newer("a commit", found, VERSION)),
    }
}

/// Pages as they are stored: without the zeros at their ends, and packed.
pub(super) mod packed_pages {
    use crate::page::PageId;
    use crate::store::commit::PageImage;
    use crate::store::format;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;
    use serde_bytes::ByteBuf;
    use std::sync::Arc;

    pub(in crate::store) fn serialize<S: Serializer>(
        pages: &[PageImage],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let packed = |(page, image): &PageImage| (*page, ByteBuf::from(format::encode_page(image)));
        serializer.collect_seq(pages.iter().map(packed))
    }

    pub(in crate::store) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[PageImage]>, D::Error> {
        let packed = Vec::<(PageId, ByteBuf)>::deserialize(deserializer)?;
        let unpacked = packed.into_iter().map(|(page, packed)| {
            let mut scratch = Vec::new();
            let image = format::decode_page(&packed, &mut scratch).map_err(D::Error::custom)?;
            Ok((page, image.to_vec()))
        });
        unpacked.collect()
    }
}

#[cfg(test)]
mod tests;
