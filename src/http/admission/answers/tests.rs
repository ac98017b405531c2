use super::*;
use crate::http::Limits;
use crate::http::answer::{Format, Word, results};
use http_body_util::BodyExt as _;
use prometheus::IntCounter;

fn admission(max_buffered_bytes: usize) -> Admission {
    let limits = Limits {
        max_buffered_bytes,
        ..Limits::default()
    };
    let bytes = IntCounter::new("bytes", "bytes").unwrap();
    Admission::new(limits, bytes)
}

fn answer(items: usize, taken: Option<Reservation>) -> Response {
    let words = (0..items).map(|_| Word::Flag(true));
    results(Format::Json, words, &[], None, taken)
}

fn free(admission: &Admission) -> usize {
    admission.answers.free_permits()
}

#[tokio::test]
async fn an_answer_counts_until_its_last_byte_is_dropped() {
    let admission = admission(1 << 20);
    assert_eq!(free(&admission), 256);
    let small = charge(&admission, &Method::POST, answer(1000, None))
        .await
        .unwrap();
    assert_eq!(free(&admission), 256);
    drop(small);
    // 150 KB, rounded up.
    let large = charge(&admission, &Method::POST, answer(30_000, None));
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
    let taken = reserve(&admission, 200 << 10).unwrap();
    assert!(taken.is_some());
    assert_eq!(free(&admission), 56);
    let refused = charge(&admission, &Method::POST, answer(30_000, None)).await;
    assert!(matches!(refused, Err(HttpError::TooManyAnswers)));
    assert!(matches!(
        reserve(&admission, 100 << 10),
        Err(HttpError::TooManyAnswers)
    ));
    // What was taken too much is given back.
    let change = charge(&admission, &Method::POST, answer(30_000, taken));
    let change = change.await.unwrap();
    assert_eq!(free(&admission), 256 - 147);
    drop(change);
    assert_eq!(free(&admission), 256);
    // One that is larger than all may be is answered, alone.
    let most = charge(&admission, &Method::POST, answer(300_000, None));
    let most = most.await.unwrap();
    assert_eq!(free(&admission), 0);
    // What has changed something waits for its turn.
    let waits = charge(&admission, &Method::PATCH, answer(30_000, None));
    let (changed, ()) = tokio::join!(waits, async { drop(most) });
    assert_eq!(free(&admission), 256 - 147);
    drop(changed);
}
