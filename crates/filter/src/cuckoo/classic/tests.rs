use super::*;
use proptest::prelude::*;

#[test]
fn the_requested_capacity_fits_below_the_target_load() {
    for (capacity, bucket_size, buckets) in [
        (1024, 2, 1024),
        (1_000, 2, 1024),
        (10_000_000, 2, 8 << 20),
        (10_000_000, 4, 4 << 20),
        (2, 1, 4),
        (510, 255, 4),
    ] {
        assert_eq!(
            buckets_for(capacity, bucket_size),
            buckets,
            "{capacity}/{bucket_size}"
        );
    }
}

#[test]
fn a_page_holds_a_power_of_two_of_whole_buckets() {
    let three = Classic::new(1 << 20, 3).unwrap();
    assert_eq!(three.page_bytes(), 3 * 1024);
    assert_eq!(three.pages(), 1024);
    let small = Classic::new(4, 2).unwrap();
    assert_eq!(small.page_bytes(), 8);
    assert_eq!(small.pages(), 1);
    assert_eq!(Classic::new(1 << 63, 1), None);
    assert_eq!(Classic::new(3, 1), None);
}

proptest! {
    #[test]
    fn the_alternate_is_its_own_inverse(hash: u64, shift in 0u32..36, size in 1u8..=255) {
        let layout = Classic::new(1 << shift, size).unwrap();
        let it = layout.candidates(ItemHash::from(hash));
        prop_assert!(it.fingerprint.0 != 0);
        prop_assert_eq!(layout.alternate(it.second, it.fingerprint), it.first);
        for bucket in it.buckets() {
            let at = layout.address(bucket);
            prop_assert!(at.page < layout.pages());
            prop_assert!(
                u32::from(at.first_slot) + u32::from(size) <= layout.page_bytes()
            );
        }
    }

    #[test]
    fn a_match_in_a_larger_sub_filter_is_a_match_in_a_smaller_one(
        one: u64, other: u64, shift in 1u32..8, growth in 1u32..8,
    ) {
        let small = Classic::new(1 << shift, 2).unwrap();
        let large = Classic::new(1 << (shift + growth), 2).unwrap();
        let (over, under) = [large, small].map(|it| it.candidates(ItemHash::from(one))).into();
        prop_assert_eq!(small.candidates_under(over.first, over.fingerprint), under);
        prop_assert_eq!(small.candidates_under(over.second, over.fingerprint).first, under.second);
        let same_class = |layout: &Classic| {
            let (a, b) = (layout.candidates(ItemHash::from(one)), layout.candidates(ItemHash::from(other)));
            a.fingerprint == b.fingerprint && (a.first == b.first || a.first == b.second)
        };
        prop_assert!(!same_class(&large) || same_class(&small));
    }
}

#[test]
fn a_number_of_buckets_has_a_capacity_that_leads_back_to_it() {
    for bucket_size in 1..=255 {
        for shift in 1..40 {
            let buckets = 1 << shift;
            let capacity = capacity_of(buckets, bucket_size);
            assert_eq!(
                buckets_for(capacity, bucket_size),
                buckets,
                "{bucket_size} {buckets}"
            );
        }
    }
}
