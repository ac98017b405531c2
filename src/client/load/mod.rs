//! Sends files into a filter: the client of imports.
//!
//! A chunk is kept until the server says that its lines are committed. So when
//! the connection breaks, or the server, nothing has to be read again and no
//! line counts twice.
//!
//! | file | what it owns |
//! |---|---|
//! | `source` | cutting a file into chunks of whole lines |
//! | `upload` | sending them, again if need be, until all are committed |
//! | `options`, `error` | what is asked, and why it failed |

mod error;
mod options;
pub(crate) mod source;
mod upload;

pub use error::LoadError;
pub use options::LoadOptions;

use super::filter;
use super::patience::PatientRemote;
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest as _, Sha256};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use upload::{Import, Upload};

/// Loads every file, one after the other. Prints a line for each, and the bad
/// lines by number; shows a progress bar on a terminal.
///
/// # Errors
/// See [`LoadError`]. What was committed before stays.
pub async fn load(options: &LoadOptions) -> Result<(), LoadError> {
    if options.import_id.is_some() && options.files.len() > 1 {
        return Err(LoadError::OneIdForSeveral(options.files.len()));
    }
    let server = PatientRemote {
        remote: options.server.remote()?,
        patience: Duration::from_secs(options.patience_seconds),
    };
    server.remote.announce();
    if !options.create.is_empty() {
        filter::create(&server, &options.filter, &options.create, false).await?;
    }
    let mut left_out = 0;
    for file in &options.files {
        let shown = shown(file);
        let unreadable = |reason| LoadError::Unreadable {
            file: shown.clone(),
            reason,
        };
        let (reader, bar, import_id) = open(file, options).map_err(unreadable)?;
        let lines = source::chunks(bar.wrap_read(reader));
        let upload = Upload {
            remote: &server.remote,
            import_id: &import_id,
            options,
            file: &shown,
            bar: &bar,
        };
        let import = upload.run(lines).await;
        bar.finish_and_clear();
        left_out += report(&shown, &import?);
    }
    match left_out {
        0 => Ok(()),
        left_out => Err(LoadError::LeftOut(left_out)),
    }
}

/// Says what came of a file; returns how many lines are not in.
fn report(file: &str, import: &Import) -> u64 {
    for bad in &import.first_bad_lines {
        eprintln!("{file}: line {} is skipped: {}", bad.line, bad.reason);
    }
    let more = import.bad_lines - import.first_bad_lines.len() as u64;
    if more > 0 {
        eprintln!("{file}: and {more} more");
    }
    if let Some(reason) = &import.full_reason {
        let full = import.full;
        eprintln!("{file}: {full} items are skipped: the filter is full ({reason})");
    }
    println!(
        "{file}: {} lines: {} added, {} already there, {} full, {} blank, {} bad",
        import.committed_lines,
        import.added,
        import.exists,
        import.full,
        import.blank_lines,
        import.bad_lines
    );
    if import.before > 0 {
        println!("{file}: {} of these lines by an earlier run", import.before);
    }
    import.bad_lines + import.full
}

fn shown(file: &Path) -> String {
    match file.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => file.display().to_string(),
    }
}

/// A file to read, the bar that shows on a terminal how far that is, and the
/// import's name.
fn open(
    file: &Path,
    options: &LoadOptions,
) -> io::Result<(Box<dyn Read + Send>, ProgressBar, String)> {
    let given = options.import_id.clone();
    if file == Path::new("-") {
        // Another run reads another stream, so its name is its own.
        let import_id = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let nanos = now.map_or(0, |since| since.as_nanos());
            let id = format!("load-{:x}-{:x}", nanos, std::process::id());
            eprintln!(
                "cuckood: should this be interrupted, --import-id {id} goes on behind what is committed"
            );
            id
        });
        return Ok((Box::new(io::stdin()), ProgressBar::new_spinner(), import_id));
    }
    let reader = File::open(file)?;
    let metadata = reader.metadata()?;
    let bar = ProgressBar::new(metadata.len());
    let template = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg} eta {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let import_id = given.map_or_else(|| id_of(file, &metadata), Ok)?;
    Ok((Box::new(reader), bar, import_id))
}

/// The same for the same file as long as it does not change.
fn id_of(file: &Path, metadata: &Metadata) -> io::Result<String> {
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH);
    let changed = changed.map_or(0, |since| since.as_nanos());
    let mut hash = Sha256::new();
    hash.update(metadata.len().to_le_bytes());
    hash.update(changed.to_le_bytes());
    hash.update(file.canonicalize()?.as_os_str().as_encoded_bytes());
    Ok(format!("load-{:.32}", hex::encode(hash.finalize())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_import_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("codes");
        let id = || id_of(&file, &file.metadata().unwrap()).unwrap();
        std::fs::write(&file, "a\n").unwrap();
        let first = id();
        assert_eq!(id(), first);
        std::fs::write(&file, "a\nb\n").unwrap();
        assert_ne!(id(), first);
    }
}
