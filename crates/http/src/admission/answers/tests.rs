use super::*;
use crate::answer::{Format, Word, results};
use crate::metrics::Metrics;
use crate::problem::HttpError;
use crate::server::Limits;
use crate::server::admission::answers::{FREE_BYTES, grow};
use crate::server::refusal::Refusal;
use crate::server::used_up::{Exhausted, Scarce};
use crate::share::UsedUp;
use http_body_util::BodyExt as _;

fn admission(max_buffered_bytes: usize) -> Admission {
    let limits = Limits {
        max_buffered_bytes,
        ..Limits::default()
    };
    Admission::new(limits, &Metrics::new().unwrap())
}

async fn answer(items: usize, taken: Option<Held>) -> Response {
    let words = (0..items).map(|_| Word::Flag(true));
    results(Format::Json, words, &[], None, taken).await
}

fn free(admission: &Admission) -> usize {
    (admission.answers.bound() - admission.answers.held()) >> 10
}

#[tokio::test]
async fn an_answer_counts_until_its_last_byte_is_dropped() {
    let admission = admission(1 << 20);
    assert_eq!(free(&admission), 256);
    let small = charge(&admission, None, &Method::POST, answer(1000, None).await)
        .await
        .unwrap();
    assert_eq!(free(&admission), 256);
    drop(small);
    // 150 KB, rounded up.
    let large = charge(&admission, None, &Method::POST, answer(30_000, None).await);
    let mut body = large.await.unwrap().into_body();
    assert_eq!(free(&admission), 256 - 147);
    let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(body.frame().await.is_none());
    drop(body);
    assert_eq!(free(&admission), 256 - 147);
    let half = bytes.slice(0..10);
    drop(bytes);
    assert_eq!(free(&admission), 256 - 147);
    drop(half);
    assert_eq!(free(&admission), 256);
}

#[tokio::test]
async fn a_question_is_refused_for_want_of_memory_and_a_change_has_it_beforehand() {
    let admission = admission(1 << 20);
    let taken = reserve(&admission, None, 200 << 10).unwrap();
    assert!(taken.is_some());
    assert_eq!(free(&admission), 56);
    let refused = charge(&admission, None, &Method::POST, answer(30_000, None).await).await;
    let is_used_up = |refusal: &Refusal| {
        let all = UsedUp::All { bound: 256 << 10 };
        let answers = Exhausted {
            what: Scarce::Answers,
            used_up: all,
        };
        matches!(refusal, Refusal::UsedUp(used_up) if *used_up == answers)
    };
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, HttpError::Refused(refusal) if is_used_up(refusal)));
    assert!(is_used_up(
        &reserve(&admission, None, 100 << 10).unwrap_err()
    ));
    // What was taken too much is given back.
    let change = charge(&admission, None, &Method::POST, answer(30_000, taken).await);
    let change = change.await.unwrap();
    assert_eq!(free(&admission), 256 - 147);
    drop(change);
    assert_eq!(free(&admission), 256);
    // One that is larger than all may be is answered, alone.
    let most = charge(&admission, None, &Method::POST, answer(300_000, None).await);
    let most = most.await.unwrap();
    assert_eq!(free(&admission), 0);
    // What has changed something waits for its turn.
    let waits = charge(&admission, None, &Method::PATCH, answer(30_000, None).await);
    let (changed, ()) = tokio::join!(waits, async { drop(most) });
    assert_eq!(free(&admission), 256 - 147);
    drop(changed);
}

#[test]
fn what_is_gathered_for_an_answer_takes_its_memory_meanwhile() {
    let admission = admission(1 << 20);
    let (mut held, mut other) = (None, None);
    grow(&admission, None, &mut held, FREE_BYTES).unwrap();
    assert_eq!(free(&admission), 256);
    for kilobytes in [65, 100, 200] {
        grow(&admission, None, &mut held, kilobytes << 10).unwrap();
        assert_eq!(free(&admission), 256 - kilobytes);
    }
    assert!(grow(&admission, None, &mut other, 65 << 10).is_err());
    // More than there is takes all.
    grow(&admission, None, &mut held, 1 << 20).unwrap();
    assert_eq!(free(&admission), 0);
    drop(held);
    grow(&admission, None, &mut other, 65 << 10).unwrap();
    assert_eq!(free(&admission), 191);
}
