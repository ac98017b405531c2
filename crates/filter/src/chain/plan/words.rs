//! The words of pages that change.
//!
//! A batch meets most of its pages once or twice, so a page has a short list of
//! its words. One of which many words change has a table of them instead, or
//! small filters would be slow to fill. Most words that are asked for don't
//! change: one bit for eight of them mostly says so.

use crate::cuckoo::paged::PAGE_WORDS;

/// Words of a page that are listed; of more there is a table.
const LISTED: usize = 8;

/// What a table holds for words that do not change.
const NONE: u32 = u32::MAX;

/// A word as it shall be.
#[derive(Clone, Copy)]
pub(super) struct Word {
    pub(super) value: u64,
    /// The next of the page's list.
    next: u32,
    pub(super) word: u16,
    /// The slots that were written.
    pub(super) slots: u8,
}

/// Which words of a page change.
#[derive(Clone, Copy, Default)]
pub(super) struct Changed {
    /// A bit for every eight words, set if one of them does.
    may_change: u64,
    /// The first of the list, or the table if there are many.
    first: u32,
    count: u32,
}

/// The words of all pages.
#[derive(Default)]
pub(super) struct Words {
    words: Vec<Word>,
    /// Where in `words` each word of a page is that changes.
    tables: Vec<[u32; PAGE_WORDS as usize]>,
}

impl Changed {
    /// Any word may change, and none is listed.
    pub(super) const ALL: Changed = Changed {
        may_change: u64::MAX,
        first: 0,
        count: 0,
    };

    /// Whether a word may be one of those.
    #[inline]
    pub(super) fn may_have(&self, word: u16) -> bool {
        self.may_change >> (word / 8 % 64) & 1 == 1
    }

    fn is_listed(&self) -> bool {
        self.count as usize <= LISTED
    }
}

impl Words {
    /// Words that change.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Words that there is room for, those of tables included.
    pub(super) fn room(&self) -> usize {
        self.words.capacity() + self.tables.capacity() * usize::from(PAGE_WORDS)
    }

    /// Bytes that they take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let tables = self.tables.capacity() * size_of::<[u32; PAGE_WORDS as usize]>();
        self.words.capacity() * size_of::<Word>() + tables
    }

    /// Forgets all of them, and keeps their memory.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.tables.clear();
    }

    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, words: usize) {
        self.words.reserve(words);
    }

    /// A word of a page, if it changes.
    #[inline]
    pub(super) fn get(&self, of: &Changed, word: u16) -> Option<u64> {
        let found = match of.may_have(word) {
            true => self.find(of, word),
            false => None,
        };
        self.words.get(found?).map(|it| it.value)
    }

    /// Where a word is that changes.
    #[inline(never)]
    fn find(&self, of: &Changed, word: u16) -> Option<usize> {
        if !of.is_listed() {
            let table = self.tables.get(of.first as usize)?;
            let found = table.get(usize::from(word)).filter(|&&it| it != NONE);
            return found.map(|&it| it as usize);
        }
        let mut listed = self.listed(of);
        let found = listed.find(|it| it.1.word == word);
        found.map(|it| it.0)
    }

    /// The list of a page, which has one.
    fn listed(&self, of: &Changed) -> impl Iterator<Item = (usize, &Word)> {
        let mut next = of.first as usize;
        (0..of.count).map_while(move |_| {
            let at = next;
            let word = self.words.get(at)?;
            next = word.next as usize;
            Some((at, word))
        })
    }

    /// Sets a word of which some slots were written, bit `n` for slot `n`.
    pub(super) fn set(&mut self, of: &mut Changed, word: u16, value: u64, slots: u8) {
        if of.may_have(word)
            && let Some(found) = self.find(of, word)
            && let Some(it) = self.words.get_mut(found)
        {
            it.value = value;
            it.slots |= slots;
            return;
        }
        // A plan is far from having so many words.
        let new = self.words.len() as u32;
        if of.count as usize == LISTED {
            self.make_table(of);
        }
        let next = of.first;
        if (of.count as usize) < LISTED {
            of.first = new;
        } else if let Some(table) = self.tables.get_mut(of.first as usize)
            && let Some(entry) = table.get_mut(usize::from(word))
        {
            *entry = new;
        }
        of.may_change |= 1 << (word / 8 % 64);
        of.count += 1;
        self.words.push(Word {
            value,
            next,
            word,
            slots,
        });
    }

    /// Turns the list of a page into a table.
    fn make_table(&mut self, of: &mut Changed) {
        let mut table = [NONE; PAGE_WORDS as usize];
        for (at, it) in self.listed(of) {
            if let Some(entry) = table.get_mut(usize::from(it.word)) {
                *entry = at as u32;
            }
        }
        of.first = self.tables.len() as u32;
        self.tables.push(table);
    }

    /// The words of a page, in ascending order.
    pub(super) fn in_order(&self, of: &Changed, mut each: impl FnMut(&Word)) {
        if !of.is_listed() {
            let table = self.tables.get(of.first as usize);
            for &at in table.into_iter().flatten() {
                if let Some(it) = self.words.get(at as usize) {
                    each(it);
                }
            }
            return;
        }
        if of.count == 1 {
            return self.words.get(of.first as usize).into_iter().for_each(each);
        }
        let mut order = [0; LISTED];
        for (at, it) in self.listed(of) {
            let before = self.listed(of).filter(|other| other.1.word < it.word);
            if let Some(place) = order.get_mut(before.count()) {
                *place = at;
            }
        }
        for &at in order.iter().take(of.count as usize) {
            if let Some(it) = self.words.get(at) {
                each(it);
            }
        }
    }
}
