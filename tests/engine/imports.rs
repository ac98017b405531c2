//! Imports: many commits, each with how far it goes.

use crate::gated::{Failing, GatedStore};
use crate::memory::MemoryStore;
use crate::support::{self, Random, add, all_exist, create, items, name, of_capacity, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{
    AddMode, BadLine, Clock, Engine, EngineError, EngineOptions, Import, ImportId, ImportLines,
    ImportState, PROGRESS_KEPT_FOR,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn id(text: &str) -> ImportId {
    ImportId::parse(text).unwrap()
}

async fn begin(engine: &Engine, import: &str) -> Result<Import, EngineError> {
    let (filter, import) = (name("f"), id(import));
    engine.begin_import(&filter, &import, AddMode::Always).await
}

/// Lines of which every seventh is blank and every eleventh is bad; line n
/// holds item n.
fn lines(first_line: u64, count: u32) -> ImportLines {
    let mut lines = ImportLines {
        first_line,
        count,
        ..ImportLines::default()
    };
    for at in 0..count {
        let number = first_line + u64::from(at);
        if number.is_multiple_of(11) {
            lines.bad.push((at, BadLine::NotJson));
        } else if !number.is_multiple_of(7) {
            lines.items.push(format!("item-{number}").as_bytes());
            lines.item_lines.push(at);
        }
    }
    lines
}

fn items_up_to(line: u64) -> Vec<u64> {
    (1..=line)
        .filter(|number| number % 7 != 0 && number % 11 != 0)
        .collect()
}

/// That the progress and the filter are those of so many lines.
async fn assert_came_to(engine: &Engine, line: u64) {
    let expected = items_up_to(line);
    assert_eq!(items(engine, "f").await, expected.len() as u64);
    let progress = engine.import_progress(&name("f"), &id("i")).await;
    let (progress, _) = progress.unwrap();
    let bad = line / 11;
    assert_eq!(progress.committed_lines, line);
    assert_eq!(progress.added, expected.len() as u64);
    assert_eq!(progress.bad_lines, bad);
    assert_eq!(progress.blank_lines, line - bad - expected.len() as u64);
    let bad: Vec<_> = (1..=bad.min(20))
        .map(|nth| (nth * 11, BadLine::NotJson))
        .collect();
    assert_eq!(progress.first_bad_lines, bad);
    assert!(all_exist(engine, "f", expected).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_and_items_are_committed_together() {
    let memory = MemoryStore::new();
    let engine = support::engine(Arc::new(memory.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    let mut import = begin(&engine, "i").await.unwrap();
    let state = async || engine.import_progress(&name("f"), &id("i")).await;
    assert!(matches!(state().await, Err(EngineError::ImportNotFound)));
    let mut next = 1;
    for count in [1, 500, 0, 2_000] {
        import.commit(&lines(next, count)).await.unwrap();
        next += u64::from(count);
        assert_came_to(&engine, next - 1).await;
        let crashed = support::engine(Arc::new(memory.fork()), &options(512));
        assert_came_to(&crashed, next - 1).await;
        assert_eq!(state().await.unwrap().1, ImportState::Running);
    }
    drop(import);
    assert_eq!(state().await.unwrap().1, ImportState::Interrupted);
    let mut import = begin(&engine, "i").await.unwrap();
    assert_eq!(import.progress().committed_lines, next - 1);
    let last = ImportLines {
        is_last: true,
        ..lines(next, 10)
    };
    import.commit(&last).await.unwrap();
    drop(import);
    assert_eq!(state().await.unwrap().1, ImportState::Complete);
    assert_came_to(&engine, next + 9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_one_at_a_time_runs_under_a_name_also_while_its_commit_is_on_its_way() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let engine = support::engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    let mut import = begin(&engine, "i").await.unwrap();
    let second = begin(&engine, "i").await.err();
    assert!(matches!(second, Some(EngineError::ImportRunning)));
    drop(begin(&engine, "other").await.unwrap());

    store.hold_first(crate::gated::Point::CommitDone);
    let cut = tokio::spawn(async move { import.commit(&lines(1, 100)).await });
    tokio::task::block_in_place(|| store.await_arrival());
    cut.abort();
    let _ = cut.await;
    let early = begin(&engine, "i").await.err();
    assert!(matches!(early, Some(EngineError::ImportRunning)));
    store.open();
    let import = loop {
        match begin(&engine, "i").await {
            Err(EngineError::ImportRunning) => tokio::task::yield_now().await,
            other => break other.unwrap(),
        }
    };
    assert_eq!(import.progress().committed_lines, 100);
    assert_came_to(&engine, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lines_over_more_pages_than_a_commit_may_touch_go_in_by_parts() {
    let engine = support::engine(Arc::new(MemoryStore::new()), &options(256));
    let request = of_capacity(4_000_000);
    create(&engine, "f", &request).await;
    let mut import = begin(&engine, "i").await.unwrap();
    import.commit(&lines(1, 3_000)).await.unwrap();
    assert_came_to(&engine, 3_000).await;
    // Others get in between.
    add(&engine, "f", [1_000_000]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_breaks_each_line_counts_once() {
    let seed = 20_261_122;
    println!("seed {seed}");
    let mut random = Random(seed);
    let memory = MemoryStore::new();
    let store = GatedStore::new(Arc::new(memory.clone()));
    let mut engine = support::engine(Arc::new(store.clone()), &options(512));
    let request = of_capacity(50_000);
    create(&engine, "f", &request).await;
    let mut broken = 0;
    while items(&engine, "f").await < 10_000 {
        let mut import = match begin(&engine, "i").await {
            Err(EngineError::ImportRunning) => {
                store.fail_commits(Failing::Nothing);
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            other => other.unwrap(),
        };
        for _ in 0..random.below(6) {
            let failing = [Failing::Nothing, Failing::Before, Failing::After];
            let failing = failing.into_iter().nth(random.below(12) as usize);
            store.fail_commits(failing.unwrap_or(Failing::Nothing));
            let next = import.progress().committed_lines + 1;
            let count = random.below(400) as u32;
            match import.commit(&lines(next, count)).await {
                Ok(()) => {}
                Err(EngineError::OutcomeUnknown(_)) => {
                    broken += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        drop(import);
        if random.below(4) == 0 {
            tokio::task::block_in_place(|| engine.halt());
            store.fail_commits(Failing::Nothing);
            engine = support::engine(Arc::new(store.clone()), &options(512));
        }
        store.fail_commits(Failing::Nothing);
    }
    assert!(broken > 5, "{broken} commits failed");
    drop(begin(&engine, "i").await);
    let line = loop {
        // An indeterminate commit is settled within half a second.
        match begin(&engine, "i").await {
            Ok(import) => break import.progress().committed_lines,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert_came_to(&engine, line).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_import_ends_with_its_filter() {
    let engine = support::engine(Arc::new(MemoryStore::new()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    let mut import = begin(&engine, "i").await.unwrap();
    import.commit(&lines(1, 10)).await.unwrap();
    engine.delete_filter(&name("f"), None).await.unwrap();
    create(&engine, "f", &FilterRequest::default()).await;
    let gone = import.commit(&lines(11, 10)).await;
    assert!(
        matches!(gone, Err(EngineError::NotFound { .. })),
        "{gone:?}"
    );
    assert_eq!(items(&engine, "f").await, 0);
    // Of the new one nothing is known, whatever its name.
    let import = begin(&engine, "i").await.unwrap();
    assert_eq!(import.progress().committed_lines, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_is_bounded_in_number_and_ends_after_a_week() {
    let now_ms = Arc::new(AtomicU64::new(1_800_000_000_000));
    let options = EngineOptions {
        clock: Clock::Set(Arc::clone(&now_ms)),
        max_imports: 3,
        ..options(512)
    };
    let memory = MemoryStore::new();
    let engine = support::engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    for import in ["a", "b", "c"] {
        // One that commits nothing leaves no trace.
        drop(begin(&engine, import).await.unwrap());
        let mut import = begin(&engine, import).await.unwrap();
        import.commit(&lines(1, 10)).await.unwrap();
    }
    let again = support::engine(Arc::new(memory.fork()), &options);
    for engine in [&engine, &again] {
        let refused = begin(engine, "d").await.err();
        assert!(matches!(refused, Some(EngineError::ImportsFull)));
        let mut import = begin(engine, "a").await.unwrap();
        import.commit(&lines(11, 10)).await.unwrap();
    }
    let week = PROGRESS_KEPT_FOR.as_millis() as u64;
    now_ms.fetch_add(week - 1, Ordering::SeqCst);
    let mut import = begin(&engine, "a").await.unwrap();
    import.commit(&lines(21, 10)).await.unwrap();
    drop(import);
    now_ms.fetch_add(1, Ordering::SeqCst);
    let known = async |import: &str| {
        engine
            .import_progress(&name("f"), &id(import))
            .await
            .is_ok()
    };
    assert!(!known("b").await && !known("c").await && known("a").await);
    for import in ["d", "e"] {
        let mut import = begin(&engine, import).await.unwrap();
        import.commit(&lines(1, 10)).await.unwrap();
    }
    let refused = begin(&engine, "b").await.err();
    assert!(matches!(refused, Some(EngineError::ImportsFull)));
    now_ms.fetch_add(week, Ordering::SeqCst);
    for _ in 0..200 {
        if support::kept(&memory).side_record_totals().unwrap().imports == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        support::kept(&memory).side_record_totals().unwrap().imports,
        0
    );
    assert_eq!(support::kept(&memory).due(0, u64::MAX, 9).unwrap(), []);
}
