//! The slot of a filter's name, and the lane of a slot.
//!
//! Names have the slots that Redis Cluster gives to keys, so that its clients know them,
//! too: <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

use crate::name::FilterName;
use crc::{CRC_16_XMODEM, Crc, Table};

/// How many slots there are.
const SLOTS: u16 = 1 << 14;

static CRC: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// The slot of a name, from 0 to 16,383. Names with the same tag have the same one: a tag
/// is what is between the first `{` and the next `}`, if that is anything.
pub fn slot_of(name: &FilterName) -> u16 {
    let name = name.as_str();
    let tag = name.split_once('{').and_then(|(_, it)| it.split_once('}'));
    let hashed = match tag {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => name,
    };
    CRC.checksum(hashed.as_bytes()) % SLOTS
}

/// The lane of a filter, of so many: each has a range of slots.
pub fn lane_of(name: &FilterName, lanes: usize) -> usize {
    lane_of_slot(slot_of(name), lanes)
}

/// The lane of a slot, of so many.
pub(super) fn lane_of_slot(slot: u16, lanes: usize) -> usize {
    usize::from(slot) * lanes / usize::from(SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::FilterId;

    fn slot(name: &str) -> u16 {
        slot_of(&FilterName::parse(name).unwrap())
    }

    #[test]
    fn names_have_the_slots_of_redis_cluster() {
        // The check value of the sum, and what `CLUSTER KEYSLOT` of Redis 7 says.
        assert_eq!(CRC.checksum(b"123456789"), 0x31c3);
        for (name, expected) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("bar", 5_061),
            ("somekey", 11_058),
            ("foo{hash_tag}", 2_515),
            ("bar{hash_tag}", 2_515),
        ] {
            assert_eq!(slot(name), expected, "{name}");
        }
    }

    #[test]
    fn a_tag_is_what_is_between_the_first_brace_and_the_next_one_that_closes() {
        assert_eq!(slot("{user7}a"), slot("user7"));
        assert_eq!(slot("b{user7}{x}"), slot("user7"));
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
        assert_eq!(slot("}{a}"), slot("a"));
        for whole in ["foo{}{bar}", "foo{bar", "}foo{", "{}"] {
            let sum = CRC.checksum(whole.as_bytes());
            assert_eq!(slot(whole), sum % SLOTS, "{whole}");
        }
    }

    #[test]
    fn a_double_holds_each_number_of_a_filter() {
        let largest = FilterId::new(SLOTS - 1, (1 << FilterId::SERIAL_BITS) - 1);
        assert_eq!(largest.0, (1 << f64::MANTISSA_DIGITS) - 1);
        assert_eq!(
            (largest.slot(), largest.serial()),
            (SLOTS - 1, (1 << 39) - 1)
        );
    }

    #[test]
    fn each_lane_has_one_range_of_slots() {
        for lanes in (1..=256).chain([1024]) {
            let of: Vec<usize> = (0..SLOTS).map(|slot| lane_of_slot(slot, lanes)).collect();
            assert!(of.is_sorted());
            let ranges: Vec<usize> = of.chunk_by(|a, b| a == b).map(<[usize]>::len).collect();
            assert_eq!(ranges.len(), lanes);
            let (least, most) = (ranges.iter().min().unwrap(), ranges.iter().max().unwrap());
            assert!(most - least <= 1, "{lanes}: {least} to {most}");
        }
    }
}
