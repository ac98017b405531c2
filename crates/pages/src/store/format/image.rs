//! The bytes of a page as they are stored: without the zeros at its end, and packed
//! where most of them are zero.

use cuckood_filter::varint;

/// Largest page image in bytes: a page and the counters beside it.
pub const MAX_IMAGE_BYTES: usize = 320 << 10;

/// The page's bytes follow as they are, less the zeros at its end.
pub(super) const DENSE: u8 = 0;
/// Pairs follow: how many zeros to skip, then a byte that is not zero.
pub(super) const PACKED: u8 = 1;

pub(in crate::store) fn encode_page(page: &[u8]) -> Vec<u8> {
    let used = page
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let (used, _) = page.split_at(used);

    // Each takes two bytes at least, so a full page need not be packed in order
    // to see that it is better left alone.
    let not_zero = used.iter().filter(|&&byte| byte != 0).count();
    if 2 * not_zero < used.len()
        && let Some(packed) = pack(used)
    {
        return packed;
    }
    [&[DENSE][..], used].concat()
}

/// The bytes with the zeros before each; `None` if that is no shorter than they
/// are with the byte that says how they are written.
fn pack(used: &[u8]) -> Option<Vec<u8>> {
    let mut packed = vec![PACKED];
    let mut zeros = 0;
    for &byte in used {
        if byte == 0 {
            zeros += 1;
            continue;
        }
        varint::put(&mut packed, zeros);
        packed.push(byte);
        zeros = 0;
        if packed.len() > used.len() {
            return None;
        }
    }
    Some(packed)
}

pub(in crate::store) fn decode_page<'a>(
    payload: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], &'static str> {
    match payload.split_first() {
        Some((&DENSE, page)) if page.len() <= MAX_IMAGE_BYTES => Ok(page),
        Some((&DENSE, _)) => Err("it is larger than a page may be"),
        Some((&PACKED, pairs)) => {
            scratch.clear();
            unpack(pairs, |at, byte| {
                scratch.resize(at, 0);
                scratch.push(byte);
            })?;
            Ok(scratch)
        }
        _ => Err("its encoding is unknown"),
    }
}

/// Whether [`decode_page`] can read it; allocates nothing.
pub(in crate::store) fn check_page(payload: &[u8]) -> Result<(), &'static str> {
    match payload.split_first() {
        Some((&PACKED, pairs)) => unpack(pairs, |_, _| {}),
        _ => decode_page(payload, &mut Vec::new()).map(|_| ()),
    }
}

/// Says where each byte that is not left out lies.
fn unpack(mut pairs: &[u8], mut each: impl FnMut(usize, u8)) -> Result<(), &'static str> {
    let mut end = 0usize;
    while !pairs.is_empty() {
        let zeros = varint::take(&mut pairs).ok_or("its packed bytes end early")?;
        let (&byte, rest) = pairs.split_first().ok_or("its packed bytes end early")?;
        let at = usize::try_from(zeros)
            .ok()
            .and_then(|zeros| end.checked_add(zeros))
            .filter(|&at| at < MAX_IMAGE_BYTES)
            .ok_or("it is larger than a page may be")?;
        each(at, byte);
        end = at + 1;
        pairs = rest;
    }
    Ok(())
}
