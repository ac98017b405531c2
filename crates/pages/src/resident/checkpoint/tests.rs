//! Parking against a plain model: whatever is parked, folded, stored, evicted, dropped
//! or unreadable, a page reads as it was changed, and its stored image with the log from
//! where it may be cut is the page.

use super::*;
use crate::memory::{Failing, MemoryStore, Moment};
use crate::page::{FilterId, Ordinal};
use crate::resident::image;
use crate::resident::loader::{Beside, Loader};
use crate::resident::parked::ParkedPage;
use crate::resident::{PageGeometry, Version};
use crate::store::disk::DiskReserve;
use crate::store::format::StoredValue;
use cuckood_filter::chain::address::{PageAddress, WordAddress};
use cuckood_filter::chain::counters::{CounterKey, Counters};
use cuckood_filter::chain::plan::{ChangedCounter, ChangedWord};
use cuckood_filter::cuckoo::bucket::{self, SlotWidth};
use cuckood_share::{Kind, Resource};
use std::collections::BTreeMap;
use std::sync::mpsc;

const PAGES: u32 = 600;
const WIDTH: SlotWidth = SlotWidth::Bits16;

/// A number after the other, of which nobody knows the next.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// What a page holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Page {
    words: BTreeMap<u16, u64>,
    counters: BTreeMap<CounterKey, u64>,
}

/// What changes in a page: of each word some slots.
#[derive(Clone, Debug, Default)]
struct Part {
    words: BTreeMap<u16, (u8, u64)>,
    counters: BTreeMap<CounterKey, u64>,
}

impl Part {
    fn changes(&self, page: u32, occupied: i32) -> PageChanges {
        let word = |(&word, &(slots, value)): (&u16, &(u8, u64))| ChangedWord {
            at: WordAddress { sub: 0, page, word },
            value,
            slots,
        };
        let counter = |(&key, &copies): (&CounterKey, &u64)| ChangedCounter { key, copies };
        PageChanges {
            pages: vec![ChangedPage {
                address: PageAddress::new(0, page),
                words: 0..self.words.len(),
                counters: 0..self.counters.len(),
                occupied,
            }],
            words: self.words.iter().map(word).collect(),
            counters: self.counters.iter().map(counter).collect(),
            ..PageChanges::default()
        }
    }
}

impl Page {
    fn apply(&mut self, record: &Record) {
        match record {
            Record::Dropped => *self = Page::default(),
            Record::Whole(page) => *self = page.clone(),
            Record::Part(part) => {
                for (&number, &(slots, value)) in &part.words {
                    let word = self.words.entry(number).or_default();
                    for lane in (0..4).filter(|lane| slots >> lane & 1 == 1) {
                        let of_slot = 0xffff << (16 * lane);
                        *word = *word & !of_slot | value & of_slot;
                    }
                }
                self.counters.extend(&part.counters);
            }
        }
        self.words.retain(|_, word| *word != 0);
        self.counters.retain(|_, copies| *copies != 0);
    }

    fn whole(&self) -> WholePage {
        let mut page = WholePage::empty();
        for (&word, &value) in &self.words {
            page.words[usize::from(word)] = value;
            page.occupied += bucket::occupied(WIDTH, value);
        }
        page.counters.set_all(self.counters.clone().into_iter());
        page
    }

    fn of(slots: &[u8], counters: Option<&Counters>) -> Page {
        let words = (0..).zip(image::words(slots)).filter(|it| it.1 != 0);
        let counters = counters.into_iter().flat_map(|it| it.iter());
        Page {
            words: words.collect(),
            counters: counters.collect(),
        }
    }
}

#[derive(Clone)]
enum Record {
    Part(Part),
    Whole(Page),
    Dropped,
}

struct World {
    memory: MemoryStore,
    store: Arc<PageStore>,
    cache: Arc<PageCache>,
    checkpointer: Arc<Checkpointer>,
    loader: Arc<Loader>,
    tables: [Arc<PageTable>; 1],
    metrics: Arc<Metrics>,
    model: Vec<Page>,
    log: Vec<(Sequence, u32, Record)>,
    /// Records that were applied while pages were read.
    applied_meanwhile: u64,
}

impl World {
    fn new(max_log_bytes: u64) -> World {
        let (memory, metrics) = (MemoryStore::new(), Arc::new(Metrics::new().unwrap()));
        let store = Arc::new(PageStore::open(Arc::new(memory.clone())).unwrap());
        let cache = Arc::new(PageCache::new(1 << 20, &metrics));
        let disk = Disk::new(Arc::clone(&store), DiskReserve::Usual, Arc::clone(&metrics));
        let bounds = Bounds {
            max_dirty_pages: 64,
            max_log_bytes,
            slice_pages: 8,
        };
        let checkpointer = Arc::new(Checkpointer::new(
            1,
            bounds,
            Arc::clone(&cache),
            Arc::clone(&store),
            Arc::new(disk),
            Arc::clone(&metrics),
        ));
        let pinnable = Resource::new("pinned_pages", Kind::Lent, 64, 100, &metrics);
        let geometry = PageGeometry::fixed(PAGES, WIDTH);
        World {
            loader: Arc::new(Loader {
                store: Arc::clone(&store),
                cache: Arc::clone(&cache),
                checkpointer: Arc::clone(&checkpointer),
                pinnable,
            }),
            tables: [Arc::new(PageTable::new(FilterId(7), Ordinal(0), &geometry))],
            memory,
            store,
            cache,
            checkpointer,
            metrics,
            model: vec![Page::default(); PAGES as usize],
            log: Vec::new(),
            applied_meanwhile: 0,
        }
    }

    fn slice(&self, purpose: Purpose) -> bool {
        self.checkpointer.write_slice(purpose, CutLog::Yes).unwrap()
    }

    /// Whether there is room for a change: not for long, if a page can't be read.
    fn make_room(&self) -> bool {
        for _ in 0..500 {
            if self.checkpointer.has_room() {
                return true;
            }
            self.slice(Purpose::Bounds);
        }
        assert!(self.checkpointer.unreadable().is_some(), "there is no room");
        false
    }

    fn publish(&mut self, page: u32, record: Record, work: impl FnOnce(&mut Publication<'_>)) {
        let sequence = self.checkpointer.begin_commit(0);
        self.checkpointer.publish(0, sequence, 8, work);
        self.push(sequence, page, record);
    }

    /// Applies a record to a page wherever it lies; what is returned does.
    fn applying(&self, page: u32, record: &Record) -> impl FnOnce() -> Sequence + Send + 'static {
        let (table, record) = (Arc::clone(&self.tables[0]), record.clone());
        let (cache, checkpointer) = (Arc::clone(&self.cache), Arc::clone(&self.checkpointer));
        move || {
            let sequence = checkpointer.begin_commit(0);
            checkpointer.publish(0, sequence, 8, |publication| {
                let version = cache.versions.of(&table, page).unwrap();
                Version::change(
                    || [version].into_iter(),
                    || match record {
                        Record::Part(part) => {
                            let changes = part.changes(page, 0);
                            publication.apply(&table, false, &changes, &changes.pages[0]);
                        }
                        Record::Whole(whole) => {
                            publication.apply_whole(&table, page, &whole.whole());
                            publication.set_pages(&table, table.pages().max(page + 1));
                        }
                        Record::Dropped => publication.set_pages(&table, page),
                    },
                );
            });
            sequence
        }
    }

    /// Applies a record.
    fn apply(&mut self, page: u32, record: Record) {
        if self.make_room() {
            let sequence = self.applying(page, &record)();
            self.push(sequence, page, record);
        }
    }

    fn push(&mut self, sequence: Sequence, page: u32, record: Record) {
        self.model[page as usize].apply(&record);
        self.log.push((sequence, page, record));
    }

    /// Applies records to a page at a moment of `work`, if that comes.
    fn apply_meanwhile(
        &mut self,
        moment: Moment,
        page: u32,
        records: &[Record],
        work: impl FnOnce(&mut World),
    ) {
        if !self.make_room() {
            return;
        }
        let applying: Vec<_> = records.iter().map(|it| self.applying(page, it)).collect();
        let (said, heard) = mpsc::channel();
        let apply = move || {
            let sequences = applying.into_iter().map(|apply| apply());
            sequences.for_each(|it| said.send(it).unwrap());
        };
        self.meanwhile(moment, apply, work);
        for (sequence, record) in heard.try_iter().zip(records) {
            self.applied_meanwhile += 1;
            self.push(sequence, page, record.clone());
        }
    }

    /// Has something be done at a moment of `work`, if that comes.
    fn meanwhile(
        &mut self,
        moment: Moment,
        other: impl FnOnce() + Send + 'static,
        work: impl FnOnce(&mut World),
    ) {
        self.memory.meanwhile(Some((moment, Box::new(other))));
        work(self);
        self.memory.meanwhile(None);
    }

    /// Stores a parked page while somebody brings it in who read its image before.
    fn store_beside_a_reader(&mut self, page: u32) {
        let (loader, tables) = (Arc::clone(&self.loader), self.tables.clone());
        let (read, has_read) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let (memory, reader) = (self.memory.clone(), Arc::new(Mutex::new(None)));
        let started = Arc::clone(&reader);
        let bring_in = move || {
            let linger = move || {
                read.send(()).unwrap();
                goes_on.recv().unwrap();
            };
            memory.meanwhile(Some((Moment::Read, Box::new(linger))));
            let bring_in = move || loader.bring_in(&tables, &[PageAddress::new(0, page)]);
            *started.lock() = Some(std::thread::spawn(bring_in));
            has_read.recv().unwrap();
        };
        self.meanwhile(Moment::Writing, bring_in, store_some);
        go_on.send(()).unwrap();
        let reader = reader.lock().take().unwrap();
        reader.join().unwrap().unwrap();
    }

    /// Changes words and counters of a page.
    fn change(&mut self, page: u32, part: Part) {
        if !self.make_room() {
            return;
        }
        let address = PageAddress::new(0, page);
        let permit = self.loader.pinnable.try_take(None, 1).unwrap();
        let pins = self.loader.pin(&self.tables, &[address], permit).unwrap();
        let _pins = pins.unwrap();
        let table = Arc::clone(&self.tables[0]);
        let index = self.cache.resident_frame(&table, page).unwrap();
        let frame = self.cache.frame(index).unwrap();
        let before = |word| i64::from(bucket::occupied(WIDTH, frame.load(word)));
        let more = |(&word, &(_, value)): (&u16, &(u8, u64))| {
            i64::from(bucket::occupied(WIDTH, value)) - before(word)
        };
        let changes = part.changes(page, part.words.iter().map(more).sum::<i64>() as i32);
        self.publish(page, Record::Part(part), |publication| {
            publication.write(&table, index, &changes, &changes.pages[0]);
        });
    }

    /// Drops the last page, or has it come back as a whole.
    fn reshape(&mut self, whole: Page, as_a_leader: bool) {
        if !self.make_room() {
            return;
        }
        if !as_a_leader {
            let record = match self.tables[0].pages() {
                PAGES => Record::Dropped,
                _ => Record::Whole(whole),
            };
            return self.apply(PAGES - 1, record);
        }
        let table = Arc::clone(&self.tables[0]);
        if table.pages() == PAGES {
            return self.publish(PAGES - 1, Record::Dropped, |publication| {
                publication.set_pages(&table, PAGES - 1);
            });
        }
        let index = self.loader.install_new(&table, PAGES - 1).unwrap();
        let page = whole.whole();
        self.publish(PAGES - 1, Record::Whole(whole), |publication| {
            publication.set_page(&table, index, PAGES - 1, &page);
            publication.set_pages(&table, PAGES);
        });
        self.cache.unpin(index);
    }

    /// The one that is stored next, of those that are parked.
    fn parked_page(&self) -> Option<u32> {
        let waiting = self.checkpointer.lanes[0].lock();
        let next = waiting.parked.front().map(|it| it.page);
        next.filter(|&it| it < self.tables[0].pages())
    }

    /// A page as a reader finds it, if it can be read.
    fn read(&self, number: u32) -> Result<Page, StoreError> {
        let (table, address) = (&self.tables[0], PageAddress::new(0, number));
        let of_it = [(&self.tables[..], &[address][..])];
        let images = self.loader.read_of_many(of_it.into_iter(), Beside::All)?;
        let mut page = Page::default();
        let all = CounterKey::ALL;
        let beside = images.counters_within(table.id(number), all.clone());
        let resident = || self.cache.counters_within(table, number, all).unwrap();
        page.counters = beside.map_or_else(resident, |it| it.0).iter().collect();
        for word in 0..512 {
            let beside = images.word(table.id(number), word).map(|it| it.0);
            let value = beside
                .or_else(|| self.cache.read(table, number, word))
                .unwrap();
            if value != 0 {
                page.words.insert(word, value);
            }
        }
        if let Some(index) = self.cache.resident_frame(table, number) {
            let words = page.words.values();
            let occupied: u32 = words.map(|&it| bucket::occupied(WIDTH, it)).sum();
            assert_eq!(self.cache.frame(index).unwrap().occupied(), occupied);
        }
        Ok(page)
    }

    /// What a start would find, if the process ended here.
    fn check_recovery(&mut self, unreadable: &[u32]) {
        let next = Sequence(self.checkpointer.next_sequence.load(Ordering::SeqCst));
        let needed = self.checkpointer.lanes[0].lock().oldest_needed();
        let cut = needed.unwrap_or(next);
        self.log.retain(|(sequence, _, _)| *sequence >= cut);
        let table = &self.tables[0];
        let page_bytes = table.geometry().page_bytes();
        for number in (0..table.pages()).filter(|it| !unreadable.contains(it)) {
            let mut page = Page::default();
            let stored = self.store.read_pages(&[table.id(number)], &mut |_, bytes| {
                if let Some(bytes) = bytes {
                    let stored = image::decode(bytes, page_bytes, table.id(number)).unwrap();
                    page = Page::of(stored.slots, stored.counters.as_deref());
                }
            });
            stored.unwrap();
            for (_, _, record) in self.log.iter().filter(|it| it.1 == number) {
                page.apply(record);
            }
            assert_eq!(
                page, self.model[number as usize],
                "page {number} after a start"
            );
        }
    }
}

fn some_of(random: &mut Random, slots: impl Fn(&mut Random) -> u8) -> Part {
    let mut part = Part::default();
    // Mostly one word; sometimes more than a frame or a parked page knows by number.
    let words = [1, 1, 1, 2, 3, 20, 300][random.below(7) as usize];
    for _ in 0..words {
        let word = [random.below(4), random.below(512), 511][random.below(3) as usize];
        let value = [0, 1, u64::MAX, random.below(u64::MAX)][random.below(4) as usize];
        part.words.insert(word as u16, (slots(random), value));
    }
    if random.below(8) == 0 {
        for _ in 0..[1, 2, 12][random.below(3) as usize] {
            let key = CounterKey((1 << 32) + 1 + random.below(12));
            part.counters.insert(key, random.below(3) * 200);
        }
    }
    part
}

/// As a leader says it: of words that change all is known.
fn in_words(random: &mut Random) -> Part {
    some_of(random, |_| u8::MAX)
}

/// As a record says it.
fn in_slots(random: &mut Random) -> Part {
    let mut part = some_of(random, |random| 1 + random.below(15) as u8);
    for (slots, value) in part.words.values_mut() {
        for lane in (0..4).filter(|lane| *slots >> lane & 1 == 0) {
            *value &= !(0xffff << (16 * lane));
        }
    }
    part
}

fn whole(random: &mut Random) -> Page {
    let mut page = Page::default();
    page.apply(&Record::Part(in_words(random)));
    page
}

fn store_some(world: &mut World) {
    world.slice(Purpose::Images);
}

fn run(seed: u64, max_log_bytes: u64) -> [u64; 3] {
    println!("seed {seed}");
    let (mut world, mut random) = (World::new(max_log_bytes), Random(seed));
    let mut damaged: Option<u32> = None;
    for step in 0..8_000 {
        // Some pages are changed far more often than others.
        let page = [random.below(8), random.below(u64::from(PAGES) - 1)][random.below(2) as usize];
        let page = page as u32;
        match random.below(100) {
            0..30 if damaged != Some(page) => world.change(page, in_words(&mut random)),
            30..50 => world.apply(page, Record::Part(in_slots(&mut random))),
            50..53 if damaged != Some(page) => {
                world.apply(page, Record::Whole(whole(&mut random)));
            }
            53..56 if damaged.is_none() => {
                // Somebody else's change comes while a page is brought in ...
                let record = [Record::Part(in_slots(&mut random))];
                let read = |world: &mut World| drop(world.read(page));
                world.apply_meanwhile(Moment::Read, page, &record, read);
                assert_eq!(world.read(page).unwrap(), world.model[page as usize]);
            }
            56 if damaged.is_none() && world.tables[0].pages() == PAGES => {
                // ... or the last one goes and comes back while its image is written, ...
                while world.slice(Purpose::Images) {}
                world.change(PAGES - 1, in_words(&mut random));
                world.slice(Purpose::Frames);
                let records = [Record::Dropped, Record::Whole(whole(&mut random))];
                world.apply_meanwhile(Moment::Written, PAGES - 1, &records, store_some);
                world.check_recovery(&[]);
            }
            57..64 if damaged.is_none() => {
                // ... or while pages are stored.
                let of_it = world.parked_page().unwrap_or(page);
                let record = match random.below(4) {
                    0 => Record::Whole(whole(&mut random)),
                    _ => Record::Part(in_slots(&mut random)),
                };
                let moment = [Moment::Read, Moment::Written][random.below(2) as usize];
                world.apply_meanwhile(moment, of_it, &[record], store_some);
                if random.below(4) == 0 {
                    world.check_recovery(&[]);
                }
            }
            64 if damaged.is_none() => {
                // ... or pages are stored while one of them is brought in, ...
                let page = world.parked_page().unwrap_or(page);
                let checkpointer = Arc::clone(&world.checkpointer);
                let store = move || {
                    let _ = checkpointer.write_slice(Purpose::Images, CutLog::Yes);
                };
                let read = |world: &mut World| drop(world.read(page));
                world.meanwhile(Moment::Read, store, read);
                assert_eq!(world.read(page).unwrap(), world.model[page as usize]);
                // ... or somebody has its image from before, and lingers.
                while world.slice(Purpose::Images) {}
                let mut pages = 0..PAGES - 1;
                let table = &world.tables[0];
                if let Some(page) = pages.find(|&it| !world.cache.is_resident(table, it)) {
                    world.apply(page, Record::Part(in_slots(&mut random)));
                    world.store_beside_a_reader(page);
                    assert_eq!(world.read(page).unwrap(), world.model[page as usize]);
                }
                world.check_recovery(&[]);
            }
            65..70 => {
                let address = PageAddress::new(0, page);
                let brought_in = world.loader.bring_in(&world.tables, &[address]);
                assert!(brought_in.is_ok() || damaged == Some(page));
            }
            70..80 if damaged != Some(page) => {
                assert_eq!(
                    world.read(page).unwrap(),
                    world.model[page as usize],
                    "{step}"
                );
            }
            80..88 => drop(world.slice(Purpose::Frames)),
            88..92 => drop(world.slice(Purpose::Images)),
            92 => world.reshape(whole(&mut random), random.below(2) == 0),
            93 if damaged.is_none() => {
                let id = world.tables[0].id(page);
                // Else nobody needs its image.
                let is_whole = |it: &ParkedPage| it.is_whole;
                let parked = world.tables[0].parked.lock();
                let is_whole = parked.get(&page).is_some_and(is_whole);
                drop(parked);
                let is_away = !world.cache.is_resident(&world.tables[0], page);
                if is_away && !is_whole && world.memory.damage(&StoredValue::Page(id), 20) {
                    damaged = Some(page);
                    assert!(world.read(page).is_err());
                }
            }
            94..97 => {
                if let Some(page) = damaged.take() {
                    world.check_recovery(&[page]);
                    let id = world.tables[0].id(page);
                    assert!(world.memory.damage(&StoredValue::Page(id), 20));
                    // Half a minute later.
                    world.checkpointer.lanes[0].lock().forget_patience();
                    assert_eq!(world.read(page).unwrap(), world.model[page as usize]);
                }
            }
            97 => world.check_recovery(damaged.as_slice()),
            98 => {
                // Two slices fail, one after the other, for whatever they are.
                let failing = [Failing::Before, Failing::After][random.below(2) as usize];
                world.memory.fail(move || Some(failing));
                for _ in 0..2 {
                    let purpose = [Purpose::Frames, Purpose::Images, Purpose::Bounds];
                    let purpose = purpose[random.below(3) as usize];
                    let _ = world.checkpointer.write_slice(purpose, CutLog::Yes);
                }
                world.memory.fail(|| None);
                world.check_recovery(damaged.as_slice());
            }
            _ => {}
        }
    }
    if let Some(page) = damaged {
        let id = world.tables[0].id(page);
        assert!(world.memory.damage(&StoredValue::Page(id), 20));
        world.checkpointer.lanes[0].lock().forget_patience();
    }
    for page in 0..world.tables[0].pages() {
        assert_eq!(world.read(page).unwrap(), world.model[page as usize]);
    }
    world
        .checkpointer
        .checkpoint_all(Duration::from_secs(60))
        .unwrap();
    world.check_recovery(&[]);
    assert!(world.log.is_empty(), "{} records are left", world.log.len());
    assert_eq!(world.cache.parked_bytes(), 0);
    assert_eq!(world.tables[0].dirty.load(Ordering::Relaxed), 0);
    assert_eq!(world.metrics.dirty_pages.get(), 0);
    [
        world.metrics.parked_pages.get(),
        world.metrics.folded_pages.get(),
        world.applied_meanwhile,
    ]
}

#[test]
fn pages_are_as_they_were_changed_whatever_is_parked_and_folded() {
    for seed in 0..8 {
        // A log that presses, and one that does not.
        let [parked, folded, meanwhile] = run(seed, [1 << 14, 1 << 22][seed as usize % 2]);
        println!("{parked} pages parked, {folded} folded, {meanwhile} changed meanwhile");
        assert!(parked > 100 && folded > 10 && meanwhile > 50);
    }
}
