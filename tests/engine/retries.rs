//! Requests that are sent again with the same key.

use crate::gated::{Failing, GatedStore, Point};
use crate::memory::MemoryStore;
use crate::support::{self, Random, add, batch, create, idempotency_key, items, name, options};
use cuckood::chain::params::FilterRequest;
use cuckood::engine::{
    ANSWER_KEPT_FOR, AddOptions, AddResult, Answered, Clock, Created, Engine, EngineError,
    EngineOptions, IdempotencyKey, NewFilter,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn retry(key: u8) -> Option<IdempotencyKey> {
    Some(idempotency_key(key, 1))
}

fn clocked() -> (EngineOptions, Arc<AtomicU64>) {
    let now_ms = Arc::new(AtomicU64::new(1_800_000_000_000));
    let options = EngineOptions {
        clock: Clock::Set(Arc::clone(&now_ms)),
        ..options(512)
    };
    (options, now_ms)
}

async fn keyed_add(
    engine: &Engine,
    key: u8,
    items: impl IntoIterator<Item = u64>,
) -> Result<bool, EngineError> {
    let (filter, items) = (name("f"), batch(items));
    let answered = engine
        .add(&filter, &items, &AddOptions::default(), retry(key))
        .await?;
    assert_eq!(answered.answer, vec![AddResult::Added; items.len()]);
    Ok(answered.replayed)
}

async fn keyed_create(engine: &Engine, key: u8, wanted: &NewFilter) -> Answered<Created> {
    engine
        .create_filter(&name("f"), wanted, retry(key))
        .await
        .unwrap()
}

async fn until_nothing_is_kept(memory: &MemoryStore) {
    let store = support::kept(memory);
    for _ in 0..200 {
        if store.side_record_totals().unwrap().retry_bytes == 0
            && store.due(0, u64::MAX, 1).unwrap().is_empty()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("answers are still kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_change_is_made_once_and_answered_alike() {
    let memory = MemoryStore::new();
    let engine = support::engine(Arc::new(memory.clone()), &options(512));
    let filter = name("f");
    let wanted = NewFilter {
        ttl_seconds: Some(600),
        ..NewFilter::default()
    };
    let made = keyed_create(&engine, 1, &wanted).await;
    assert!(matches!(made.answer, Created::New(_)) && !made.replayed);
    assert!(!keyed_add(&engine, 2, 0..100).await.unwrap());
    let moved = engine.set_ttl(&filter, Some(900), retry(3)).await;
    let moved = moved.unwrap();
    let present = keyed_create(&engine, 4, &NewFilter::default()).await;
    assert!(matches!(present.answer, Created::Existing(_)));
    let (some, none) = (batch([1, 1, 777_777]), AddOptions::default());
    let deleted = engine.delete(&filter, &some, retry(5)).await.unwrap();
    assert_eq!(deleted.answer, [true, false, false]);

    // Also after a crash, and whatever happened since.
    let crashed = support::engine(Arc::new(memory.fork()), &options(512));
    for engine in [&engine, &crashed] {
        engine.add(&filter, &some, &none, None).await.unwrap();
        engine.set_ttl(&filter, None, None).await.unwrap();
        let again = keyed_create(engine, 1, &wanted).await;
        assert!(again.replayed && again.answer == made.answer, "{again:?}");
        assert!(keyed_add(engine, 2, 0..100).await.unwrap());
        let again = engine.set_ttl(&filter, Some(900), retry(3)).await;
        let again = again.unwrap();
        assert!(again.replayed && again.answer == moved.answer, "{again:?}");
        let again = keyed_create(engine, 4, &NewFilter::default()).await;
        assert!(again.replayed && again.answer == present.answer);
        let again = engine.delete(&filter, &some, retry(5)).await.unwrap();
        assert!(again.replayed && again.answer == deleted.answer);
        let info = engine.filter_info(&filter).await.unwrap();
        assert_eq!((info.items, info.expiry), (102, None));

        assert!(
            !engine
                .delete_filter(&filter, retry(6))
                .await
                .unwrap()
                .replayed
        );
        assert!(
            engine
                .delete_filter(&filter, retry(6))
                .await
                .unwrap()
                .replayed
        );
        // A new filter of the name is not what the first requests were about;
        // only the deletion is what it was.
        refuse_all_but_the_deletion(engine, &wanted).await;
        create(engine, "f", &FilterRequest::default()).await;
        refuse_all_but_the_deletion(engine, &wanted).await;
        assert_eq!(items(engine, "f").await, 0);
        assert!(!keyed_add(engine, 7, 0..3).await.unwrap());
        assert!(keyed_add(engine, 7, 0..3).await.unwrap());
    }
}

async fn refuse_all_but_the_deletion(engine: &Engine, wanted: &NewFilter) {
    let filter = name("f");
    let some = batch([1, 1, 777_777]);
    for refused in [
        engine.create_filter(&filter, wanted, retry(1)).await.err(),
        keyed_add(engine, 2, 0..100).await.err(),
        engine.set_ttl(&filter, Some(900), retry(3)).await.err(),
        engine.delete(&filter, &some, retry(5)).await.err(),
    ] {
        assert!(
            matches!(refused, Some(EngineError::RetryFilterGone)),
            "{refused:?}"
        );
    }
    let removed = engine.delete_filter(&filter, retry(6)).await.unwrap();
    assert!(removed.replayed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_add_that_makes_its_filter_is_answered_with_its_results() {
    let engine = support::engine(Arc::new(MemoryStore::new()), &options(512));
    let options = AddOptions {
        create: Some(NewFilter::default()),
        ..AddOptions::default()
    };
    for replayed in [false, true] {
        let added = engine
            .add(&name("f"), &batch(0..5), &options, retry(1))
            .await
            .unwrap();
        assert_eq!((added.answer.len(), added.replayed), (5, replayed));
        assert_eq!(items(&engine, "f").await, 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_request_with_the_key_is_refused_and_errors_are_not_kept() {
    let engine = support::engine(Arc::new(MemoryStore::new()), &options(512));
    let missing = keyed_add(&engine, 1, [1]).await;
    assert!(matches!(missing, Err(EngineError::NotFound { .. })));
    create(&engine, "f", &FilterRequest::default()).await;
    let must_be_new = NewFilter {
        must_be_new: true,
        ..NewFilter::default()
    };
    let there = keyed_create(&engine, 2, &must_be_new).await;
    assert!(matches!(there.answer, Created::Existing(_)));
    engine.delete_filter(&name("f"), None).await.unwrap();
    let made = keyed_create(&engine, 2, &must_be_new).await;
    assert!(matches!(made.answer, Created::New(_)));

    assert!(!keyed_add(&engine, 1, [1]).await.unwrap());
    let other = Some(IdempotencyKey {
        fingerprint: [2; 32],
        ..retry(1).unwrap()
    });
    let refused = engine.delete(&name("f"), &batch([1]), other).await;
    assert!(matches!(refused, Err(EngineError::RetryConflict)));
    assert_eq!(items(&engine, "f").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_the_first_is_on_its_way_others_are_turned_away_even_if_its_caller_has_left() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let engine = support::engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    store.hold_first(Point::CommitDone);
    let first = tokio::spawn({
        let engine = engine.clone();
        async move { keyed_add(&engine, 1, [1]).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    for _ in 0..2 {
        let second = keyed_add(&engine, 1, [1]).await;
        assert!(
            matches!(second, Err(EngineError::RetryInFlight)),
            "{second:?}"
        );
        // Also once nobody waits for the answer any more.
        first.abort();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    store.open();
    let replayed = loop {
        match keyed_add(&engine, 1, [1]).await {
            Err(EngineError::RetryInFlight) => tokio::task::yield_now().await,
            other => break other.unwrap(),
        }
    };
    assert!(replayed);
    assert_eq!(items(&engine, "f").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_one_is_done() {
    let engine = support::engine(Arc::new(MemoryStore::new()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    for key in 0..20 {
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { keyed_add(&engine, key, [u64::from(key)]).await })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(replayed) => done += u32::from(!replayed),
                Err(error) => assert!(matches!(error, EngineError::RetryInFlight), "{error}"),
            }
        }
        assert_eq!(done, 1);
    }
    assert_eq!(items(&engine, "f").await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_is_kept_for_a_day_and_then_removed() {
    let (memory, (options, now_ms)) = (MemoryStore::new(), clocked());
    let engine = support::engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    for key in 0..100 {
        keyed_add(&engine, key, [1]).await.unwrap();
    }
    let day = ANSWER_KEPT_FOR.as_millis() as u64;
    now_ms.fetch_add(day - 1, Ordering::SeqCst);
    assert!(keyed_add(&engine, 7, [1]).await.unwrap());
    now_ms.fetch_add(1, Ordering::SeqCst);
    // Both beside the background pass and behind it.
    assert!(!keyed_add(&engine, 7, [1]).await.unwrap());
    assert_eq!(items(&engine, "f").await, 101);
    now_ms.fetch_add(day, Ordering::SeqCst);
    until_nothing_is_kept(&memory).await;
    assert!(!keyed_add(&engine, 7, [1]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn when_no_more_can_be_kept_new_keys_are_refused_and_old_ones_answered() {
    let (memory, (mut options, now_ms)) = (MemoryStore::new(), clocked());
    options.max_retry_bytes = 5_000;
    let engine = support::engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    let mut kept = 0;
    let refused = loop {
        match keyed_add(&engine, kept, [u64::from(kept)]).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 200, "the bound was never reached");
    };
    // All of them are kept for a day.
    let EngineError::RetriesFull {
        bound,
        lasting,
        first_ends_in,
    } = refused
    else {
        panic!("{refused}");
    };
    assert_eq!((bound, first_ends_in), (5_000, 24 * 3600 + 1));
    assert_eq!(
        lasting,
        support::kept(&memory)
            .side_record_totals()
            .unwrap()
            .retry_bytes
    );
    assert!((20..40).contains(&kept), "{kept} answers");
    assert!(
        support::kept(&memory)
            .side_record_totals()
            .unwrap()
            .retry_bytes
            <= 5_000
    );
    // What the store holds counts after a restart.
    let again = support::engine(Arc::new(memory.fork()), &options);
    for engine in [&engine, &again] {
        let refused = keyed_add(engine, 250, [1]).await;
        assert!(
            matches!(refused, Err(EngineError::RetriesFull { .. })),
            "{refused:?}"
        );
        assert!(keyed_add(engine, 0, [0]).await.unwrap());
        add(engine, "f", [1_000]).await;
        assert_eq!(items(engine, "f").await, u64::from(kept) + 1);
    }
    now_ms.fetch_add(ANSWER_KEPT_FOR.as_millis() as u64, Ordering::SeqCst);
    until_nothing_is_kept(&memory).await;
    for key in 0..kept {
        assert!(!keyed_add(&engine, key, [1]).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_shares_the_fate_of_its_commit() {
    for failing in [Failing::Before, Failing::After] {
        let memory = MemoryStore::new();
        let store = GatedStore::new(Arc::new(memory.clone()));
        let engine = support::engine(Arc::new(store.clone()), &options(512));
        create(&engine, "f", &FilterRequest::default()).await;
        store.fail_commits(failing);
        let unknown = keyed_add(&engine, 1, 0..10).await;
        assert!(matches!(unknown, Err(EngineError::OutcomeUnknown(_))));
        // Until it is known, nobody is told anything.
        let early = keyed_add(&engine, 1, 0..10).await;
        assert!(
            matches!(early, Err(EngineError::RetryInFlight)),
            "{early:?}"
        );

        let crashed = support::engine(Arc::new(memory.fork()), &options(512));
        let there = items(&crashed, "f").await == 10;
        assert_eq!(
            keyed_add(&crashed, 1, 0..10).await.unwrap(),
            there,
            "{failing:?}"
        );
        assert_eq!(items(&crashed, "f").await, 10);

        store.fail_commits(Failing::Nothing);
        let replayed = loop {
            match keyed_add(&engine, 1, 0..10).await {
                Err(EngineError::RetryInFlight | EngineError::Overloaded(_)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => break other.unwrap(),
            }
        };
        assert!(!replayed, "what was taken back is done anew");
        assert!(keyed_add(&engine, 1, 0..10).await.unwrap());
        let crashed = support::engine(Arc::new(memory.fork()), &options(512));
        for engine in [&engine, &crashed] {
            assert!(keyed_add(engine, 1, 0..10).await.unwrap());
            assert_eq!(items(engine, "f").await, 10, "{failing:?}");
        }
    }
}

/// Random changes under random keys, with crashes and failing commits, against
/// a count of what each key is worth.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_each_key_counts_once() {
    let seed = 20_261_121;
    println!("seed {seed}");
    let mut random = Random(seed);
    let memory = MemoryStore::new();
    let store = GatedStore::new(Arc::new(memory.clone()));
    let mut engine = support::engine(Arc::new(store.clone()), &options(512));
    create(&engine, "f", &FilterRequest::default()).await;
    let mut answered = [false; 60];
    while answered.contains(&false) {
        let key = random.below(60) as u8;
        match random.below(20) {
            0 => {
                // A crash, indeterminate commits included.
                tokio::task::block_in_place(|| engine.halt());
                store.fail_commits(Failing::Nothing);
                engine = support::engine(Arc::new(store.clone()), &options(512));
            }
            1 => store.fail_commits(Failing::Before),
            2 => store.fail_commits(Failing::After),
            3..6 => {
                store.fail_commits(Failing::Nothing);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            _ => match keyed_add(&engine, key, [u64::from(key)]).await {
                Ok(replayed) => {
                    // The answer to what was indeterminate may have been kept, too.
                    assert!(replayed || !answered[usize::from(key)], "key {key}");
                    answered[usize::from(key)] = true;
                }
                Err(
                    EngineError::OutcomeUnknown(_)
                    | EngineError::Overloaded(_)
                    | EngineError::RetryInFlight,
                ) => {}
                Err(error) => panic!("{error}"),
            },
        }
    }
    store.fail_commits(Failing::Nothing);
    assert_eq!(items(&engine, "f").await, 60);
}

fn retry_for(key: u8, kept_for: Duration) -> Option<IdempotencyKey> {
    retry(key).map(|retry| IdempotencyKey { kept_for, ..retry })
}

/// Adds one item; whether it was answered by an earlier request.
async fn add_for(engine: &Engine, key: u8, kept_for: Duration) -> Result<bool, EngineError> {
    let (filter, items) = (name("f"), batch([u64::from(key)]));
    let retry = retry_for(key, kept_for);
    let options = AddOptions::default();
    let added = engine.add(&filter, &items, &options, retry).await?;
    Ok(added.replayed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_is_kept_exactly_as_long_as_its_request_said() {
    for seed in 0..4 {
        println!("seed {seed}");
        agrees_with_a_list_of_ends(seed).await;
    }
}

async fn agrees_with_a_list_of_ends(seed: u64) {
    let mut random = Random(seed);
    let (mut memory, (options, now_ms)) = (MemoryStore::new(), clocked());
    let mut engine = support::engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    // A second, what clients ask for, the bound, and more than that, which is the bound.
    let lifetimes = [1, 2, 90, 24 * 3600, 25 * 3600].map(Duration::from_secs);
    let mut ends: [Option<u64>; 8] = [None; 8];
    let mut made = 0;
    for step in 0..1_000 {
        let now = now_ms.load(Ordering::SeqCst);
        match random.below(10) {
            0..6 => {
                let key = random.below(8) as usize;
                let kept_for = lifetimes[random.below(5) as usize];
                let is_kept = ends[key].is_some_and(|end| now < end);
                let replayed = add_for(&engine, key as u8, kept_for).await.unwrap();
                assert_eq!(replayed, is_kept, "step {step}, key {key}");
                if !replayed {
                    made += 1;
                    ends[key] = Some(now + kept_for.min(ANSWER_KEPT_FOR).as_millis() as u64);
                }
            }
            // To an end, and the moment before it and after it.
            6..8 => {
                let Some(end) = ends[random.below(8) as usize] else {
                    continue;
                };
                let at = end - 1 + random.below(3);
                now_ms.store(now.max(at), Ordering::SeqCst);
            }
            8 => {
                now_ms.fetch_add(random.below(1_500), Ordering::SeqCst);
            }
            _ => match random.below(20) {
                // What has ended is removed by and by.
                0 => tokio::time::sleep(Duration::from_millis(600)).await,
                // A crash forgets none.
                1 => {
                    memory = memory.fork();
                    engine = support::engine(Arc::new(memory.clone()), &options);
                }
                _ => {}
            },
        }
    }
    assert_eq!(items(&engine, "f").await, made);
    now_ms.fetch_add(ANSWER_KEPT_FOR.as_millis() as u64, Ordering::SeqCst);
    until_nothing_is_kept(&memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_ends_while_a_retry_is_under_way_is_given_to_it() {
    let (memory, (options, now_ms)) = (MemoryStore::new(), clocked());
    let store = GatedStore::new(Arc::new(memory.clone()));
    let engine = support::engine(Arc::new(store.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    let second = Duration::from_secs(1);
    for key in [1, 2] {
        assert!(!add_for(&engine, key, second).await.unwrap());
    }
    // It comes in the last moment, and is about to look.
    now_ms.fetch_add(999, Ordering::SeqCst);
    store.hold_first(Point::SideRecordRead);
    let retry = tokio::spawn({
        let engine = engine.clone();
        async move { add_for(&engine, 1, second).await }
    });
    tokio::task::block_in_place(|| store.await_arrival());
    now_ms.fetch_add(1, Ordering::SeqCst);
    let of_one = support::kept(&memory)
        .side_record_totals()
        .unwrap()
        .retry_bytes
        / 2;
    for _ in 0..200 {
        if support::kept(&memory)
            .side_record_totals()
            .unwrap()
            .retry_bytes
            == of_one
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The other one is removed, this one waits for the one who asks for it.
    assert_eq!(
        support::kept(&memory)
            .side_record_totals()
            .unwrap()
            .retry_bytes,
        of_one
    );
    store.open();
    assert!(retry.await.unwrap().unwrap());
    assert_eq!(items(&engine, "f").await, 2);
    until_nothing_is_kept(&memory).await;
    assert!(!add_for(&engine, 1, second).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_comes_again_when_a_refusal_said_finds_room() {
    let (memory, (mut options, now_ms)) = (MemoryStore::new(), clocked());
    options.max_retry_bytes = 5_000;
    let engine = support::engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    // Most of it is taken for a day, the rest for seconds.
    for key in 0..20 {
        assert!(!add_for(&engine, key, ANSWER_KEPT_FOR).await.unwrap());
    }
    let mut key = 20;
    let refused = loop {
        let kept_for = Duration::from_secs(30 + u64::from(key));
        match add_for(&engine, key, kept_for).await {
            Ok(_) => key += 1,
            Err(error) => break error,
        }
    };
    let again = support::engine(Arc::new(memory.fork()), &options);
    let refused_again = add_for(&again, key, ANSWER_KEPT_FOR).await.unwrap_err();
    for refused in [refused, refused_again] {
        let EngineError::RetriesFull {
            lasting,
            first_ends_in,
            ..
        } = refused
        else {
            panic!("{refused}");
        };
        assert_eq!(first_ends_in, 51);
        let all = support::kept(&memory)
            .side_record_totals()
            .unwrap()
            .retry_bytes;
        assert_eq!(lasting, all / u64::from(key) * 20);
    }
    // Not a second earlier, but then, as soon as it is removed.
    now_ms.fetch_add(49_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(add_for(&engine, key, ANSWER_KEPT_FOR).await.is_err());
    now_ms.fetch_add(2_000, Ordering::SeqCst);
    for _ in 0..100 {
        if add_for(&engine, key, ANSWER_KEPT_FOR).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("there was no room");
}

/// As many as a server takes in a fraction of a second end at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_answers_that_end_at_once_are_removed_within_moments() {
    let (memory, (mut options, now_ms)) = (MemoryStore::new(), clocked());
    options.max_retry_bytes = 64 << 20;
    let engine = support::engine(Arc::new(memory.clone()), &options);
    create(&engine, "f", &FilterRequest::default()).await;
    let (filter, one, options) = (name("f"), batch([1]), AddOptions::default());
    for number in 0..10_000_u64 {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        let retry = IdempotencyKey {
            key,
            ..retry_for(0, Duration::from_secs(1)).unwrap()
        };
        engine
            .add(&filter, &one, &options, Some(retry))
            .await
            .unwrap();
    }
    now_ms.fetch_add(1_000, Ordering::SeqCst);
    until_nothing_is_kept(&memory).await;
}
