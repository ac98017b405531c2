use super::*;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, UNIX_EPOCH};

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_900_000_000)
}

fn name(text: &str) -> KeyName {
    text.parse().unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let keys = read(path).unwrap();
    keys.iter().map(|key| key.name.to_string()).collect()
}

#[test]
fn keys_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let token = add(&path, NewKey::new(name("a"), Scope::Write), now()).unwrap();
    let more = NewKey {
        prefix: Some("shop:".parse().unwrap()),
        description: Some("the shop; ask Ada".parse().unwrap()),
        expires_at: Some("2030-03-18T00:00:00Z".parse().unwrap()),
        ..NewKey::new(name("b"), Scope::Read)
    };
    add(&path, more, now()).unwrap();
    assert_eq!(names(&path), ["a", "b"]);

    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(token.as_str()), "the key itself is written");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!({
        "name": "a",
        "sha256": token.digest().to_string(),
        "scope": "write",
        "created_at": "2030-03-17T17:46:40Z",
    });
    assert_eq!(json["version"], 1);
    assert_eq!(json["keys"][0], expected);
    assert_eq!(json["keys"][1]["prefix"], "shop:");
    assert_eq!(json["keys"][1]["description"], "the shop; ask Ada");
    assert_eq!(json["keys"][1]["expires_at"], "2030-03-18T00:00:00Z");

    let taken = add(&path, NewKey::new(name("a"), Scope::Read), now());
    assert!(matches!(taken, Err(AccessError::NameTaken { .. })));
    let past = NewKey {
        expires_at: KeyExpiry::after(now(), Duration::ZERO),
        ..NewKey::new(name("c"), Scope::Read)
    };
    let past = add(&path, past, now());
    assert!(matches!(past, Err(AccessError::ExpiredAlready)));
    remove(&path, &name("a")).unwrap();
    assert_eq!(names(&path), ["b"]);
    let unknown = remove(&path, &name("a"));
    assert!(matches!(unknown, Err(AccessError::NameUnknown { .. })));
}

#[test]
fn only_its_owner_may_read_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    for key in ["a", "b"] {
        add(&path, NewKey::new(name(key), Scope::Read), now()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Unless its mode was changed.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    add(&path, NewKey::new(name("c"), Scope::Read), now()).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_link_to_the_file_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("keys.json"), folder.path().join("link"));
    add(&path, NewKey::new(name("a"), Scope::Read), now()).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    add(&link, NewKey::new(name("b"), Scope::Read), now()).unwrap();
    assert!(link.is_symlink());
    assert_eq!(names(&path), ["a", "b"]);
}

#[test]
fn what_was_left_of_a_writer_who_was_killed_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    fs::write(folder.path().join("keys.json.new"), "half").unwrap();
    add(&path, NewKey::new(name("a"), Scope::Read), now()).unwrap();
    assert_eq!(names(&path), ["a"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn many_who_add_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for key in 0..5 {
                    let name = name(&format!("{writer}-{key}"));
                    add(path, NewKey::new(name, Scope::Read), now()).unwrap();
                }
            });
        }
    });
    assert_eq!(names(&path).len(), 40);
}

#[test]
fn a_file_that_makes_no_sense_is_refused_and_says_why() {
    let digest = |n: u8| TokenDigest::of(&n.to_string()).to_string();
    let key = |name: &str, sha256: &str, more: &str| {
        format!(r#"{{"name": "{name}", "sha256": "{sha256}", "scope": "read"{more}}}"#)
    };
    let file = |keys: &[String]| format!(r#"{{"version": 1, "keys": [{}]}}"#, keys.join(","));
    let path = Path::new("keys.json");
    let good = file(&[key("a", &digest(1), ""), key("b", &digest(2), "")]);
    assert_eq!(parse(good.as_bytes(), path).unwrap().len(), 2);
    assert!(parse(file(&[]).as_bytes(), path).unwrap().is_empty());
    for (text, word) in [
        (String::new(), "EOF"),
        (good.get(..40).unwrap().to_owned(), "EOF"),
        ("[]".to_owned(), "is invalid"),
        (r#"{"version": 2, "kees": []}"#.to_owned(), "newer"),
        (r#"{"version": 0, "keys": []}"#.to_owned(), "version is 0"),
        (r#"{"version": 1, "keys": [], "x": 1}"#.to_owned(), "x"),
        (file(&[key("a b", &digest(1), "")]), "name of a key"),
        (file(&[key("a", "12", "")]), "sha256 of a"),
        (
            file(&[key("a", &digest(1), r#", "prefix": "a b""#)]),
            "prefix",
        ),
        (file(&[key("a", &digest(1), r#", "prefix": """#)]), "prefix"),
        (file(&[key("a", &digest(1), r#", "scopes": []"#)]), "scopes"),
        (
            file(&[key("a", &digest(1), r#", "description": """#)]),
            "description",
        ),
        (
            file(&[key("a", &digest(1), r#", "expires_at": "soon""#)]),
            "RFC 3339",
        ),
        (
            file(&[key("a", &digest(1), ""), key("a", &digest(2), "")]),
            "named a",
        ),
        (
            file(&[key("a", &digest(1), ""), key("b", &digest(1), "")]),
            "same key",
        ),
    ] {
        let error = parse(text.as_bytes(), path).err().unwrap().to_string();
        assert!(error.contains(word), "{text}: {error}");
        assert!(error.contains("keys.json"), "{error}");
    }
}
