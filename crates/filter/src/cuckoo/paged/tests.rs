use super::code::{Deeper, SlotCode};
use super::rate;
use super::{Candidate, PAGE_WORDS, Paged};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::hash::ItemHash;
use proptest::prelude::*;

const WIDTHS: [SlotWidth; 4] = [
    SlotWidth::Bits12,
    SlotWidth::Bits16,
    SlotWidth::Bits21,
    SlotWidth::Bits32,
];

/// Codes with values, by width and bits of the value.
const VALUED: [(SlotWidth, u8); 5] = [
    (SlotWidth::Bits16, 4),
    (SlotWidth::Bits16, 5),
    (SlotWidth::Bits21, 1),
    (SlotWidth::Bits32, 8),
    (SlotWidth::Bits32, 16),
];

fn with_values((width, bits): (SlotWidth, u8)) -> SlotCode {
    SlotCode::with_values(width, bits).unwrap()
}

fn codes() -> impl Strategy<Value = SlotCode> {
    prop_oneof![
        proptest::sample::select(WIDTHS.map(SlotCode::of).to_vec()),
        // Suffixes so short that many entries are void.
        Just(SlotCode::of(SlotWidth::Bits12).with_anchor_bits(9)),
        Just(SlotCode::of(SlotWidth::Bits16).with_anchor_bits(11)),
        proptest::sample::select(VALUED.to_vec()).prop_map(with_values),
    ]
}

/// A geometry, by how many splits it has seen.
fn geometries() -> impl Strategy<Value = Paged> {
    (codes(), 1u64..200, 0u32..9, any::<u32>()).prop_map(|(code, families, level, at)| {
        let level = level.min(code.suffix_bits() + 3) as u8;
        let pointer = at % ((families as u32) << level);
        Paged::grown(families, level, pointer, code).unwrap()
    })
}

fn hash((high, low): (u64, u64)) -> ItemHash {
    ItemHash(u128::from(high) << 64 | u128::from(low))
}

/// The bits of the path that a slot holds, first one first: another way to read
/// the table of `code.rs`.
fn held(code: SlotCode, slot: u32, level: u32) -> Vec<bool> {
    let (bits, slot) = (code.suffix_bits(), slot >> code.value_bits());
    let mut suffix: Vec<bool> = (0..bits).rev().map(|bit| slot >> bit & 1 == 1).collect();
    if level > 0 {
        while suffix.pop() == Some(false) {}
    }
    suffix
}

/// All bits that are known of an entry: those of its page, and of its slot.
fn known(layout: &Paged, page: u32, slot: u32) -> Vec<bool> {
    let level = layout.level_of(page);
    let branch = page / layout.families();
    let mut known: Vec<bool> = (0..level).map(|bit| branch >> bit & 1 == 1).collect();
    known.extend(held(layout.code(), slot, level));
    known
}

/// Slots that pages of a level can have.
fn slots_of(code: SlotCode, level: u32, random: u32) -> u32 {
    let age = random >> 27;
    let bits = code.suffix_bits();
    let slot = random.rotate_left(16) & code.width().fingerprints();
    let value = slot & code.value_mask();
    let mut slot = slot >> code.value_bits();
    if level > 0 {
        let age = age % level.min(bits);
        slot = slot >> age << age | 1 << age;
        slot |= (slot & ((1 << bits) - 1) == 0) as u32;
    }
    slot = slot.max(1);
    slot << code.value_bits() | value
}

proptest! {
    #[test]
    fn a_split_takes_the_first_bit_and_a_merge_brings_it_back(
        code in codes(), level in 0u32..9, random: u32,
    ) {
        let slot = slots_of(code, level, random);
        let before = held(code, slot, level);
        prop_assert_eq!(code.known(slot, level), level + before.len() as u32);
        match code.deeper(slot, level) {
            Deeper::Void => prop_assert!(before.is_empty() && level > 0),
            Deeper::Child { bit, slot: deeper } => {
                prop_assert!(deeper != 0);
                prop_assert_eq!(code.anchor(deeper), code.anchor(slot));
                prop_assert_eq!(bit, before[0]);
                prop_assert_eq!(&held(code, deeper, level + 1), &before[1..]);
                let back = code.shallower(deeper, level + 1, bit);
                prop_assert!(!back.loses_a_bit);
                prop_assert_eq!(back.slot, slot);
            }
        }
    }

    #[test]
    fn a_merge_gives_back_a_bit_or_loses_the_last(
        code in codes(), level in 1u32..9, random: u32, bit: bool,
    ) {
        let slot = slots_of(code, level, random);
        let before = held(code, slot, level);
        let merged = code.shallower(slot, level, bit);
        let mut expected = vec![bit];
        expected.extend(&before);
        // A fresh entry of a deep page has no room for one more.
        let room = code.suffix_bits() as usize - usize::from(level > 1);
        prop_assert_eq!(merged.loses_a_bit, expected.len() > room);
        expected.truncate(room);
        prop_assert_eq!(held(code, merged.slot, level - 1), expected);
        prop_assert_eq!(code.anchor(merged.slot), code.anchor(slot));
    }

    #[test]
    fn what_two_entries_have_in_common_stands_for_both(
        code in codes(), level in 0u32..14, random: [u32; 2], near in 0u32..24,
    ) {
        let one = slots_of(code, level, random[0]);
        // Mostly one that begins alike.
        let other = slots_of(code, level, random[0] ^ random[1] >> near);
        let (mine, theirs) = (held(code, one, level), held(code, other, level));
        let alike = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let may = code.anchor(one) == code.anchor(other)
            && level + alike as u32 >= code.suffix_bits();
        let common = code.common(one, other, level);
        prop_assert_eq!(common, code.common(other, one, level));
        prop_assert_eq!(common.is_some(), may);
        if let Some(common) = common {
            prop_assert_eq!(code.anchor(common), code.anchor(one));
            prop_assert_eq!(&held(code, common, level)[..], &mine[..alike]);
            // But for values, it lies between the two.
            let [one, other] = [one, other].map(|it| it & !code.value_mask());
            prop_assert!(one.min(other) <= common && common <= one.max(other));
        }
    }

    #[test]
    fn a_slot_matches_if_all_it_knows_agrees(
        code in codes(), level in 0u32..9, random: [u32; 5], item: u64, anchor: u32, near in 0u32..40,
    ) {
        let width = code.width();
        let anchor = anchor & ((1 << code.anchor_bits()) - 1);
        let path = code.path_of(anchor, item);
        let fresh = code.fresh(anchor, path, level);
        let lanes = usize::from(width.slots_per_word());
        let slots: Vec<u32> = random.iter().take(lanes).enumerate().map(|(lane, &random)| {
            // Some are the item's own, as an older entry or with one bit wrong.
            match (lane as u32 + near) % 5 {
                0 => 0,
                1 => slots_of(code, level, random),
                2 => fresh,
                3 => fresh ^ 1 << (random % u32::from(width.bits())),
                _ => {
                    let (age, value) = (random % (level + 1).min(code.suffix_bits()), random >> 7 & code.value_mask());
                    let age = age + code.value_bits();
                    value | if level > 0 { fresh >> age << age | 1 << age } else { fresh }
                }
            }
        }).collect();
        let word = slots.iter().enumerate().fold(0, |word, (lane, &slot)| {
            bucket::set(width, word, lane as u16, slot)
        });
        let found: Vec<u16> = code.matching(word, fresh, level).collect();
        let expected: Vec<u16> = slots.iter().enumerate().filter(|&(_, &slot)| {
            let path: Vec<bool> = (level..64).map(|bit| path >> bit & 1 == 1).collect();
            slot != 0 && code.anchor(slot) == anchor
                && path.starts_with(&held(code, slot, level))
        }).map(|(lane, _)| lane as u16).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(bucket::empty(width, word).count() as usize, slots.iter().filter(|&&it| it == 0).count());
    }

    #[test]
    fn a_value_stays_as_it_is_and_decides_nothing(
        valued in proptest::sample::select(VALUED.to_vec()), families in 1u64..40, splits in 0u32..500,
        page: u32, word in 0..PAGE_WORDS, random: u32, value: u32, bit: bool,
    ) {
        let code = with_values(valued);
        let mut layout = Paged::new(families, code).unwrap();
        for _ in 0..splits {
            layout = layout.split().unwrap_or(layout);
        }
        let page = page % layout.pages();
        let (level, bucket) = (layout.level_of(page), layout.bucket_at(page, word));
        let slot = slots_of(code, level, random) & !code.value_mask();
        let value = value & code.value_mask();
        let with = |slot: u32| slot | value;
        prop_assert_eq!(code.known(with(slot), level), code.known(slot, level));
        prop_assert_eq!(layout.class_bucket(bucket, with(slot)), layout.class_bucket(bucket, slot));
        let deeper = match code.deeper(slot, level) {
            Deeper::Child { bit, slot } => Deeper::Child { bit, slot: with(slot) },
            Deeper::Void => Deeper::Void,
        };
        prop_assert_eq!(code.deeper(with(slot), level), deeper);
        if level > 0 {
            let (plain, valued) = (code.shallower(slot, level, bit), code.shallower(with(slot), level, bit));
            prop_assert_eq!((valued.slot, valued.loses_a_bit), (with(plain.slot), plain.loses_a_bit));
        }
        let there = layout.elsewhere(bucket, slot).map(|it| (it.bucket, with(it.slot)));
        prop_assert_eq!(layout.elsewhere(bucket, with(slot)).map(|it| (it.bucket, it.slot)), there);
    }

    #[test]
    fn an_item_has_two_buckets_in_both_of_which_it_is_recognised(
        layout in geometries(), bits: (u64, u64),
    ) {
        let [first, second] = layout.candidates(hash(bits));
        prop_assert!(first.bucket != second.bucket);
        let code = layout.code();
        for (here, there) in [(first, second), (second, first)] {
            let (page, word) = layout.address(here.bucket);
            prop_assert!(page < layout.pages());
            prop_assert!(word + layout.code().words_per_bucket() <= PAGE_WORDS);
            prop_assert_eq!(layout.bucket_at(page, word), here.bucket);
            prop_assert_eq!(layout.level_of(page), u32::from(here.level));
            prop_assert!(here.slot != 0);
            let crosses = layout.crosses(here.slot);
            prop_assert!(crosses || layout.address(there.bucket).0 == page);
            let class = |it: Candidate| layout.class_bucket(it.bucket, it.slot);
            prop_assert_eq!(class(here) == class(there) || crosses, true);
            // Where a fresh entry goes if it is kicked out.
            match layout.elsewhere(here.bucket, here.slot) {
                None => prop_assert!(here.level > there.level),
                Some(other) => {
                    prop_assert_eq!(other.bucket, there.bucket);
                    let found = code.matching(u64::from(other.slot), there.slot, there.level.into());
                    prop_assert_eq!(found.first(), Some(0));
                }
            }
        }
    }

    #[test]
    fn a_kick_out_keeps_all_that_is_known_and_can_be_taken_back(
        layout in geometries(), page: u32, word in 0..PAGE_WORDS, random: u32,
    ) {
        let page = page % layout.pages();
        let here = layout.bucket_at(page, word);
        let slot = slots_of(layout.code(), layout.level_of(page), random);
        let Some(there) = layout.elsewhere(here, slot) else {
            return Ok(());
        };
        let (other, _) = layout.address(there.bucket);
        prop_assert!(other < layout.pages());
        let [before, after] = [known(&layout, page, slot), known(&layout, other, there.slot)];
        prop_assert_eq!(before.len(), after.len());
        let back = layout.elsewhere(there.bucket, there.slot).unwrap();
        prop_assert_eq!((back.bucket, back.slot), (here, slot));
    }

    #[test]
    fn an_entry_stays_with_its_item_through_splits_and_merges(
        code in codes(), families in 1u64..40, bits: (u64, u64), splits in 0u32..2_000,
    ) {
        let mut layout = Paged::new(families, code).unwrap();
        let hash = hash(bits);
        // The entry of each candidate as it was added at first.
        let mut entries = layout.candidates(hash);
        for _ in 0..splits {
            let (pair, next) = (layout.next_pair(), layout.split());
            let Some(next) = next else { break };
            for entry in &mut entries {
                let (page, word) = layout.address(entry.bucket);
                let to = match (page == pair.page, code.deeper(entry.slot, pair.level.into())) {
                    (false, _) => page,
                    // Copied: one of the copies is where the item is looked for.
                    (true, Deeper::Void) => {
                        let here = next.candidates(hash).map(|it| next.address(it.bucket).0);
                        if here.contains(&pair.sibling) { pair.sibling } else { page }
                    }
                    (true, Deeper::Child { bit, slot }) => {
                        entry.slot = slot;
                        if bit { pair.sibling } else { page }
                    }
                };
                entry.bucket = next.bucket_at(to, word);
                entry.level = next.level_of(to) as u8;
            }
            prop_assert_eq!(next.merged(), Some(layout));
            layout = next;
        }
        for (entry, candidate) in entries.iter().zip(layout.candidates(hash)) {
            let (of_entry, of_candidate) = (layout.address(entry.bucket), layout.address(candidate.bucket));
            prop_assert_eq!(of_entry.1, of_candidate.1);
            // Of two copies the wrong one may have been followed here.
            let is_void = held(code, entry.slot, entry.level.into()).is_empty() && entry.level > 0;
            if is_void { continue; }
            prop_assert_eq!(of_entry.0, of_candidate.0);
            let found = code.matching(u64::from(entry.slot), candidate.slot, entry.level.into());
            prop_assert_eq!(found.first(), Some(0));
        }
    }
}

#[test]
fn what_a_page_holds_at_any_level_can_be_read_as_of_any_other() {
    let with_values = SlotCode::with_values(SlotWidth::Bits16, 4).unwrap();
    for code in [SlotCode::of(SlotWidth::Bits12), with_values] {
        for slot in 0..1u32 << code.width().bits() {
            for level in 0..40 {
                let known = code.known(slot, level);
                assert!((level..=level + code.suffix_bits()).contains(&known));
                let turned = code.turned(slot, level, u64::MAX);
                assert_eq!(code.turned(turned, level, u64::MAX), slot);
                assert!(
                    code.known_if_sound(slot, level)
                        .is_none_or(|it| it == known)
                );
            }
        }
    }
}

#[test]
fn geometries_that_cannot_be_are_refused() {
    let code = SlotCode::of(SlotWidth::Bits16);
    assert_eq!(code.suffix_bits(), 8);
    assert_eq!(Paged::new(0, code), None);
    assert_eq!(Paged::new(1 << 32, code), None);
    assert!(Paged::new(u64::from(u32::MAX), code).is_some());
    assert_eq!(Paged::new(u64::from(u32::MAX), code).unwrap().split(), None);
    assert!(Paged::grown(3, 5, 95, code).is_some());
    assert_eq!(
        Paged::grown(3, 5, 96, code),
        None,
        "the level would be over"
    );
    assert_eq!(Paged::grown(1 << 20, 12, 0, code), None, "2^32 pages");
    let last = Paged::grown(3, 13, 0, code).unwrap();
    assert_eq!(last.max_level(), 13);
    assert_eq!(last.split(), None);
    assert_eq!(Paged::grown(3, 13, 1, code), None);
    assert_eq!(Paged::grown(3, 14, 0, code), None);
    assert_eq!(Paged::new(3, code).unwrap().merged(), None);
}

#[test]
fn values_leave_a_fingerprint_or_are_refused() {
    for (width, most) in WIDTHS.into_iter().zip([1, 5, 10, 21]) {
        assert_eq!(SlotCode::with_values(width, 0), Some(SlotCode::of(width)));
        assert!(SlotCode::with_values(width, most).is_some(), "{width:?}");
        assert_eq!(SlotCode::with_values(width, most + 1), None, "{width:?}");
    }
}

#[test]
fn one_anchor_in_eight_crosses() {
    for code in WIDTHS
        .map(SlotCode::of)
        .into_iter()
        .chain(VALUED.map(with_values))
    {
        let layout = Paged::new(1, code).unwrap();
        let anchors = 1u32 << code.anchor_bits();
        let shift = code.suffix_bits() + code.value_bits();
        let crossing = (0..anchors).filter(|it| layout.crosses(it << shift));
        assert_eq!(crossing.count() as u32, anchors / 8);
        assert!(!layout.crosses(0), "what could look empty stays");
    }
}

#[test]
fn where_an_item_lies_is_pinned() {
    // From an independent implementation of the tables and formulas: page and
    // word, level, slot.
    let (high, stays) = (0x0f1e_2d3c_4b4f_ffff, 0x0123_4567_89ab_cdef);
    let crosses = stays & !(7 << 9) | 1 << 9;
    for (width, low, expected) in [
        (
            SlotWidth::Bits12,
            stays,
            [(0x92e, 0x1ef, 3, 0x995), (0x92e, 0x22, 3, 0x995)],
        ),
        (
            SlotWidth::Bits12,
            crosses,
            [(0x92e, 0x1ef, 3, 0x855), (0x8c4, 0x122, 3, 0x845)],
        ),
        (
            SlotWidth::Bits16,
            stays,
            [(0x694, 0x1ef, 3, 0xe659), (0x694, 0xc4, 3, 0xe659)],
        ),
        (
            SlotWidth::Bits16,
            crosses,
            [(0x694, 0x1ef, 3, 0xe159), (0x799, 0x44, 3, 0xe1e5)],
        ),
        (
            SlotWidth::Bits21,
            stays,
            [(0x694, 0x1ef, 3, 0x1c_cb23), (0x694, 0xc4, 3, 0x1c_cb23)],
        ),
        (
            SlotWidth::Bits21,
            crosses,
            [(0x694, 0x1ef, 3, 0x1c_2b23), (0x799, 0x44, 3, 0x1c_3ca3)],
        ),
        (
            SlotWidth::Bits32,
            stays,
            [
                (0x694, 0x1de, 3, 0xe659_1e6b),
                (0x694, 0x188, 3, 0xe659_1e6b),
            ],
        ),
        (
            SlotWidth::Bits32,
            crosses,
            [
                (0x694, 0x1de, 3, 0xe159_1e6b),
                (0x799, 0x88, 3, 0xe1e5_15ff),
            ],
        ),
    ] {
        let layout = Paged::grown(333, 3, 700, SlotCode::of(width)).unwrap();
        let places = layout.candidates(hash((high, low))).map(|it| {
            let (page, word) = layout.address(it.bucket);
            (page, word, it.level, it.slot)
        });
        assert_eq!(places, expected, "{width:?}");
    }
}

#[test]
fn doublings_within_a_rate_are_those_of_the_design() {
    for (width, rate, doublings) in [
        (SlotWidth::Bits12, 1e-3, None),
        (SlotWidth::Bits12, 1e-2, Some(3)),
        (SlotWidth::Bits12, 3e-2, Some(6)),
        (SlotWidth::Bits16, 5e-4, Some(3)),
        (SlotWidth::Bits16, 1e-3, Some(7)),
        (SlotWidth::Bits21, 3e-5, Some(10)),
        (SlotWidth::Bits21, 1e-4, Some(13)),
        (SlotWidth::Bits32, 1e-6, Some(24)),
    ] {
        assert_eq!(
            rate::doublings_within(rate, SlotCode::of(width)),
            doublings,
            "{width:?} {rate}"
        );
    }
}

#[test]
fn nothing_is_found_in_an_empty_filter() {
    let layout = Paged::new(1, SlotCode::of(SlotWidth::Bits16)).unwrap();
    let rate = rate::false_positive_rate(&layout, std::iter::empty());
    assert!(rate == 0.0 && rate.is_sign_positive(), "{rate}");
}
