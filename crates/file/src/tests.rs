use super::{FileError, FilterFile, NewFile, PathReason};
use cuckood_filter::chain::address::PageAddress;
use cuckood_filter::chain::meta::Chain;
use cuckood_filter::chain::params::{Defaults, FilterParams, FilterRequest};
use cuckood_filter::chain::resident::Pages;
use cuckood_filter::cuckoo::hash::HashKey;
use cuckood_filter::file::{FileWriter, Header};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes the file of a filter that has the item `there` and nothing else.
fn write(path: &Path) {
    let request = FilterRequest {
        capacity: Some(1_000),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([3; 16]), 0).unwrap();
    let chain = chain.with_occupied(&[1]).unwrap();
    let layout = &chain.table().unwrap().layout;
    let [candidate, _] = layout.candidates(chain.hash(b"there"));
    let (page, word) = layout.address(candidate.bucket);
    let mut image = [0; 4096];
    let at = 8 * usize::from(word);
    image[at..at + 4].copy_from_slice(&candidate.slot.to_le_bytes());
    let mut file = NewFile::create(path).unwrap();
    let header = Header::of(&chain).unwrap();
    let mut writer = FileWriter::new(header, |bytes: &[u8]| file.write_all(bytes)).unwrap();
    writer
        .page(PageAddress::new(0, page), &image, None)
        .unwrap();
    writer.finish().unwrap();
    file.publish().unwrap();
}

#[test]
fn a_file_is_asked_by_its_path_and_by_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.cuckoo");
    write(&path);
    let file = FilterFile::open(&path).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(file.exists(b"there"), Ok(true));
                assert_eq!(file.exists(b"absent"), Ok(false));
                assert_eq!(
                    file.exists_all([&b"there"[..], b"absent"]),
                    Ok(vec![true, false])
                );
                assert_eq!(
                    (file.count(b"there"), file.count(b"absent")),
                    (Ok(1), Ok(0))
                );
                assert_eq!(file.values(b"there"), Ok(Vec::new()));
            });
        }
    });
    file.verify().unwrap();
    // It is asked as before when another takes its place.
    write(&path);
    assert_eq!(file.exists(b"there"), Ok(true));
}

#[test]
fn what_is_not_asked_for_is_not_read_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.cuckoo");
    write(&path);
    let is_random = || {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let (_, of_file) = maps.split_once(path.to_str().unwrap()).unwrap();
        let mut flags = of_file.lines().filter(|it| it.starts_with("VmFlags:"));
        flags.next().unwrap().contains(" rr")
    };
    let file = FilterFile::open(&path).unwrap();
    assert!(is_random());
    file.verify().unwrap();
    assert!(is_random());
    drop(file);
    let file = FilterFile::open_in_order(&path).unwrap();
    assert!(!is_random());
    drop(file);
}

#[test]
fn when_an_item_was_seen_is_asked_within_a_window_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seen.cuckoo");
    write(&path);
    let plain = FilterFile::open(&path).unwrap();
    assert_eq!(
        plain.exists_within(b"there", Some(1)),
        Err(FileError::NoWindow)
    );
    let request = FilterRequest {
        window_seconds: Some(3_600),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([3; 16]), 0).unwrap();
    super::write(&path, &chain, &Pages::default()).unwrap();
    let file = FilterFile::open(&path).unwrap();
    assert_eq!(file.exists_within(b"absent", Some(3_600)), Ok(false));
    for within_seconds in [0, 3_601] {
        let refused = FileError::BeyondWindow {
            within_seconds,
            window_seconds: 3_600,
        };
        assert_eq!(
            file.exists_within(b"absent", Some(within_seconds)),
            Err(refused)
        );
    }
}

#[test]
fn what_is_no_file_of_a_filter_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.cuckoo");
    let refusal = |path: &Path| FilterFile::open(path).err().unwrap();
    let missing = refusal(&path);
    assert!(matches!(missing.reason, PathReason::Io(_)), "{missing}");
    assert!(missing.to_string().contains("codes.cuckoo"), "{missing}");
    fs::write(&path, "a list of codes\n").unwrap();
    let foreign = refusal(&path).reason;
    assert!(
        matches!(foreign, PathReason::File(FileError::Foreign)),
        "{foreign}"
    );
    fs::write(&path, "").unwrap();
    let empty = refusal(&path).to_string();
    assert!(
        empty.contains("codes.cuckoo: it is empty; the copy"),
        "{empty}"
    );
    for (other, wanted) in [
        (folder.path(), "is a directory"),
        (Path::new("/dev/null"), "no regular file"),
    ] {
        let refused = refusal(other).to_string();
        assert!(refused.contains(wanted), "{refused}");
    }
    write(&path);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let cut = refusal(&path);
    assert!(cut.to_string().ends_with("fetch it again"), "{cut}");
    let cut = cut.reason;
    let is_cut = matches!(cut, PathReason::File(FileError::Length { .. }));
    assert!(is_cut, "{cut}");
}

#[test]
fn a_file_that_is_not_finished_is_gone_and_changes_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.cuckoo");
    fs::write(&path, "before").unwrap();
    let mut file = NewFile::create(&path).unwrap();
    file.write_all(b"half of it").unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_new_file_is_its_owners_alone_and_keeps_the_mode_of_one_that_it_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.cuckoo");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    write(&path);
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    write(&path);
    assert_eq!(mode(), 0o644);
}
