use super::*;
use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::cuckoo::hash::HashKey;
use crate::page::{FilterId, Ordinal, PageIndex, Sequence};
use crate::store::memory::MemoryStore;
use crate::store::redo::RedoBuilder;
use crate::store::{Commit, PageStore};
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
        bytes = bytes.grown_for_tests();
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

struct Seeing<'a> {
    chain: &'a Chain,
    seen: Vec<((u32, u32), Vec<u8>)>,
}

impl PageVisitor for Seeing<'_> {
    fn between(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn layout(&self, id: PageId) -> Option<Layout> {
        let subs = self.chain.sub_filters();
        (id.filter == ID).then(|| subs[id.ordinal.0 as usize].layout)
    }

    fn page(
        &mut self,
        id: PageId,
        image: Result<&[u8], StoreError>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let image = image?;
        let used = image.iter().rposition(|&byte| byte != 0);
        let image = image[..used.map_or(0, |last| last + 1)].to_vec();
        self.seen.push(((id.ordinal.0, id.page.0), image));
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn the_pages_are_the_same_however_little_of_the_log_is_held() {
    let chain = chain();
    let pages = chain.sub_filters()[0].layout.pages();
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
        let mut record = RedoBuilder::new();
        record.filter(ID, 1);
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
        record.filter(FilterId(8), 1);
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
