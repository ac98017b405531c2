//! A dump that comes: kept in a file that has no name until all of it was verified. Its
//! counters stand behind its pages, and the store wants both together.

use super::error::{DumpError, RestoreError};
use super::staged::check_room;
use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::chain::meta::Chain;
use crate::state::EngineState;
use crate::store::StoreError;
use cuckood_file::Map;
use cuckood_filter::file::{FIXED_BYTES, FileError, FileKey, FileView, Header};
use std::io::{self, Read, Write as _};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Reads the header of a dump, and its bytes.
pub(super) fn header(source: &mut impl Read) -> Result<(Header, Vec<u8>), DumpError> {
    let mut begin = vec![0; FIXED_BYTES as usize];
    source.read_exact(&mut begin)?;
    let fixed = begin.len();
    begin.resize(Header::bytes(&begin)?, 0);
    source.read_exact(begin.get_mut(fixed..).unwrap_or_default())?;
    Ok((Header::decode(&begin)?, begin))
}

/// The filter that a header describes.
pub(super) fn chain(header: &Header, max_filter_bytes: u64) -> Result<Chain, DumpError> {
    match header.key {
        FileKey::LeftOut(_) => Err(DumpError::Keyless),
        _ => Ok(header.chain(max_filter_bytes)?),
    }
}

/// Keeps the rest of a dump, and sees that it is right.
pub(super) fn spool(
    state: &EngineState,
    header: &Header,
    begin: &[u8],
    mut source: impl Read,
) -> Result<FileView<Map>, RestoreError> {
    let (mut at, told) = (begin.len() as u64, header.parts.bytes);
    check_room(&state.disk, told)?;
    let mut file = tempfile::tempfile_in(&state.spool).map_err(failed)?;
    file.write_all(begin).map_err(failed)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = match source.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(DumpError::from)?,
        };
        at += read as u64;
        if read == 0 || at > told {
            break;
        }
        check_room(&state.disk, told.saturating_sub(at))?;
        let read = piece.get(..read).unwrap_or_default();
        file.write_all(read).map_err(failed)?;
    }
    if at != told {
        return Err(DumpError::from(FileError::Length { found: at, told }).into());
    }
    let map = Map::of(&file).map_err(failed)?;
    let view = FileView::open(map).map_err(DumpError::from)?;
    view.verify().map_err(DumpError::from)?;
    Ok(view)
}

/// A page as it is stored; `None` of an empty one.
pub(super) fn image(view: &FileView<Map>, at: PageAddress) -> Result<Option<Vec<u8>>, DumpError> {
    let (slots, counters) = (view.page(at)?, view.counters(at, CounterKey::ALL)?);
    if counters.is_empty() && slots.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let mut image = slots.to_vec();
    counters.encode(&mut image);
    Ok(Some(image))
}

fn failed(error: io::Error) -> StoreError {
    let doing = "keeping a dump that comes";
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::no_space(doing, error)
        }
        _ => StoreError::io(doing, error),
    }
}
