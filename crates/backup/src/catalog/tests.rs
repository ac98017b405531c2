use super::*;
use std::time::UNIX_EPOCH;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_name_is_a_time_and_back() {
    let id = BackupId::of(at(1_795_261_517)).unwrap();
    assert_eq!(id.as_str(), "20261121T114517Z");
    assert_eq!(id.time(), at(1_795_261_517));
    assert_eq!(BackupId::parse(id.as_str()), Some(id));
    for text in [
        "",
        "20261121T114517",
        "20261121T114517Z-2",
        "20261121T114560Z",
        "20261321T114517Z",
        "20261121t114517Z",
        "../../etc/passwd",
        "2026112１T114517Z",
    ] {
        assert_eq!(BackupId::parse(text), None, "{text}");
    }
    assert_eq!(BackupId::of(UNIX_EPOCH - Duration::from_secs(1)), None);
}

#[test]
fn names_ascend_even_if_the_clock_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(directory.path()).unwrap();
    let mut last = None;
    for now in [100, 100, 50, 200] {
        let id = catalog.new_id(at(now)).unwrap();
        assert!(Some(&id) > last.as_ref());
        catalog.begin(&id).unwrap().finish().unwrap();
        last = Some(id);
    }
    assert_eq!(catalog.list().unwrap().len(), 4);
}

#[test]
fn only_the_newest_are_kept_and_nothing_else_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("cuckood-notes.tar");
    std::fs::write(&other, "mine").unwrap();
    let catalog = Catalog::open(directory.path()).unwrap();
    for now in [100, 200, 300] {
        let id = catalog.new_id(at(now)).unwrap();
        catalog.begin(&id).unwrap().finish().unwrap();
    }
    catalog.keep_newest(2).unwrap();
    let times: Vec<SystemTime> = catalog
        .list()
        .unwrap()
        .iter()
        .map(|(id, _)| id.time())
        .collect();
    assert_eq!(times, [at(200), at(300)]);
    assert!(other.exists());
}

#[test]
fn what_was_not_finished_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(directory.path()).unwrap();
    let id = catalog.new_id(at(100)).unwrap();
    drop(catalog.begin(&id).unwrap());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    std::mem::forget(catalog.begin(&id).unwrap());
    assert_eq!(catalog.list().unwrap(), []);
    Catalog::open(directory.path()).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_disk_that_is_too_full_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(directory.path()).unwrap();
    let disk = DiskSpace {
        free_bytes: 100,
        ..disk_of(directory.path()).unwrap()
    };
    let check = |bytes, kept_free| check_room(&catalog.directory, &disk, bytes, kept_free);
    assert!(check(60, 40).is_ok());
    for (bytes, kept_free) in [(61, 40), (60, 41), (u64::MAX, u64::MAX)] {
        let error = check(bytes, kept_free).unwrap_err();
        assert!(matches!(error, BackupError::NoRoom { .. }), "{error}");
    }
}
