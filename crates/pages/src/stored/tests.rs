use super::*;
use crate::memory::MemoryStore;
use crate::page::{FilterId, Ordinal, PageIndex, Sequence};
use crate::store::redo::RedoBuilder;
use crate::store::{Commit, PageStore};
use cuckood_filter::chain::meta::Chain;
use cuckood_filter::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood_filter::cuckoo::bucket::SlotWidth;
use cuckood_filter::cuckoo::hash::HashKey;
use cuckood_filter::cuckoo::layout::Layout;
use cuckood_filter::cuckoo::paged::Paged;
use cuckood_filter::cuckoo::paged::code::SlotCode;
use std::collections::BTreeMap;
use std::sync::Arc;

const ID: FilterId = FilterId(7);

/// Four sub-filters of a few pages each.
fn chain() -> Chain {
    let request = FilterRequest {
        capacity: Some(10_000),
        bucket_size: Some(2),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let mut bytes = Chain::new(params, HashKey([6; 16]), 0).unwrap().portable();
    for _ in 0..3 {
        bytes.grow().unwrap();
    }
    bytes
}

fn page(ordinal: u32, page: u32) -> PageId {
    PageId {
        filter: ID,
        ordinal: Ordinal(ordinal),
        page: PageIndex(page),
    }
}

/// An image without the zeros at its end.
fn without_zeros(image: &[u8]) -> Vec<u8> {
    let used = image.iter().rposition(|&byte| byte != 0);
    image[..used.map_or(0, |last| last + 1)].to_vec()
}

struct Seeing<'a> {
    chain: &'a Chain,
    seen: Vec<((u32, u32), Vec<u8>)>,
}

impl PageVisitor for Seeing<'_> {
    fn between(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn geometry(&self, id: PageId) -> Option<PageGeometry> {
        let sub = self.chain.sub_filter(id.ordinal.0 as usize);
        (id.filter == ID).then(|| PageGeometry::of(&sub.unwrap().layout))
    }

    fn page(
        &mut self,
        id: PageId,
        image: Result<&[u8], StoreError>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let image = without_zeros(image?);
        self.seen.push(((id.ordinal.0, id.page.0), image));
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn the_pages_are_the_same_however_little_of_the_log_is_held() {
    let chain = chain();
    let pages = chain.sub_filter(0).unwrap().layout.pages();
    assert!(pages >= 4);
    let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
    let mut model: BTreeMap<(u32, u32), Vec<u8>> = BTreeMap::new();
    // Every other page has an image; the log has some of both kinds.
    for ordinal in 0..4 {
        for number in (0..pages).step_by(2) {
            let image = vec![ordinal as u8 + 1; 50 + number as usize];
            store
                .checkpoint(&[(page(ordinal, number), image.clone())], Sequence(0))
                .unwrap();
            model.insert((ordinal, number), image);
        }
    }
    for sequence in 1..=60u64 {
        let mut record = RedoBuilder::default();
        record.filter(ID, 8);
        let (ordinal, number) = (sequence as u32 % 4, sequence as u32 / 4 % pages);
        record.page(Ordinal(ordinal), PageIndex(number));
        let image = model.entry((ordinal, number)).or_default();
        for slot in [sequence as u32 % 5, 40 + sequence as u32 % 7] {
            record.slot(slot, sequence);
            let length = image.len().max(slot as usize + 1);
            image.resize(length, 0);
            image[slot as usize] = sequence as u8;
        }
        // Another filter's, which is none of our business.
        record.filter(FilterId(8), 8);
        record.page(Ordinal(0), PageIndex(0)).slot(0, 9);
        let commit = Commit {
            sequence: Sequence(sequence),
            redo: record.finish(),
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
    }
    let model: Vec<_> = model.into_iter().collect();
    let by_sub_filter: Vec<_> = (0..4)
        .map(|ordinal| page(ordinal, 0)..page(ordinal, pages))
        .collect();
    for spans in [vec![page(0, 0)..page(4, 0)], by_sub_filter] {
        for max_entries in [1, 2, 3, 10, 50, 1000] {
            let (chain, seen) = (&chain, Vec::new());
            let mut seeing = Seeing { chain, seen };
            let view = store.snapshot();
            let flow = each_page(&view, &spans, max_entries, &mut seeing).unwrap();
            assert!(flow.is_continue());
            assert_eq!(seeing.seen, model, "{max_entries}");
        }
    }
}

/// A filter of three pages, of which others were merged away.
struct Split(Vec<(u32, Vec<u8>)>);

impl PageVisitor for Split {
    fn between(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn geometry(&self, _: PageId) -> Option<PageGeometry> {
        let code = SlotCode::of(SlotWidth::Bits12);
        Some(PageGeometry::of(&Layout::Paged(
            Paged::new(3, code).unwrap(),
        )))
    }

    fn page(
        &mut self,
        id: PageId,
        image: Result<&[u8], StoreError>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let image = without_zeros(image?);
        self.0.push((id.page.0, image));
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn whole_pages_replace_what_came_before_and_dropped_ones_are_not_shown() {
    let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
    let images: Vec<_> = (0..6)
        .map(|at| (page(0, at), vec![at as u8 + 1; 16]))
        .collect();
    store.checkpoint(&images, Sequence(0)).unwrap();
    let mut sequence = 0;
    let mut commit = |record: RedoBuilder| {
        sequence += 1;
        let commit = Commit {
            sequence: Sequence(sequence),
            redo: record.finish(),
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
    };
    let slot = |number, slot, value| {
        let mut record = RedoBuilder::default();
        record.filter(ID, 12);
        record.page(Ordinal(0), PageIndex(number)).slot(slot, value);
        record
    };
    let whole = |number, image: &[u8]| {
        let mut record = RedoBuilder::default();
        record.wholes(ID);
        record.whole(Ordinal(0), PageIndex(number), image);
        record
    };
    let dropped = |number| {
        let mut record = RedoBuilder::default();
        record.dropped(ID);
        record.dropped_page(Ordinal(0), PageIndex(number));
        record
    };
    // Before a split this is a slot of another page.
    commit(slot(0, 4, 0xabc));
    commit(whole(0, &[9, 9]));
    // The second word begins with the sixth slot.
    commit(slot(0, 5, 0xdef));
    commit(dropped(1));
    commit(whole(1, &[7]));
    commit(slot(4, 0, 5));
    commit(whole(4, &[8, 8]));
    for number in [5, 4, 3] {
        commit(dropped(number));
    }
    let expected = vec![
        (0, vec![9, 9, 0, 0, 0, 0, 0, 0, 0xef, 0x0d]),
        (1, vec![7]),
        (2, vec![3; 16]),
    ];
    for max_entries in [1, 2, 1000] {
        let mut split = Split(Vec::new());
        let view = store.snapshot();
        let span = page(0, 0)..page(1, 0);
        let flow = each_page(&view, &[span], max_entries, &mut split).unwrap();
        assert!(flow.is_continue());
        assert_eq!(split.0, expected, "{max_entries}");
    }
}
