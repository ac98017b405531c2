//! `build`: a file of a filter from lists of items, without a server.
//!
//! The pages lie in memory: as much of it is taken as the file is large. One thread
//! reads the lists. All others hash the items of what was read and put those whose
//! buckets lie in one part of the pages there, part by part; then one puts the others
//! where they find room. What becomes of an item does not depend on how many threads
//! there are.

use super::failure::Failure;
use crate::chain::meta::{Chain, Lineage};
use crate::chain::pages::Draft as _;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::chain::plan::{AddMode, AddResult, Planner};
use crate::chain::resident::Pages;
use crate::client::load::source::{self, Chunk};
use crate::config::BuildOptions;
use crate::cuckoo::hash::{HashKey, ItemHash, ItemHasher};
use crate::cuckoo::kick::KickSearch;
use crate::cuckoo::paged::Candidate;
use crate::cuckoo::paged::rate::{self, SplitLoads};
use crate::file::{self, FileKey, FilterFile};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde_json::Value;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest item, as of a server.
const MAX_ITEM_BYTES: usize = 64 << 10;

/// Chunks that are hashed, and put into pages, at once.
const ROUND: usize = 32;

/// Most parts of the pages that are filled at once.
const PARTS: usize = 64;

/// What stands for the standard input.
const STANDARD: &str = "-";

/// Items, each with its value if they have some.
#[derive(Default)]
struct Hashed {
    hashes: Vec<ItemHash>,
    values: Vec<u32>,
}

impl Hashed {
    /// Adds one of others.
    fn push(&mut self, of: &Hashed, number: usize) {
        self.hashes.extend(of.hashes.get(number));
        self.values.extend(of.values.get(number));
    }

    /// The items of each of so many parts, and then those of none.
    fn sort(&self, parts: usize, part: impl Fn(ItemHash) -> Option<usize>) -> Vec<Hashed> {
        let mut sorted: Vec<Hashed> = (0..=parts).map(|_| Hashed::default()).collect();
        for (number, &hash) in self.hashes.iter().enumerate() {
            if let Some(of_part) = sorted.get_mut(part(hash).unwrap_or(parts)) {
                of_part.push(self, number);
            }
        }
        sorted
    }
}

/// An export that failed, most likely. For a job that runs by night the file of the day
/// before is worth more than one that says no to everything.
const NO_ITEMS: &str = "the lists have no items, and the filter would say no to everything: nothing is written; say --capacity if that is meant";

pub(super) fn run(options: &BuildOptions) -> Result<(), Failure> {
    keep_lists(options)?;
    let bar = bar(options)?;
    let chain = match (&options.sibling_of, options.capacity) {
        (Some(path), _) => sibling_of(path)?,
        (None, Some(items)) => empty_filter(options, items)?,
        (None, None) => match count(&options.lists, &bar)? {
            0 => return Err(NO_ITEMS.into()),
            items => empty_filter(options, items)?,
        },
    };
    let lines = Lines {
        is_json: options.ndjson,
        value_bits: Some(chain.params().value_bits().into()).filter(|&it| it > 0),
    };
    let mode = AddMode::of(options.only_if_absent);
    let (chain, pages) = fill(chain, mode, &lines, &options.lists, &bar)?;
    let is_empty = chain.items() == 0;
    if is_empty && options.capacity.is_none() {
        return Err(NO_ITEMS.into());
    }
    bar.set_message("writing");
    write(&options.output, chain, &pages, || bar.finish_and_clear())?;
    if is_empty {
        eprintln!("cuckood: the lists have no items: the filter says no to everything");
    }
    Ok(())
}

/// Refuses an output that is one of the lists, by whatever name: it would take its place.
fn keep_lists(options: &BuildOptions) -> Result<(), Failure> {
    let output = place(&options.output);
    let is_output = |list: &Path| output.is_some() && place(list) == output;
    match options.lists.iter().find(|it| is_output(it)) {
        None => Ok(()),
        Some(list) => Err(format!(
            "{}: the output would take the place of this list: name another file with --output",
            list.display()
        )
        .into()),
    }
}

/// Where a file lies, if there is one.
fn place(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Writes a file as the first state of a lineage, and says what is in it.
pub(super) fn write(
    output: &Path,
    chain: Chain,
    pages: &Pages,
    written: impl FnOnce(),
) -> Result<(), Failure> {
    let chain = chain.with_lineage(Lineage(super::random::bits()?), now_ms());
    let digest = file::write(output, &chain, pages)?;
    written();
    println!(
        "{}: {} items, {:.1} percent of the slots, false-positive rate {:.1e}, digest {}",
        output.display(),
        chain.items(),
        100.0 * chain.load(),
        chain.false_positive_rate(),
        hex::encode(digest)
    );
    Ok(())
}

/// A filter that is as full as it may be once so many items are in it.
fn empty_filter(options: &BuildOptions, items: u64) -> Result<Chain, Failure> {
    let params = params(options, items)?;
    let width = params.slot_width();
    // It is to be fuller than one whose pages are about to be split.
    let capacity = items * SplitLoads::of(width).first;
    let params = self::params(options, capacity.div_ceil(rate::load_of_list(width)))?;
    let (key, created_ms) = match &options.key_of {
        Some(path) => key_of(path)?,
        None => (HashKey(super::random::bits()?), now_ms()),
    };
    let chain = Chain::new(params, key, created_ms);
    Ok(chain.ok_or("there can't be a filter of so many pages")?)
}

fn params(options: &BuildOptions, capacity: u64) -> Result<FilterParams, Failure> {
    let request = FilterRequest {
        capacity: Some(capacity),
        layout: Some(LayoutKind::Paged),
        error_rate: options.error_rate,
        promised_growth: Some(options.promised_growth),
        fingerprint_bits: options.bits,
        value_bits: options.value_bits,
        values_per_item: options.values_per_item,
        ..FilterRequest::default()
    };
    let defaults = Defaults {
        max_filter_bytes: u64::MAX,
        ..Defaults::default()
    };
    Ok(
        FilterParams::resolve(&request, &defaults).map_err(|refused| {
            let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
            refused.join("; ")
        })?,
    )
}

/// A filter without an item that can become one with that of a file.
fn sibling_of(path: &Path) -> Result<Chain, Failure> {
    let (key, created_ms) = key_of(path)?;
    let (_, of) = opened(path)?;
    let may_unite = of.may_unite(&of);
    may_unite.map_err(|error| format!("{}: {error}", path.display()))?;
    let chain = Chain::new(of.params().clone(), key, created_ms);
    Ok(chain.ok_or("there can't be a filter of so many pages")?)
}

/// A file and the description of its filter.
pub(super) fn opened(path: &Path) -> Result<(FilterFile, Chain), Failure> {
    let file = FilterFile::open_in_order(path)?;
    if let FileKey::LeftOut(_) = file.header().key {
        return Err(format!("{}: its key was left out", path.display()).into());
    }
    let chain = file.header().chain(u64::MAX);
    let chain = chain.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((file, chain))
}

/// The key of a file, and when its filter was created.
fn key_of(path: &Path) -> Result<(HashKey, u64), Failure> {
    let file = FilterFile::open(path)?;
    let header = file.header();
    match header.key {
        FileKey::Here(key) => Ok((key, header.created_ms)),
        FileKey::None => {
            Err(format!("{}: the hash of its filter has no key", path.display()).into())
        }
        FileKey::LeftOut(_) => Err(format!("{}: its key was left out", path.display()).into()),
    }
}

/// Puts the items of all lists into pages.
fn fill(
    chain: Chain,
    mode: AddMode,
    lines: &Lines,
    lists: &[impl AsRef<Path> + Sync],
    bar: &ProgressBar,
) -> Result<(Chain, Pages), Failure> {
    let hasher = chain.hash_id().hasher();
    let mut pages = Pages::default();
    pages.add_sub_filters(&chain);
    let mut filling = Filling {
        expansion: chain.params().expansion(),
        chain: chain.with_expansion(0),
        pages,
        mode,
    };
    thread::scope(|scope| {
        let (sender, chunks) = sync_channel(ROUND);
        scope.spawn(move || {
            for list in lists {
                let list = list.as_ref();
                let read = each_chunk(list, bar, |chunk| sender.send(Ok((list, chunk))).is_ok());
                if let Err(error) = read {
                    // Nobody waits for it any more if an item was refused.
                    let _ = sender.send(Err(format!("{}: {error}", list.display())));
                    return;
                }
            }
        });
        loop {
            let round: Result<Vec<_>, String> = chunks.iter().take(ROUND).collect();
            let round = round?;
            if round.is_empty() {
                // As it was asked for.
                let chain = filling.chain.with_expansion(filling.expansion);
                return Ok((chain, filling.pages));
            }
            let hash = |(list, chunk): &(&Path, Chunk)| {
                let hashed = lines.hash(chunk, &hasher);
                hashed.map_err(|(line, why)| format!("{}: line {line}: {why}", list.display()))
            };
            let hashed: Vec<_> = round.par_iter().map(hash).collect();
            filling.add(&hashed.into_iter().collect::<Result<Vec<_>, _>>()?)?;
        }
    })
}

/// A filter that is filled.
struct Filling {
    /// It does not grow unless it has to.
    chain: Chain,
    expansion: u32,
    pages: Pages,
    mode: AddMode,
}

impl Filling {
    fn add(&mut self, round: &[Hashed]) -> Result<(), Failure> {
        let table = self.chain.table().ok_or("the layout is not paged")?;
        let (layout, occupied) = (table.layout, table.occupied);
        let most = layout.slots() * rate::load_of_list(layout.code().width()) / 1000;
        let more: usize = round.iter().map(|it| it.hashes.len()).sum();
        if occupied + more as u64 > most {
            return self.add_to_whole(round, self.expansion);
        }
        let (mut parts, each) = self.pages.take_apart(PARTS);
        let sort = |hashed: &Hashed| {
            hashed.sort(parts.len(), |hash| {
                let part = |it: Candidate| layout.address(it.bucket).0 as usize / each;
                let [one, other] = layout.candidates(hash).map(part);
                (one == other).then_some(one)
            })
        };
        let sorted: Vec<Vec<Hashed>> = round.par_iter().map(sort).collect();
        let of_part = |part: usize| sorted.iter().filter_map(move |it| it.get(part));
        let (before, mode) = (self.chain.clone(), self.mode);
        let fill = |(number, part): (usize, &mut Pages)| {
            let added = Added::to(before.clone(), mem::take(part), mode, of_part(number));
            *part = added.pages;
            (added.chain, added.left)
        };
        let filled: Vec<_> = parts.par_iter_mut().enumerate().map(fill).collect();
        let mut left: Vec<Hashed> = sorted.into_iter().filter_map(|mut it| it.pop()).collect();
        self.pages.put_together(parts);
        for (after, refused) in filled {
            self.chain.take_in(&before, &after);
            left.push(refused);
        }
        self.add_to_whole(&left, 0)
    }

    /// Puts items wherever they find room. The filter grows if there is none otherwise.
    fn add_to_whole(&mut self, items: &[Hashed], expansion: u32) -> Result<(), Failure> {
        let (chain, pages) = (self.chain.clone(), mem::take(&mut self.pages));
        let added = Added::to(chain.with_expansion(expansion), pages, self.mode, items);
        self.pages = added.pages;
        self.chain = added.chain.with_expansion(0);
        match added.refused {
            None => Ok(()),
            Some(_) if expansion != self.expansion => {
                self.add_to_whole(&[added.left], self.expansion)
            }
            Some(reason) => Err(format!("the filter takes no more items: {reason}").into()),
        }
    }
}

/// What came of adding items to pages.
struct Added {
    chain: Chain,
    pages: Pages,
    /// Those that found no room there, and why the last one did not.
    left: Hashed,
    refused: Option<String>,
}

impl Added {
    fn to<'a>(
        chain: Chain,
        pages: Pages,
        mode: AddMode,
        items: impl IntoIterator<Item = &'a Hashed>,
    ) -> Added {
        let (mut left, mut refused) = (Hashed::default(), None);
        let mut search = KickSearch::default();
        let mut planner = Planner::on(pages, chain, &mut search);
        for items in items {
            let mut numbers = 0..;
            let mut check = |added: Option<AddResult>| {
                let number = numbers.next().unwrap_or(0);
                refused = match added {
                    Some(AddResult::Added | AddResult::Exists | AddResult::Refreshed) => return,
                    Some(AddResult::Full(reason)) => Some(format!("{reason:?}")),
                    None => Some("a page is missing".to_owned()),
                };
                left.push(items, number);
            };
            match items.values.is_empty() {
                true => {
                    planner.add_all(&items.hashes, mode, u64::MAX, check);
                }
                false => items
                    .hashes
                    .iter()
                    .zip(&items.values)
                    .for_each(|(&hash, &value)| check(planner.add_value(hash, value, mode))),
            }
        }
        let (chain, pages, _) = planner.into_parts();
        Added {
            chain,
            pages,
            left,
            refused,
        }
    }
}

/// How lines say items.
struct Lines {
    is_json: bool,
    value_bits: Option<u32>,
}

impl Lines {
    /// The items of a chunk; or the line that says none, and why.
    fn hash(&self, chunk: &Chunk, hasher: &ItemHasher) -> Result<Hashed, (u64, String)> {
        let (mut items, mut values) = (Vec::new(), Vec::new());
        for (number, line) in (chunk.first_line..).zip(chunk.bytes.split(|it| *it == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let (item, value) = self.read(line).map_err(|why| (number, why))?;
            if item.len() > MAX_ITEM_BYTES {
                let bytes = item.len();
                let why = format!("the item has {bytes} bytes, {MAX_ITEM_BYTES} are allowed");
                return Err((number, why));
            }
            items.push(item);
            values.extend(self.value_bits.map(|_| value));
        }
        let mut hashes = Vec::with_capacity(items.len());
        hasher.hash_all(items.iter().map(Cow::as_ref), &mut hashes);
        Ok(Hashed { hashes, values })
    }

    fn read<'a>(&self, line: &'a [u8]) -> Result<(Cow<'a, [u8]>, u32), String> {
        match (self.is_json, self.value_bits) {
            (true, _) => self.read_json(line),
            (false, None) => Ok((line.into(), 0)),
            (false, Some(_)) => {
                let tab = line.iter().rposition(|it| *it == b'\t');
                let (item, value) = line.split_at(tab.ok_or("it has no TAB before a value")?);
                let value = std::str::from_utf8(value.get(1..).unwrap_or_default());
                let value = value.ok().and_then(|it| it.parse().ok());
                Ok((item.into(), self.value(value)?))
            }
        }
    }

    fn read_json<'a>(&self, line: &[u8]) -> Result<(Cow<'a, [u8]>, u32), String> {
        let read: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let (item, value) = match (&read, self.value_bits) {
            (Value::Object(fields), Some(_)) => {
                let value = fields.get("value").and_then(Value::as_u64);
                (fields.get("item"), self.value(value)?)
            }
            (_, None) => (Some(&read), 0),
            (_, Some(_)) => (None, 0),
        };
        let text = match item {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
            _ => {
                return Err(match self.value_bits {
                    None => "it is neither a string nor an integer".to_owned(),
                    Some(_) => "it is no object with item and value".to_owned(),
                });
            }
        };
        Ok((text.into_bytes().into(), value))
    }

    fn value(&self, value: Option<u64>) -> Result<u32, String> {
        let bits = self.value_bits.unwrap_or(0);
        let fits = value.filter(|it| it.checked_shr(bits) == Some(0));
        let value = fits.and_then(|it| u32::try_from(it).ok());
        value.ok_or_else(|| {
            let most = (1u64 << bits.min(32)) - 1;
            format!("it has no value from 0 to {most}")
        })
    }
}

/// The lines of all lists, but for blank ones.
fn count(lists: &[impl AsRef<Path>], bar: &ProgressBar) -> Result<u64, Failure> {
    let mut lines = 0;
    for list in lists {
        let list = list.as_ref();
        // A pipe is empty, or waits for ever, when it is opened once more.
        if list == Path::new(STANDARD) || !list.is_file() {
            let list = list.display();
            return Err(format!("{list}: what is no file is read once: say --capacity").into());
        }
        let read = each_chunk(list, bar, |chunk| {
            let all = chunk.bytes.split(|it| *it == b'\n');
            lines += all.filter(|it| !matches!(it, [] | [b'\r'])).count() as u64;
            true
        });
        read.map_err(|error| format!("{}: {error}", list.display()))?;
    }
    Ok(lines)
}

fn each_chunk(list: &Path, bar: &ProgressBar, each: impl FnMut(Chunk) -> bool) -> io::Result<()> {
    let list: Box<dyn Read> = match list == Path::new(STANDARD) {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(list)?),
    };
    source::read(bar.wrap_read(list), each)
}

/// Shows on a terminal how far all lists are read.
fn bar(options: &BuildOptions) -> Result<ProgressBar, Failure> {
    let mut bytes = 0;
    for list in options.lists.iter().filter(|it| *it != Path::new(STANDARD)) {
        let length = std::fs::metadata(list).and_then(|it| match it.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(it.len()),
        });
        bytes += length.map_err(|error| format!("{}: {error}", list.display()))?;
    }
    let is_counted = options.capacity.is_none() && options.sibling_of.is_none();
    let times = if is_counted { 2 } else { 1 };
    let bar = ProgressBar::new(times * bytes);
    let template = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg} eta {eta}";
    bar.set_style(ProgressStyle::with_template(template)?);
    Ok(bar)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
