//! A file from its first byte to its last.

use super::error::FileError;
use super::header::Header;
use super::parts::{self, BLOCK_BYTES, Parts};
use super::sums::Sums;

use crate::chain::address::PageAddress;
use crate::chain::counters::{CounterKey, Counters};

const ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Writes a file: its pages in ascending order, then, if the filter has counters,
/// those of each page once more. Needs [`Parts::memory_to_write`].
///
/// `put` takes the bytes, in their order.
pub struct FileWriter<S> {
    header: Header,
    /// None of a part of a file that ends before them.
    sums: Option<Sums>,
    put: S,
    at: u64,
    /// The stamps of pages, where items expire.
    stamps: Vec<u64>,
    /// How many counters belong to each page of the file.
    counters: Vec<u32>,
}

impl<S, E> FileWriter<S>
where
    S: FnMut(&[u8]) -> Result<(), E>,
{
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn new(header: Header, mut put: S) -> Result<FileWriter<S>, E> {
        let begin = header.encode();
        put(&begin)?;
        let parts = &header.parts;
        let pages = |is_kept: bool| match is_kept {
            true => usize::try_from(parts.pages + 1).unwrap_or(0),
            false => 0,
        };
        Ok(FileWriter {
            sums: Some(Sums::new(&begin, parts.blocks())),
            at: parts.pages_at,
            stamps: Vec::with_capacity(pages(parts.stamps_at > 0)),
            counters: Vec::with_capacity(pages(parts.index_at > 0)),
            header,
            put,
        })
    }

    /// Begins in the middle of a file, `at` a byte up to where its pages end, for what
    /// of it lies before that end.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn part(header: Header, at: u64, mut put: S) -> Result<FileWriter<S>, E> {
        let begin = header.encode();
        let rest = usize::try_from(at).ok().and_then(|at| begin.get(at..));
        put(rest.unwrap_or_default())?;
        Ok(FileWriter {
            sums: None,
            at: at.max(header.parts.pages_at),
            header,
            put,
            stamps: Vec::new(),
            counters: Vec::new(),
        })
    }

    /// Ends a part of a file where its pages end.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn end_part(mut self) -> Result<(), E> {
        self.zeros_up_to(self.header.parts.pages_end())
    }

    /// A page, behind all others that were handed over, and what is counted beside it.
    /// Those that are left out are empty.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn page(
        &mut self,
        page: PageAddress,
        image: &[u8],
        counters: Option<&Counters>,
    ) -> Result<(), E> {
        let Some((at, bytes)) = self.header.parts.page(page) else {
            return Ok(());
        };
        self.zeros_up_to(at)?;
        let most = usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .min(image.len());
        let written = usize::try_from(self.at - at).unwrap_or(usize::MAX);
        self.bytes(image.get(written..most).unwrap_or_default())?;
        let counters = counters.filter(|_| self.sums.is_some());
        for (key, copies) in counters.into_iter().flat_map(Counters::iter) {
            self.add_counter(page, key, copies);
        }
        Ok(())
    }

    /// Adds what is counted beside a page.
    fn add_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64) {
        let place = self.header.parts.place(page, key);
        let Some(block) = place.and_then(|it| usize::try_from(it.block).ok()) else {
            return;
        };
        match self.header.window {
            Some(_) => set(&mut self.stamps, block, |stamp| *stamp = copies),
            None => set(&mut self.counters, block, |counters| *counters += 1),
        }
    }

    /// Ends the pages. What follows are their counters.
    ///
    /// # Errors
    /// Those of `put`; or there are not as many counters as were announced.
    pub fn end_pages(&mut self) -> Result<(), E>
    where
        E: From<FileError>,
    {
        let Parts {
            pages,
            stamps_at,
            index_at,
            counters: told,
            ..
        } = self.header.parts;
        let found = self.counters.iter().map(|&it| u64::from(it)).sum();
        if found != told {
            return Err(FileError::Counters { found, told }.into());
        }
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        if stamps_at > 0 {
            self.zeros_up_to(stamps_at)?;
            let mut stamps = std::mem::take(&mut self.stamps);
            stamps.resize(pages, 0);
            self.numbers(stamps.into_iter())?;
        }
        if index_at > 0 {
            self.zeros_up_to(index_at)?;
            let mut counters = std::mem::take(&mut self.counters);
            counters.resize(pages + 1, 0);
            let mut before = 0;
            self.numbers(counters.into_iter().map(|it| {
                let here = before;
                before += u64::from(it);
                here
            }))?;
        }
        Ok(())
    }

    /// The counters of a page, in the order of the pages. Stamps are none.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn counters(&mut self, page: PageAddress, counters: &Counters) -> Result<(), E> {
        if self.header.window.is_some() {
            return Ok(());
        }
        for (key, copies) in counters.iter() {
            if let Some(place) = self.header.parts.place(page, key) {
                self.bytes(&parts::counter(place, copies))?;
            }
        }
        Ok(())
    }

    /// Ends the file. Returns its digest.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn finish(mut self) -> Result<[u8; 32], E> {
        self.zeros_up_to(self.header.parts.sums_at)?;
        let (end, digest) = self.sums.map(Sums::finish).unwrap_or_default();
        (self.put)(&end)?;
        Ok(digest)
    }

    fn numbers(&mut self, numbers: impl Iterator<Item = u64>) -> Result<(), E> {
        let mut piece = Vec::with_capacity(BLOCK_BYTES);
        for number in numbers {
            piece.extend_from_slice(&number.to_le_bytes());
            if piece.len() >= BLOCK_BYTES {
                self.bytes(&piece)?;
                piece.clear();
            }
        }
        self.bytes(&piece)
    }

    fn zeros_up_to(&mut self, end: u64) -> Result<(), E> {
        while let Some(missing @ 1..) = end.checked_sub(self.at) {
            let now = usize::try_from(missing).map_or(BLOCK_BYTES, |it| it.min(BLOCK_BYTES));
            self.bytes(ZEROS.get(..now).unwrap_or(&ZEROS))?;
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), E> {
        if let Some(sums) = &mut self.sums {
            sums.update(bytes);
        }
        self.at += bytes.len() as u64;
        (self.put)(bytes)
    }
}

fn set<T: Clone + Default>(numbers: &mut Vec<T>, at: usize, change: impl FnOnce(&mut T)) {
    if at >= numbers.len() {
        numbers.resize(at + 1, T::default());
    }
    if let Some(number) = numbers.get_mut(at) {
        change(number);
    }
}
