//! The rules of windows against an exact record of when each item was seen:
//! nothing that was seen within the window is missed, whatever was split, merged
//! or left alone since, and what has expired is found no more often than any
//! absent item.

use super::*;
use crate::chain::counters::CounterKey;
use crate::chain::paged::window::epoch_of;
use crate::chain::params::Window;
use std::collections::VecDeque;

/// A filter with a window beside what was seen when.
struct Seen {
    filter: Filter,
    window: Window,
    now_ms: u64,
    last_ms: HashMap<u64, u64>,
    /// Items in the order in which they were seen first.
    items: VecDeque<u64>,
    next: u64,
    random: u64,
    /// Expired items that were asked for, and found.
    expired: (u64, u64),
    expected: f64,
    most_pages: u32,
}

/// A moment in 2027, in milliseconds.
const START_MS: u64 = 1_800_000_000_123;

fn windowed(pages: u64, width: SlotWidth, window: Window) -> Filter {
    let code = code(width, window.epoch_bits(), None);
    let table = table(pages, code).with_window(window, START_MS);
    let request = FilterRequest {
        window_seconds: Some(window.seconds().into()),
        window_resolution_seconds: Some(window.resolution_seconds().into()),
        ..FilterRequest::default()
    };
    Filter::of(table, &request)
}

impl Seen {
    fn new(pages: u64, width: SlotWidth, window: Window) -> Seen {
        Seen {
            filter: windowed(pages, width, window),
            window,
            now_ms: START_MS,
            last_ms: HashMap::new(),
            items: VecDeque::new(),
            next: 0,
            random: SEED ^ u64::from(window.seconds()) ^ pages << 40,
            expired: (0, 0),
            expected: 0.0,
            most_pages: 0,
        }
    }

    fn window_ms(&self) -> u64 {
        1000 * u64::from(self.window.seconds())
    }

    fn add(&mut self, item: u64, mode: AddMode) -> AddResult {
        let now_ms = self.now_ms;
        let result = self.filter.work(|planner| {
            planner.at(now_ms);
            planner.add(hash(item), mode)
        });
        self.most_pages = self.most_pages.max(self.filter.table().layout.pages());
        result
    }

    fn found(&mut self, item: u64, within_seconds: Option<u64>) -> bool {
        let chain = self.filter.filter.chain();
        let oldest = chain.oldest_epoch(self.now_ms, within_seconds).unwrap();
        let now_ms = self.now_ms;
        self.filter.work(|planner| {
            planner.at(now_ms);
            let found = planner.exists(hash(item), Some(oldest))?;
            if within_seconds.is_none() {
                assert_eq!(planner.exists(hash(item), None), Some(found));
            }
            Some(found)
        })
    }

    /// Sees a new item, or one of the last, as traffic does.
    fn see(&mut self) {
        let again = below(&mut self.random, 3) == 0 && !self.items.is_empty();
        let item = match again {
            true => self.items[below(&mut self.random, self.items.len())],
            false => {
                self.next += 1;
                self.items.push_back(self.next);
                self.next
            }
        };
        let is_live = self.last_ms.get(&item);
        let is_live = is_live.is_some_and(|&seen| self.now_ms - seen < self.window_ms());
        if below(&mut self.random, 8) == 0 {
            match self.add(item, AddMode::OnlyIfAbsent) {
                // It is not refreshed.
                AddResult::Exists => return,
                AddResult::Added if !is_live => {}
                other => panic!("{other:?} of an item that is there: {is_live}"),
            }
        } else {
            match self.add(item, AddMode::Always) {
                AddResult::Refreshed => {}
                AddResult::Added if !is_live => {}
                other => panic!("{other:?} of an item that is there: {is_live}"),
            }
        }
        self.last_ms.insert(item, self.now_ms);
    }

    /// Asks for an item at random.
    fn ask(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let item = self.items[below(&mut self.random, self.items.len())];
        self.ask_for(item);
    }

    fn ask_for(&mut self, item: u64) {
        let Some(&seen) = self.last_ms.get(&item) else {
            return;
        };
        let ago_ms = self.now_ms - seen;
        let found = self.found(item, None);
        let resolution_ms = 1000 * u64::from(self.window.resolution_seconds());
        if ago_ms < self.window_ms() {
            assert!(found, "{item}, seen {ago_ms} ms ago, is missed");
            let within = ago_ms / 1000 + 1;
            assert!(self.found(item, Some(within)), "not within {within} s");
        } else if ago_ms >= (self.window.epochs() + 1) * resolution_ms {
            self.expired.0 += 1;
            self.expired.1 += u64::from(found);
            let chain = self.filter.filter.chain();
            self.expected += chain.as_of(self.now_ms).false_positive_rate();
            // What is found once would be found again.
            self.last_ms.remove(&item);
        }
    }

    /// Sweeps all pages, as is done every now and then.
    fn sweep(&mut self) {
        let (mut next, now_ms) = (Some(0), self.now_ms);
        while let Some(from) = next {
            next = self
                .filter
                .work(|planner| {
                    planner.at(now_ms);
                    planner.sweep(from, 3)
                })
                .next;
        }
    }

    fn check(&mut self) {
        check_windowed(&self.filter);
        for item in self.items.clone() {
            self.ask_for(item);
        }
    }
}

/// Every record of what pages hold agrees with what they hold.
fn check_windowed(filter: &Filter) {
    filter.verify();
    let (table, layout) = (filter.table(), filter.table().layout);
    let (code, width) = (layout.code(), layout.code().width());
    let epochs = table.epochs.as_ref().unwrap();
    let mut known = Known::of(code.suffix_bits(), Vec::new());
    let mut by_age = vec![0; epochs.by_age.len()];
    for number in 0..layout.pages() {
        let (page, level) = (filter.page(number).unwrap(), layout.level_of(number));
        let stamp = page.counters.get(CounterKey::STAMP).checked_sub(1);
        assert_eq!(page.counters.len(), usize::from(stamp.is_some()));
        let mut occupied = 0;
        for word in page.words.iter() {
            for lane in 0..width.slots_per_word() {
                let slot = bucket::get(width, *word, lane);
                if slot == 0 {
                    continue;
                }
                occupied += 1;
                known.add(code.known(slot, level));
                let epoch = epoch_of(code, slot, stamp.unwrap());
                let age = epochs.current.checked_sub(epoch).unwrap();
                if let Some(entries) = by_age.get_mut(age as usize) {
                    *entries += 1;
                }
            }
        }
        assert_eq!(occupied, page.occupied);
    }
    assert!(filter.page(layout.pages()).is_none());
    assert_eq!(&known, &table.known);
    assert_eq!((known.total(), table.counted), (table.occupied, 0));
    assert_eq!(by_age, epochs.by_age);
    assert_eq!(table.items(), by_age.iter().sum::<u64>());
    let first = Paged::new(layout.families().into(), code).unwrap();
    let read = Table::decode(&table.encode(), &first, Some(epochs.window));
    assert_eq!(read.as_ref(), Ok(table));
}

/// How many items are seen in each epoch of a run, and how it is swept.
struct Course {
    width: SlotWidth,
    pages: u64,
    window: Window,
    per_epoch: u64,
    sweeps: bool,
}

/// Four windows with traffic that rises, falls and rests, and three silences.
fn run_windows(course: &Course) -> Seen {
    let mut seen = Seen::new(course.pages, course.width, course.window);
    let resolution_ms = 1000 * u64::from(course.window.resolution_seconds());
    let epochs = course.window.epochs();
    for epoch in 0..4 * epochs + 8 {
        let items = match epoch * 4 / epochs {
            // A rush, hardly anything, and then as before.
            4..6 => 3 * course.per_epoch,
            8..12 => course.per_epoch / 50 + 1,
            _ => course.per_epoch,
        };
        let step_ms = resolution_ms / items;
        for _ in 0..items {
            seen.now_ms += step_ms;
            seen.see();
            if below(&mut seen.random, 3) == 0 {
                seen.ask();
            }
        }
        if course.sweeps && epoch % 3 == 1 {
            seen.sweep();
        }
        // What is long gone is of no interest any more.
        let most = 8 * course.per_epoch as usize * epochs as usize;
        while seen.items.len() > most {
            let gone = seen.items.pop_front().unwrap();
            seen.last_ms.remove(&gone);
        }
        let silence = match epoch {
            it if it == epochs => epochs / 2,
            // So that what a slot says is of the current epoch again.
            it if it == 2 * epochs => 1 << course.window.epoch_bits(),
            it if it == 3 * epochs + 3 => 1000,
            _ => 0,
        };
        if silence > 0 || epoch % epochs == epochs - 1 {
            seen.now_ms += silence * resolution_ms;
            seen.check();
        }
    }
    let (asked, found) = seen.expired;
    println!(
        "{:?}, {:?}: {asked} expired items asked for, {found} found, {:.1} expected; {} pages at most, {} now, {:?}",
        course.width,
        course.window,
        seen.expected,
        seen.most_pages,
        seen.filter.table().layout.pages(),
        PlanStats {
            kick_paths: Vec::new(),
            ..seen.filter.stats.clone()
        },
    );
    let allowed = seen.expected + 6.0 * seen.expected.sqrt() + 10.0;
    assert!((found as f64) < allowed, "{found} of {asked}");
    seen
}

fn window(seconds: u64, resolution_seconds: u64) -> Window {
    Window::new(seconds, resolution_seconds).unwrap()
}

#[test]
fn nothing_seen_within_the_window_is_missed_through_growth_silence_and_contraction() {
    println!("seed {SEED}");
    let items = peak() as u64 / 2;
    for (width, window) in [
        (SlotWidth::Bits16, window(100, 30)),
        (SlotWidth::Bits21, window(86_400, 3_600)),
        (SlotWidth::Bits32, window(600, 25)),
        (SlotWidth::Bits32, window(510, 2)),
        (SlotWidth::Bits16, window(60, 60)),
    ] {
        for (pages, sweeps) in [(1, true), (2, false), (3, true)] {
            let per_epoch = (items / window.epochs()).max(40);
            let seen = run_windows(&Course {
                width,
                pages,
                window,
                per_epoch,
                sweeps,
            });
            assert_eq!(seen.filter.stats.forced_splits, 0);
            assert!(seen.filter.stats.splits > 0 || pages > 1);
            if seen.filter.stats.splits > 0 {
                assert_eq!(seen.filter.stats.merges > 0, sweeps);
            }
        }
    }
}

#[test]
fn epochs_of_slots_that_know_next_to_nothing_are_not_mixed_up() {
    println!("seed {SEED}");
    for pages in [1, 2] {
        let window = window(70, 10);
        let mut seen = Seen::new(pages, SlotWidth::Bits16, window);
        let code = code(SlotWidth::Bits16, window.epoch_bits(), Some(10));
        let table = table(pages, code).with_window(window, START_MS);
        let chain = seen.filter.filter.chain().clone();
        seen.filter.filter = ResidentFilter::new(chain.with_table_for_tests(table));
        for step in 0..6 * peak() as u64 {
            // Slots of so few bits find everything: each add refreshes something.
            seen.now_ms += 10;
            seen.next += 1;
            let item = seen.next;
            if matches!(
                seen.add(item, AddMode::Always),
                AddResult::Added | AddResult::Refreshed
            ) {
                seen.items.push_back(item);
                seen.last_ms.insert(item, seen.now_ms);
            }
            seen.ask();
            if step % 10_000 == 9_999 {
                seen.sweep();
                check_windowed(&seen.filter);
            }
        }
        println!(
            "{pages} pages: {} void copies",
            seen.filter.stats.void_copies
        );
    }
}

#[test]
fn absent_items_are_found_as_often_as_the_formula_says() {
    // By hand, more of the rare ones.
    let asked: u64 = match peak() {
        ..1_000_000 => 400_000,
        _ => 60_000_000,
    };
    println!("seed {SEED}");
    for (width, window) in [
        (SlotWidth::Bits16, window(45, 15)),
        (SlotWidth::Bits21, window(86_400, 3_600)),
    ] {
        for per_epoch in [900, 5_000] {
            let mut seen = Seen::new(4, width, window);
            let step_ms = 1000 * u64::from(window.resolution_seconds()) / per_epoch;
            for _ in 0..per_epoch * 2 * window.epochs() {
                seen.now_ms += step_ms;
                seen.next += 1;
                let item = seen.next;
                seen.add(item, AddMode::Always);
            }
            let chain = seen.filter.filter.chain().as_of(seen.now_ms);
            let (expected, load) = (chain.false_positive_rate(), chain.load());
            let found = (0..asked).filter(|&it| seen.found(1 << 40 | it, None));
            let found = found.count() as u64;
            let measured = found as f64 / asked as f64;
            println!(
                "{width:?}, {window:?}, {} live items at load {load:.3}: {found} of {asked}, {measured:.3e}; by the formula {expected:.3e}, {:.3} of it",
                seen.filter.table().items(),
                measured / expected
            );
            let allowed = (5.0 / (expected * asked as f64).sqrt()).max(0.05);
            assert!((measured / expected - 1.0).abs() < allowed);
        }
    }
}

#[test]
fn memory_stays_flat_once_the_first_window_is_full() {
    for (width, resolution) in [
        (SlotWidth::Bits16, 3_600),
        (SlotWidth::Bits32, 3_600),
        (SlotWidth::Bits16, 7_200),
    ] {
        flat_memory(width, window(86_400, resolution), 2 * peak() as u64);
    }
}

/// Four days of so many items, all of them different.
fn flat_memory(width: SlotWidth, window: Window, per_day: u64) {
    let epochs = window.epochs();
    let first = rate::pages_for_values(per_day, 1, width);
    let mut seen = Seen::new(first, width, window);
    let mut pages = Vec::new();
    let mut now_us = 1000 * seen.now_ms;
    for epoch in 0..4 * epochs {
        for _ in 0..per_day / epochs {
            now_us += 86_400_000_000 / per_day;
            seen.now_ms = now_us / 1000;
            seen.next += 1;
            let item = seen.next;
            seen.add(item, AddMode::Always);
        }
        seen.sweep();
        if epoch >= epochs {
            pages.push(seen.filter.table().layout.pages());
        }
    }
    let chain = seen.filter.filter.chain().as_of(seen.now_ms);
    let rate = chain.false_positive_rate();
    let asked = 400_000.max(per_day / 4);
    let found = (0..asked).filter(|&it| seen.found(1 << 40 | it, None));
    let found = found.count();
    let measured = found as f64 / asked as f64;
    let (least, most) = (*pages.iter().min().unwrap(), *pages.iter().max().unwrap());
    let (bytes, live) = (4096.0 * f64::from(most), seen.filter.table().items());
    println!(
        "{width:?}, steps of {} s, {per_day} items a day: {least} to {most} pages from the second day on, {:.1} MB; {live} live items, error {measured:.2e} ({found} found), by the formula {rate:.2e}",
        window.resolution_seconds(),
        bytes / 1e6
    );
    // Or one page, where there are few.
    assert!(10 * most <= 11 * least + 10, "{least} to {most}");
    assert!(found < 1_000 || (measured / rate - 1.0).abs() < 0.05);
    check_windowed(&seen.filter);
}

#[test]
fn an_idle_filter_shrinks_to_its_first_pages() {
    let window = window(3_600, 600);
    let mut seen = Seen::new(2, SlotWidth::Bits21, window);
    for _ in 0..2 * peak() {
        seen.next += 1;
        let item = seen.next;
        seen.add(item, AddMode::Always);
    }
    assert!(seen.filter.table().layout.pages() > 4);
    seen.now_ms += 7_200_000;
    for _ in 0..12 {
        seen.sweep();
    }
    let table = seen.filter.table();
    assert_eq!((table.occupied, table.items()), (0, 0));
    assert_eq!(table.layout.pages(), 2);
    check_windowed(&seen.filter);
}
