//! The items of one request in one allocation.

/// A list of items, each a string of bytes, stored back to back.
///
/// A request of a thousand items costs two allocations instead of a thousand.
#[derive(Clone, Default)]
pub struct ItemBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ItemBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for items of so many bytes together, and for at
    /// most so many items.
    pub fn with_room_for(bytes: usize, items: usize) -> Self {
        /// Most items are longer than that.
        const SHORT: usize = 8;
        ItemBatch {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(items.min(bytes / SHORT)),
        }
    }

    /// A batch of exactly one item.
    pub fn of(item: &[u8]) -> Self {
        ItemBatch {
            bytes: item.to_vec(),
            ends: vec![item.len()],
        }
    }

    /// Appends an item.
    pub fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.ends.push(self.bytes.len());
    }

    /// Drops the items behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The item at a position, counted from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..end)
    }

    /// The items in the order in which they were pushed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let item = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            item
        })
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
