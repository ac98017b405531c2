//! Opens a data directory, or says in one line why not.

use super::errors::{one_line, unreadable};
use super::forced;
use super::log_files;
use super::options::RocksOptions;
use super::reading::column_of;
use super::tuning;
use crate::store::error::{Cause, StoreError};
use crate::store::format;
use crate::store::kv::Column;
use rocksdb::{ColumnFamilyDescriptor, DB, ErrorKind, InfoLogger, IteratorMode, LogLevel, Options};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The file by which RocksDB knows a directory that it has used.
const CURRENT_FILE: &str = "CURRENT";

/// The file that is locked while the directory is open.
pub(super) const LOCK_FILE: &str = "LOCK";

/// Opens the database for reading alone: nothing in the directory is changed,
/// and as long as the file lives that is returned with it, no server opens it.
///
/// # Errors
/// There is no data, or it is open elsewhere; also an older version, which
/// only writing takes over.
pub(super) fn open_to_read(
    path: &Path,
    options: &RocksOptions,
) -> Result<(DB, Options, File), StoreError> {
    let lock = File::open(path.join(LOCK_FILE))
        .map_err(|error| unusable(path, format!("{LOCK_FILE} can't be opened: {error}")))?;
    fcntl_lock(&lock, FlockOperation::NonBlockingLockShared).map_err(|_| StoreError::Locked {
        path: path.to_owned(),
    })?;
    let mut database_options = tuning::database(options);
    // Otherwise it would keep its diary in the directory. What goes wrong is
    // returned as an error anyway.
    database_options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| {}));
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
    let mut columns: Vec<ColumnFamilyDescriptor> = tuning::columns(options)
        .into_iter()
        .map(|(column, options)| ColumnFamilyDescriptor::new(column.name(), options))
        .collect();
    for name in unknown_columns(path, &database_options)? {
        columns.push(ColumnFamilyDescriptor::new(name, Options::default()));
    }
    log_files::check(path)?;
    // What is in the log and in no table file yet is read, too.
    let database = DB::open_cf_descriptors_read_only(&database_options, path, columns, false)
        .map_err(|error| refused(path, &error))?;
    see_that_nothing_is_lost(&database, path)?;
    Ok((database, database_options, lock))
}

/// Opens the database with all its columns, and returns its options with it:
/// they hold the statistics.
pub(super) fn open_database(
    path: &Path,
    options: &RocksOptions,
) -> Result<(DB, Options), StoreError> {
    make_directory(path).map_err(|error| unusable(path, error))?;
    if !options.accept_lost_changes {
        see_that_nothing_would_be_lost(path, options)?;
    }
    let database_options = tuning::database(options);
    let mut columns: Vec<ColumnFamilyDescriptor> = tuning::columns(options)
        .into_iter()
        .map(|(column, options)| ColumnFamilyDescriptor::new(column.name(), options))
        .collect();
    // Columns of a newer program must be opened too: only then can its version
    // be read and named.
    for name in unknown_columns(path, &database_options)? {
        columns.push(ColumnFamilyDescriptor::new(name, Options::default()));
    }
    let database = DB::open_cf_descriptors(&database_options, path, columns)
        .map_err(|error| refused(path, &error))?;
    match see_that_nothing_is_lost(&database, path) {
        Err(lost) if options.accept_lost_changes => {
            tracing::error!(%lost, "the loss is accepted, as --accept-lost-changes says");
            forced::accept(path, database.latest_sequence_number())
                .map_err(|error| unusable(path, error))?;
        }
        nothing_is_lost => nothing_is_lost?,
    }
    Ok((database, database_options))
}

/// Sees that an open database has all that was forced to the disk.
fn see_that_nothing_is_lost(database: &DB, path: &Path) -> Result<(), StoreError> {
    let (recovered, forced) = (database.latest_sequence_number(), forced::read(path));
    match forced {
        Some(forced) if recovered < forced => Err(StoreError::LostChanges {
            path: path.to_owned(),
            recovered,
            forced,
        }),
        _ => Ok(()),
    }
}

/// As [`see_that_nothing_is_lost`], before opening the database makes the end of
/// its log final. Where all records are whole nothing but a missing file can be
/// lost, and nothing is opened.
fn see_that_nothing_would_be_lost(path: &Path, options: &RocksOptions) -> Result<(), StoreError> {
    if forced::read(path).is_none() || log_files::are_whole(path)? {
        return Ok(());
    }
    let database_options = tuning::database(options);
    // What else is wrong is said when it is opened.
    let Ok(names) = DB::list_cf(&database_options, path) else {
        return Ok(());
    };
    match DB::open_cf_for_read_only(&database_options, path, names, false) {
        Ok(database) => see_that_nothing_is_lost(&database, path),
        Err(_) => Ok(()),
    }
}

/// Makes the directory if it is missing, so that a power cut does not take it
/// back with everything that was acknowledged: RocksDB forces the names in it,
/// but not its own name.
fn make_directory(path: &Path) -> io::Result<()> {
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

/// Checks the version of the data directory, and writes it into a new or an
/// older one.
pub(super) fn take_over(database: &DB, path: &Path) -> Result<(), StoreError> {
    if check_version(database, path)? < format::DATA_VERSION {
        // What the newer version adds is empty. From here on an older program
        // must not touch it.
        let info = column_of(database, Column::Info)?;
        let version = format::seal_data_version(format::DATA_VERSION);
        database
            .put_cf(info, format::DATA_VERSION_KEY, version)
            .map_err(|error| refused(path, &error))?;
    }
    Ok(())
}

/// The version of the data directory, 0 for a new one.
pub(super) fn check_version(database: &DB, path: &Path) -> Result<u32, StoreError> {
    let info = column_of(database, Column::Info)?;
    let version = database
        .get_cf(info, format::DATA_VERSION_KEY)
        .map_err(|error| unreadable("opening the data directory", || shown(path), &error))?;
    let found = match version {
        Some(version) => format::read_data_version(&version)?,
        // Older than any version: to be written as a new one is.
        None if is_empty(database)? => 0,
        None => return Err(corrupt(path, "it holds the data of another program")),
    };
    let unknown = unknown_columns(path, &Options::default())?;
    match unknown.first() {
        None => Ok(found),
        Some(name) => Err(corrupt(
            path,
            &format!("column {name} does not belong there"),
        )),
    }
}

fn unknown_columns(path: &Path, options: &Options) -> Result<Vec<String>, StoreError> {
    if !path.join(CURRENT_FILE).exists() {
        return Ok(Vec::new());
    }
    let mut names = DB::list_cf(options, path).map_err(|error| refused(path, &error))?;
    names.retain(|name| Column::ALL.iter().all(|column| column.name() != name));
    Ok(names)
}

fn is_empty(database: &DB) -> Result<bool, StoreError> {
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
        ErrorKind::Corruption => corrupt(path, &one_line(error)),
        _ => unusable(path, one_line(error)),
    }
}

fn unusable(path: &Path, source: impl Into<Cause>) -> StoreError {
    StoreError::Unusable {
        path: path.to_owned(),
        source: source.into(),
    }
}

fn corrupt(path: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt {
        what: shown(path),
        reason: reason.to_owned(),
    }
}

fn shown(path: &Path) -> String {
    format!("data directory {}", path.display())
}
