//! What the benchmarks measure of the parsing. Not for others: it may change
//! whenever the parsing does.

use super::{BatchKind, LineOptions, json_batch, text_batch};
use crate::engine::ItemBatch;
use axum::body::Bytes;

/// The items of a JSON body of an add.
pub fn json_items(body: &[u8]) -> Option<ItemBatch> {
    let batch = json_batch(body, BatchKind::Add, usize::MAX).ok()?;
    Some(batch.items)
}

/// The items of a text body of an add.
pub fn text_items(body: &Bytes) -> Option<ItemBatch> {
    let batch = text_batch(body, BatchKind::Add, LineOptions::default(), usize::MAX).ok()?;
    Some(batch.items)
}
