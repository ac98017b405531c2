use super::*;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::cuckoo::hash::HashKey;
use proptest::prelude::*;
use std::collections::HashSet;

/// Rows of a filter with these attributes: so many labels, or bits of a hash.
fn codec(codes: &[Result<usize, u8>]) -> Option<RowCodec> {
    let named = codes.iter().enumerate().map(|(at, codes)| {
        let labels = |count| (0..count).map(|label| format!("{label:x}")).collect();
        let codes = match codes {
            Ok(count) => Codes::Exact(labels(*count)),
            Err(bits) => Codes::Hashed(*bits),
        };
        (format!("a{at}"), codes)
    });
    let request = FilterRequest {
        attributes: Some(Attributes::new(named.collect()).ok()?),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([3; 16]), 5).unwrap();
    assert_eq!(Chain::decode(&chain.encode()).as_ref(), Ok(&chain));
    RowCodec::of(&chain)
}

fn codes() -> impl Strategy<Value = Vec<Result<usize, u8>>> {
    let one = prop_oneof![(1..40usize).prop_map(Ok), (1..8u8).prop_map(Err)];
    proptest::collection::vec(one, 1..5)
}

proptest! {
    #[test]
    fn a_row_gives_the_codes_back_that_it_was_made_of(
        codes in codes(),
        labels in proptest::collection::vec(any::<u32>(), 8),
    ) {
        let Some(mut codec) = codec(&codes) else {
            return Ok(());
        };
        let attributes = codec.attributes.clone();
        let text = |at: usize| match codes[at] {
            Ok(count) => format!("{:x}", labels[at] as usize % count),
            Err(_) => labels[at].to_string(),
        };
        let mut row = 0;
        for at in 0..codes.len() {
            let part = codec.part(at, text(at).as_bytes()).unwrap();
            // No two attributes share a bit.
            prop_assert_eq!(row & part, 0);
            row |= part;
        }
        prop_assert_eq!(row >> attributes.bits(), 0);
        for (at, attribute) in attributes.iter().enumerate() {
            let code = attribute.code_in(row);
            match codes[at] {
                Ok(_) => {
                    let text = text(at);
                    prop_assert_eq!(attribute.label(code), Some(text.as_str()));
                }
                Err(bits) => prop_assert!(code >> bits == 0),
            }
        }
        for (at, codes) in codes.iter().enumerate() {
            let unknown = codec.part(at, b"unknown");
            prop_assert_eq!(unknown.is_none(), codes.is_ok());
        }
    }

    #[test]
    fn a_condition_is_met_by_the_rows_of_which_it_lists_each_label(
        codes in codes(),
        rows in proptest::collection::vec(proptest::collection::vec(0..200u32, 8), 1..20),
        listed in proptest::collection::vec(proptest::collection::vec(0..200u32, 0..5), 8),
    ) {
        let Some(mut codec) = codec(&codes) else {
            return Ok(());
        };
        let label = |at: usize, number: u32| match codes[at] {
            Ok(count) => format!("{:x}", number as usize % count),
            Err(_) => number.to_string(),
        };
        let mut test = RowTest::default();
        let mut sets: Vec<(usize, HashSet<String>)> = Vec::new();
        // Of an attribute with an empty list nothing is asked.
        for (at, numbers) in listed.iter().take(codes.len()).enumerate() {
            if !numbers.is_empty() {
                let labels: Vec<String> = numbers.iter().map(|&it| label(at, it)).collect();
                codec.require(&mut test, at, &labels).unwrap();
                sets.push((at, labels.into_iter().collect()));
            }
        }
        for numbers in rows {
            let mut row = 0;
            for (at, &number) in numbers.iter().enumerate().take(codes.len()) {
                row |= codec.part(at, label(at, number).as_bytes()).unwrap();
            }
            let is_listed = |exactly: bool| {
                let sets = sets.iter().filter(|(at, _)| !exactly || codes[*at].is_ok());
                sets.clone().all(|(at, labels)| labels.contains(&label(*at, numbers[*at])))
            };
            // A no is certain, and so is a yes by exact codes alone.
            prop_assert!(test.is_met(row) || !is_listed(false));
            prop_assert!(!test.is_met(row) || is_listed(true));
        }
    }
}

#[test]
fn equal_labels_of_two_hashed_attributes_have_codes_of_their_own() {
    let mut codec = codec(&[Err(8), Err(8)]).unwrap();
    let code = |codec: &mut RowCodec, at: usize, label: u32| {
        let part = codec.part(at, label.to_string().as_bytes()).unwrap();
        codec.attributes.get(at).unwrap().code_in(part)
    };
    let equal =
        (0..2_560).filter(|&label| code(&mut codec, 0, label) == code(&mut codec, 1, label));
    // One of 256 by chance.
    assert!((1..40).contains(&equal.count()));
}

#[test]
fn an_unknown_label_of_a_condition_is_named_by_its_position() {
    let mut codec = codec(&[Ok(3)]).unwrap();
    let mut test = RowTest::default();
    let labels = ["1", "0", "3"].map(str::to_owned);
    assert_eq!(codec.require(&mut test, 0, &labels), Err(2));
}
