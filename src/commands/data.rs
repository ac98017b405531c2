//! `check` and `restore`: data directories of servers that do not run.

use super::failure::Result;
use crate::backup::{BackupError, restore::restore};
use crate::engine::check::{self, Fault, Inspector};
use crate::store::rocks::{RocksOptions, RocksStore};
use crate::store::{PageStore, StoreError, repair};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// What comes before all else.
const FIRST: &str = "keep a copy of the directory before anything is deleted";

/// What to do about filters of which only sums are wrong.
const SUMS: &str = "a filter whose pages can all be read, but hold other than it says, answers as before: keep it, report it with the copy, and compare it with its source";

/// What removes all other faults.
const REMEDY: &str = "delete the other filters that are named and fill them again, or restore a backup, which is all that helps where the description, the end or the owner of a filter can't be read; what belongs to no filter is removed, and names are written anew, by cuckood check --repair";

/// Reads the whole directory and prints what is in it.
pub(super) fn run_check(data_dir: &Path, repair_it: bool) -> Result {
    see_data(data_dir)?;
    if repair_it {
        run_repair(data_dir)?;
    }
    let rocks = RocksStore::open_to_read(data_dir, RocksOptions::default())?;
    let store = PageStore::open(Arc::new(rocks))?;
    let mut faults = Faults::default();
    let findings = check::inspect(&store, &mut faults);
    if let Err(error) = check::read_all(&store, &mut |_| ControlFlow::Continue(())) {
        faults.fault(Fault::new(None, error));
    }
    let advice = [SUMS].into_iter().filter(|_| faults.sums > 0);
    let advice = advice.chain((faults.all > faults.sums).then_some(REMEDY));
    let advice: Vec<&str> = [FIRST].into_iter().chain(advice).collect();
    let advice = advice.join("; ");
    match faults.all {
        0 => println!("{findings}"),
        1 => return Err(format!("1 fault was found: {advice}").into()),
        count => return Err(format!("{count} faults were found: {advice}").into()),
    }
    Ok(())
}

/// Refuses a directory in which there is no data.
pub(super) fn see_data(data_dir: &Path) -> Result<(), StoreError> {
    let unusable = |reason: &str| StoreError::Unusable {
        path: data_dir.to_owned(),
        source: reason.into(),
    };
    if !data_dir.is_dir() {
        return Err(unusable("there is no such directory"));
    }
    match holds_data(data_dir) {
        true => Ok(()),
        false => Err(unusable("it holds no data of cuckood")),
    }
}

/// Removes what can't be read, and then what nothing can reach.
fn run_repair(data_dir: &Path) -> Result<(), StoreError> {
    let rocks = Arc::new(RocksStore::open(data_dir, RocksOptions::default())?);
    let repair::Repaired {
        removed,
        named,
        nameless,
        kept_names,
    } = repair::repair(&*rocks)?;
    println!("removed, because it can't be read: {removed}");
    println!("written anew, because it could not be read: the names of {named} filters");
    for id in nameless {
        println!(
            "kept, though neither of the two entries with its name can be read: filter {id}, with all its items"
        );
    }
    for name in kept_names {
        println!(
            "kept, though it can't be read, because it may be the name of such a filter: the entry {name:?}"
        );
    }
    let sub_filters = check::remove_unreachable(&PageStore::open(rocks)?)?;
    println!("removed, because nothing can reach them: the pages of {sub_filters} sub-filters");
    Ok(())
}

/// Prints faults as they are found, and counts them.
#[derive(Default)]
struct Faults {
    all: u64,
    sums: u64,
}

impl Inspector for Faults {
    fn read(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn fault(&mut self, fault: Fault) {
        self.all += 1;
        self.sums += u64::from(fault.is_sum);
        eprintln!("{fault}");
    }
}

/// Makes the directory from a backup and checks it; with `unless_present` a
/// directory that contains data already is left as it is.
pub(super) fn run_restore(backup: &Path, data_dir: &Path, unless_present: bool) -> Result {
    if unless_present && holds_data(data_dir) {
        println!("kept {} unchanged: it already has data", data_dir.display());
        return Ok(());
    }
    let found = restore(backup, data_dir, |restored| {
        let rocks = RocksStore::open(restored, RocksOptions::default())?;
        let store = PageStore::open(Arc::new(rocks))?;
        Ok(check::check(&store)?)
    })
    .map_err(|error| match error {
        BackupError::NotEmpty { .. } | BackupError::NoRoom { .. } | BackupError::NoName { .. } => {
            error.to_string()
        }
        of_the_archive => format!("--backup {}: {of_the_archive}", backup.display()),
    })?;
    println!("restored {}: {found}", data_dir.display());
    Ok(())
}

/// Whether RocksDB has made files there.
fn holds_data(data_dir: &Path) -> bool {
    data_dir.join("CURRENT").is_file()
}
