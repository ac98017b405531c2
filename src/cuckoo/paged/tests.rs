use super::*;
use proptest::prelude::*;

fn widths() -> impl Strategy<Value = SlotWidth> {
    proptest::sample::select(SlotWidth::ALL.to_vec())
}

#[test]
fn the_requested_capacity_fits_below_the_target_load() {
    for (capacity, width, pages) in [
        (1, SlotWidth::Bits16, 1),
        (1_945, SlotWidth::Bits16, 1),
        (1_946, SlotWidth::Bits16, 2),
        (10_000_000, SlotWidth::Bits16, 5_140),
        (10_000_000, SlotWidth::Bits8, 2_598),
        (10_000_000, SlotWidth::Bits32, 10_280),
    ] {
        assert_eq!(pages_for(capacity, width), pages, "{capacity} {width:?}");
    }
}

#[test]
fn pages_beyond_32_bits_are_refused() {
    let width = SlotWidth::Bits16;
    assert!(Paged::new(1, 31, width).is_some());
    assert_eq!(Paged::new(1, 32, width), None);
    assert_eq!(Paged::new(2, 31, width), None);
    assert_eq!(Paged::new(0, 0, width), None);
    assert_eq!(Paged::new(3, 64, width), None);
    assert_eq!(Paged::new(1 << 32, 0, width), None);
}

#[test]
fn where_an_item_lies_is_pinned() {
    // From an independent implementation of the table and formulas above.
    let stays = ItemHash(0x0123_4567_89ab_cdef_0f1e_2d3c_4b4f_ffff);
    let crosses = ItemHash(0x0123_4567_89ab_cdef_0f1e_2d3c_4f4f_ffff);
    for (hash, width, expected) in [
        (stays, SlotWidth::Bits8, (0x4c, 12_135_740, 12_136_167)),
        (crosses, SlotWidth::Bits8, (0x50, 12_135_740, 1_946_806_477)),
        (stays, SlotWidth::Bits16, (0x4b50, 6_068_028, 1_209_241_639)),
        (crosses, SlotWidth::Bits16, (0x4f50, 6_068_028, 93_144_845)),
        (
            stays,
            SlotWidth::Bits32,
            (0x4b4f_ffff, 3_033_916, 3_034_083),
        ),
    ] {
        let layout = Paged::new(333_333, 3, width).unwrap();
        let it = layout.candidates(hash);
        assert_eq!(
            (it.fingerprint.0, it.first.0, it.second.0),
            expected,
            "{width:?}"
        );
    }
}

#[test]
fn every_fingerprint_is_equally_likely() {
    let layout = Paged::new(1, 0, SlotWidth::Bits8).unwrap();
    let mut seen = [0u32; 256];
    for step in 0..255u128 << 8 {
        let hash = ItemHash((step << 32).div_ceil(255 << 8));
        seen[layout.candidates(hash).fingerprint.0 as usize] += 1;
    }
    assert_eq!(seen[0], 0);
    assert!(seen[1..].iter().all(|&times| times == 256), "{seen:?}");
}

#[test]
fn one_in_eight_fingerprints_crosses() {
    for (width, share) in [(SlotWidth::Bits8, 15.0 / 255.0), (SlotWidth::Bits16, 0.125)] {
        let all = width.fingerprints();
        let crossing = (1..=all).filter(|&it| crosses(width, it)).count();
        assert!((crossing as f64 / f64::from(all) - share).abs() < 1e-4);
    }
}

proptest! {
    #[test]
    fn the_alternate_is_another_bucket_and_its_own_inverse(
        width in widths(), high: u64, low: u64, families in 1u64..100_000, growth in 0u32..14,
    ) {
        let layout = Paged::new(families, growth, width).unwrap();
        let it = layout.candidates(ItemHash(u128::from(high) << 64 | u128::from(low)));
        prop_assert!((1..=width.fingerprints()).contains(&it.fingerprint.0));
        prop_assert!(it.first != it.second);
        prop_assert_eq!(layout.alternate(it.second, it.fingerprint), it.first);
        for bucket in it.buckets() {
            let at = layout.address(bucket);
            prop_assert!(at.page < layout.pages());
            let last_slot = u32::from(at.first_slot) + u32::from(BUCKET_SIZE);
            prop_assert!(last_slot * u32::from(width.bytes()) <= PAGE_BYTES);
        }
        let stays = layout.address(it.first).page == layout.address(it.second).page;
        prop_assert!(stays || crosses(width, it.fingerprint.0));
    }

    #[test]
    fn the_buckets_in_a_larger_sub_filter_lie_over_those_in_a_smaller_one(
        width in widths(), high: u64, low: u64,
        families in 1u64..10_000, growth in 0u32..8, more in 1u32..8,
    ) {
        let hash = ItemHash(u128::from(high) << 64 | u128::from(low));
        let small = Paged::new(families, growth, width).unwrap();
        let large = Paged::new(families, growth + more, width).unwrap();
        let (one, other) = (small.candidates(hash), large.candidates(hash));
        prop_assert_eq!(one.fingerprint, other.fingerprint);
        prop_assert_eq!(one.first, small.under(other.first, &large));
        prop_assert_eq!(one.second, small.under(other.second, &large));
    }
}
