use crate::server::{Answer, Server, Setup};
use cuckood::server::HostPolicy;
use reqwest::Method;

async fn asked(server: &Server, headers: &[(&str, &str)]) -> Answer {
    let mut request = server.request(Method::GET, "/filters");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request).await
}

#[tokio::test]
async fn without_keys_only_local_names_are_served() {
    let server = Server::start().await;
    let port = server.address.port();
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        &format!("localhost:{port}"),
        "127.0.0.1:1",
    ] {
        assert_eq!(
            asked(&server, &[("host", host)]).await.status,
            200,
            "{host}"
        );
    }
    for host in [
        "example.org",
        "rebound.example.org:8080",
        "localhost.example.org",
    ] {
        asked(&server, &[("host", host)])
            .await
            .problem(403, "foreign_host");
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let server = Server::start().await;
    let own = format!("http://{}", server.address);
    assert_eq!(asked(&server, &[("origin", &own)]).await.status, 200);
    for origin in ["http://127.0.0.1:1", "https://example.org", "null"] {
        asked(&server, &[("origin", origin)])
            .await
            .problem(403, "foreign_origin");
    }
    asked(&server, &[("sec-fetch-site", "cross-site")])
        .await
        .problem(403, "foreign_origin");
    assert_eq!(
        asked(&server, &[("sec-fetch-site", "same-origin")])
            .await
            .status,
        200
    );
    assert_eq!(
        asked(&server, &[("sec-fetch-site", "none")]).await.status,
        200
    );
}

#[tokio::test]
async fn a_server_for_everybody_still_answers_to_its_own_names_alone() {
    let server = Server::with(Setup {
        hosts: HostPolicy::AddressesAnd(vec!["filters.example.org".to_owned()]),
        ..Setup::default()
    })
    .await;
    for host in ["filters.example.org", "localhost", "192.0.2.7:8080"] {
        let answer = asked(&server, &[("host", host)]).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    for host in ["rebound.example.org:8080", "192.0.2.7.example.org"] {
        let answer = asked(&server, &[("host", host)]).await;
        answer.problem(403, "foreign_host");
    }
    let foreign = [("host", "192.0.2.7"), ("origin", "http://example.org")];
    let answer = asked(&server, &foreign).await;
    answer.problem(403, "foreign_origin");
}

#[tokio::test]
async fn a_server_with_any_name_still_refuses_foreign_pages() {
    let server = Server::with(Setup {
        hosts: HostPolicy::Any,
        ..Setup::default()
    })
    .await;
    assert_eq!(
        asked(&server, &[("host", "filters.example.org")])
            .await
            .status,
        200
    );
    let own = [
        ("host", "filters.example.org"),
        ("origin", "http://filters.example.org"),
    ];
    assert_eq!(asked(&server, &own).await.status, 200);
    let foreign = [
        ("host", "filters.example.org"),
        ("origin", "http://example.org"),
    ];
    asked(&server, &foreign)
        .await
        .problem(403, "foreign_origin");
}
