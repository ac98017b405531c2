//! Log and pages against two maps.

use super::subject::{Open, Subject, log, page, read, record};
use crate::page::Sequence;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Commit {
        sequence: u64,
        redo: Vec<u8>,
    },
    Checkpoint {
        pages: Vec<(u32, u8)>,
        truncate_before: u64,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let commit = (1..20u64, proptest::collection::vec(any::<u8>(), 0..4))
        .prop_map(|(sequence, redo)| Step::Commit { sequence, redo });
    let checkpoint = (
        proptest::collection::vec((0..6u32, any::<u8>()), 0..4),
        0..22u64,
    )
        .prop_map(|(pages, truncate_before)| Step::Checkpoint {
            pages,
            truncate_before,
        });
    prop_oneof![5 => commit, 3 => checkpoint, 1 => Just(Step::Reopen)]
}

/// Log and pages against two maps, in any order of writes, with restarts.
pub(in crate::store) fn any_history_reads_like_a_map<S: Subject>(open: Open<'_, S>) {
    let config = Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    };
    // The same histories on every run.
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let subjects = std::cell::RefCell::new(open);
    let histories = proptest::collection::vec(step(), 1..40);
    let outcome = runner.run(&histories, |history| {
        let mut subject = (*subjects.borrow_mut())();
        let (mut expected_log, mut expected_pages) = (BTreeMap::new(), BTreeMap::new());
        for step in history {
            match step {
                Step::Commit { sequence, redo } => {
                    record(subject.store(), sequence, &redo);
                    match redo.is_empty() {
                        true => expected_log.remove(&sequence),
                        false => expected_log.insert(sequence, redo),
                    };
                }
                Step::Checkpoint {
                    pages,
                    truncate_before,
                } => {
                    let images: Vec<_> = pages
                        .iter()
                        .map(|&(at, byte)| (page(1, 0, at), vec![byte]))
                        .collect();
                    subject
                        .store()
                        .checkpoint(&images, Sequence(truncate_before))
                        .unwrap();
                    expected_pages.extend(pages);
                    expected_log.retain(|&sequence, _| sequence >= truncate_before);
                }
                Step::Reopen => subject.reopen(),
            }
            prop_assert_eq!(
                log(subject.store()),
                expected_log.clone().into_iter().collect::<Vec<_>>()
            );
        }
        let ids: Vec<_> = (0..6).map(|at| page(1, 0, at)).collect();
        let expected: Vec<_> = (0..6)
            .map(|at| {
                expected_pages
                    .get(&at)
                    .map(|&byte| if byte == 0 { vec![] } else { vec![byte] })
            })
            .collect();
        prop_assert_eq!(read(subject.store(), &ids), expected);
        Ok(())
    });
    outcome.unwrap();
}
