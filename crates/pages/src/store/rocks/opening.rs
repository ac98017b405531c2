//! Opens a data directory, or says in one line why not.

use super::directory_lock::DirectoryLock;
use super::errors::{one_line, says_full, unreadable};
use super::forced;
use super::lost_changes;
use super::options::RocksOptions;
use super::reading::column_of;
use super::replacement;
use super::tuning;
use crate::store::error::{Cause, Result, StoreError};
use crate::store::format;
use crate::store::kv::Column;
use rocksdb::{ColumnFamilyDescriptor, DB, DBRecoveryMode, ErrorKind, IteratorMode, Options};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The file by which RocksDB knows a directory that it has used.
const CURRENT_FILE: &str = "CURRENT";

/// Opens the database for reading alone: nothing in the directory is changed,
/// and as long as the lock lives that is returned with it, no server opens it.
///
/// # Errors
/// There is no data, or it is open elsewhere; also an older version, which
/// only writing takes over.
pub(super) fn open_to_read(
    path: &Path,
    options: &RocksOptions,
) -> Result<(DB, Options, DirectoryLock)> {
    let lock = DirectoryLock::shared(path)?;
    if replacement::is_under_way(path) {
        let reason =
            "the state of another pod is being put into it: start the server once, which ends that";
        return Err(unusable(path, reason));
    }
    let mut database_options = tuning::read_only_database(options);
    // A record that is there to its end and is not as it was written is damage, and
    // not what a power cut leaves: a check says so, where a start goes on before it.
    database_options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    let present = DB::list_cf(&database_options, path).map_err(|error| refused(path, &error))?;
    let missing = Column::ALL
        .iter()
        .find(|column| present.iter().all(|name| name != column.name()));
    if let Some(column) = missing {
        let reason = format!(
            "it has no column {}: an older version wrote it; start the server with it once, which takes it over",
            column.name()
        );
        return Err(unusable(path, reason));
    }
    let columns = columns(path, options)?;
    // What is in the log and in no table file yet is read, too.
    let database = DB::open_cf_descriptors_read_only(&database_options, path, columns, false)
        .map_err(|error| refused(path, &error))?;
    lost_changes::see_that_none_are(&database, path)?;
    Ok((database, database_options, lock))
}

/// Opens the database with all its columns, and returns its options with it: they
/// hold the statistics. No other server opens it as long as the lock lives.
pub(super) fn open_database(
    path: &Path,
    options: &RocksOptions,
) -> Result<(DB, Options, DirectoryLock)> {
    make_directory(path).map_err(|error| unusable(path, error))?;
    let lock = DirectoryLock::exclusive(path)?;
    replacement::finish(path).map_err(|error| unusable(path, error))?;
    if !options.accept_lost_changes {
        lost_changes::see_that_none_would_be(path, options, &lock)?;
    }
    let database_options = tuning::database(options);
    let open = |options: &Options, columns| DB::open_cf_descriptors(options, path, columns);
    let opened = open(&database_options, columns(path, options)?);
    let database = match opened {
        Err(error)
            if options.accept_lost_changes
                && let Some(lost) = lost_log_file(&error) =>
        {
            let reason = one_line(&error);
            tracing::error!(
                reason,
                "the loss is accepted, as --accept-lost-changes says"
            );
            lost_changes::set_aside_behind(path, lost).map_err(|error| unusable(path, error))?;
            open(&tuning::forgiving(options), columns(path, options)?)
        }
        opened => opened,
    }
    .map_err(|error| refused(path, &error))?;
    match lost_changes::see_that_none_are(&database, path) {
        Err(lost) if options.accept_lost_changes => {
            tracing::error!(%lost, "the loss is accepted, as --accept-lost-changes says");
            forced::accept(path, database.latest_sequence_number())
                .map_err(|error| unusable(path, error))?;
        }
        none_are => none_are?,
    }
    Ok((database, database_options, lock))
}

/// The columns that there are to be, and those of a newer program: they must be
/// opened too, because only then can its version be read and named.
fn columns(path: &Path, options: &RocksOptions) -> Result<Vec<ColumnFamilyDescriptor>> {
    let known = tuning::columns(options);
    let known = known
        .into_iter()
        .map(|(column, options)| ColumnFamilyDescriptor::new(column.name(), options));
    let unknown = unknown_columns(path)?;
    let unknown = unknown
        .into_iter()
        .map(|name| ColumnFamilyDescriptor::new(name, Options::default()));
    Ok(known.chain(unknown).collect())
}

/// Makes the directory if it is missing, so that a power cut does not take it
/// back with everything that was acknowledged: RocksDB forces the names in it,
/// but not its own name.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_file() {
        return Err(io::Error::other("it is a file; name a directory"));
    }
    let is_there = |directory: &&Path| directory.as_os_str().is_empty() || directory.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(|it| !is_there(it)).collect();
    fs::create_dir_all(path)?;
    for directory in &missing {
        force_name(directory)?;
    }
    if missing.is_empty() {
        // Perhaps a start that was cut short made it. If not, its name may lie
        // where this user can't look, which is no reason not to serve.
        let _ = force_name(path);
    }
    Ok(())
}

fn force_name(directory: &Path) -> io::Result<()> {
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Checks the version of the data directory, and writes it into a new one.
pub(super) fn take_over(database: &DB, path: &Path) -> Result {
    if check_version(database, path)? {
        let info = column_of(database, Column::Info)?;
        let version = format::seal_data_version(format::DATA_VERSION);
        database
            .put_cf(info, format::DATA_VERSION_KEY, version)
            .map_err(|error| refused(path, &error))?;
    }
    Ok(())
}

/// Checks the version of the data directory, and says whether it is a new one, which
/// has none.
pub(super) fn check_version(database: &DB, path: &Path) -> Result<bool> {
    let info = column_of(database, Column::Info)?;
    let version = database
        .get_cf(info, format::DATA_VERSION_KEY)
        .map_err(|error| unreadable("opening the data directory", || shown(path), &error))?;
    let is_new = match version {
        Some(version) => {
            format::check_data_version(&version)?;
            false
        }
        None if is_empty(database)? => true,
        None => {
            return Err(StoreError::corrupt(
                shown(path),
                "it holds the data of another program",
            ));
        }
    };
    let unknown = unknown_columns(path)?;
    match unknown.first() {
        None => Ok(is_new),
        Some(name) => Err(StoreError::corrupt(
            shown(path),
            format!("column {name} does not belong there"),
        )),
    }
}

fn unknown_columns(path: &Path) -> Result<Vec<String>> {
    if !looks_like_data(path).unwrap_or(false) {
        return Ok(Vec::new());
    }
    let mut names =
        DB::list_cf(&Options::default(), path).map_err(|error| refused(path, &error))?;
    names.retain(|name| Column::ALL.iter().all(|column| column.name() != name));
    Ok(names)
}

/// Whether there is a database, if the disk says so.
pub(super) fn looks_like_data(path: &Path) -> io::Result<bool> {
    path.join(CURRENT_FILE).try_exists()
}

fn is_empty(database: &DB) -> Result<bool> {
    for column in Column::ALL {
        let handle = column_of(database, column)?;
        if database
            .iterator_cf(handle, IteratorMode::Start)
            .next()
            .is_some()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn refused(path: &Path, error: &rocksdb::Error) -> StoreError {
    let text: &str = error.as_ref();
    if text.contains("lock hold by current process") || text.contains("While lock file") {
        return StoreError::Locked {
            path: path.to_owned(),
        };
    }
    match error.kind() {
        ErrorKind::Corruption if lost_log_file(error).is_some() => StoreError::LostChanges {
            path: path.to_owned(),
            reason: one_line(error),
        },
        ErrorKind::Corruption => StoreError::corrupt(shown(path), one_line(error)),
        _ => unusable(path, one_line(error)),
    }
}

fn lost_log_file(error: &rocksdb::Error) -> Option<u64> {
    lost_changes::log_file_in(error.as_ref())
}

fn unusable(path: &Path, source: impl Into<Cause>) -> StoreError {
    let (doing, source) = ("opening the data directory", source.into());
    match says_full(&source.to_string()) {
        true => StoreError::no_space(doing, format!("{}: {source}", path.display())),
        false => StoreError::Unusable {
            path: path.to_owned(),
            source,
        },
    }
}

fn shown(path: &Path) -> String {
    format!("data directory {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_full_disk_or_share_of_it_is_told_from_what_this_user_may_not_do() {
        let path = Path::new("/data");
        for (errno, is_full) in [
            (Errno::NOSPC, true),
            (Errno::DQUOT, true),
            (Errno::ACCESS, false),
            (Errno::ROFS, false),
        ] {
            let refused = unusable(path, io::Error::from(errno));
            let says_full = matches!(refused, StoreError::NoSpace { .. });
            assert_eq!(says_full, is_full, "{refused}");
            assert!(refused.to_string().contains("/data"), "{refused}");
        }
    }
}
