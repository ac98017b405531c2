use super::*;

fn header(buckets: u64, sub_filters: u64, bucket_size: u16, expansion: u16) -> Vec<u8> {
    let mut chunk = Vec::new();
    for number in [3, buckets, 1, sub_filters] {
        chunk.extend_from_slice(&u64::to_le_bytes(number));
    }
    for number in [bucket_size, 20, expansion] {
        chunk.extend_from_slice(&u16::to_le_bytes(number));
    }
    chunk
}

fn framed(chunks: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (iterator, chunk) in chunks {
        bytes.extend_from_slice(&iterator.to_le_bytes());
        bytes.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
        bytes.extend_from_slice(chunk);
    }
    bytes
}

fn read(bytes: &[u8], slots: usize) -> Result<Vec<u8>, DumpError> {
    let mut reader = ChunkReader::open(bytes)?;
    let mut filled = vec![0; slots];
    reader.fill(&mut filled)?;
    reader.finish()?;
    Ok(filled)
}

#[test]
fn slots_come_as_one_stream_wherever_chunks_end() {
    let slots: Vec<u8> = (0..=255).collect();
    for cut in [1, 100, 255] {
        let (front, back) = slots.split_at(cut);
        let chunks = [
            (1, header(128, 1, 2, 1)),
            (cut as i64 + 1, front.to_vec()),
            (257, back.to_vec()),
        ];
        assert_eq!(read(&framed(&chunks), 256).unwrap(), slots);
    }
}

#[test]
fn chunks_out_of_their_place_are_refused() {
    let about = || (1, header(128, 1, 2, 1));
    let half = || vec![7; 128];
    for (what, chunks) in [
        ("none", vec![]),
        ("no description", vec![(129, half()), (257, half())]),
        ("a description of another length", vec![(1, vec![0; 37])]),
        ("a chunk missing", vec![about(), (257, half())]),
        ("the last missing", vec![about(), (129, half())]),
        ("one twice", vec![about(), (129, half()), (129, half())]),
        (
            "one too many",
            vec![about(), (129, half()), (257, half()), (385, half())],
        ),
        (
            "an empty one",
            vec![about(), (1, vec![]), (129, half()), (257, half())],
        ),
        (
            "a negative iterator",
            vec![about(), (-129, half()), (257, half())],
        ),
    ] {
        assert!(read(&framed(&chunks), 256).is_err(), "{what}");
    }
    let whole = framed(&[about(), (129, half()), (257, half())]);
    assert!(read(&whole, 256).is_ok());
    for length in 0..whole.len() {
        assert!(read(&whole[..length], 256).is_err(), "cut at {length}");
    }
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let parse = |chunk: &[u8]| Header::parse(chunk.try_into().unwrap());
    assert!(parse(&header(128, 1, 2, 0)).is_ok());
    for (buckets, sub_filters, bucket_size, expansion) in [
        (0, 1, 2, 1),
        (3, 1, 2, 1),
        (128, 0, 2, 1),
        (128, 1 << 17, 2, 1),
        (128, 1, 0, 1),
        (128, 1, 256, 1),
        (128, 1, 2, 3),
        (128, 2, 2, 0),
    ] {
        let chunk = header(buckets, sub_filters, bucket_size, expansion);
        assert!(parse(&chunk).is_err());
    }
}
