//! Pages of a filter in plain memory: all are at hand, and what changes changes them as
//! they are. What builds a filter and stores it as a whole needs no others.

use super::address::{PageAddress, WordAddress};
use super::counters::{CounterKey, CounterKeys, Counters};
use super::meta::Chain;
use super::pages::{Draft, HeldPages, PageWords, PlanPages, WholePage};
use crate::hints;
use std::collections::BTreeMap;
use std::mem;

/// Pages whose words lie together: growing copies no others.
const SEGMENT: usize = 1024;

/// The pages of all sub-filters, or a part of those of one.
#[derive(Default)]
pub struct Pages {
    subs: Vec<SubPages>,
}

struct SubPages {
    words_per_page: usize,
    /// Position of the first of its segments among those of the whole sub-filter.
    first: usize,
    /// All but the last have [`SEGMENT`] pages.
    segments: Vec<Segment>,
}

#[derive(Default)]
struct Segment {
    words: Vec<u64>,
    /// By page.
    occupied: Vec<u32>,
    /// By the page's place in the segment.
    counters: BTreeMap<usize, Counters>,
}

impl SubPages {
    /// The segment with a page.
    #[inline]
    fn segment(&self, page: u32) -> Option<&Segment> {
        let number = page as usize / SEGMENT;
        self.segments.get(number.wrapping_sub(self.first))
    }

    #[inline]
    fn segment_mut(&mut self, page: u32) -> Option<&mut Segment> {
        let number = page as usize / SEGMENT;
        self.segments.get_mut(number.wrapping_sub(self.first))
    }

    /// Where the words of a page begin in its segment.
    #[inline]
    fn begin(&self, page: u32) -> usize {
        page as usize % SEGMENT * self.words_per_page
    }
}

impl Pages {
    #[inline]
    fn sub(&self, page: PageAddress) -> Option<&SubPages> {
        self.subs.get(page.sub as usize)
    }

    #[inline]
    fn at(&self, at: WordAddress) -> Option<&u64> {
        let sub = self.subs.get(at.sub as usize)?;
        let index = sub.begin(at.page) + usize::from(at.word);
        sub.segment(at.page)?.words.get(index)
    }

    /// The words of a page.
    pub fn words(&self, page: PageAddress) -> Option<&[u64]> {
        let sub = self.sub(page)?;
        let words = &sub.segment(page.page)?.words;
        words.get(sub.begin(page.page)..)?.get(..sub.words_per_page)
    }

    /// What is counted beside a page.
    pub fn counters(&self, page: PageAddress) -> Option<&Counters> {
        let segment = self.sub(page)?.segment(page.page)?;
        segment.counters.get(&(page.page as usize % SEGMENT))
    }

    /// Takes the pages of the first sub-filter out, as up to so many parts; and how many
    /// pages each has but the last. The pages of a part can be changed on a thread of its
    /// own: those of others are not at hand there.
    pub fn take_apart(&mut self, most: usize) -> (Vec<Pages>, usize) {
        let Some(sub) = self.subs.first_mut() else {
            return (Vec::new(), 0);
        };
        let each = sub.segments.len().div_ceil(most).max(1);
        let mut parts = Vec::new();
        while !sub.segments.is_empty() {
            let rest = sub.segments.split_off(each.min(sub.segments.len()));
            let part = SubPages {
                words_per_page: sub.words_per_page,
                first: parts.len() * each,
                segments: mem::replace(&mut sub.segments, rest),
            };
            parts.push(Pages { subs: vec![part] });
        }
        (parts, each * SEGMENT)
    }

    /// Puts the parts back.
    pub fn put_together(&mut self, parts: Vec<Pages>) {
        if let Some(sub) = self.subs.first_mut() {
            let subs = parts.into_iter().flat_map(|it| it.subs);
            sub.segments.extend(subs.flat_map(|it| it.segments));
        }
    }

    /// Forgets all sub-filters but the first so many.
    pub fn truncate(&mut self, sub_filters: usize) {
        self.subs.truncate(sub_filters);
    }
}

impl<'a> HeldPages for &'a Pages {
    type Page = &'a [u64];

    #[inline]
    fn hold(&mut self, page: PageAddress) -> Option<&'a [u64]> {
        self.words(page)
    }

    #[inline]
    fn load(page: &'a [u64], word: u16) -> u64 {
        page.get(usize::from(word)).copied().unwrap_or(0)
    }

    #[inline]
    fn prefetch(page: &'a [u64], word: u16) {
        if let Some(word) = page.get(usize::from(word)) {
            hints::prefetch(word);
        }
    }
}

impl PageWords for Pages {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        self.at(at).copied()
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        Some(Pages::counters(self, page).map_or(0, |counters| counters.get(key)))
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        let counters = Pages::counters(self, page);
        Some(counters.map(|it| it.within(keys)).unwrap_or_default())
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        if let Some(word) = self.at(at) {
            hints::prefetch(word);
        }
    }
}

impl PlanPages for Pages {
    #[inline]
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        let segment = self.sub(page)?.segment(page.page)?;
        segment.occupied.get(page.page as usize % SEGMENT).copied()
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        Some(Pages::counters(self, page).map_or(0, Counters::len))
    }
}

impl Draft for Pages {
    #[inline(always)]
    fn set_slot(&mut self, at: WordAddress, value: u64, _: u16, more: i32) {
        let Some(sub) = self.subs.get_mut(at.sub as usize) else {
            return;
        };
        let index = sub.begin(at.page) + usize::from(at.word);
        let Some(segment) = sub.segment_mut(at.page) else {
            return;
        };
        if let Some(word) = segment.words.get_mut(index) {
            *word = value;
        }
        if let Some(occupied) = segment.occupied.get_mut(at.page as usize % SEGMENT) {
            *occupied = occupied.saturating_add_signed(more);
        }
    }

    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, _: i32) {
        let sub = self.subs.get_mut(page.sub as usize);
        if let Some(segment) = sub.and_then(|it| it.segment_mut(page.page)) {
            let place = page.page as usize % SEGMENT;
            segment.counters.entry(place).or_default().set(key, copies);
        }
    }

    fn add_sub_filters(&mut self, chain: &Chain) {
        for sub in chain.sub_filters().skip(self.subs.len()) {
            let words_per_page = (sub.layout.page_bytes() as usize).div_ceil(8);
            let pages = sub.layout.pages() as usize;
            let segments = (0..pages).step_by(SEGMENT).map(|first| {
                let pages = SEGMENT.min(pages - first);
                Segment {
                    words: vec![0; pages * words_per_page],
                    occupied: vec![0; pages],
                    counters: BTreeMap::new(),
                }
            });
            self.subs.push(SubPages {
                words_per_page,
                first: 0,
                segments: segments.collect(),
            });
        }
    }

    fn set_page(&mut self, page: PageAddress, mut whole: WholePage) {
        let Some(sub) = self.subs.get_mut(page.sub as usize) else {
            return;
        };
        let (place, begin) = (page.page as usize % SEGMENT, sub.begin(page.page));
        if place == 0 && sub.segment(page.page).is_none() {
            sub.segments.push(Segment::default());
        }
        let words_per_page = sub.words_per_page;
        let Some(segment) = sub.segment_mut(page.page) else {
            return;
        };
        if place == segment.occupied.len() {
            segment.occupied.push(0);
            // Once for all of its pages: what is not used takes no memory.
            let left = (SEGMENT - place) * words_per_page;
            segment.words.reserve_exact(left);
            segment.words.resize(begin + words_per_page, 0);
        }
        let words = segment.words.iter_mut().skip(begin).take(words_per_page);
        for (to, from) in words.zip(whole.words.iter()) {
            *to = *from;
        }
        if let Some(occupied) = segment.occupied.get_mut(place) {
            *occupied = whole.occupied;
        }
        whole.counters.shrink();
        match whole.counters.is_empty() {
            true => segment.counters.remove(&place),
            false => segment.counters.insert(place, whole.counters),
        };
    }

    fn drop_page(&mut self, page: PageAddress) {
        let Some(sub) = self.subs.get_mut(page.sub as usize) else {
            return;
        };
        let (place, begin) = (page.page as usize % SEGMENT, sub.begin(page.page));
        if let Some(segment) = sub.segment_mut(page.page) {
            segment.occupied.truncate(place);
            segment.words.truncate(begin);
            segment.counters.split_off(&place);
        }
        sub.segments.pop_if(|it| it.occupied.is_empty());
    }
}
