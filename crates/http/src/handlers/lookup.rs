//! Lookup: one question to many filters.

use crate::engine::{FilterName, LookupAnswer, LookupFilters};
use crate::extract::{CallerEngine, Sent};
use crate::media::JSON;
use crate::parse::BatchKind;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::admission::answers;
use crate::server::admission::budget::Held;
use crate::server::listen::polls::poll_give_way;
use crate::server::principal::Principal;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Poll, ready};

/// Bytes of the answer that are put together at once.
const PIECE_BYTES: usize = 64 << 10;

/// `POST /lookup`.
pub(crate) async fn look_up_items(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Extension(principal): Extension<Principal>,
    sent: Sent,
) -> Result {
    let mut batch = sent.batch(BatchKind::Lookup).await?;
    let Some(filters) = batch.looked_up_in.take() else {
        let cause = "a lookup without filters was let through";
        return Err(HttpError::unanswerable(cause));
    };
    let mode = batch.lookup_mode;
    let most = app.admission.limits.max_lookup_filters;
    let filters = permitted(&principal, filters);
    let engine = engine.in_turn(batch.turn.take());
    let answering = engine.lookup(&filters, &batch.items, mode, batch.within_seconds, most);
    let answer = principal.outlives(answering).await?;
    let answer = answer
        .map_err(|error| HttpError::about_window(error, batch.options_in.place_of_seconds()))?;
    let memory = answers::reserve(&app.admission, principal.holder(), answer.bytes())?;
    let mut pieces = Found::of(answer, memory).map(Ok::<_, Infallible>);
    let body = Body::from_stream(stream::poll_fn(move |context| {
        ready!(poll_give_way(context));
        Poll::Ready(pieces.next())
    }));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(JSON))], body).into_response())
}

/// Those of the filters that the caller may know of.
fn permitted(principal: &Principal, filters: LookupFilters) -> LookupFilters {
    match filters {
        LookupFilters::Named(mut names) => {
            names.retain(|name| principal.covers(name));
            LookupFilters::Named(names)
        }
        LookupFilters::Prefix(asked) => match principal.narrow(&asked) {
            Some(prefix) => LookupFilters::Prefix(prefix),
            None => LookupFilters::Named(Vec::new()),
        },
    }
}

/// The answer, turned into JSON piece by piece while it is sent: the keys of
/// all matches together may take a thousand times the memory of the matches.
struct Found {
    answer: LookupAnswer,
    /// Items written so far, and of the next one the filters looked at.
    items: usize,
    filters: usize,
    is_finished: bool,
    #[expect(dead_code, reason = "held only to be let go with the answer")]
    memory: Option<Held>,
}

impl Found {
    fn of(answer: LookupAnswer, memory: Option<Held>) -> Found {
        Found {
            answer,
            items: 0,
            filters: 0,
            is_finished: false,
            memory,
        }
    }

    fn next_piece(&mut self) -> Vec<u8> {
        let mut piece = Vec::with_capacity(PIECE_BYTES + 512);
        if self.items == 0 && self.filters == 0 {
            piece.extend_from_slice(br#"{"results":["#);
        }
        while self.items < self.answer.matches.items() {
            let mut is_first = self.filters == 0;
            if is_first {
                piece.extend_from_slice(if self.items == 0 { b"[" } else { b",[" });
            }
            while let Some(filter) = self.answer.matches.next(self.items, self.filters) {
                if let Some(name) = self.answer.filters.get(filter) {
                    write_key(&mut piece, is_first, name);
                }
                is_first = false;
                self.filters = filter + 1;
                if piece.len() >= PIECE_BYTES {
                    return piece;
                }
            }
            piece.push(b']');
            self.filters = 0;
            self.items += 1;
            if piece.len() >= PIECE_BYTES {
                return piece;
            }
        }
        piece.extend_from_slice(br#"],"missing_filters":["#);
        for (index, name) in self.answer.missing.iter().enumerate() {
            write_key(&mut piece, index == 0, name);
        }
        piece.extend_from_slice(b"]}\n");
        self.is_finished = true;
        piece
    }
}

fn write_key(piece: &mut Vec<u8>, is_first: bool, name: &FilterName) {
    if !is_first {
        piece.push(b',');
    }
    // Writing to a vector can't fail.
    let _ = serde_json::to_writer(piece, name.as_str());
}

impl Iterator for Found {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        (!self.is_finished).then(|| self.next_piece())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MatchBitSet;

    fn written(answer: LookupAnswer) -> (usize, serde_json::Value) {
        let (mut pieces, mut text) = (0, Vec::new());
        for piece in Found::of(answer, None) {
            assert!(piece.len() < PIECE_BYTES + 300);
            text.extend(piece);
            pieces += 1;
        }
        (pieces, serde_json::from_slice(&text).unwrap())
    }

    #[test]
    fn an_answer_is_the_same_in_one_piece_and_in_many() {
        let names: Vec<String> = (0..100).map(|n| format!("{n:a<200}\"\\")).collect();
        let matches = |items: usize| {
            let mut matches = MatchBitSet::none(items, names.len());
            for item in 0..items {
                (0..item % 101).for_each(|filter| matches.set(item, filter));
            }
            matches
        };
        let answer = |items: usize| LookupAnswer {
            filters: names
                .iter()
                .map(|name| FilterName::parse(name).unwrap())
                .collect(),
            missing: vec![FilterName::parse("m").unwrap()],
            matches: matches(items),
        };
        for items in [0, 1, 2, 500] {
            let (pieces, json) = written(answer(items));
            assert_eq!(pieces > 1, items == 500);
            assert_eq!(json["missing_filters"], serde_json::json!(["m"]));
            let results = json["results"].as_array().unwrap();
            assert_eq!(results.len(), items);
            for (item, result) in results.iter().enumerate() {
                let expected: Vec<&String> = names.iter().take(item % 101).collect();
                assert_eq!(result, &serde_json::json!(expected), "{item}");
            }
        }
    }
}
