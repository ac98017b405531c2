//! Filters that are taken in: their pages travel through the log before their name.

use super::cluster::*;
use crate::Event;
use crate::engine::check::check;
use crate::engine::{
    Adopted, Engine, EngineError, FilterName, FilterVersion, Intake, NewFilter, Replace,
    RestoreError, Slots, StagedFilter,
};
use crate::memory::MemoryStore;
use crate::store::PageStore;
use cuckood_filter::file::FileView;
use std::sync::Arc;

fn content(file: &[u8]) -> [u8; 32] {
    FileView::open(file).unwrap().verify().unwrap()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

pub(super) async fn dump(engine: &Engine, filter: &str) -> Vec<u8> {
    let (engine, filter) = (engine.clone(), name(filter));
    blocking(move || {
        let mut whole = Vec::new();
        engine.dump(&filter, &mut whole).unwrap();
        whole
    })
    .await
}

/// What is the same of a filter on all pods.
pub(super) async fn alike(engine: &Engine, filter: &FilterName) -> (FilterVersion, Vec<u8>) {
    let version = engine.version(filter).await.unwrap();
    (version, dump(engine, filter.as_str()).await)
}

async fn intake(engine: &Engine, filter: &str, replace: Replace) -> Intake {
    engine.intake(&name(filter), replace).await.unwrap()
}

/// Takes a dump in, without a name.
pub(super) async fn stage(
    engine: &Engine,
    filter: &str,
    bytes: &[u8],
) -> Result<StagedFilter, RestoreError> {
    let (intake, bytes) = (
        intake(engine, filter, Replace::Anything).await,
        bytes.to_vec(),
    );
    blocking(move || intake.dump(&bytes[..])).await
}

async fn restore(engine: &Engine, filter: &str, bytes: &[u8], replace: Replace) -> Adopted {
    let staged = stage(engine, filter, bytes).await.unwrap();
    engine.adopt(&name(filter), staged, replace).await.unwrap()
}

fn kept(store: &MemoryStore) -> PageStore {
    PageStore::open(Arc::new(store.clone())).unwrap()
}

/// A filter with so many items, of the kind of that number.
async fn filled(engine: &Engine, filter: &str, number: u64, items: u64) {
    let wanted: NewFilter = kind(number, items).into();
    engine
        .create_filter(&name(filter), &wanted, None)
        .await
        .unwrap();
    for first in (0..items).step_by(5_000) {
        let items = first..items.min(first + 5_000);
        add(engine, filter, items, None).await.unwrap();
    }
}

/// On no pod is anything left of filters that were not taken in to their end.
fn wait_until_nothing_is_staged(cluster: &Cluster) {
    for pod in &cluster.pods {
        let store = kept(&pod.store);
        wait_until("all is reclaimed", || {
            store.staged().unwrap().is_empty() && store.garbage().unwrap().is_empty()
        });
        // Nor pages that nothing can reach.
        check(&kept(&pod.store.fork())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_filter_of_any_kind_is_the_same_on_all_pods_and_goes_on_there() {
    let (mut cluster, leader) = led_cluster();
    for number in 0..KINDS {
        filled(&leader, &format!("f{number}"), number, 6_000).await;
        let bytes = dump(&leader, &format!("f{number}")).await;
        let copy = format!("copy{number}");
        let adopted = restore(&leader, &copy, &bytes, Replace::Nothing).await;
        assert!(matches!(adopted, Adopted::New(_)), "{adopted:?}");
        let again = restore(&leader, &copy, &bytes, Replace::Nothing).await;
        assert!(matches!(again, Adopted::Exists), "{again:?}");
    }
    cluster.check_equal().await;
    for number in 0..KINDS {
        let (copy, filter) = (format!("copy{number}"), name(&format!("f{number}")));
        let copied = leader.version(&name(&copy)).await.unwrap();
        assert_ne!(copied, leader.version(&filter).await.unwrap());
        let bytes = dump(&leader, &format!("f{number}")).await;
        assert_eq!(content(&dump(&leader, &copy).await), content(&bytes));
        for first in (10_000..13_000).step_by(300) {
            add(&leader, &copy, first..first + 300, None).await.unwrap();
        }
        let items = batch(0..500);
        let deleted = leader.delete(&name(&copy), &items, None).await.unwrap();
        assert!(deleted.answer.iter().all(|&it| it));
        // And in the place of what it has become, under the other's condition.
        let version = leader.version(&name(&copy)).await.unwrap();
        let wrong = restore(&leader, &copy, &bytes, Replace::If(copied)).await;
        assert!(matches!(wrong, Adopted::Changed), "{wrong:?}");
        let replaced = restore(&leader, &copy, &bytes, Replace::If(version)).await;
        assert!(matches!(replaced, Adopted::Replaced(_)), "{replaced:?}");
        assert_eq!(content(&dump(&leader, &copy).await), content(&bytes));
    }
    cluster.check_equal().await;
    // What was refused, and what was replaced, is nowhere.
    wait_until_nothing_is_staged(&cluster);
    cluster.lead_all(1);
    let leader = cluster.pods[1].engine.clone();
    add(&leader, "copy1", 20_000..20_100, None).await.unwrap();
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_filters_are_the_same_on_all_pods_and_go_on_there() {
    let (mut cluster, leader) = led_cluster();
    filled(&leader, "f", 0, 6_000).await;
    let wanted = NewFilter {
        sibling_of: Some(name("f")),
        ..NewFilter::default()
    };
    // The key of the hash is in the record, as any other.
    let (f, g) = (name("f"), name("g"));
    leader.create_filter(&g, &wanted, None).await.unwrap();
    add(&leader, "g", 4_000..9_000, None).await.unwrap();
    cluster.check_equal().await;
    let merged = leader.merge(&g, &[f], |_| Ok(()), None).await.unwrap();
    assert_eq!(merged.answer.items, 11_000);
    cluster.check_equal().await;
    wait_until_nothing_is_staged(&cluster);
    cluster.lead_all(1);
    let leader = cluster.pods[1].engine.clone();
    add(&leader, "g", 20_000..20_100, None).await.unwrap();
    cluster.check_equal().await;
    let items = batch(0..9_000);
    let found = cluster.pods[2].engine.exists(&g, &items).await.unwrap();
    assert!(found.iter().all(|&it| it));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_of_redisbloom_is_the_same_on_all_pods() {
    let (cluster, leader) = led_cluster();
    filled(&leader, "f", 1, 3_000).await;
    let slots = leader.slots(&name("f"), |_| Some(())).await.unwrap();
    let Slots::All(slots, _) = slots else {
        panic!("it has no form in RedisBloom's format");
    };
    let intake = intake(&leader, "g", Replace::Nothing).await;
    let header = slots.header();
    let mut foreign = blocking(move || intake.foreign(header)).await.unwrap();
    let mut at = 0;
    while foreign.missing() > 0 {
        let part = leader.read_slots(&slots, at).await.unwrap().unwrap();
        at += part.len() as u64;
        foreign = blocking(move || foreign.slots(&part).map(|()| foreign))
            .await
            .unwrap();
    }
    let staged = blocking(move || foreign.finish()).await.unwrap();
    let adopted = leader.adopt(&name("g"), staged, Replace::Nothing).await;
    assert!(matches!(adopted, Ok(Adopted::New(_))), "{adopted:?}");
    add(&leader, "g", 5_000..6_000, None).await.unwrap();
    cluster.check_equal().await;
    let (g, items) = (name("g"), batch(0..3_000));
    let found = cluster.pods[2].engine.exists(&g, &items).await.unwrap();
    assert!(found.iter().all(|&it| it));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_start_again_while_a_filter_is_taken_in_keep_its_pages() {
    let (mut cluster, leader) = led_cluster();
    filled(&leader, "f", 0, 20_000).await;
    let bytes = dump(&leader, "f").await;
    let before = cluster.pods[2].store.fork();
    let staged = stage(&leader, "g", &bytes).await.unwrap();
    cluster.level();
    // What a start before the name would take for garbage, and what began without it.
    let now = cluster.pods[1].store.fork();
    assert_eq!(kept(&now).staged().unwrap().len(), 1);
    cluster.crash(1, now);
    cluster.crash(2, before);
    cluster.level();
    let adopted = leader.adopt(&name("g"), staged, Replace::Nothing).await;
    assert!(matches!(adopted, Ok(Adopted::New(_))), "{adopted:?}");
    let new = cluster.start(MemoryStore::new()).unwrap();
    cluster.pods.push(new);
    cluster.check_equal().await;
    for pod in &cluster.pods {
        let (g, items) = (name("g"), batch(0..20_000));
        let found = pod.engine.exists(&g, &items).await.unwrap();
        assert!(found.iter().all(|&it| it));
    }
    wait_until_nothing_is_staged(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_goes_on_with_is_given_up_on_every_pod() {
    let (mut cluster, leader) = led_cluster();
    filled(&leader, "f", 0, 20_000).await;
    let bytes = dump(&leader, "f").await;
    // The client goes away.
    drop(stage(&leader, "g", &bytes).await.unwrap());
    // What comes is no dump.
    let cut = stage(&leader, "g", &bytes[..bytes.len() - 9]).await;
    assert!(matches!(cut, Err(RestoreError::Dump(_))), "{:?}", cut.err());
    wait_until_nothing_is_staged(&cluster);
    // The pod goes away.
    let staged = stage(&leader, "g", &bytes).await.unwrap();
    cluster.level();
    let left = cluster.pods[0].store.fork();
    cluster.crash(0, left);
    cluster.lead_all(1);
    wait_until_nothing_is_staged(&cluster);
    drop(staged);
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_leader_has_given_up_gets_no_name_and_no_pages() {
    let (mut cluster, leader) = led_cluster();
    filled(&leader, "f", 0, 20_000).await;
    let bytes = dump(&leader, "f").await;
    let staged = stage(&leader, "g", &bytes).await.unwrap();
    // One that is still coming.
    filled(&leader, "c", 1, 3_000).await;
    let slots = leader.slots(&name("c"), |_| Some(())).await.unwrap();
    let Slots::All(slots, _) = slots else {
        panic!("it has no form in RedisBloom's format");
    };
    let (coming, header) = (intake(&leader, "h", Replace::Nothing).await, slots.header());
    let mut coming = blocking(move || coming.foreign(header)).await.unwrap();
    let rest = leader.read_slots(&slots, 0).await.unwrap().unwrap();
    let store = kept(&cluster.pods[0].store);
    wait_until("it has begun", || store.staged().unwrap().len() == 2);
    cluster.level();
    cluster.lead_all(1);
    wait_until_nothing_is_staged(&cluster);
    cluster.lead_all(0);
    let refused = leader.adopt(&name("g"), staged, Replace::Nothing).await;
    assert!(
        matches!(refused, Err(EngineError::NotLeading)),
        "{refused:?}"
    );
    let refused = blocking(move || coming.slots(&rest).and_then(|()| coming.finish()));
    let refused = refused.await.err();
    let is_refused = matches!(
        refused,
        Some(RestoreError::Refused(EngineError::NotLeading))
    );
    assert!(is_refused, "{refused:?}");
    cluster.check_equal().await;
    wait_until_nothing_is_staged(&cluster);
    assert!(!leader.has_filter(&name("g")).await.unwrap());
    // And under a new number it is taken in.
    restore(&leader, "g", &bytes, Replace::Nothing).await;
    cluster.check_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_does_not_lead_takes_no_filter_in_and_one_without_a_log_neither() {
    let (cluster, leader) = led_cluster();
    filled(&leader, "f", 0, 2_000).await;
    let bytes = dump(&leader, "f").await;
    let refused = stage(&cluster.pods[1].engine, "g", &bytes).await.err();
    let is_refused = matches!(
        refused,
        Some(RestoreError::Refused(EngineError::NotLeading))
    );
    assert!(is_refused, "{refused:?}");
    let staged = stage(&leader, "g", &bytes).await.unwrap();
    cluster.log.cut_off(true);
    let silent = stage(&leader, "h", &bytes).await.err();
    assert!(
        matches!(silent, Some(RestoreError::Refused(_))),
        "{silent:?}"
    );
    cluster.log.cut_off(false);
    for lane in 0..LANES {
        leader.tell(lane, Event::Recheck);
    }
    drop(staged);
    wait_until_nothing_is_staged(&cluster);
    cluster.check_equal().await;
}
