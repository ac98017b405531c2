//! A disk that keeps what was forced to it and may forget the rest, as disks do
//! when the power goes. The state alone; `mount` shows it to programs.
//!
//! What is forced: the bytes of a file by `fsync` of it, the names in a
//! directory by `fsync` of the directory, and neither by the other. That is
//! less than most file systems keep, and all that they promise. A disk with a
//! journal keeps all names with whatever is forced, as those file systems do
//! that people have (ext4, xfs).

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// The number of the topmost directory.
pub(crate) const ROOT: u64 = 1;

/// A disk writes so many bytes or none of them.
const SECTOR: usize = 512;

/// What a power cut leaves of what was not forced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    /// Nothing.
    Nothing,
    /// Any sectors of any file, zeros where others were lost, and the first
    /// some of the changes of names.
    Some,
}

/// What went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) bytes: u64,
    pub(crate) names: u64,
}

#[derive(Debug, PartialEq)]
pub(crate) enum DiskError {
    Missing,
    There,
    NotEmpty,
    /// It can't be renamed to there.
    Elsewhere,
    /// A directory where a file is wanted, or the other way round.
    Kind,
}

pub(crate) struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    has_journal: bool,
    /// Changes of names that are not forced, in order.
    since: Vec<Naming>,
    /// Times that anything was forced.
    pub(crate) forced: u64,
}

enum Node {
    File(File),
    Directory(Directory),
}

#[derive(Default)]
struct File {
    now: Vec<u8>,
    forced: Vec<u8>,
    /// What was done since.
    since: Vec<Change>,
    opened: u64,
}

enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

#[derive(Default)]
struct Directory {
    now: Names,
    forced: Names,
}

type Names = BTreeMap<OsString, u64>;

/// A name in a directory.
type Place = (u64, OsString);

enum Naming {
    Set(Place, u64),
    Remove(Place),
    Rename(Place, Place),
}

/// What there is to know about a file or directory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Facts {
    pub(crate) number: u64,
    pub(crate) is_directory: bool,
    pub(crate) bytes: u64,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        Disk {
            nodes: BTreeMap::from([(ROOT, Node::Directory(Directory::default()))]),
            next: ROOT + 1,
            has_journal: false,
            since: Vec::new(),
            forced: 0,
        }
    }

    pub(crate) fn with_journal() -> Disk {
        Disk {
            has_journal: true,
            ..Disk::new()
        }
    }

    fn file(&mut self, number: u64) -> Result<&mut File, DiskError> {
        match self.nodes.get_mut(&number) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(DiskError::Kind),
            None => Err(DiskError::Missing),
        }
    }

    fn directory(&mut self, number: u64) -> Result<&mut Directory, DiskError> {
        match self.nodes.get_mut(&number) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(DiskError::Kind),
            None => Err(DiskError::Missing),
        }
    }

    pub(crate) fn facts(&self, number: u64) -> Result<Facts, DiskError> {
        let node = self.nodes.get(&number).ok_or(DiskError::Missing)?;
        let (is_directory, bytes) = match node {
            Node::File(file) => (false, file.now.len() as u64),
            Node::Directory(_) => (true, 0),
        };
        Ok(Facts {
            number,
            is_directory,
            bytes,
        })
    }

    pub(crate) fn find(&mut self, parent: u64, name: &OsStr) -> Result<Facts, DiskError> {
        let names = &self.directory(parent)?.now;
        let number = *names.get(name).ok_or(DiskError::Missing)?;
        self.facts(number)
    }

    pub(crate) fn list(&mut self, number: u64) -> Result<Vec<(OsString, Facts)>, DiskError> {
        let names = self.directory(number)?.now.clone();
        names
            .into_iter()
            .map(|(name, number)| Ok((name, self.facts(number)?)))
            .collect()
    }

    pub(crate) fn make_file(&mut self, parent: u64, name: &OsStr) -> Result<Facts, DiskError> {
        self.make(parent, name, Node::File(File::default()))
    }

    pub(crate) fn make_directory(&mut self, parent: u64, name: &OsStr) -> Result<Facts, DiskError> {
        self.make(parent, name, Node::Directory(Directory::default()))
    }

    fn make(&mut self, parent: u64, name: &OsStr, node: Node) -> Result<Facts, DiskError> {
        let number = self.next;
        if self.directory(parent)?.now.contains_key(name) {
            return Err(DiskError::There);
        }
        self.next += 1;
        self.nodes.insert(number, node);
        self.name(Naming::Set((parent, name.to_owned()), number));
        self.facts(number)
    }

    pub(crate) fn remove(&mut self, parent: u64, name: &OsStr) -> Result<(), DiskError> {
        let found = self.find(parent, name)?;
        if found.is_directory && !self.directory(found.number)?.now.is_empty() {
            return Err(DiskError::NotEmpty);
        }
        self.name(Naming::Remove((parent, name.to_owned())));
        Ok(())
    }

    /// From one directory to another one only with a journal: else the power could go
    /// between the two.
    pub(crate) fn rename(
        &mut self,
        (parent, from): (u64, &OsStr),
        (new_parent, to): (u64, &OsStr),
    ) -> Result<(), DiskError> {
        self.find(parent, from)?;
        self.directory(new_parent)?;
        if parent != new_parent && !self.has_journal {
            return Err(DiskError::Elsewhere);
        }
        let from = (parent, from.to_owned());
        self.name(Naming::Rename(from, (new_parent, to.to_owned())));
        Ok(())
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.nodes, |directory| &mut directory.now);
        self.since.push(naming);
    }

    /// Changes of names of one group are kept in order.
    fn group(&self, directory: u64) -> u64 {
        match self.has_journal {
            true => ROOT,
            false => directory,
        }
    }

    /// Forces so many changes of names of each group; returns the others.
    fn keep_names(&mut self, mut kept: BTreeMap<u64, usize>) -> Vec<Naming> {
        let mut others = Vec::new();
        for naming in std::mem::take(&mut self.since) {
            match kept.get_mut(&self.group(naming.directory())) {
                Some(kept) if *kept > 0 => {
                    *kept -= 1;
                    naming.apply(&mut self.nodes, |directory| &mut directory.forced);
                }
                _ => others.push(naming),
            }
        }
        others
    }

    pub(crate) fn open(&mut self, number: u64) -> Result<(), DiskError> {
        self.file(number)?.opened += 1;
        Ok(())
    }

    pub(crate) fn close(&mut self, number: u64) {
        if let Ok(file) = self.file(number) {
            file.opened = file.opened.saturating_sub(1);
        }
    }

    pub(crate) fn read(&mut self, number: u64, at: u64, bytes: usize) -> Result<&[u8], DiskError> {
        let now = &self.file(number)?.now;
        let start = (at as usize).min(now.len());
        let end = start.saturating_add(bytes).min(now.len());
        Ok(&now[start..end])
    }

    pub(crate) fn write(&mut self, number: u64, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file(number)?
            .change(Change::Write(at as usize, bytes.to_vec()));
        Ok(())
    }

    pub(crate) fn resize(&mut self, number: u64, bytes: u64) -> Result<(), DiskError> {
        self.file(number)?.change(Change::Resize(bytes as usize));
        Ok(())
    }

    /// Forces the bytes of a file.
    pub(crate) fn force(&mut self, number: u64) -> Result<(), DiskError> {
        let file = self.file(number)?;
        for change in std::mem::take(&mut file.since) {
            change.apply(&mut file.forced);
        }
        self.forced += 1;
        match self.has_journal {
            true => self.force_names(ROOT),
            false => Ok(()),
        }
    }

    /// Forces the names in a directory.
    pub(crate) fn force_names(&mut self, number: u64) -> Result<(), DiskError> {
        self.directory(number)?;
        let all = BTreeMap::from([(self.group(number), usize::MAX)]);
        self.since = self.keep_names(all);
        self.forced += 1;
        self.forget_unnamed();
        Ok(())
    }

    /// The power goes and comes back. Nobody has anything open.
    pub(crate) fn cut(&mut self, cut: Cut, random: &mut Random) -> Lost {
        let mut lost = Lost::default();
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                lost.bytes += file.cut(cut, random);
            }
        }
        // File systems keep changes of names in order.
        let mut kept = BTreeMap::new();
        for naming in &self.since {
            *kept.entry(self.group(naming.directory())).or_default() += 1;
        }
        for kept in kept.values_mut() {
            *kept = match cut {
                Cut::Nothing => 0,
                Cut::Some => random.below(*kept as u64 + 1) as usize,
            };
        }
        lost.names = self.keep_names(kept).len() as u64;
        for node in self.nodes.values_mut() {
            if let Node::Directory(directory) = node {
                directory.now.clone_from(&directory.forced);
            }
        }
        self.forget_unnamed();
        lost
    }

    /// Lets go of what no name leads to and nobody has open.
    fn forget_unnamed(&mut self) {
        let mut named = BTreeSet::from([ROOT]);
        for node in self.nodes.values() {
            let Node::Directory(directory) = node else {
                continue;
            };
            named.extend(directory.now.values().chain(directory.forced.values()));
        }
        named.extend(self.since.iter().filter_map(|naming| match naming {
            Naming::Set(_, number) => Some(number),
            Naming::Remove(_) | Naming::Rename(..) => None,
        }));
        self.nodes.retain(|number, node| {
            named.contains(number) || matches!(node, Node::File(file) if file.opened > 0)
        });
    }
}

impl File {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.since.push(change);
    }

    /// Returns how many bytes were not forced and are gone.
    fn cut(&mut self, cut: Cut, random: &mut Random) -> u64 {
        let mut lost = 0;
        // One file keeps nearly all, the next nearly nothing.
        let share = match cut {
            Cut::Nothing => 0,
            Cut::Some => random.below(5),
        };
        for change in std::mem::take(&mut self.since) {
            match change {
                Change::Write(at, bytes) => {
                    for (piece, sector) in bytes.chunks(SECTOR).enumerate() {
                        if random.below(4) < share {
                            let at = at + piece * SECTOR;
                            Change::Write(at, sector.to_vec()).apply(&mut self.forced);
                        } else {
                            lost += sector.len() as u64;
                        }
                    }
                }
                change @ Change::Resize(_) => {
                    if random.below(4) < share {
                        change.apply(&mut self.forced);
                    }
                }
            }
        }
        // The length is kept apart from the bytes.
        if share > 0 && random.below(2) == 0 && self.forced.len() < self.now.len() {
            self.forced.resize(self.now.len(), 0);
        }
        self.now.clone_from(&self.forced);
        self.opened = 0;
        lost
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Resize(len) => bytes.resize(*len, 0),
            Change::Write(at, written) => {
                let end = at + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(written);
            }
        }
    }
}

impl Naming {
    /// Of those that it concerns, the one where it begins.
    fn directory(&self) -> u64 {
        match self {
            Naming::Set((directory, _), _)
            | Naming::Remove((directory, _))
            | Naming::Rename((directory, _), _) => *directory,
        }
    }

    fn apply(&self, nodes: &mut BTreeMap<u64, Node>, names: fn(&mut Directory) -> &mut Names) {
        let mut of = |directory: u64, work: &dyn Fn(&mut Names) -> Option<u64>| {
            let Some(Node::Directory(directory)) = nodes.get_mut(&directory) else {
                return None;
            };
            work(names(directory))
        };
        match self {
            Naming::Set((directory, name), number) => {
                of(*directory, &|names| names.insert(name.clone(), *number));
            }
            Naming::Remove((directory, name)) => {
                of(*directory, &|names| names.remove(name));
            }
            Naming::Rename((from, old), (to, new)) => {
                if let Some(number) = of(*from, &|names| names.remove(old)) {
                    of(*to, &|names| names.insert(new.clone(), number));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &OsStr {
        OsStr::new(name)
    }

    fn file_with(disk: &mut Disk, name: &str, bytes: &[u8]) -> u64 {
        let file = disk.make_file(ROOT, named(name)).unwrap().number;
        disk.write(file, 0, bytes).unwrap();
        file
    }

    #[test]
    fn what_was_forced_stays_and_the_rest_goes() {
        let (mut disk, mut random) = (Disk::new(), Random(1));
        let kept = file_with(&mut disk, "kept", b"forced");
        disk.force(kept).unwrap();
        disk.force_names(ROOT).unwrap();
        disk.write(kept, 3, b"got lost").unwrap();
        let nameless = file_with(&mut disk, "nameless", b"forced, too");
        disk.force(nameless).unwrap();
        assert_eq!(disk.read(kept, 0, 100).unwrap(), b"forgot lost");

        let lost = disk.cut(Cut::Nothing, &mut random);
        assert_eq!((lost.bytes, lost.names), (8, 1));
        assert_eq!(disk.read(kept, 0, 100).unwrap(), b"forced");
        let names: Vec<_> = disk.list(ROOT).unwrap();
        assert_eq!(names.len(), 1);
        assert_eq!(disk.facts(nameless), Err(DiskError::Missing));
    }

    #[test]
    fn a_name_that_was_forced_leads_to_a_file_whose_bytes_were_not() {
        let (mut disk, mut random) = (Disk::new(), Random(1));
        file_with(&mut disk, "empty", b"lost");
        disk.force_names(ROOT).unwrap();
        disk.cut(Cut::Nothing, &mut random);
        let empty = disk.find(ROOT, named("empty")).unwrap();
        assert_eq!(empty.bytes, 0);
    }

    #[test]
    fn a_journal_keeps_all_names_with_whatever_is_forced() {
        let (mut disk, mut random) = (Disk::with_journal(), Random(1));
        let folder = disk.make_directory(ROOT, named("folder")).unwrap().number;
        disk.make_file(folder, named("empty")).unwrap();
        let kept = file_with(&mut disk, "kept", b"forced");
        disk.force(kept).unwrap();
        file_with(&mut disk, "late", b"lost");
        disk.cut(Cut::Nothing, &mut random);
        assert_eq!(disk.list(ROOT).unwrap().len(), 2);
        assert_eq!(disk.list(folder).unwrap().len(), 1);
        assert_eq!(disk.read(kept, 0, 100).unwrap(), b"forced");

        // The only way of a file to be in two directories, or in none, is not taken.
        let (from, to) = ((ROOT, named("kept")), (folder, named("moved")));
        for seed in 0..20 {
            disk.rename(from, to).unwrap();
            disk.make_file(ROOT, named("later")).unwrap();
            disk.cut(Cut::Some, &mut Random(seed));
            let places = [from, to].map(|(parent, name)| disk.find(parent, name).is_ok());
            assert_ne!(places[0], places[1], "seed {seed}");
            if places[1] {
                disk.rename(to, from).unwrap();
            }
            let _ = disk.remove(ROOT, named("later"));
            disk.force_names(ROOT).unwrap();
        }
    }

    #[test]
    fn a_rename_happens_as_a_whole_or_not_at_all() {
        for is_forced in [false, true] {
            let (mut disk, mut random) = (Disk::new(), Random(1));
            let old = file_with(&mut disk, "CURRENT", b"old");
            let new = file_with(&mut disk, "temporary", b"new");
            disk.force(old).unwrap();
            disk.force(new).unwrap();
            disk.force_names(ROOT).unwrap();
            disk.rename((ROOT, named("temporary")), (ROOT, named("CURRENT")))
                .unwrap();
            if is_forced {
                disk.force_names(ROOT).unwrap();
            }
            disk.cut(Cut::Nothing, &mut random);
            let current = disk.find(ROOT, named("CURRENT")).unwrap().number;
            assert_eq!(current, if is_forced { new } else { old });
            let temporary = disk.find(ROOT, named("temporary"));
            assert_eq!(temporary.is_ok(), !is_forced);
        }
    }

    #[test]
    fn a_removed_file_comes_back_unless_its_removal_was_forced() {
        let (mut disk, mut random) = (Disk::new(), Random(1));
        let file = file_with(&mut disk, "log", b"bytes");
        disk.force(file).unwrap();
        disk.force_names(ROOT).unwrap();
        disk.remove(ROOT, named("log")).unwrap();
        assert_eq!(disk.find(ROOT, named("log")), Err(DiskError::Missing));
        disk.cut(Cut::Nothing, &mut random);
        assert_eq!(disk.read(file, 0, 100).unwrap(), b"bytes");
        disk.remove(ROOT, named("log")).unwrap();
        disk.force_names(ROOT).unwrap();
        assert_eq!(disk.facts(file), Err(DiskError::Missing));
    }

    #[test]
    fn of_unforced_bytes_any_sectors_may_stay_and_forced_ones_always_do() {
        let (mut some_stayed, mut some_went, mut holes) = (false, false, false);
        for seed in 0..200 {
            let (mut disk, mut random) = (Disk::new(), Random(seed));
            let file = file_with(&mut disk, "log", &[1; 1000]);
            disk.force(file).unwrap();
            disk.force_names(ROOT).unwrap();
            disk.write(file, 1000, &[2; 5 * SECTOR]).unwrap();
            disk.cut(Cut::Some, &mut random);
            let left = disk.read(file, 0, 10_000).unwrap();
            assert_eq!(left[..1000], [1; 1000]);
            let rest = &left[1000..];
            let count = |byte| rest.iter().filter(|&&it| it == byte).count();
            assert_eq!(count(2) % SECTOR, 0);
            some_stayed |= count(2) > 0;
            some_went |= count(2) < 5 * SECTOR;
            holes |= count(0) > 0;
        }
        assert!(some_stayed && some_went && holes);
    }
}
