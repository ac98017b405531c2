use super::*;
use std::time::UNIX_EPOCH;

#[test]
fn a_key_is_found_until_it_is_removed_and_the_file_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let add = |name: &str, scope| {
        file::add(&path, &name.parse().unwrap(), scope, None, UNIX_EPOCH).unwrap()
    };
    let one = add("one", Scope::Read);
    let keys = ApiKeys::open(&path, None).unwrap();
    let two = add("two", Scope::Admin);
    assert_eq!(keys.find(one.as_str()).unwrap().name.as_str(), "one");
    assert!(keys.find(two.as_str()).is_none());
    keys.reload().unwrap();
    assert_eq!(keys.find(two.as_str()).unwrap().scope, Scope::Admin);
    file::remove(&path, &"one".parse().unwrap()).unwrap();
    keys.reload().unwrap();
    assert!(keys.find(one.as_str()).is_none());
    assert_eq!(keys.len(), 1);
    for odd in ["", "cuckood_", "Bearer", &two.digest().to_string()] {
        assert!(keys.find(odd).is_none(), "{odd}");
    }
}

#[test]
fn a_broken_file_leaves_the_keys_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let name = "one".parse().unwrap();
    let token = file::add(&path, &name, Scope::Read, None, UNIX_EPOCH).unwrap();
    let keys = ApiKeys::open(&path, None).unwrap();
    std::fs::write(&path, "{").unwrap();
    assert!(keys.reload().is_err());
    std::fs::remove_file(&path).unwrap();
    assert!(keys.reload().is_err());
    assert!(keys.find(token.as_str()).is_some());
}

#[test]
fn a_key_asks_so_many_times_at_once_and_then_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let add = |name: &str| {
        file::add(&path, &name.parse().unwrap(), Scope::Read, None, UNIX_EPOCH).unwrap()
    };
    let (one, two) = (add("one"), add("two"));
    let keys = ApiKeys::open(&path, NonZeroU32::new(3)).unwrap();
    let ask = |token: &str| keys.find(token).unwrap().count_request();
    for _ in 0..3 {
        assert_eq!(ask(one.as_str()), Ok(()));
    }
    let wait = ask(one.as_str()).unwrap_err();
    assert!(
        wait > Duration::ZERO && wait <= Duration::from_millis(334),
        "{wait:?}"
    );
    // Another key has its own measure, and a change of the file gives none.
    assert_eq!(ask(two.as_str()), Ok(()));
    add("three");
    keys.reload().unwrap();
    assert!(ask(one.as_str()).is_err());
}
