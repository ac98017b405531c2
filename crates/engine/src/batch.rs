//! The items of one request in one piece of memory.

use bytes::Bytes;
use std::ops::Range;

/// Bytes of items that are worked on before others get a turn; one item may be
/// more.
const BYTES_PER_TURN: usize = 128 << 10;

/// A list of items, each a string of bytes: stored back to back, or where they
/// lie in the body that they came in.
///
/// A request of a thousand items costs two allocations instead of a thousand.
#[derive(Clone, Default)]
pub struct ItemBatch {
    /// Where the items lie if they were not copied; else empty.
    body: Bytes,
    /// Where they lie if they were.
    copied: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl ItemBatch {
    /// An empty batch with room for items of so many bytes together, and for at
    /// most so many items.
    pub fn with_room_for(bytes: usize, items: usize) -> Self {
        /// Most items are longer than that.
        const SHORT: usize = 8;
        ItemBatch {
            body: Bytes::new(),
            copied: Vec::with_capacity(bytes),
            places: Vec::with_capacity(items.min(bytes / SHORT)),
        }
    }

    /// The items that lie at these places in `body`; none of them is copied. A
    /// place beyond its end is an empty item.
    pub fn within(body: Bytes, places: Vec<Range<usize>>) -> Self {
        ItemBatch {
            body,
            copied: Vec::new(),
            places,
        }
    }

    /// A batch of exactly one item.
    pub fn of(item: &[u8]) -> Self {
        let mut batch = ItemBatch::default();
        batch.push(item);
        batch
    }

    /// Appends a copy of an item.
    pub fn push(&mut self, item: &[u8]) {
        if !self.body.is_empty() {
            // From now on all of them are copies.
            let items = std::mem::take(self);
            items.iter().for_each(|item| self.push(item));
        }
        let start = self.copied.len();
        self.copied.extend_from_slice(item);
        self.places.push(start..self.copied.len());
    }

    /// Drops the items behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.places.truncate(len);
        let end = self.places.last().map_or(0, |place| place.end);
        self.copied.truncate(end);
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The item at a position, counted from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let place = self.places.get(index)?.clone();
        Some(self.bytes().get(place).unwrap_or_default())
    }

    /// The items from `first` on that are worked on in one turn: up to `most`,
    /// fewer where they are long, at least one.
    pub(super) fn chunk(&self, first: usize, most: usize) -> Range<usize> {
        let places = self.places.get(first..).unwrap_or_default();
        let mut bytes = 0;
        let fits = places.iter().take(most.max(1)).take_while(|place| {
            let fits = bytes < BYTES_PER_TURN;
            bytes += place.len();
            fits
        });
        first..first + fits.count()
    }

    /// The items in the order in which they were pushed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let bytes = self.bytes();
        let item = move |place: &Range<usize>| bytes.get(place.clone()).unwrap_or_default();
        self.places.iter().map(item)
    }

    /// What the places are places in.
    fn bytes(&self) -> &[u8] {
        match self.body.is_empty() {
            true => &self.copied,
            false => &self.body,
        }
    }
}

/// Shows how many items there are, never the items: they may be secrets, and
/// debug output ends in logs.
impl std::fmt::Debug for ItemBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemBatch")
            .field("len", &self.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_short_where_items_are_long() {
        let mut items = ItemBatch::default();
        for length in [10, 10, 10, BYTES_PER_TURN, 10, 2 * BYTES_PER_TURN, 1] {
            items.push(&vec![7; length]);
        }
        let mut first = 0;
        let mut chunks = Vec::new();
        while first < items.len() {
            let chunk = items.chunk(first, 4);
            chunks.push(chunk.len());
            first = chunk.end;
        }
        assert_eq!(chunks, [4, 2, 1]);
        assert_eq!(items.chunk(0, 2), 0..2);
        assert_eq!(items.chunk(7, 2), 7..7);
    }

    #[test]
    fn items_are_the_same_copied_or_not() {
        let mut copies = ItemBatch::default();
        let body = Bytes::from_static(b"one,,three");
        let mut places = ItemBatch::within(body, vec![0..3, 4..4, 5..10, 20..30]);
        for item in [&b"one"[..], b"", b"three", b""] {
            copies.push(item);
        }
        let both = |batch: &ItemBatch| batch.iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(both(&places), both(&copies));
        assert_eq!(places.get(2), Some(&b"three"[..]));
        assert_eq!(places.get(4), None);
        for batch in [&mut places, &mut copies] {
            batch.truncate(3);
            batch.push(b"four");
            assert_eq!(batch.len(), 4);
            assert_eq!(both(batch), [&b"one"[..], b"", b"three", b"four"]);
            batch.truncate(0);
            assert!(batch.is_empty());
        }
    }
}
