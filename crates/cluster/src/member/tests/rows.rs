//! Rows and what replaces them, on every pod.

use super::cluster::*;
use crate::chain::params::{Attributes, Codes, FilterRequest};
use crate::engine::{
    AddMode, AddResult, Engine, Entries, EntryValues, ItemBatch, ReplaceResult, Replacements, Rows,
    Where,
};

/// Rows of a plan, and of a tag that each item has for itself.
fn rows_of(items: std::ops::Range<u64>, plan: &str) -> Rows {
    let mut rows = Rows::default();
    for item in items {
        for (name, label) in [("plan", plan), ("tag", &format!("tag {item}"))] {
            let name = rows.name(name).unwrap();
            assert!(rows.push(name, label.as_bytes()));
        }
        rows.end_row();
    }
    rows
}

/// Whether items have a row of each of two plans.
async fn plans_of(engine: &Engine, filter: &str, items: &ItemBatch) -> [Vec<bool>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for (plan, found) in ["free", "pro"].into_iter().zip(&mut found) {
        let condition = Where(vec![("plan".to_owned(), vec![plan.to_owned()])]);
        let answer = engine.has_rows(&name(filter), items, &condition).await;
        *found = answer.unwrap();
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_what_replaces_them_travel_to_every_pod() {
    let (mut cluster, leader) = led_cluster();
    let plans = Codes::Exact(vec!["free".to_owned(), "pro".to_owned()]);
    let named = vec![
        ("plan".to_owned(), plans),
        ("tag".to_owned(), Codes::Hashed(7)),
    ];
    let wanted = FilterRequest {
        capacity: Some(1_000),
        attributes: Some(Attributes::new(named).unwrap()),
        ..FilterRequest::default()
    };
    let filter = name("of-rows");
    let made = leader.create_filter(&filter, &wanted.into(), None).await;
    made.unwrap();
    // It grows, page by page.
    for first in (0..4_000).step_by(500) {
        let range = first..first + 500;
        let (items, rows) = (batch(range.clone()), rows_of(range, "free"));
        let entries = Entries {
            items: &items,
            values: EntryValues::Rows(&rows),
        };
        let added = leader.add_values(&filter, entries, AddMode::Always, None);
        let added = added.await.unwrap().answer;
        assert!(added.iter().all(|&it| it == AddResult::Added));
    }
    cluster.check_equal().await;
    // Half of them by the first leader, half by the next.
    for (pod, range) in [(0, 0..1_000), (1, 1_000..2_000)] {
        cluster.lead_all(pod);
        let items = batch(range.clone());
        let (from, to) = (rows_of(range.clone(), "free"), rows_of(range, "pro"));
        let entries = Replacements {
            items: &items,
            from: EntryValues::Rows(&from),
            to: EntryValues::Rows(&to),
        };
        let leader = &cluster.pods[pod].engine;
        let replaced = leader.replace_values(&filter, entries, None).await;
        let replaced = replaced.unwrap().answer;
        assert!(replaced.iter().all(|&it| it == ReplaceResult::Replaced));
        cluster.check_equal().await;
    }
    let items = batch(0..4_000);
    let [free, pro] = plans_of(&cluster.pods[0].engine, "of-rows", &items).await;
    assert!(pro[..2_000].iter().all(|&it| it));
    assert!(free[2_000..].iter().all(|&it| it));
    // But for what other items bring: these rows are gone, or were never there.
    for wrong in [&free[..2_000], &pro[2_000..]] {
        assert!(wrong.iter().filter(|&&it| it).count() < 40);
    }
    for pod in &cluster.pods[1..] {
        let found = plans_of(&pod.engine, "of-rows", &items).await;
        assert_eq!(found, [free.clone(), pro.clone()]);
    }
}
