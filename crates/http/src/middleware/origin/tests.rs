use super::*;
use axum::http::{HeaderName, HeaderValue};

fn asked(policy: HostPolicy, headers: &[(&'static str, &'static str)]) -> bool {
    asked_by(Transport::Plain, policy, headers)
}

fn asked_by(
    transport: Transport,
    policy: HostPolicy,
    headers: &[(&'static str, &'static str)],
) -> bool {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    check(&policy, transport, &Uri::from_static("/filters"), &map).is_ok()
}

#[test]
fn only_local_names_are_served_without_keys() {
    for host in [
        "localhost",
        "LOCALHOST:8080",
        "127.0.0.1:1",
        "[::1]:8080",
        "[::1]",
    ] {
        assert!(asked(HostPolicy::LocalOnly, &[("host", host)]), "{host}");
    }
    for host in [
        "example.org",
        "localhost.example.org",
        "localhost.",
        "127.0.0.1.nip.io",
        "user@localhost",
        "0.0.0.0:8080",
        "",
    ] {
        assert!(!asked(HostPolicy::LocalOnly, &[("host", host)]), "{host}");
    }
    assert!(!asked(HostPolicy::LocalOnly, &[]));
    assert!(!asked(
        HostPolicy::LocalOnly,
        &[("host", "localhost"), ("host", "example.org")]
    ));
    assert!(asked(HostPolicy::Any, &[("host", "example.org")]));
    assert!(asked(HostPolicy::Any, &[]));
}

#[test]
fn probes_may_call_by_any_name_but_not_from_a_web_page() {
    for path in ["/livez", "/readyz"] {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("10.0.0.7:8080"));
        let uri = Uri::from_static(path);
        assert!(check(&HostPolicy::LocalOnly, Transport::Plain, &uri, &headers).is_ok());
        headers.insert(ORIGIN, HeaderValue::from_static("https://example.org"));
        assert!(check(&HostPolicy::LocalOnly, Transport::Plain, &uri, &headers).is_err());
    }
}

#[test]
fn where_addresses_are_served_names_are_still_listed() {
    let policy = || HostPolicy::AddressesAnd(vec!["cuckood".to_owned()]);
    for host in ["10.0.0.7:9090", "[fd00::1]:80", "localhost", "cuckood:8080"] {
        assert!(asked(policy(), &[("host", host)]), "{host}");
    }
    for host in ["example.org", "10.0.0.7.nip.io", "cuckood.example.org", ""] {
        assert!(!asked(policy(), &[("host", host)]), "{host}");
    }
    let foreign = [("host", "10.0.0.7:80"), ("origin", "http://10.0.0.7:81")];
    assert!(!asked(policy(), &foreign));
    let own = [("host", "10.0.0.7:80"), ("origin", "http://10.0.0.7")];
    assert!(asked(policy(), &own));
}

#[test]
fn names_that_are_listed_are_served_beside_the_local_ones() {
    let policy = || {
        HostPolicy::LocalAnd(vec![
            "filters.example.org".to_owned(),
            "[fd00::1]".to_owned(),
        ])
    };
    for host in [
        "filters.example.org",
        "Filters.Example.org:8080",
        "[fd00::1]:80",
        "localhost",
    ] {
        assert!(asked(policy(), &[("host", host)]), "{host}");
    }
    for host in ["example.org", "x.filters.example.org", "[fd00::2]", ""] {
        assert!(!asked(policy(), &[("host", host)]), "{host}");
    }
}

#[test]
fn an_origin_must_be_our_own() {
    let with = |origin| {
        asked(
            HostPolicy::LocalOnly,
            &[("host", "127.0.0.1:8080"), ("origin", origin)],
        )
    };
    assert!(with("http://127.0.0.1:8080"));
    for origin in [
        "http://127.0.0.1:3000",
        "http://localhost:8080",
        "https://example.org",
        "null",
        "file://",
    ] {
        assert!(!with(origin), "{origin}");
    }
    assert!(asked(
        HostPolicy::Any,
        &[
            ("host", "filters.example.org"),
            ("origin", "https://filters.example.org")
        ]
    ));
    assert!(!asked(
        HostPolicy::Any,
        &[
            ("host", "filters.example.org"),
            ("origin", "https://example.org")
        ]
    ));
}

#[test]
fn where_tls_is_spoken_a_page_without_it_is_anothers() {
    let with = |transport, origin| {
        let headers = [("host", "filters.example.org"), ("origin", origin)];
        asked_by(transport, HostPolicy::Any, &headers)
    };
    assert!(with(Transport::Tls, "https://filters.example.org"));
    assert!(with(Transport::Tls, "https://filters.example.org:443"));
    assert!(!with(Transport::Tls, "http://filters.example.org"));
    assert!(!with(Transport::Tls, "http://filters.example.org:443"));
    // A proxy may have taken the TLS off.
    assert!(with(Transport::Plain, "https://filters.example.org"));
    assert!(with(Transport::Plain, "http://filters.example.org"));
}

#[test]
fn a_cross_site_fetch_is_refused_and_a_typed_address_is_not() {
    let with = |site| {
        asked(
            HostPolicy::Any,
            &[("host", "localhost"), ("sec-fetch-site", site)],
        )
    };
    assert!(!with("cross-site"));
    assert!(with("none"));
    assert!(with("same-origin"));
}
