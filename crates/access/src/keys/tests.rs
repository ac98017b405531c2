use super::*;
use crate::file::NewKey;
use std::time::UNIX_EPOCH;

#[test]
fn a_key_is_found_until_it_is_removed_and_the_file_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let add = |name: &str, scope| {
        file::add(&path, NewKey::new(name.parse().unwrap(), scope), UNIX_EPOCH).unwrap()
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
    let token = file::add(&path, NewKey::new(name, Scope::Read), UNIX_EPOCH).unwrap();
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
        file::add(
            &path,
            NewKey::new(name.parse().unwrap(), Scope::Read),
            UNIX_EPOCH,
        )
        .unwrap()
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

/// A file with one key, which changes as a test says.
struct Changing {
    path: PathBuf,
    token: String,
    _folder: tempfile::TempDir,
}

impl Changing {
    fn new() -> (Changing, ApiKeys) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let new = NewKey::new("one".parse().unwrap(), Scope::Write);
        let token = file::add(&path, new, UNIX_EPOCH).unwrap();
        let keys = ApiKeys::open(&path, None).unwrap();
        let changing = Changing {
            path,
            token: token.as_str().to_owned(),
            _folder: folder,
        };
        (changing, keys)
    }

    /// Sets a field of the key; null takes it away.
    fn set(&self, field: &str, value: serde_json::Value) {
        let text = std::fs::read(&self.path).unwrap();
        let mut json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let key = json["keys"][0].as_object_mut().unwrap();
        match value.is_null() {
            true => key.remove(field),
            false => key.insert(field.to_owned(), value),
        };
        std::fs::write(&self.path, json.to_string()).unwrap();
    }
}

fn expiry(from_now: Duration) -> serde_json::Value {
    let expiry = KeyExpiry::after(SystemTime::now(), from_now);
    expiry.unwrap().to_string().into()
}

#[test]
fn what_changes_in_the_file_is_told_and_ends_the_keys_concerned() {
    let (file, keys) = Changing::new();
    let one = keys.find(&file.token).unwrap();
    assert_eq!(keys.reload().unwrap(), KeyChanges::default());
    let add = |name: &str| {
        let new = NewKey::new(name.parse().unwrap(), Scope::Read);
        file::add(&file.path, new, UNIX_EPOCH).unwrap()
    };
    let name = |text: &str| -> KeyName { text.parse().unwrap() };
    let two = add("two");
    let changes = keys.reload().unwrap();
    assert_eq!(changes.added, [name("two")]);
    assert!(changes.removed.is_empty() && changes.changed.is_empty());
    let two = keys.find(two.as_str()).unwrap();
    assert_eq!((one.end(), two.end()), (None, None));

    // What people are told, and more time, end nothing.
    file.set("description", "the first".into());
    assert_eq!(keys.reload().unwrap(), KeyChanges::default());
    file.set("expires_at", expiry(Duration::from_secs(3600)));
    assert_eq!(keys.reload().unwrap().changed, [name("one")]);
    assert_eq!(one.end(), None);
    assert!(Arc::ptr_eq(&one, &keys.find(&file.token).unwrap()));

    // Less, or something else, does: of what is under way nobody can say whether
    // it would be allowed now.
    file.set("scope", "admin".into());
    assert_eq!(keys.reload().unwrap().changed, [name("one")]);
    assert_eq!((one.end(), two.end()), (Some(KeyEnd::Revoked), None));
    let one = keys.find(&file.token).unwrap();
    assert_eq!((one.scope, one.end()), (Scope::Admin, None));

    file::remove(&file.path, &name("two")).unwrap();
    assert_eq!(keys.reload().unwrap().removed, [name("two")]);
    assert_eq!((one.end(), two.end()), (None, Some(KeyEnd::Revoked)));
}

#[test]
fn a_key_that_has_expired_is_known_and_says_so() {
    let (file, keys) = Changing::new();
    let end = || keys.find(&file.token).unwrap().end();
    file.set("expires_at", "2001-01-01T00:00:00Z".into());
    keys.reload().unwrap();
    assert!(keys.find(&file.token).unwrap().has_expired());
    assert_eq!(end(), Some(KeyEnd::Expired));
    file.set("expires_at", expiry(Duration::from_secs(3600)));
    keys.reload().unwrap();
    assert_eq!(end(), None);
    file.set("expires_at", serde_json::Value::Null);
    keys.reload().unwrap();
    assert_eq!(end(), None);
}

#[tokio::test]
async fn who_waits_for_the_end_of_a_key_is_told_of_each_kind() {
    let (file, keys) = Changing::new();
    let wait = |within: Duration| {
        let key = keys.find(&file.token).unwrap();
        tokio::spawn(async move { tokio::time::timeout(within, key.ended()).await })
    };
    let long = Duration::from_secs(20);
    assert!(wait(Duration::from_millis(100)).await.unwrap().is_err());
    // By its time, whatever it was when the waiting began.
    let waiting = wait(long);
    tokio::task::yield_now().await;
    file.set("expires_at", expiry(Duration::from_secs(2)));
    keys.reload().unwrap();
    assert!(!keys.find(&file.token).unwrap().has_expired());
    assert_eq!(waiting.await.unwrap(), Ok(KeyEnd::Expired));
    // By a change of the file.
    file.set("expires_at", serde_json::Value::Null);
    keys.reload().unwrap();
    let waiting = wait(long);
    tokio::task::yield_now().await;
    file::remove(&file.path, &"one".parse().unwrap()).unwrap();
    keys.reload().unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(KeyEnd::Revoked));
}
