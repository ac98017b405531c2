//! Numbers of pages, by address: asked for several times an item.

/// Packed addresses, each with its place among them: an open-addressed map.
pub(super) struct Numbers {
    addresses: Vec<u64>,
    /// Numbers of addresses; a power of two of them, at most half of them taken.
    entries: Vec<u32>,
    /// Leaves the topmost bits of a hash.
    shift: u32,
}

/// No address has this number.
const FREE: u32 = u32::MAX;

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            addresses: Vec::new(),
            entries: vec![FREE; 2],
            shift: 63,
        }
    }
}

impl Numbers {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        let entries = (2 * (self.addresses.len() + more)).next_power_of_two();
        if entries <= self.entries.len() {
            return;
        }
        self.addresses.reserve(more);
        self.entries = vec![FREE; entries];
        self.shift = u64::BITS - entries.trailing_zeros();
        for (&address, number) in self.addresses.iter().zip(0..) {
            let free = self.probe(address);
            if let Some(free) = self.entries.get_mut(free) {
                *free = number;
            }
        }
    }

    /// The number of an address that has one.
    #[inline]
    pub(super) fn get(&self, address: u64) -> Option<u32> {
        let number = *self.entries.get(self.probe(address))?;
        (number != FREE).then_some(number)
    }

    /// Gives the next number to an address that has none.
    pub(super) fn push(&mut self, address: u64) -> u32 {
        self.reserve(1);
        // A plan is far from having so many pages.
        let number = self.addresses.len() as u32;
        let free = self.probe(address);
        if let Some(free) = self.entries.get_mut(free) {
            *free = number;
        }
        self.addresses.push(address);
        number
    }

    /// Where the number of an address is, or would be. Nothing that is stored or
    /// answered depends on this hash.
    #[inline]
    fn probe(&self, address: u64) -> usize {
        let is_it = |number: u32| {
            let other = self.addresses.get(number as usize);
            // Of what is free there is no address.
            other.is_none_or(|&it| it == address)
        };
        let mut at = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while let Some(&number) = self.entries.get(at)
            && !is_it(number)
        {
            at = (at + 1) & self.entries.len().wrapping_sub(1);
        }
        at
    }
}
