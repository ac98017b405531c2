use super::*;
use proptest::prelude::*;

const WIDTHS: [SlotWidth; 5] = [
    SlotWidth::Bits8,
    SlotWidth::Bits12,
    SlotWidth::Bits16,
    SlotWidth::Bits21,
    SlotWidth::Bits32,
];

fn widths() -> impl Strategy<Value = SlotWidth> {
    proptest::sample::select(WIDTHS.to_vec())
}

#[test]
fn a_bucket_of_two_slots_is_one_piece() {
    let found: Vec<Piece> = pieces(SlotWidth::Bits8, 6, 2).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].word, 0);
    assert_eq!(found[0].lanes, 0x8080_0000_0000_0000);
}

#[test]
fn a_bucket_of_four_slots_of_16_bits_is_one_whole_word() {
    let found: Vec<Piece> = pieces(SlotWidth::Bits16, 8, 4).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].word, 2);
    assert_eq!(found[0].lanes, 0x8000_8000_8000_8000);
}

#[test]
fn the_neighbour_of_a_match_is_not_a_match() {
    // The common zero-in-word trick reports slot 1 here as well.
    let width = SlotWidth::Bits8;
    let piece = pieces(width, 0, 8).next().unwrap();
    assert_eq!(find(width, 0x0100, piece, 0).count(), 7);
    assert_eq!(find(width, 0xffff_ffff_ffff_0500, piece, 4).count(), 0);
    let width = SlotWidth::Bits16;
    let piece = pieces(width, 0, 4).next().unwrap();
    assert_eq!(find(width, 0x0001_0000, piece, 0).count(), 3);
}

proptest! {
    #[test]
    fn finding_in_words_equals_looking_at_each_slot(
        width in widths(),
        words in proptest::collection::vec(0u64..4, 16),
        noise in proptest::collection::vec(any::<u64>(), 16),
        noisy: bool,
        first in 0u16..8,
        slots in 1u8..=24,
        fingerprint in 0u32..4,
    ) {
        let per_word = width.slots_per_word();
        let words: Vec<u64> = match noisy {
            true => noise,
            // Few values, so that there are matches.
            false => words
                .iter()
                .map(|&word| word << (8 * (word % 8)) | word.rotate_right(8))
                .collect(),
        };
        let slot = |slot: u16| get(width, words[usize::from(slot / per_word)], slot % per_word);
        let found: Vec<u16> = pieces(width, first, slots)
            .flat_map(|piece| {
                find(width, words[usize::from(piece.word)], piece, fingerprint)
                    .map(move |lane| piece.word * per_word + lane)
            })
            .collect();
        let expected: Vec<u16> = (first..first + u16::from(slots))
            .filter(|&at| slot(at) == fingerprint)
            .collect();
        prop_assert_eq!(found, expected);
        let full = (0..per_word).filter(|&lane| slot(lane) != 0).count();
        prop_assert_eq!(occupied(width, words[0]) as usize, full);
    }

    #[test]
    fn what_was_set_is_got_and_nothing_else_changes(
        width in widths(), word: u64, lane in 0u16..8, value: u32,
    ) {
        let (lane, value) = (lane % width.slots_per_word(), value & width.fingerprints());
        let changed = set(width, word, lane, value);
        for other in 0..width.slots_per_word() {
            let expected = if other == lane { value } else { get(width, word, other) };
            prop_assert_eq!(get(width, changed, other), expected);
        }
    }
}
