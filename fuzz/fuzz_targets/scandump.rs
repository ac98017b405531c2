//! Reads anything as frames of RedisBloom's chunks. What is accepted must add
//! up.

#![no_main]
#![allow(dead_code, reason = "the decoder brings more than is asked of it here")]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/engine/dump/format.rs"]
mod format;
#[path = "../../src/engine/dump/scandump.rs"]
mod scandump;

use scandump::ChunkReader;

fuzz_target!(|bytes: &[u8]| {
    read(bytes, bytes.len());
    read(&framed(bytes), bytes.len());
});

/// The bytes as a description and one chunk behind it, both in their places.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let (description, slots) = bytes.split_at(bytes.len().min(38));
    let mut whole = Vec::new();
    for (iterator, chunk) in [(1, description), (1 + slots.len() as i64, slots)] {
        whole.extend(iterator.to_le_bytes());
        whole.extend((chunk.len() as u32).to_le_bytes());
        whole.extend(chunk);
    }
    whole
}

fn read(whole: &[u8], most: usize) {
    let Ok(mut reader) = ChunkReader::open(whole) else {
        return;
    };
    let mut slots = vec![0; most.saturating_sub(38)];
    if reader.fill(&mut slots).is_ok() && reader.finish().is_ok() {
        // Two frames at least, a description and all slots.
        assert!(whole.len() >= 12 + 38 + slots.len());
    }
}
