//! A file of a filter whose pages are in memory.

use crate::{NewFile, PathError, PathReason};
use cuckood_filter::chain::address::PageAddress;
use cuckood_filter::chain::counters::Counters;
use cuckood_filter::chain::meta::Chain;
use cuckood_filter::chain::resident::Pages;
use cuckood_filter::file::{FileError, FileWriter, Header};
use std::io::Write as _;
use std::path::Path;

/// Writes the file of a filter, which is there once it is complete. Returns its digest.
///
/// # Errors
/// It can't be written there.
pub fn write(path: impl AsRef<Path>, chain: &Chain, pages: &Pages) -> Result<[u8; 32], PathError> {
    let path = path.as_ref();
    written(path, chain, pages).map_err(|reason| PathError {
        path: path.to_owned(),
        reason,
    })
}

fn written(path: &Path, chain: &Chain, pages: &Pages) -> Result<[u8; 32], PathReason> {
    let all = || {
        let subs = chain.sub_filters().enumerate();
        subs.flat_map(|(sub, it)| {
            (0..it.layout.pages()).map(move |page| PageAddress::new(sub, page))
        })
    };
    let header = Header::of(chain).ok_or(FileError::Header("it is too large"))?;
    let mut file = NewFile::create(path)?;
    let mut writer = FileWriter::new(header, |bytes: &[u8]| -> Result<(), PathReason> {
        Ok(file.write_all(bytes)?)
    })?;
    let mut image = Vec::new();
    for page in all() {
        image.clear();
        let words = pages.words(page).unwrap_or_default();
        image.extend(words.iter().flat_map(|it| it.to_le_bytes()));
        writer.page(page, &image, pages.counters(page))?;
    }
    writer.end_pages()?;
    for page in all() {
        writer.counters(page, pages.counters(page).unwrap_or(&Counters::default()))?;
    }
    let digest = writer.finish()?;
    file.publish()?;
    Ok(digest)
}
