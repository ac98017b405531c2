//! A filter that was not told how many items come, against one that was: of the same
//! width, in the same server.

use super::{BATCH, Bench, POOL, Target, mixed, present, ratios};
use crate::rounds::Row;
use crate::servers::batches;
use crate::wire::{Form, post};
use serde_json::json;
use std::error::Error;

const CONNECTIONS: usize = 4;

/// What the filters are, and the fields that say so.
const KINDS: [(&str, &str); 2] = [
    ("cuckood, without a capacity", "grown"),
    ("cuckood, of that capacity", "sized"),
];

/// Bits of the slots that a filter without a capacity has.
const BITS: u64 = 21;

impl<'a> Bench<'a> {
    /// Questions, once all items are there.
    pub(super) fn grown_exists(&self) -> Result<Row<'a>, Box<dyn Error>> {
        const REQUESTS: usize = 8_000;
        let items = self.options.items / 2;
        let mut variants = Vec::new();
        for (name, key) in KINDS {
            let fields = match key {
                "sized" => json!({"capacity": items, "fingerprint_bits": BITS}),
                _ => json!({}),
            };
            self.cuckood.create(key, &fields)?;
            self.cuckood.fill(key, (0..items).map(present))?;
            let path = format!("/filters/{key}/exists");
            let ask = batches(&path, Form::Lines, POOL / 4, BATCH, mixed(items));
            let cuckood = Target::Ours(self.cuckood);
            let measure = self.repeated(cuckood, CONNECTIONS, ask, REQUESTS, BATCH)?;
            variants.push((name.to_owned(), measure));
        }
        Ok(Row {
            number: 6,
            what: "POST exists, 1,000 items, a filter that has grown and one that has not",
            unit: "items",
            ratios: ratios(&[(0, 1, Some(0.85))], variants.len(), 0),
            variants,
        })
    }

    /// Adds from the first item to the last, of other filters in every round.
    pub(super) fn growing_adds(&self) -> Result<Row<'a>, Box<dyn Error>> {
        let requests = (self.options.items / 2) as usize / BATCH;
        let items = (self.scaled(requests) * BATCH) as u64;
        let mut variants = Vec::new();
        for (name, key) in KINDS {
            let fields = match key {
                "sized" => format!("&capacity={items}&fingerprint_bits={BITS}"),
                _ => String::new(),
            };
            let mut number = 0;
            let make = move || {
                let (round, first) = (number / items, number % items);
                number += BATCH as u64;
                let path = format!("/filters/{key}-{round}/items?create=true{fields}");
                let last = first + BATCH as u64;
                post(&path, Form::Lines, (first..last).map(present))
            };
            let cuckood = Target::Ours(self.cuckood);
            let measure = self.fresh(cuckood, CONNECTIONS, make, requests, BATCH)?;
            variants.push((name.to_owned(), measure));
        }
        Ok(Row {
            number: 7,
            what: "POST items, 1,000 a request, from an empty filter to a full one",
            unit: "items",
            ratios: ratios(&[(0, 1, Some(0.6))], variants.len(), 0),
            variants,
        })
    }
}
