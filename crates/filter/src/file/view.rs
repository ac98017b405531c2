//! Asking a file, wherever its bytes are.

use super::error::FileError;
use super::header::{FileKey, Header, in_digest};
use super::parts::{self, BLOCK, COUNTER_BYTES, CounterPlace, END_BYTES, INDEX_BYTES, STAMP_BYTES};
use super::sums::{END, told_digest};

use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::{CounterKey, Counters, MAX_VALUE_COUNTERS};
use crate::chain::meta::Chain;
use crate::chain::paged::values::ValueCopies;
use crate::chain::pages::{HeldPages, PageWords, WholePage};
use crate::chain::params::Epoch;
use crate::chain::read::{self, GROUP};
use crate::cuckoo::bucket::occupied_of_all;
use crate::cuckoo::hash::{HashKey, ItemHash};
use crate::hints;
use sha2::{Digest as _, Sha256};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is asked as it is.
///
/// Opening it checks its length, its header and its checksums; each of its blocks is
/// checked when it is first looked into. A damaged one refuses the questions that need
/// it, and no others: [`FileError::Block`]. Whatever stands in a file, nothing beyond
/// its end is read, and an answer takes no more memory than a page has counters.
pub struct FileView<B> {
    bytes: B,
    header: Header,
    /// As far as a question needs it.
    chain: Chain,
    has_key: bool,
    /// A bit for each block that was found right.
    checked: Box<[AtomicU64]>,
}

impl<B: AsRef<[u8]>> FileView<B> {
    /// Opens the bytes of a file.
    ///
    /// # Errors
    /// They are no file of a filter, not all of one, or one that this program does
    /// not read.
    pub fn open(bytes: B) -> Result<FileView<B>, FileError> {
        let file = bytes.as_ref();
        let header = Header::decode(file)?;
        let parts = &header.parts;
        let (found, told) = (file.len() as u64, parts.bytes);
        if found != told {
            return Err(FileError::Length { found, told });
        }
        let end = told - END_BYTES;
        let sums = slice(file, parts.sums_at, end - parts.sums_at)?;
        let sum = crc32fast::hash(sums).to_le_bytes();
        let is_right = slice(file, end, 8)? == [sum, [0; 4]].as_flattened();
        if !is_right || !file.ends_with(&END) {
            return Err(FileError::Checksums);
        }
        let blocks = sums.len() / 4;
        let (key, has_key) = match header.key {
            FileKey::Here(key) => (key, true),
            FileKey::None => (HashKey([0; 16]), true),
            FileKey::LeftOut(_) => (HashKey([0; 16]), false),
        };
        Ok(FileView {
            chain: asked(&header, key)?,
            header,
            has_key,
            checked: (0..blocks.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            bytes,
        })
    }

    /// Gives it the key that was left out of it.
    ///
    /// # Errors
    /// It is another's.
    pub fn with_key(mut self, key: HashKey) -> Result<FileView<B>, FileError> {
        let is_right = match self.header.key {
            FileKey::None => false,
            FileKey::Here(own) => own == key,
            left_out @ FileKey::LeftOut(_) => FileKey::left_out(key) == left_out,
        };
        if !is_right {
            return Err(FileError::Key("this is not the key of the file's hash"));
        }
        self.chain = asked(&self.header, key)?;
        self.has_key = true;
        Ok(self)
    }

    /// What the file says of its filter.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Hashes an item.
    ///
    /// # Errors
    /// The key was left out of the file.
    #[inline]
    pub fn hash(&self, item: &[u8]) -> Result<ItemHash, FileError> {
        match self.has_key {
            true => Ok(self.chain.hash(item)),
            false => Err(FileError::Key(
                "the key of its hash was left out of the file: open it with the key (with_key; key in the clients, --key-file), or dump the filter with it",
            )),
        }
    }

    /// Where items expire: the first of the epochs in which an item may have been seen
    /// last that is found at a moment, in milliseconds since 1970. With `within_seconds`
    /// of those that were seen in that time.
    pub fn since(&self, now_ms: u64, within_seconds: Option<u64>) -> Option<Epoch> {
        self.chain.oldest_epoch(now_ms, within_seconds)
    }

    /// Whether an item is found. Where items expire: as of [`since`](Self::since), or
    /// without it of when the filter was changed last.
    ///
    /// # Errors
    /// A block that it takes is damaged, or the key is missing.
    #[inline]
    pub fn exists(&self, item: &[u8], since: Option<Epoch>) -> Result<bool, FileError> {
        self.exists_hashed(self.hash(item)?, since)
    }

    #[inline]
    fn exists_hashed(&self, hash: ItemHash, since: Option<Epoch>) -> Result<bool, FileError> {
        let since = since.or_else(|| self.since(0, None));
        self.ask(
            |chain, pages| match since.filter(|_| self.header.window.is_some()) {
                Some(since) => read::seen(chain, hash, since, pages),
                None => read::exists(chain, hash, pages),
            },
        )
    }

    /// The same of many, with their waits for memory at once. `found` gets an answer
    /// an item.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists), for the first item that has one.
    pub fn exists_all<'a>(
        &self,
        items: impl IntoIterator<Item = &'a [u8]>,
        since: Option<Epoch>,
        found: &mut Vec<bool>,
    ) -> Result<(), FileError> {
        let mut items = items.into_iter().peekable();
        let hasher = self.chain.hash_id().hasher();
        let mut hashes = Vec::with_capacity(GROUP);
        if items.peek().is_some() {
            self.hash(&[])?;
        }
        while items.peek().is_some() {
            hashes.clear();
            hasher.hash_all(items.by_ref().take(GROUP), &mut hashes);
            let mut answers = [None; GROUP];
            if self.header.window.is_none() {
                read::exists_group(&self.chain, &hashes, &mut &*self, &mut answers);
            }
            for (&hash, answer) in hashes.iter().zip(answers) {
                found.push(match answer {
                    Some(answer) => answer,
                    None => self.exists_hashed(hash, since)?,
                });
            }
        }
        Ok(())
    }

    /// How often an item is found: at least as often as it was added. Where items
    /// expire, once at most.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists).
    pub fn count(&self, item: &[u8], since: Option<Epoch>) -> Result<u64, FileError> {
        let hash = self.hash(item)?;
        match self.header.window {
            Some(_) => self.exists_hashed(hash, since).map(u64::from),
            None => self.ask(|chain, pages| read::count(chain, hash, pages)),
        }
    }

    /// The values of an item, ascending: none is missing, and those of others may be
    /// there. None of a filter without values.
    ///
    /// # Errors
    /// As of [`exists`](Self::exists).
    pub fn values(&self, item: &[u8]) -> Result<Vec<ValueCopies>, FileError> {
        let hash = self.hash(item)?;
        match self.header.has_values() {
            true => self.ask(|chain, pages| read::values(chain, hash, pages)),
            false => Ok(Vec::new()),
        }
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(&Chain, &mut Asking<'_, B>) -> Option<T>,
    ) -> Result<T, FileError> {
        let mut pages = Asking {
            view: self,
            fault: None,
        };
        let answer = question(&self.chain, &mut pages);
        // Nothing else is ever not at hand.
        answer.ok_or(pages.fault.unwrap_or(FileError::Checksums))
    }

    /// Checks all blocks, and the digest, which it returns.
    ///
    /// # Errors
    /// The first block that is damaged.
    pub fn verify(&self) -> Result<[u8; 32], FileError> {
        let (file, parts) = (self.bytes(), &self.header.parts);
        let mut digest = Sha256::new();
        digest.update(in_digest(slice(file, 0, parts.pages_at)?));
        for block in 0..parts.blocks() {
            self.check(block)?;
            digest.update(slice(file, parts.pages_at + block * BLOCK, BLOCK)?);
        }
        let sums = parts.bytes - END_BYTES + 8 - parts.sums_at;
        digest.update(slice(file, parts.sums_at, sums)?);
        let digest: [u8; 32] = digest.finalize().into();
        match told_digest(file) == Some(digest) {
            true => Ok(digest),
            false => Err(FileError::Digest),
        }
    }

    /// The slots of a page.
    ///
    /// # Errors
    /// It is damaged, or there is no such page.
    pub fn page(&self, page: PageAddress) -> Result<&[u8], FileError> {
        let place = self.header.parts.page(page);
        let (at, bytes) = place.ok_or(FileError::Header("there is no such page"))?;
        self.checked(at, bytes)
    }

    /// A page of a filter that splits pages, with what is counted beside it.
    ///
    /// # Errors
    /// A block that it takes is damaged, or there is no such page.
    pub fn whole_page(&self, number: u32) -> Result<WholePage, FileError> {
        let at = PageAddress::new(0, number);
        let (words, _) = self.page(at)?.as_chunks();
        let mut whole = WholePage::empty();
        for (to, &from) in whole.words.iter_mut().zip(words) {
            *to = u64::from_le_bytes(from);
        }
        let width = self.header.paged().map(|it| it.code().width());
        let occupied = width.and_then(|it| occupied_of_all(it, whole.words.iter().copied()));
        whole.occupied = occupied.unwrap_or(0) as u32;
        whole.counters = self.counters(at, CounterKey::ALL)?;
        Ok(whole)
    }

    /// What is counted beside a page, its stamp included, under the keys of a range.
    ///
    /// # Errors
    /// A block that it takes is damaged.
    pub fn counters(
        &self,
        page: PageAddress,
        keys: RangeInclusive<CounterKey>,
    ) -> Result<Counters, FileError> {
        let parts = &self.header.parts;
        let Some((begin, bytes)) = parts.page(page) else {
            return Ok(Counters::default());
        };
        let mut found = Vec::new();
        if parts.stamps_at > 0 && keys.contains(&CounterKey::STAMP) {
            let at = parts.stamps_at + (begin - parts.pages_at) / BLOCK * STAMP_BYTES;
            let stamp = u64::from_le_bytes(array(self.checked(at, STAMP_BYTES)?)?);
            found.push((CounterKey::STAMP, stamp));
        }
        let last = CounterKey((bytes - 1) << 32 | u64::from(u32::MAX));
        let first = parts.place(page, *keys.start());
        let last = parts.place(page, last.min(*keys.end()));
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(Counters::collect(found));
        };
        for block in first.block..=last.block {
            self.counters_of(block, first..=last, |place, copies| {
                found.push((parts.key(begin, place), copies));
            })?;
        }
        Ok(Counters::collect(found))
    }

    /// Those of a page of the file between two places.
    fn counters_of(
        &self,
        block: u64,
        places: RangeInclusive<CounterPlace>,
        mut take: impl FnMut(CounterPlace, u64),
    ) -> Result<(), FileError> {
        let parts = &self.header.parts;
        if parts.index_at == 0 {
            return Ok(());
        }
        let at = parts.index_at + block * INDEX_BYTES;
        let (numbers, _) = self.checked(at, 2 * INDEX_BYTES)?.as_chunks::<8>();
        let &[low, high] = numbers else {
            return Ok(());
        };
        let (mut low, high) = (u64::from_le_bytes(low), u64::from_le_bytes(high));
        let may_be = low <= high && high <= parts.counters;
        if !may_be || high - low > MAX_VALUE_COUNTERS as u64 {
            return Err(FileError::Block((at - parts.pages_at) / BLOCK));
        }
        let counter = |number: u64| {
            let at = parts.counters_at + number * COUNTER_BYTES;
            Ok(parts::counter_of(
                block,
                array(self.checked(at, COUNTER_BYTES)?)?,
            ))
        };
        let mut from = high;
        while low < from {
            let middle = low.midpoint(from);
            match counter(middle)?.0 < *places.start() {
                true => low = middle + 1,
                false => from = middle,
            }
        }
        for number in from..high {
            let (place, copies) = counter(number)?;
            if !places.contains(&place) {
                break;
            }
            take(place, copies);
        }
        Ok(())
    }

    /// So many bytes of the blocks, all of them right.
    #[inline]
    fn checked(&self, at: u64, bytes: u64) -> Result<&[u8], FileError> {
        let from = at - self.header.parts.pages_at;
        let (first, last) = (from / BLOCK, (from + bytes - 1) / BLOCK);
        self.check(first)?;
        for block in first + 1..=last {
            self.check(block)?;
        }
        slice(self.bytes(), at, bytes)
    }

    #[inline]
    fn check(&self, block: u64) -> Result<(), FileError> {
        let bits = self.checked.get((block / 64) as usize);
        let is_right = bits.is_some_and(|it| it.load(Ordering::Relaxed) >> (block % 64) & 1 == 1);
        match is_right {
            true => Ok(()),
            false => self.check_first(block),
        }
    }

    /// Looks at a block for the first time.
    #[cold]
    fn check_first(&self, block: u64) -> Result<(), FileError> {
        let (file, parts) = (self.bytes(), &self.header.parts);
        let bytes = slice(file, parts.pages_at + block * BLOCK, BLOCK)?;
        let sum = slice(file, parts.sums_at + block * 4, 4)?;
        if crc32fast::hash(bytes).to_le_bytes() != sum {
            return Err(FileError::Block(block));
        }
        if let Some(bits) = self.checked.get((block / 64) as usize) {
            bits.fetch_or(1 << (block % 64), Ordering::Relaxed);
        }
        Ok(())
    }
}

fn asked(header: &Header, key: HashKey) -> Result<Chain, FileError> {
    let window = header.window.map(|it| (it.window, it.current));
    let layouts = header.parts.subs.iter().map(|it| it.0);
    let chain = Chain::to_be_asked(layouts, key, window);
    chain.ok_or(FileError::Header("its pages can't be"))
}

fn slice(file: &[u8], at: u64, bytes: u64) -> Result<&[u8], FileError> {
    let range = usize::try_from(at).ok().zip(usize::try_from(bytes).ok());
    let found = range.and_then(|(at, bytes)| file.get(at..at.checked_add(bytes)?));
    found.ok_or(FileError::Length {
        found: file.len() as u64,
        told: at.saturating_add(bytes),
    })
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], FileError> {
    bytes.first_chunk().copied().ok_or(FileError::Checksums)
}

/// One question.
struct Asking<'a, B> {
    view: &'a FileView<B>,
    /// Why something was not at hand.
    fault: Option<FileError>,
}

impl<B: AsRef<[u8]>> Asking<'_, B> {
    #[inline]
    fn or_note<T>(&mut self, found: Result<T, FileError>) -> Option<T> {
        found.map_err(|fault| self.fault = Some(fault)).ok()
    }
}

impl<B: AsRef<[u8]>> PageWords for Asking<'_, B> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        let (begin, _) = self.view.header.parts.page(at.on())?;
        let word = self.view.checked(begin + u64::from(at.word) * 8, 8);
        self.or_note(word.and_then(array).map(u64::from_le_bytes))
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        Some(self.counters_within(page, key..=key)?.get(key))
    }

    fn counters_within(
        &mut self,
        page: PageAddress,
        keys: RangeInclusive<CounterKey>,
    ) -> Option<Counters> {
        let found = self.view.counters(page, keys);
        self.or_note(found)
    }
}

impl<'a, B: AsRef<[u8]>> HeldPages for &'a FileView<B> {
    type Page = &'a [u8];

    #[inline]
    fn hold(&mut self, page: PageAddress) -> Option<&'a [u8]> {
        let (begin, bytes) = self.header.parts.page(page)?;
        // The last word of a page that is smaller than a block may not be a whole one.
        self.checked(begin, bytes.next_multiple_of(8)).ok()
    }

    #[inline]
    fn load(page: &'a [u8], word: u16) -> u64 {
        let at = usize::from(word) * 8;
        let word = page.get(at..).and_then(|it| it.first_chunk());
        word.map_or(0, |&it| u64::from_le_bytes(it))
    }

    #[inline]
    fn prefetch(page: &'a [u8], word: u16) {
        if let Some(byte) = page.get(usize::from(word) * 8) {
            hints::prefetch(byte);
        }
    }
}
