//! Numbers of pages, by address: asked for several times an item.

/// Where each page is among those that were added: an open-addressed map that
/// leaves the addresses to whoever has the pages.
#[derive(Default)]
pub(super) struct Numbers {
    /// A power of two of them, at most a quarter of them taken: what was looked
    /// for is nearly always found, or missed, at the first look.
    entries: Vec<u32>,
    taken: u32,
    /// Leaves the topmost bits of a hash.
    shift: u32,
}

/// No page has this number.
const FREE: u32 = u32::MAX;

impl Numbers {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize, addresses: impl Iterator<Item = u64>) {
        // A hash is shifted by less than its bits, also if there is nothing to add.
        let entries = (4 * (self.taken as usize + more).max(1)).next_power_of_two();
        if entries <= self.entries.len() {
            return;
        }
        self.entries.clear();
        self.entries.resize(entries, FREE);
        self.shift = u64::BITS - entries.trailing_zeros();
        self.taken = 0;
        for address in addresses {
            self.push(address);
        }
    }

    /// Bytes that they take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }

    /// Whether there is room for one more.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        4 * (self.taken as usize + 1) <= self.entries.len()
    }

    /// The number of a page that has one, by its address, where any has; `is_it`
    /// says whether the page of a number has that.
    #[inline]
    pub(super) fn get(&self, address: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(address);
        loop {
            let number = *self.entries.get(at)?;
            if number == FREE {
                return None;
            }
            if is_it(number) {
                return Some(number);
            }
            at = self.behind(at);
        }
    }

    /// Gives the next number to an address that has none, if there is room.
    #[inline]
    pub(super) fn push(&mut self, address: u64) -> u32 {
        let mut at = self.home(address);
        while self.entries.get(at).is_some_and(|&it| it != FREE) {
            at = self.behind(at);
        }
        // A plan is far from having so many pages.
        let number = self.taken;
        if let Some(entry) = self.entries.get_mut(at) {
            *entry = number;
        }
        self.taken += 1;
        number
    }

    /// Takes the number of the page that was added last away, by its address.
    pub(super) fn pop(&mut self, address: u64) {
        let Some(last) = self.taken.checked_sub(1) else {
            return;
        };
        let mut at = self.home(address);
        while self.entries.get(at).is_some_and(|&it| it != last) {
            at = self.behind(at);
        }
        // What was added before it is found without it.
        if let Some(entry) = self.entries.get_mut(at) {
            *entry = FREE;
        }
        self.taken = last;
    }

    /// Where the number of an address is, unless another is there. Nothing that
    /// is stored or answered depends on this hash.
    #[inline]
    fn home(&self, address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        (at + 1) & self.entries.len().wrapping_sub(1)
    }
}
