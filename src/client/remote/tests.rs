use super::*;

#[test]
fn an_address_is_a_url() {
    let name = |url: &str| Remote::new(url, &Credentials::default()).map(|it| it.name());
    for (url, expected) in [
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("https://filters.example.org/", "filters.example.org:443"),
        ("http://[::1]:80", "[::1]:80"),
    ] {
        assert_eq!(name(url).unwrap(), expected);
    }
    for url in [
        "",
        "a",
        "localhost:8080",
        "ftp://a",
        "http://",
        "http://u:p@a",
        "http://a:99999",
    ] {
        assert!(name(url).is_err(), "{url}");
    }
}

#[test]
fn parts_of_a_path_are_encoded() {
    let of = |base: &str| {
        let remote = Remote::new(base, &Credentials::default()).unwrap();
        let request = remote.request(Method::GET, &["filters", "a/b c:d"]);
        request.build().unwrap().url().to_string()
    };
    assert_eq!(of("http://a"), "http://a/filters/a%2Fb%20c:d");
    assert_eq!(
        of("http://a/behind/"),
        "http://a/behind/filters/a%2Fb%20c:d"
    );
}

#[test]
fn a_key_is_never_shown() {
    let credentials = Credentials {
        api_key: Some("cuckood_secret".into()),
        ..Credentials::default()
    };
    assert!(!format!("{credentials:?}").contains("secret"));
    let remote = Remote::new("http://a", &credentials).unwrap();
    assert!(!format!("{:?}", remote.client).contains("secret"));
    let header = &authorization(&credentials).unwrap()[AUTHORIZATION];
    assert_eq!(header.as_bytes(), b"Bearer cuckood_secret");
    assert!(!format!("{header:?}").contains("secret"));
}

#[test]
fn a_key_comes_from_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "cuckood_k\n").unwrap();
    let mut credentials = Credentials {
        api_key_file: Some(path.clone()),
        ..Credentials::default()
    };
    let header = &authorization(&credentials).unwrap()[AUTHORIZATION];
    assert_eq!(header.as_bytes(), b"Bearer cuckood_k");
    credentials.api_key = Some("cuckood_l".into());
    assert!(authorization(&credentials).is_err());
    credentials.api_key = None;
    std::fs::write(&path, "\n").unwrap();
    assert!(authorization(&credentials).is_err());
}
