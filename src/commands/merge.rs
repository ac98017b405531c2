//! `merge`: one file of several, without a server.

use super::build;
use super::failure::Failure;
use crate::chain::meta::Chain;
use crate::chain::pages::WholePage;
use crate::chain::union::{load, union};
use crate::config::MergeOptions;
use crate::file::{FileError, FilterFile, PathError};
use std::cmp::Reverse;
use std::path::Path;

pub(super) fn run(options: &MergeOptions) -> Result<(), Failure> {
    let mut files = Vec::new();
    for path in &options.files {
        let (file, chain) = build::opened(path)?;
        files.push((path.as_path(), file, chain));
    }
    // The others are split as far as the first is; of equal ones their order decides.
    files.sort_by_key(|it| Reverse(it.2.slot_bytes()));
    let mut files = files.into_iter();
    let (first, file, chain) = files.next().ok_or("there is no file")?;
    let pages = load(&chain, |page| whole(first, &file, page))?;
    let mut merged: (Chain, _) = (chain, pages);
    for (path, file, chain) in files {
        let with = |error: Failure| format!("{} and {}: {error}", first.display(), path.display());
        merged = union(merged, &chain, |page| whole(path, &file, page), || Ok(())).map_err(with)?;
    }
    let (chain, pages) = merged;
    build::write(&options.output, chain, &pages, || ())
}

fn whole(path: &Path, file: &FilterFile, page: u32) -> Result<WholePage, Failure> {
    let page = file.view().whole_page(page);
    let of_file = |error: FileError| PathError {
        path: path.to_owned(),
        reason: error.into(),
    };
    Ok(page.map_err(of_file)?)
}

#[cfg(test)]
mod tests;
