//! Reads anything as a dump. What is accepted must be what would be written.

#![no_main]
#![allow(dead_code, reason = "the decoder brings more than is asked of it here")]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/engine/dump/format.rs"]
mod format;

use format::{DUMP_VERSION, DumpReader, DumpWriter, MAGIC};
use sha2::{Digest as _, Sha256};

fuzz_target!(|bytes: &[u8]| {
    let start = [&MAGIC[..], &[DUMP_VERSION]].concat();
    for whole in [bytes.to_vec(), [&start[..], bytes].concat(), wrapped(bytes)] {
        read(&whole);
    }
});

/// The bytes as pages of a dump whose sums are right, so that what is behind
/// the checksums is reached.
fn wrapped(bytes: &[u8]) -> Vec<u8> {
    let (description, pages) = bytes.split_at(bytes.len().min(8));
    let mut whole = [&MAGIC[..], &[DUMP_VERSION]].concat();
    block(&mut whole, 1, description);
    block(&mut whole, 2, pages);
    let digest = Sha256::digest(&whole);
    block(&mut whole, 3, &digest);
    whole
}

fn block(whole: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let start = whole.len();
    whole.push(kind);
    whole.extend((payload.len() as u32).to_le_bytes());
    whole.extend(payload);
    let sum = crc32c::crc32c(&whole[start..]);
    whole.extend(sum.to_le_bytes());
}

fn read(whole: &[u8]) {
    let Ok(mut reader) = DumpReader::open(whole) else {
        return;
    };
    let mut writer = DumpWriter::new(reader.description());
    while let Ok(Some((at, image))) = reader.next_page() {
        writer.page(at, image);
    }
    if let Some(digest) = reader.digest() {
        let mut again = writer.take();
        let (rest, digest_again, _) = writer.finish();
        again.extend(rest);
        assert_eq!(again, whole);
        assert_eq!(digest_again, digest);
    }
}
