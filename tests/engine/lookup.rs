//! Lookup: as right as questions to one filter, for one batched read.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::metered::MeteredStore;
use crate::support::{Random, add, batch, create, engine, name, of_capacity, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{
    Caller, Engine, EngineError, EngineOptions, FilterName, ItemBatch, LookupAnswer, LookupFilters,
    LookupMode,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAX_FILTERS: usize = 1000;

fn named(names: &[&str]) -> LookupFilters {
    LookupFilters::Named(names.iter().map(|text| name(text)).collect())
}

async fn look_up(
    engine: &Engine,
    filters: &LookupFilters,
    items: &ItemBatch,
    mode: LookupMode,
) -> LookupAnswer {
    engine
        .lookup(filters, items, mode, None, MAX_FILTERS)
        .await
        .unwrap()
}

/// The names of the filters that contain each item.
fn found(answer: &LookupAnswer) -> Vec<Vec<&str>> {
    let name = |filter: usize| answer.filters.get(filter).unwrap().as_str();
    let names = |item| answer.matches.of(item).map(name).collect();
    (0..answer.matches.items()).map(names).collect()
}

#[tokio::test]
async fn a_lookup_answers_as_each_filter_would() {
    let seed = 0x10c4_0b5e;
    println!("seed {seed}");
    let mut random = Random(seed);
    let store = MemoryStore::new();
    let options = options(2048);
    let first = engine(Arc::new(store.clone()), &options);
    let mut names: Vec<String> = (0..20).map(|n| format!("f{n:02}")).collect();
    for name in &names {
        // Small ones, so that some have several sub-filters.
        let request = of_capacity(8 + random.below(500));
        create(&first, name, &request).await;
        let items: Vec<u64> = (0..random.below(600)).map(|_| random.below(2000)).collect();
        add(&first, name, items).await;
    }
    first.shutdown().unwrap();
    // Everything is cold here, and stays so in part: it is more than fits.
    let second = engine(Arc::new(store), &options);
    names.reverse();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let items = batch(0..2500);
    let mut expected = vec![Vec::new(); items.len()];
    let answer = look_up(&second, &named(&all), &items, LookupMode::All).await;
    let asked_first = look_up(&second, &named(&all), &items, LookupMode::First).await;
    for text in &all {
        let exists = second.exists(&name(text), &items).await.unwrap();
        for (expected, exists) in expected.iter_mut().zip(exists) {
            if exists {
                expected.push(*text);
            }
        }
    }
    assert!(expected.iter().any(|found| found.len() > 3));
    assert!(expected.iter().any(Vec::is_empty));
    assert_eq!(found(&answer), expected);
    for matches in &mut expected {
        matches.truncate(1);
    }
    assert_eq!(found(&asked_first), expected);
}

#[tokio::test]
async fn everything_cold_is_read_in_one_batch() {
    let memory = MemoryStore::new();
    let first = engine(Arc::new(memory.clone()), &options(1024));
    let names: Vec<String> = (0..50).map(|n| format!("f{n:02}")).collect();
    for (n, name) in names.iter().enumerate() {
        let request = of_capacity(100_000);
        create(&first, name, &request).await;
        add(&first, name, [n as u64 % 7, 100]).await;
    }
    first.shutdown().unwrap();

    let metered = MeteredStore::new(Arc::new(memory));
    let options = EngineOptions {
        max_open_filters: 100,
        ..options(1024)
    };
    let second = engine(Arc::new(metered.clone()), &options);
    let filters = LookupFilters::Prefix("f".to_owned());
    let before = metered.counts();
    let answer = look_up(&second, &filters, &batch([3, 100, 7]), LookupMode::All).await;
    let found = [0, 1, 2].map(|item| answer.matches.of(item).count());
    assert_eq!(found, [7, 50, 0]);
    let after = metered.counts();
    assert_eq!(after.reads - before.reads, 1);
    // Two candidate buckets of three items in each of fifty filters.
    let pages = after.pages_read - before.pages_read;
    assert!(pages > 200 && pages <= 300, "{pages} pages");
    look_up(&second, &filters, &batch([3, 100, 7]), LookupMode::All).await;
    assert_eq!(metered.counts().reads, after.reads);
}

/// All but the last four contain the items' first.
async fn many_filters(filters: usize) -> MemoryStore {
    let memory = MemoryStore::new();
    let engine = engine(Arc::new(memory.clone()), &options(1024));
    for n in 0..filters {
        let filter = format!("f{n:02}");
        create(&engine, &filter, &FilterRequest::default()).await;
        add(&engine, &filter, [if n + 4 < filters { 1 } else { 2 }]).await;
    }
    engine.shutdown().unwrap();
    memory
}

#[tokio::test]
async fn a_lookup_of_more_filters_than_may_be_open_asks_them_in_parts() {
    let memory = many_filters(40).await;
    let few = EngineOptions {
        max_open_filters: 16,
        ..options(1024)
    };
    let engine = engine(Arc::new(memory), &few);
    let all = LookupFilters::Prefix("f".to_owned());
    let answer = look_up(&engine, &all, &batch([1, 2, 3]), LookupMode::All).await;
    let expected: Vec<String> = (0..40).map(|n| format!("f{n:02}")).collect();
    assert_eq!(found(&answer)[0], expected[..36]);
    assert_eq!(found(&answer)[1], expected[36..]);
    let answer = look_up(&engine, &all, &batch([2, 1]), LookupMode::First).await;
    assert_eq!(found(&answer), [["f36"], ["f00"]]);
}

/// One key's lookups wait for the disk with the filters that they keep open; what
/// becomes of one more of it, and of another key's lookup.
async fn beside_lookups_that_wait(key_share_percent: u8) -> [Result<usize, EngineError>; 2] {
    let gate = GatedStore::new(Arc::new(many_filters(60).await));
    let few = EngineOptions {
        max_open_filters: 32,
        read_patience: Duration::MAX,
        key_share_percent,
        ..options(1024)
    };
    let engine = engine(Arc::new(gate.clone()), &few);
    let by = |key: &str, seconds| {
        engine.for_caller(Caller {
            key: Some(key.into()),
            has_rivals: true,
            deadline: Some(Instant::now() + Duration::from_secs(seconds)),
            ..Caller::default()
        })
    };
    let ask = async |engine: &Engine, first: usize, filters: usize| {
        let names = (first..first + filters).map(|n| name(&format!("f{n:02}")));
        let (filters, items) = (LookupFilters::Named(names.collect()), batch([1, 2]));
        let answer = engine
            .lookup(&filters, &items, LookupMode::All, None, 10)
            .await;
        answer.map(|answer| answer.filters.len())
    };
    // What the other key asks for needs no disk.
    assert_eq!(ask(&by("modest", 60), 50, 4).await.unwrap(), 4);
    gate.hold(Point::ReadDone, usize::MAX);
    let greedy = by("greedy", 60);
    let asking: Vec<_> = (0..20)
        .map(|n| {
            let greedy = greedy.clone();
            tokio::spawn(async move { ask(&greedy, 2 * n, 2).await })
        })
        .collect();
    let at_gate = gate.clone();
    let arrival = tokio::task::spawn_blocking(move || at_gate.await_arrival());
    arrival.await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let one_more = ask(&by("greedy", 1), 40, 2).await;
    let another = ask(&by("modest", 5), 50, 4).await;
    gate.open();
    for asked in asking {
        assert_eq!(asked.await.unwrap().unwrap(), 2);
    }
    [one_more, another]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lookups_that_wait_for_the_disk_leave_open_filters_to_another_key() {
    let [one_more, another] = beside_lookups_that_wait(50).await;
    assert!(matches!(one_more, Err(EngineError::DeadlineExceeded)));
    assert_eq!(another.unwrap(), 4);
    // It is the share that leaves them.
    let [_, another] = beside_lookups_that_wait(100).await;
    assert!(matches!(another, Err(EngineError::DeadlineExceeded)));
}

#[tokio::test]
async fn the_order_is_that_of_the_list_or_of_the_names() {
    let engine = engine(Arc::new(MemoryStore::new()), &options(1024));
    for filter in ["ad-2", "ad-10", "ad", "other"] {
        create(&engine, filter, &FilterRequest::default()).await;
        add(&engine, filter, [1]).await;
    }
    let item = batch([1]);
    let list = named(&["other", "gone", "ad-2", "ad"]);
    let answer = look_up(&engine, &list, &item, LookupMode::All).await;
    assert_eq!(found(&answer), [["other", "ad-2", "ad"]]);
    assert_eq!(answer.missing, [name("gone")]);
    let prefix = LookupFilters::Prefix("ad".to_owned());
    let answer = look_up(&engine, &prefix, &item, LookupMode::All).await;
    assert_eq!(found(&answer), [["ad", "ad-10", "ad-2"]]);
    let answer = look_up(&engine, &prefix, &item, LookupMode::First).await;
    assert_eq!(found(&answer), [["ad"]]);
    assert_eq!(answer.missing, Vec::<FilterName>::new());
    let nothing = LookupFilters::Prefix("zz".to_owned());
    let answer = look_up(&engine, &nothing, &item, LookupMode::All).await;
    assert_eq!(found(&answer), [[""; 0]]);
}

#[tokio::test]
async fn a_lookup_that_asks_too_much_is_refused() {
    let options = EngineOptions {
        max_probes: 10,
        ..options(1024)
    };
    let engine = engine(Arc::new(MemoryStore::new()), &options);
    for n in 0..4 {
        create(&engine, &format!("f{n}"), &FilterRequest::default()).await;
    }
    let ask = async |filters: LookupFilters, items: u64| {
        let items = batch(0..items);
        let answer = engine.lookup(&filters, &items, LookupMode::All, None, 3);
        answer.await.map(|answer| answer.filters.len())
    };
    let all = LookupFilters::Prefix(String::new());
    assert!(matches!(
        ask(all, 1).await,
        Err(EngineError::TooManyFilters { bound: 3 })
    ));
    assert!(matches!(
        ask(named(&["f0", "f1", "f2", "f3"]), 1).await,
        Err(EngineError::TooManyFilters { bound: 3 })
    ));
    assert!(matches!(
        ask(named(&["f0", "f1", "f2"]), 4).await,
        Err(EngineError::TooManyProbes { bound: 10, .. })
    ));
    assert_eq!(ask(named(&["f0", "f1", "f2"]), 3).await.unwrap(), 3);
}

#[tokio::test]
async fn a_question_is_bounded_by_its_items_times_the_sub_filters() {
    let options = EngineOptions {
        max_probes: 40,
        ..options(1024)
    };
    let engine = engine(Arc::new(MemoryStore::new()), &options);
    let request = FilterRequest {
        capacity: Some(100),
        bucket_size: Some(2),
        expansion: Some(1),
        ..FilterRequest::default()
    };
    create(&engine, "f", &request).await;
    create(&engine, "g", &request).await;
    let (exists, count) = (
        async |items| engine.exists(&name("f"), &batch(0..items)).await,
        async |items| engine.count(&name("f"), &batch(0..items)).await,
    );
    assert_eq!(exists(40).await.unwrap().len(), 40);
    assert!(matches!(
        exists(41).await,
        Err(EngineError::TooManyProbes {
            probes: 41,
            bound: 40
        })
    ));
    // The filter grows, and each item costs more.
    add(&engine, "f", 0..400).await;
    let info = engine.filter_info(&name("f")).await.unwrap();
    let sub_filters = info.sub_filters.len() as u64;
    assert!(sub_filters > 2, "{sub_filters}");
    let most = 40 / sub_filters;
    assert_eq!(exists(most).await.unwrap().len() as u64, most);
    assert_eq!(count(most).await.unwrap().len() as u64, most);
    for refused in [
        exists(most + 1).await.map(|_| ()),
        count(most + 1).await.map(|_| ()),
    ] {
        let probes = ((most + 1) * sub_filters) as usize;
        assert!(
            matches!(refused, Err(EngineError::TooManyProbes { probes: it, bound: 40 }) if it == probes),
            "{refused:?}"
        );
    }
    let both = named(&["f", "g"]);
    let ask = async |items| {
        let items = batch(0..items);
        engine
            .lookup(&both, &items, LookupMode::All, None, 10)
            .await
    };
    let most = 40 / (sub_filters + 1);
    assert_eq!(ask(most).await.unwrap().filters.len(), 2);
    assert!(matches!(
        ask(most + 1).await,
        Err(EngineError::TooManyProbes { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_filter_that_is_replaced_meanwhile_is_asked_again() {
    let memory = MemoryStore::new();
    let first = engine(Arc::new(memory.clone()), &options(1024));
    for filter in ["a", "b"] {
        create(&first, filter, &FilterRequest::default()).await;
        add(&first, filter, [1]).await;
    }
    first.shutdown().unwrap();

    let gate = GatedStore::new(Arc::new(memory));
    let engine = engine(Arc::new(gate.clone()), &options(1024));
    gate.hold_first(Point::ReadDone);
    let asking = tokio::spawn({
        let engine = engine.clone();
        async move {
            let items = batch([1, 2]);
            look_up(&engine, &named(&["a", "b"]), &items, LookupMode::All).await
        }
    });
    gate.arrival().await;
    engine.delete_filter(&name("a"), None).await.unwrap();
    engine.delete_filter(&name("b"), None).await.unwrap();
    create(&engine, "b", &FilterRequest::default()).await;
    add(&engine, "b", [2]).await;
    gate.open();
    let answer = tokio::time::timeout(Duration::from_secs(20), asking)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer.missing, [name("a")]);
    assert_eq!(found(&answer), [vec![], vec!["b"]]);
}
