//! What neighbours are measured beside.

use serde_json::{Value, json};

/// Items of a request, at most.
pub(super) const MOST_ITEMS: u64 = 250_000;

/// Items with which a filter is made in one slice.
const IN_A_SLICE: u64 = 4_000;

/// Copies that are counted and take no slice of their own.
const IN_A_DRAIN: u64 = 900;

/// Sub-filters of a filter at most, and the items that may be looked for in so many.
const LONGEST_CHAIN: u64 = 64;
const MOST_LOOKS: u64 = 4_000_000;

/// A filter, what is done to it again and again, and how many items at once.
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) create: Value,
    /// Where items are sent to, behind the filter's path.
    pub(super) action: &'static str,
    pub(super) items: u64,
    pub(super) fill: Fill,
}

/// How full the filter is first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// Not at all, and made anew when it has as many items as its capacity.
    Empty,
    Full,
    /// As full as it gets, but for the items of one request, which are deleted
    /// before each: searches for room are long, and find some.
    Nearly,
    /// With as many items as its capacity.
    Capacity,
    /// With the items of the next request, which deletes them.
    Grown,
    /// With the items of each request, which are the same: their copies are counted
    /// beside their pages, and are deleted before the next.
    Counted,
    /// With as many items as its capacity, each of them twice, so that its pages have
    /// as many counters as they get. Requests add more copies.
    Twice,
    /// Each request makes a filter of its own, and the one before is deleted.
    Made,
    /// Each adds its items, deletes all but a tenth of what is there, and has the
    /// filter compacted.
    Shrinking,
}

pub(super) fn works(capacity: u64) -> Vec<Work> {
    let work = |name, create, action, items| Work {
        name,
        create,
        action,
        items,
        fill: Fill::Full,
    };
    let chain = json!({"layout": "classic", "bucket_size": 2, "capacity": 1_000,
        "expansion": 1, "max_expansions": LONGEST_CHAIN - 1});
    let in_chain = MOST_LOOKS / LONGEST_CHAIN;
    let one_slot = json!({"layout": "classic", "bucket_size": 1, "max_iterations": 65_535,
        "capacity": capacity, "expansion": 0});
    let wide = json!({"layout": "classic", "bucket_size": 255, "capacity": capacity,
        "expansion": 0});
    let bits = |bits: u64| json!({"fingerprint_bits": bits, "capacity": capacity, "expansion": 0});
    // Filled to where pages begin to be split: from then on one for 20 adds with 32
    // bits, one for 128 with 12. In a large filter as many adds as are just below what
    // one request may write.
    let growing = |name, bits: u64, most: u64| Work {
        name,
        create: json!({"fingerprint_bits": bits, "capacity": capacity}),
        action: "items",
        items: (capacity / 40).min(most),
        fill: Fill::Capacity,
    };
    let emptied = Work {
        name: "deletes that merge pages",
        create: json!({"fingerprint_bits": 12, "capacity": 1_000}),
        action: "items/delete",
        items: MOST_ITEMS.min(capacity),
        fill: Fill::Grown,
    };
    // Some hundredths of the slots are free while their last items are added.
    let nearly = |name, create: Value| Work {
        name,
        items: (create["capacity"].as_u64().unwrap() / 40).min(MOST_ITEMS),
        create,
        action: "items",
        fill: Fill::Nearly,
    };
    // Larger ones take minutes to fill, item by item with a long search each.
    let large = (4 * capacity).min(1_000_000);
    let pages = |bits: u64| json!({"fingerprint_bits": bits, "capacity": large, "expansion": 0});
    let pairs = json!({"layout": "classic", "bucket_size": 2, "max_iterations": 500,
        "capacity": large, "expansion": 0});
    let fours = json!({"layout": "classic", "bucket_size": 4, "max_iterations": 65_535,
        "capacity": large, "expansion": 0});
    let unless_there = "items?only_if_absent=true";
    vec![
        work("full, one slot a bucket", one_slot, "items", MOST_ITEMS),
        work("full, wide buckets", wide, "items", MOST_ITEMS),
        work("full, 12 bits", bits(12), "items", MOST_ITEMS),
        work("full, 32 bits", bits(32), "items", MOST_ITEMS),
        work("adds to a chain", chain.clone(), "items", in_chain),
        work(
            "adds to a chain unless there",
            chain.clone(),
            unless_there,
            in_chain,
        ),
        work("deletes from a chain", chain, "items/delete", in_chain),
        growing("adds that split pages, 32 bits", 32, 20_000),
        growing("adds that split pages, 12 bits", 12, 50_000),
        emptied,
        nearly("nearly full, 16 bits", pages(16)),
        nearly("nearly full, 32 bits", pages(32)),
        nearly("nearly full, pairs", pairs),
        nearly("nearly full, fours", fours),
    ]
}

/// What neighbours are measured beside, whatever it costs.
pub(super) fn others(capacity: u64) -> [Work; 5] {
    [
        Work {
            name: "adds to a sized filter",
            create: json!({"capacity": 20 * MOST_ITEMS}),
            action: "items",
            items: MOST_ITEMS,
            fill: Fill::Empty,
        },
        Work {
            name: "copies that are counted",
            create: json!({"layout": "classic", "bucket_size": 1, "capacity": 2 * MOST_ITEMS,
                "expansion": 0}),
            action: "items",
            items: MOST_ITEMS,
            fill: Fill::Counted,
        },
        Work {
            name: "copies on pages of many counters",
            create: json!({"fingerprint_bits": 12, "capacity": (4 * capacity).min(4_000_000)}),
            action: "items",
            items: IN_A_DRAIN,
            fill: Fill::Twice,
        },
        Work {
            name: "filters made with items",
            create: json!({}),
            action: "items?create=true&capacity=20000",
            items: IN_A_SLICE,
            fill: Fill::Made,
        },
        Work {
            name: "a chain that is compacted",
            create: json!({"layout": "classic", "bucket_size": 4, "expansion": 2,
                "capacity": capacity.min(MOST_ITEMS) / 8}),
            action: "compact",
            items: capacity.min(MOST_ITEMS),
            fill: Fill::Shrinking,
        },
    ]
}
