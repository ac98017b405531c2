//! Two pages become one.

use super::bucket::{Bucket, page};
use super::dedupe::Dedupe;
use super::merged::{Entry, Merged};
use super::planner::PagePlanner;
use super::split::moved;
use crate::chain::counters::most_counters;
use crate::chain::meta::Table;
use crate::chain::pages::{Draft, WholePage};
use crate::cuckoo::bucket;
use crate::cuckoo::paged::{PAGE_WORDS, Paged, Pair};

impl<D: Draft> PagePlanner<'_, D> {
    /// Merges the last pair of pages if the filter has become sparse. If their
    /// entries don't fit on one page, nothing changes.
    pub(super) fn merge_as_due(&mut self) -> Option<()> {
        let Some((pair, layout)) = self.table.due_merge() else {
            return Some(());
        };
        for number in [pair.page, pair.sibling] {
            self.touch(page(number))?;
        }
        // What splits did not copy needs no more room than it has.
        let tries: &[Dedupe] = match self.table.surplus() {
            0 => &[Dedupe::Nothing],
            _ => &[Dedupe::Close, Dedupe::All],
        };
        let mut merged = None;
        for &dedupe in tries {
            merged = self.merged(&pair, layout, dedupe)?;
            self.spend_pair();
            if merged.is_some() {
                break;
            }
        }
        let Some(merged) = merged else {
            self.table.put_off_merge();
            self.stats.failed_merges += 1;
            return Some(());
        };
        self.draft.set_page(page(pair.page), merged.page);
        self.draft.drop_page(page(pair.sibling));
        *self.table = merged.table;
        for to in merged.away {
            self.touch(page(layout.address(to.bucket).0))?;
            let bucket = Bucket::read(&layout, to.bucket, self.draft)?;
            let free = bucket.slot(layout.code().width(), bucket.empty_slot(&layout)?);
            self.write(layout.code().width(), &free, to.slot, 1);
        }
        self.stats.merges += 1;
        Some(())
    }

    /// What becomes of a pair of pages, if its entries fit on one.
    fn merged(&mut self, pair: &Pair, layout: Paged, dedupe: Dedupe) -> Option<Option<Merged>> {
        let mut merged = Merged {
            table: Table {
                layout,
                merge_below: None,
                // They are those of a level.
                void_copies: match layout.level() == self.table.layout.level() {
                    true => self.table.void_copies,
                    false => 0,
                },
                ..self.table.clone()
            },
            number: pair.page,
            page: WholePage::empty(),
            away: Vec::new(),
        };
        self.gather_counters(&mut merged, pair)?;
        let mut entries = self.gather_entries(&mut merged, pair)?;
        merged.dedupe(&mut entries, dedupe);
        let fits = merged.page.counters.len() <= most_counters(&layout)
            && merged.take_in(entries, self.search, self.draft)?;
        let keys = merged.page.counters.len();
        merged.table.add_keys(keys as i64);
        Some(fits.then_some(merged))
    }

    /// Adds up what is counted beside both pages.
    fn gather_counters(&mut self, merged: &mut Merged, pair: &Pair) -> Option<()> {
        let (code, level) = (merged.table.layout.code(), u32::from(pair.level) + 1);
        let mut counted = Vec::new();
        for (number, bit) in [(pair.page, false), (pair.sibling, true)] {
            let counters = self.copies_beside(number)?;
            merged.table.add_keys(-(counters.len() as i64));
            counted.extend(counters.iter().map(|(class, copies)| {
                let slot = code.shallower(class.0 as u32, level, bit).slot;
                (moved(class, slot), copies)
            }));
        }
        merged.page.counters = self.counters_of(counted);
        Some(())
    }

    /// The entries of both pages, as they are on the merged one.
    fn gather_entries(&mut self, merged: &mut Merged, pair: &Pair) -> Option<Vec<Entry>> {
        let layout = merged.table.layout;
        let (code, level) = (layout.code(), u32::from(pair.level) + 1);
        let mut entries = Vec::new();
        for (number, bit) in [(pair.page, false), (pair.sibling, true)] {
            for word in 0..PAGE_WORDS {
                let before = self.draft.word(page(number).word(word))?;
                for (_, slot) in bucket::in_use(code.width(), before) {
                    let known = code.known(slot, level);
                    // A copy on the second page was made by the split.
                    let was_copied = bit && known == level;
                    let after = code.shallower(slot, level, bit);
                    let table = &mut merged.table;
                    table.void_copies = table.void_copies.saturating_sub(u64::from(was_copied));
                    if after.loses_a_bit {
                        table.forget_entry(known);
                        table.add_entry(known - 1);
                    }
                    entries.push(Entry {
                        bucket: layout.bucket_at(pair.page, word),
                        slot: after.slot,
                    });
                }
            }
        }
        Some(entries)
    }
}
