//! Shows a [`Disk`] to programs, through FUSE.
//!
//! Nothing is cached by the kernel, so every write and every `fsync` of a
//! program gets here, in order, and one at a time.

use crate::disk::{Cut, Disk, DiskError, Facts, Lost};
use crate::random::Random;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The kernel asks anew each time.
const NEVER_CACHED: Duration = Duration::ZERO;

/// How large the disk says it is, in blocks of [`BLOCK_BYTES`].
const BLOCKS: u64 = 1 << 28;

/// What is written is forced at once: the flag of `open`, which `O_SYNC` has, too.
const O_DSYNC: i32 = 0o10000;
const BLOCK_BYTES: u32 = 4096;

/// A disk at a directory. Dropped, it is gone.
pub(crate) struct Mounted {
    disk: Arc<Mutex<Disk>>,
    hanging: Arc<Hanging>,
    is_full: Arc<AtomicBool>,
    /// Unmounts before the directory is removed; fields drop in order.
    _session: BackgroundSession,
    directory: TempDir,
}

impl Mounted {
    /// A new disk.
    ///
    /// # Errors
    /// There is no FUSE here, or this user may not mount; says why.
    pub(crate) fn new() -> std::io::Result<Mounted> {
        Mounted::of(Disk::new())
    }

    /// One that keeps names as file systems with a journal do.
    ///
    /// # Errors
    /// As those of [`Mounted::new`].
    pub(crate) fn with_journal() -> std::io::Result<Mounted> {
        Mounted::of(Disk::with_journal())
    }

    fn of(disk: Disk) -> std::io::Result<Mounted> {
        let directory = tempfile::tempdir()?;
        let disk = Arc::new(Mutex::new(disk));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forgetful".to_owned())];
        let (hanging, is_full) = (Arc::default(), Arc::default());
        let shown = Shown {
            disk: Arc::clone(&disk),
            hanging: Arc::clone(&hanging),
            is_full: Arc::clone(&is_full),
        };
        Ok(Mounted {
            disk,
            hanging,
            is_full,
            _session: fuser::spawn_mount(shown, directory.path(), &config)?,
            directory,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Cuts the power. Processes that used the disk must have ended.
    pub(crate) fn cut(&self, cut: Cut, random: &mut Random) -> Lost {
        // What the kernel still had to pass on comes before this question.
        std::fs::metadata(self.path()).unwrap();
        self.disk.lock().unwrap().cut(cut, random)
    }

    /// From now on there is no room for anything, or there is again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// From now on it answers nothing. Nor may the test ask it then.
    pub(crate) fn hang(&self) {
        *self.hanging.hangs.lock().unwrap() = true;
    }

    /// It answers again, also what it was asked meanwhile.
    pub(crate) fn go_on(&self) {
        *self.hanging.hangs.lock().unwrap() = false;
        self.hanging.goes_on.notify_all();
    }

    /// Times that anything was forced to it.
    pub(crate) fn forced(&self) -> u64 {
        self.disk.lock().unwrap().forced
    }
}

#[derive(Default)]
struct Hanging {
    hangs: Mutex<bool>,
    goes_on: Condvar,
}

struct Shown {
    disk: Arc<Mutex<Disk>>,
    hanging: Arc<Hanging>,
    is_full: Arc<AtomicBool>,
}

impl Shown {
    /// The disk, once it answers.
    fn disk(&self) -> MutexGuard<'_, Disk> {
        let hangs = self.hanging.hangs.lock().unwrap();
        let goes_on = &self.hanging.goes_on;
        drop(goes_on.wait_while(hangs, |hangs| *hangs).unwrap());
        self.disk.lock().unwrap()
    }
}

fn errno(error: DiskError) -> Errno {
    match error {
        DiskError::Missing => Errno::ENOENT,
        DiskError::There => Errno::EEXIST,
        DiskError::NotEmpty => Errno::ENOTEMPTY,
        DiskError::Elsewhere => Errno::EXDEV,
        DiskError::Kind => Errno::EINVAL,
    }
}

fn attributes(facts: Facts) -> FileAttr {
    let (kind, perm) = match facts.is_directory {
        true => (FileType::Directory, 0o755),
        false => (FileType::RegularFile, 0o644),
    };
    FileAttr {
        ino: INodeNo(facts.number),
        size: facts.bytes,
        blocks: facts.bytes.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn entry(reply: ReplyEntry, found: Result<Facts, DiskError>) {
    match found {
        Ok(facts) => reply.entry(&NEVER_CACHED, &attributes(facts), Generation(0)),
        Err(error) => reply.error(errno(error)),
    }
}

fn done(reply: ReplyEmpty, outcome: Result<(), DiskError>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for Shown {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.disk().find(parent.0, name));
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk().facts(number.0) {
            Ok(facts) => reply.attr(&NEVER_CACHED, &attributes(facts)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        let resized = size.map_or(Ok(()), |size| disk.resize(number.0, size));
        match resized.and_then(|()| disk.facts(number.0)) {
            Ok(facts) => reply.attr(&NEVER_CACHED, &attributes(facts)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        entry(reply, self.disk().make_directory(parent.0, name));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.disk().remove(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.disk().remove(parent.0, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        done(reply, self.disk().rename(from, to));
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk().open(number.0) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut disk = self.disk();
        let made = disk.make_file(parent.0, name);
        match made.and_then(|facts| disk.open(facts.number).map(|()| facts)) {
            Ok(facts) => reply.created(
                &NEVER_CACHED,
                &attributes(facts),
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_DIRECT_IO,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk().read(number.0, offset, size as usize) {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if self.is_full.load(Ordering::Relaxed) {
            return reply.error(Errno::ENOSPC);
        }
        let mut disk = self.disk();
        let written = disk.write(number.0, offset, data);
        let forced = match flags.0 & O_DSYNC {
            0 => written,
            _ => written.and_then(|()| disk.force(number.0)),
        };
        match forced {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Closing a file forces nothing.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.disk().close(number.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(reply, self.disk().force(number.0));
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(reply, self.disk().force_names(number.0));
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = match self.disk().list(number.0) {
            Ok(listed) => listed,
            Err(error) => return reply.error(errno(error)),
        };
        let skipped = listed.into_iter().zip(1..).skip(offset as usize);
        for ((name, facts), next) in skipped {
            let kind = attributes(facts).kind;
            if reply.add(INodeNo(facts.number), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = match self.is_full.load(Ordering::Relaxed) {
            true => 0,
            false => BLOCKS,
        };
        reply.statfs(BLOCKS, free, free, 0, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
