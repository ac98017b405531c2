use super::*;
use crate::store::{KeyValueStore, StoreError};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

struct Files {
    files: Vec<FrozenFile>,
    contents: Vec<Vec<u8>>,
}

impl Files {
    fn of(files: &[(&str, Vec<u8>)]) -> Files {
        Files {
            files: files
                .iter()
                .map(|(name, content)| FrozenFile {
                    name: (*name).to_owned(),
                    bytes: content.len() as u64,
                })
                .collect(),
            contents: files.iter().map(|(_, content)| content.clone()).collect(),
        }
    }
}

impl FrozenStore for Files {
    fn files(&self) -> &[FrozenFile] {
        &self.files
    }

    fn open(&self, file: &FrozenFile) -> io::Result<Box<dyn Read + Send>> {
        let at = self.files.iter().position(|it| it == file).unwrap();
        Ok(Box::new(io::Cursor::new(self.contents[at].clone())))
    }

    fn open_store(&self) -> Result<Arc<dyn KeyValueStore>, StoreError> {
        Err(StoreError::Unsupported { what: "opened" })
    }
}

fn id() -> BackupId {
    BackupId::of(UNIX_EPOCH + Duration::from_secs(1_795_261_517)).unwrap()
}

fn files() -> Files {
    Files::of(&[
        ("000012.sst", (0..1300u32).map(|n| n as u8).collect()),
        ("CURRENT", b"MANIFEST-000005\n".to_vec()),
        ("empty", Vec::new()),
    ])
}

fn archive(files: &Files) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, &id(), files, &Progress::default()).unwrap();
    out
}

fn is_whole(archive: &[u8]) -> Result<(), BackupError> {
    verify(archive, &Progress::default())
}

#[test]
fn an_archive_is_as_large_as_was_foretold_and_reads_back() {
    for files in [files(), Files::of(&[])] {
        let archive = archive(&files);
        assert_eq!(archive.len() as u64, size_of(&id(), &files.files));
        let mut read_back = Vec::new();
        read(&archive[..], &Progress::default(), &mut |name, content| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            read_back.push((name.to_owned(), bytes));
            Ok(())
        })
        .unwrap();
        let names: Vec<&String> = read_back.iter().map(|(name, _)| name).collect();
        let expected: Vec<&String> = files.files.iter().map(|file| &file.name).collect();
        assert_eq!(names, expected);
        assert!(read_back.iter().map(|(_, bytes)| bytes).eq(&files.contents));
    }
}

#[test]
fn a_cut_archive_is_damaged_wherever_it_is_cut() {
    let archive = archive(&files());
    // Of the two blocks of zeros at the end the first is enough.
    for length in 0..archive.len() - END_BYTES as usize {
        let error = is_whole(&archive[..length]).unwrap_err();
        assert!(
            matches!(error, BackupError::Damaged { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn an_altered_byte_of_any_content_is_noticed() {
    let files = files();
    let whole = archive(&files);
    let mut contents = 0;
    let mut reader = tar::Archive::new(&whole[..]);
    let ranges: Vec<std::ops::Range<usize>> = reader
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let start = entry.raw_file_position() as usize;
            start..start + entry.size() as usize
        })
        .collect();
    for at in ranges.into_iter().flatten() {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        assert!(is_whole(&altered).is_err(), "byte {at}");
        contents += 1;
    }
    assert!(contents > 1300);
}

#[test]
fn other_altered_bytes_never_panic_and_never_alter_a_file() {
    let files = files();
    let whole = archive(&files);
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 0x10;
        let mut seen = Vec::new();
        let outcome = read(&altered[..], &Progress::default(), &mut |name, content| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            seen.push((name.to_owned(), bytes));
            Ok(())
        });
        if outcome.is_ok() {
            let names = files.files.iter().map(|file| file.name.clone());
            let expected: Vec<_> = names.zip(files.contents.clone()).collect();
            assert_eq!(seen, expected, "byte {at}");
        }
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["../x", "a/b", "..", ".hidden", "", "a b"] {
        assert!(!is_file_name(name), "{name}");
    }
    assert!(is_file_name("MANIFEST-000005"));
    let mut builder = Builder::new(Vec::new());
    let about = About::of(&id(), &[]);
    append(&mut builder, ABOUT, about.len() as u64, 0, about.as_bytes()).unwrap();
    append(&mut builder, "data/a/b", 0, 0, io::empty()).unwrap();
    let error = is_whole(&builder.into_inner().unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("does not belong there"),
        "{error}"
    );
}

#[test]
fn a_newer_archive_is_refused_by_name() {
    let mut builder = Builder::new(Vec::new());
    let about = r#"{"format": 2, "more": true}"#;
    append(&mut builder, ABOUT, about.len() as u64, 0, about.as_bytes()).unwrap();
    let error = is_whole(&builder.into_inner().unwrap()).unwrap_err();
    assert!(
        matches!(error, BackupError::Newer { found: 2, .. }),
        "{error}"
    );
}

#[test]
fn a_backup_that_is_given_up_says_so() {
    let progress = Progress::default();
    progress.cancelled.store(true, Ordering::Release);
    let outcome = write(&mut Vec::new(), &id(), &files(), &progress);
    assert!(matches!(outcome, Err(BackupError::Stopping)));
}
