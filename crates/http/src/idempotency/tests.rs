use super::*;
use crate::access::keys::ApiKeys;
use crate::access::{Scope, file};
use axum::body::Body;
use axum::http::Request;
use std::time::UNIX_EPOCH;

fn retry(uri: &str, headers: &[(&str, &str)], body: &str) -> Option<IdempotencyKey> {
    let mut request = Request::post(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
    let keyed = Keyed::of(&parts).unwrap();
    keyed.map(|keyed| keyed.with_body(body.as_bytes()))
}

#[test]
fn a_key_counts_for_one_path_and_all_else_makes_the_fingerprint() {
    let base = ("/filters/a/items", "k", "text/plain", "x");
    let of = |(uri, key, media_type, body): (&str, &str, &str, &str)| {
        let headers = [("idempotency-key", key), ("content-type", media_type)];
        retry(uri, &headers, body).unwrap()
    };
    assert_eq!(of(base), of(base));
    for other in [
        ("/filters/b/items", "k", "text/plain", "x"),
        ("/filters/a/items", "l", "text/plain", "x"),
    ] {
        assert_ne!(of(other).key, of(base).key, "{other:?}");
    }
    for other in [
        (
            "/filters/a/items?only_if_absent=true",
            "k",
            "text/plain",
            "x",
        ),
        ("/filters/a/items", "k", "application/json", "x"),
        ("/filters/a/items", "k", "text/plain", "y"),
    ] {
        assert_eq!(of(other).key, of(base).key, "{other:?}");
        assert_ne!(of(other).fingerprint, of(base).fingerprint, "{other:?}");
    }
    assert_eq!(retry("/filters/a/items", &[], "x"), None);
}

#[test]
fn a_key_lives_as_long_as_its_request_says_and_that_is_no_part_of_the_request() {
    let of = |lifetimes: &[&str]| {
        let mut headers = vec![("idempotency-key", "k")];
        headers.extend(lifetimes.iter().map(|it| ("idempotency-key-lifetime", *it)));
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        Keyed::of(&parts).map(|keyed| keyed.unwrap().with_body(b"x"))
    };
    let day = of(&[]).ok().unwrap();
    assert_eq!(day.kept_for, Duration::from_secs(86_400));
    for (given, seconds) in [("1", 1), ("90", 90), ("0090", 90), ("86400", 86_400)] {
        let kept_for = Duration::from_secs(seconds);
        assert_eq!(of(&[given]).ok(), Some(IdempotencyKey { kept_for, ..day }));
    }
    let most = u64::MAX.to_string();
    for refused in [
        &["0"][..],
        &["86401"],
        &[most.as_str()],
        &["99999999999999999999"],
        &[""],
        &["+1"],
        &["-1"],
        &["1.5"],
        &["1s"],
        &[" 1 0"],
        &["90", "90"],
    ] {
        assert!(of(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn one_callers_key_is_not_anothers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let principals = ["one", "two"].map(|name| {
        let name = name.parse().unwrap();
        let token = file::add(&path, file::NewKey::new(name, Scope::Read), UNIX_EPOCH).unwrap();
        let keys = ApiKeys::open(&path, None).unwrap();
        Principal::of(keys.find(token.as_str()).unwrap(), &keys)
    });
    let key = |principal: Option<Principal>| {
        let mut request = Request::post("/").header("idempotency-key", "k");
        if let Some(principal) = principal {
            request = request.extension(principal);
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        Keyed::of(&parts).unwrap().unwrap().with_body(b"").key
    };
    let none = key(None);
    let [one, two] = principals.map(|principal| key(Some(principal)));
    assert!(none != one && one != two && none != two);
}

#[test]
fn what_is_no_key_is_refused() {
    let longest = "k".repeat(MAX_IDEMPOTENCY_KEY_BYTES);
    assert!(retry("/", &[("idempotency-key", &longest)], "").is_some());
    let longer = "k".repeat(MAX_IDEMPOTENCY_KEY_BYTES + 1);
    for headers in [
        &[("idempotency-key", "")][..],
        &[("idempotency-key", longer.as_str())],
        &[("idempotency-key", "\u{e9}")],
        &[("idempotency-key", "a"), ("idempotency-key", "a")],
    ] {
        let mut request = Request::post("/");
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        assert!(Keyed::of(&parts).is_err(), "{headers:?}");
    }
}
