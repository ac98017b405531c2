use super::*;
use crate::chain::params::FilterRequest;
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::page::{Ordinal, PageIndex};
use crate::shared::{HistoryHash, Position};
use crate::store::redo::RedoBuilder;
use crate::{Engine, EngineOptions, FilterName};
use parking_lot::Mutex;
use std::time::Duration;

/// Takes every commit at once, and keeps it.
struct Taking(Arc<Mutex<Vec<Bytes>>>);

impl LaneOrder for Taking {
    fn start(&self, _: LaneHandle) -> Box<dyn FnOnce() + Send> {
        Box::new(|| {})
    }

    fn most_bytes(&self) -> usize {
        1 << 20
    }

    fn order(&self, unordered: Unordered) -> Result<Settled, NotOrdered> {
        let mut taken = self.0.lock();
        taken.push(unordered.commit.clone());
        Ok(Settled {
            position: LanePosition {
                founding: [7; 16],
                epoch: 1,
                sequence: taken.len() as u64,
                history: [0; 16],
                stamp_ms: unordered.clock_ms,
                last_serial: 0,
            },
            commit: unordered.commit,
            sequence: None,
        })
    }

    fn go_on(&self) {}

    fn has_work(&self) -> bool {
        false
    }

    fn take_settled(&self) -> Option<Settled> {
        None
    }

    fn put_back(&self, _: Settled, _: &StoreError) {}

    fn applied(&self, _: &Settled) {}

    fn published(&self) {}

    fn is_settled(&self) -> bool {
        true
    }

    fn refusal(&self) -> Option<EngineError> {
        None
    }
}

/// A commit that writes to a slot of a filter, which it describes or not.
fn writes_to(id: FilterId, slot: u32, slot_bits: u8, filters: Vec<FilterChange>) -> Commit {
    let mut redo = RedoBuilder::default();
    redo.filter(id, slot_bits);
    redo.page(Ordinal(0), PageIndex(0)).slot(slot, 0);
    Commit {
        sequence: Sequence(1),
        redo: redo.finish(),
        filters,
        ..Commit::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_could_not_apply_is_not_sent() {
    let memory = MemoryStore::new();
    let store = Arc::new(PageStore::open(Arc::new(memory.clone())).unwrap());
    let (options, metrics) = (
        EngineOptions::with_cache(4 << 20),
        Arc::new(Metrics::new().unwrap()),
    );
    let engine = Engine::open(Arc::clone(&store), &options, metrics).unwrap();
    let request = FilterRequest {
        capacity: Some(1_000),
        fingerprint_bits: Some(16),
        ..FilterRequest::default()
    };
    let name = FilterName::parse("f").unwrap();
    let created = engine.create_filter(&name, &request.into(), None).await;
    created.unwrap();
    let stored = store.filter_by_name("f").unwrap().unwrap();
    let id = stored.id;
    let update = |meta: &[u8]| {
        let (meta, dropped) = (meta.to_vec(), Vec::new());
        vec![FilterChange::Update { id, meta, dropped }]
    };
    let create = |name: &str| {
        let (name, meta) = (name.to_owned(), stored.meta.clone());
        vec![FilterChange::Create { id, name, meta }]
    };
    let as_it_is = || update(&stored.meta);
    let nonsense = Commit {
        redo: vec![0xff; 9],
        ..writes_to(id, 0, 16, as_it_is())
    };
    let unfit = [
        ("a redo record that is none", nonsense),
        ("a filter that is not named", writes_to(id, 0, 16, vec![])),
        ("no description", writes_to(id, 0, 16, update(&[9, 9]))),
        ("no name", writes_to(id, 0, 16, create("no\nname"))),
        ("slots of another width", writes_to(id, 0, 12, as_it_is())),
        (
            "a slot beyond a page",
            writes_to(id, 60_000, 16, as_it_is()),
        ),
    ];
    let taken = Arc::default();
    let history = HistoryHash::of(b"before anything");
    let position = Position {
        sequence: 0,
        history,
    };
    let state = &engine.state;
    let shared = SharedOrdering {
        order: Box::new(Taking(Arc::clone(&taken))),
        place: Arc::new(LanePlace::new(position, None)),
        lane: 0,
        clock: Arc::clone(&state.clock),
        claims: Arc::default(),
        idempotent_writes: Arc::clone(&state.idempotent_writes),
        imports: Arc::clone(&state.imports),
        work: RefCell::default(),
    };
    // A store of its own: the engine's lanes write to the other one.
    let own = PageStore::open(Arc::new(memory.fork())).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    for (what, commit) in unfit {
        let ordered = shared.commit(&own, &commit, until);
        assert!(
            matches!(ordered, Err(NotStored::Unfit(_))),
            "{what}: {ordered:?}"
        );
        assert!(taken.lock().is_empty(), "{what}");
    }
    // Neither is it a reason to do nothing any more.
    let fits = writes_to(id, 0, 16, as_it_is());
    let ordered = shared.commit(&own, &fits, until);
    assert!(ordered.is_ok(), "{ordered:?}");
    assert_eq!(*taken.lock(), [commit_bytes::encode(&fits)]);
}
