use crate::memory::MemoryStore;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::contract::{self, Subject};
use crate::store::format::{self, StoredValue};
use crate::store::{Commit, PageStore};
use std::sync::Arc;

struct InMemory {
    memory: MemoryStore,
    store: PageStore,
}

impl InMemory {
    fn over(memory: MemoryStore) -> InMemory {
        InMemory {
            store: page_store(&memory),
            memory,
        }
    }
}

impl Subject for InMemory {
    fn store(&self) -> &PageStore {
        &self.store
    }

    fn reopen(&mut self) {
        *self = InMemory::over(self.memory.fork());
    }

    fn damage(&mut self, value: &StoredValue, byte: usize) {
        assert!(
            self.memory.damage(value, byte),
            "there is no byte {byte} of {value:?}"
        );
    }
}

contract::contract_tests!(InMemory::over(MemoryStore::new()));

fn page_store(memory: &MemoryStore) -> PageStore {
    PageStore::open(Arc::new(memory.clone())).unwrap()
}

fn store_with_a_page() -> (MemoryStore, PageId) {
    let id = PageId {
        filter: FilterId(1),
        ordinal: Ordinal(0),
        page: PageIndex(0),
    };
    let store = MemoryStore::new();
    let first = [(id, vec![1])];
    page_store(&store).checkpoint(&first, Sequence(0)).unwrap();
    (store, id)
}

fn first_byte(store: &MemoryStore, id: PageId) -> u8 {
    let mut first = None;
    page_store(store)
        .read_pages(&[id], &mut |_, page| first = Some(page.unwrap()[0]))
        .unwrap();
    first.unwrap()
}

#[test]
fn a_clone_is_the_same_store_and_a_fork_is_not() {
    let (store, id) = store_with_a_page();
    let (clone, fork) = (store.clone(), store.fork());
    let second = [(id, vec![2])];
    page_store(&store).checkpoint(&second, Sequence(0)).unwrap();
    assert_eq!(first_byte(&clone, id), 2);
    assert_eq!(first_byte(&fork, id), 1);
}

#[test]
fn a_refused_checkpoint_keeps_nothing_of_it() {
    let (store, id) = store_with_a_page();
    let too_large = PageId {
        page: PageIndex(1),
        ..id
    };
    let images = [
        (id, vec![3]),
        (too_large, vec![1; format::MAX_IMAGE_BYTES + 1]),
    ];
    assert!(page_store(&store).checkpoint(&images, Sequence(9)).is_err());
    assert_eq!(first_byte(&store, id), 1);
}

#[test]
fn damaging_what_is_not_there_says_so() {
    let (store, id) = store_with_a_page();
    assert!(!store.damage(&StoredValue::Page(id), 100));
    assert!(!store.damage(&StoredValue::Redo(Sequence(1)), 0));
}

#[test]
fn the_log_shows_its_sequences() {
    let store = MemoryStore::new();
    for sequence in [2, 1] {
        let commit = Commit {
            sequence: Sequence(sequence),
            redo: vec![1],
            filters: vec![],
            ..Commit::default()
        };
        page_store(&store).commit(&commit).unwrap();
    }
    assert_eq!(store.log_sequences(), [Sequence(1), Sequence(2)]);
}
