//! A filter as a file, and a file as a filter.

use super::error::{FilterError, Result};
use crate::client::remote::Remote;
use crate::file::{NewFile, PathError, PathReason};
use futures_util::stream;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::iter;
use std::path::Path;

/// Bytes of a dump that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// What stands for the standard input and output.
const STANDARD: &str = "-";

/// Writes a dump into a file, or out. A file is there once it is complete.
pub(super) async fn dump(
    remote: &Remote,
    key: &str,
    without_key: bool,
    file: Option<&Path>,
    out: &mut dyn Write,
) -> Result {
    let request = remote
        .request(Method::GET, &["filters", key, "dump"])
        .query(&without_key.then_some([("without_key", true)]))
        .header(ACCEPT_ENCODING, "identity");
    let Some(file) = file.filter(|it| *it != Path::new(STANDARD)) else {
        if io::stdout().is_terminal() {
            return Err(FilterError::DumpOnTerminal);
        }
        return remote
            .download(request, |piece| Ok(out.write_all(piece)?))
            .await;
    };
    let mut written = NewFile::create(file).map_err(|error| of_file(file, error))?;
    let write = |piece: &[u8]| {
        written
            .write_all(piece)
            .map_err(|error| of_file(file, error))
    };
    remote.download(request, write).await?;
    written.publish().map_err(|error| of_file(file, error))
}

pub(super) fn of_file(path: &Path, error: impl Into<PathReason>) -> FilterError {
    PathError {
        path: path.to_owned(),
        reason: error.into(),
    }
    .into()
}

/// Makes a filter from a dump; its description.
pub(super) async fn restore(
    remote: &Remote,
    key: &str,
    file: &Path,
    replace: bool,
) -> Result<Vec<u8>> {
    let (mut dump, bytes): (Box<dyn Read + Send>, _) = match file == Path::new(STANDARD) {
        true => (Box::new(io::stdin()), None),
        false => {
            let dump = File::open(file).map_err(|error| of_file(file, error))?;
            let metadata = dump.metadata()?;
            if metadata.is_dir() {
                // It would be read while it is sent, and the server seem not to answer.
                return Err(of_file(file, io::Error::from(io::ErrorKind::IsADirectory)));
            }
            (Box::new(dump), Some(metadata.len()))
        }
    };
    let pieces = iter::from_fn(move || {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = (&mut dump).take(PIECE_BYTES as u64).read_to_end(&mut piece);
        (!matches!(read, Ok(0))).then(|| read.map(|_| piece))
    });
    let length = bytes.map(|it| (CONTENT_LENGTH, it.into()));
    let request = remote
        .request(Method::PUT, &["filters", key, "dump"])
        .query(&replace.then_some([("replace", true)]))
        .header(CONTENT_TYPE, "application/octet-stream")
        .headers(length.into_iter().collect())
        .body(Body::wrap_stream(stream::iter(pieces)));
    Ok(remote.ask(request).await?)
}
