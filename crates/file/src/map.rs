//! A file as bytes of memory.
//!
//! Unsafe code, as in few other files: the system maps files at addresses, and
//! somebody has to say for how long these are good.

#![expect(unsafe_code, reason = "a mapped file is memory that no safe type owns")]

use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ptr;

/// The bytes of a mapped file.
pub struct Map {
    at: *mut c_void,
    bytes: usize,
}

// SAFETY: it is memory that nobody writes to, wherever it is read from; `Drop` alone
// gives it back.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps all of a file, which must not become shorter as long as this is there.
    ///
    /// # Errors
    /// The system's, or it is no regular file.
    pub fn of(file: &File) -> io::Result<Map> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            let why = "it is no regular file: write what it gives into one, and ask that";
            return Err(io::Error::other(why));
        }
        let bytes = usize::try_from(metadata.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            let at = ptr::dangling_mut();
            return Ok(Map { at, bytes });
        }
        // SAFETY: the system chooses where, so nothing that exists is mapped over.
        let at = unsafe {
            mm::mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Map { at, bytes })
    }
}

/// Has the system read ahead in a map, or nothing but what is asked for. It is a hint: if
/// it is not taken, all is as without it.
pub(crate) fn read_ahead(map: &[u8], is_in_order: bool) {
    let advice = match is_in_order {
        true => Advice::Sequential,
        false => Advice::Random,
    };
    // SAFETY: neither of the two changes what is in memory, whatever lies there.
    let _ = unsafe { mm::madvise(map.as_ptr().cast_mut().cast(), map.len(), advice) };
}

impl AsRef<[u8]> for Map {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped there, or none are asked for, until this is
        // dropped. That nobody writes to the file, or cuts it off, is what
        // `FilterFile` asks of who uses it: such files are replaced, never changed.
        unsafe { std::slice::from_raw_parts(self.at.cast::<u8>(), self.bytes) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: it was mapped by `of`, and nobody can have a reference into it.
            // It can fail for addresses alone that were never mapped.
            let _ = unsafe { mm::munmap(self.at, self.bytes) };
        }
    }
}
