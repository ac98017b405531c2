use crate::server::{Answer, Server, Setup};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

#[tokio::test]
async fn probes_answer_while_the_engine_opens() {
    let server = Server::not_open(Setup::default()).await;
    assert_eq!(server.get("/livez").await.text(), "ok\n");
    server.get("/readyz").await.problem(503, "starting");
    server.get("/filters").await.problem(503, "starting");
    server
        .put("/filters/a", json!({}))
        .await
        .problem(503, "starting");
    server
        .post("/filters/a/items", json!({"items": []}))
        .await
        .problem(503, "starting");
    assert_eq!(server.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn readyz_says_no_while_the_server_drains() {
    let server = Server::start().await;
    assert_eq!(server.get("/readyz").await.text(), "ok\n");
    server.app.start_draining();
    server.get("/readyz").await.problem(503, "draining");
    assert_eq!(server.get("/livez").await.status, 200);
    assert_eq!(server.get("/filters").await.status, 200);
}

#[tokio::test]
async fn unknown_paths_and_methods_have_our_shape() {
    let server = Server::start().await;
    for path in [
        "/nope",
        "/filters/",
        "/filters/a/nope",
        "/filters/a/items/x/y",
        "/docs/nope.js",
    ] {
        server.get(path).await.problem(404, "unknown_route");
    }
    let post = Answer::of(server.request(Method::POST, "/filters/a")).await;
    post.problem(405, "method_not_allowed");
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
        assert!(
            post.header("allow").contains(method),
            "{}",
            post.header("allow")
        );
    }
    let get = server.get("/filters/a/items").await;
    get.problem(405, "method_not_allowed");
    assert_eq!(get.header("allow"), "POST");
    for (method, path, meant) in [
        ("GET", "/filters/a/items", "GET /filters/a/exists?item=ITEM"),
        ("POST", "/filters/a", "PUT /filters/a creates"),
        ("POST", "/filters", "PUT /filters/NAME creates"),
        ("DELETE", "/filters/a/items", "POST /filters/a/items/delete"),
        ("PUT", "/filters/a/items", "POST /filters/a/items adds"),
        (
            "GET",
            "/filters/a/import",
            "GET /filters/a/imports/IMPORT_ID",
        ),
        ("GET", "/filters/a/merge", "POST /filters/a/merge"),
        ("GET", "/filters/a/compact", "GET /filters/a/compaction"),
        ("POST", "/filters/a/compaction", "POST /filters/a/compact "),
        ("POST", "/filters/a/history", "GET /filters/a/history"),
        ("POST", "/filters/a/locate", "GET /filters/a/locate?item="),
        ("GET", "/lookup", "POST /lookup"),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = Answer::of(server.request(method, path)).await;
        answer.problem(405, "method_not_allowed");
        assert!(answer.text().contains(meant), "{}", answer.text());
    }
    let odd = Answer::of(server.request(Method::from_bytes(b"BREW").unwrap(), "/livez")).await;
    odd.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn the_root_leads_browsers_to_the_console_and_tells_others_where_it_is() {
    let server = Server::start().await;
    let browser = server.request(Method::GET, "/");
    let browser = Answer::of(browser.header("accept", "text/html,*/*;q=0.8")).await;
    assert_eq!(browser.status, 200);
    assert!(browser.text().contains("<title>"), "{}", browser.text());
    let curl = server.get("/").await;
    assert_eq!(curl.status, 200);
    assert_eq!(curl.header("vary"), "accept");
    for path in ["/console", "/docs", "/openapi.json", "/readyz", "/metrics"] {
        assert!(curl.text().contains(path), "{}", curl.text());
    }
}

#[tokio::test]
async fn what_is_wrong_is_all_told_at_once_with_what_to_do() {
    let server = Server::start().await;
    let named = |answer: &Answer| {
        let problem: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        let field = |it: &serde_json::Value| {
            let place = it.get("pointer").or_else(|| it.get("parameter"));
            place.unwrap().as_str().unwrap().to_owned()
        };
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(field).collect::<Vec<_>>()
    };
    let create = server.request(Method::PUT, "/filters/a");
    let create = create.json(&serde_json::json!({
        "capacity": 0, "colour": "red", "error_rate": 7
    }));
    let refused = Answer::of(create).await;
    refused.problem(422, "invalid_fields");
    let mut places = named(&refused);
    places.sort();
    assert_eq!(places, ["/capacity", "/colour", "/error_rate"]);
    let add = server.request(Method::POST, "/filters/a/items");
    let add = add.json(&serde_json::json!({
        "item": "a", "only_if_absent": 1, "create": {"capacity": "x"}
    }));
    let mut places = named(&Answer::of(add).await);
    places.sort();
    assert_eq!(
        places,
        ["/create/capacity", "/item", "/items", "/only_if_absent"]
    );
    // Also where one is so malformed that the reading ends there.
    for (method, path, body, wrong) in [
        (
            Method::POST,
            "/filters/a/items",
            r#"{"only_if_absent": 1, "items": ["a", 1.5], "create": {"capacity": "x", "error_rate": 7}}"#,
            &[
                "/create/capacity",
                "/create/error_rate",
                "/items/1",
                "/only_if_absent",
            ][..],
        ),
        (
            Method::POST,
            "/lookup",
            r#"{"itms": ["a"]}"#,
            &["/filters", "/items", "/itms"],
        ),
        (
            Method::PATCH,
            "/filters/a",
            r#"{"ttl": 1, "ttl_seconds": "1"}"#,
            &["/ttl", "/ttl_seconds"],
        ),
    ] {
        let request = server.request(method, path);
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let mut places = named(&Answer::of(request).await);
        places.sort();
        assert_eq!(places, wrong, "{body}");
    }
    let query = server.request(Method::POST, "/filters/a/items?craete=1&onlyifabsent=2");
    let query = query.header("content-type", "text/plain").body("x");
    assert_eq!(named(&Answer::of(query).await), ["craete", "onlyifabsent"]);
    // What curl sends by itself.
    let form = server.request(Method::POST, "/filters/a/items");
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let form = Answer::of(form.body("{}")).await;
    form.problem(415, "unsupported_media_type");
    assert!(form.text().contains("-H 'content-type: application/json'"));
    // A filter that is not there.
    let add = server.request(Method::POST, "/filters/a/items");
    let add = Answer::of(add.json(&serde_json::json!({"items": ["x"]}))).await;
    add.problem(404, "filter_not_found");
    assert!(
        add.text().contains(r#"\"create\": {\"capacity\": 100000}"#),
        "{}",
        add.text()
    );
    let lines = server.request(Method::POST, "/filters/a/items");
    let lines = Answer::of(lines.header("content-type", "text/plain").body("x")).await;
    lines.problem(404, "filter_not_found");
    assert!(lines.text().contains("create=true&capacity=100000"));
    for (path, media_type) in [
        ("import?import_id=i", "text/plain"),
        ("values", "text/plain"),
    ] {
        let add = server.request(Method::POST, &format!("/filters/a/{path}"));
        let add = Answer::of(add.header("content-type", media_type).body("x\t1")).await;
        add.problem(404, "filter_not_found");
        assert!(add.text().contains("PUT /filters/a"), "{}", add.text());
    }
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let server = Server::start().await;
    let with = |id: &str| {
        server
            .request(Method::GET, "/livez")
            .header("x-request-id", id)
    };
    assert_eq!(
        Answer::of(with("order-17")).await.header("x-request-id"),
        "order-17"
    );
    for odd in ["a b", "<script>", &"x".repeat(129)] {
        let id = Answer::of(with(odd))
            .await
            .header("x-request-id")
            .to_owned();
        assert_eq!(id.len(), 16, "{odd}");
    }
    let refused = server
        .request(Method::GET, "/nope")
        .header("x-request-id", "order-18");
    let problem = Answer::of(refused).await.problem(404, "unknown_route");
    assert_eq!(problem["request_id"], "order-18");
}

#[tokio::test]
async fn the_description_is_served_and_browsable_without_another_host() {
    let server = Server::start().await;
    let served = server.get("/openapi.json").await;
    assert_eq!(served.ok()["info"]["title"], "cuckood");
    assert_eq!(served.text(), include_str!("../../openapi/openapi.json"));

    let index = server.get("/docs/").await;
    assert_eq!(index.status, 200);
    assert!(
        index
            .header("content-security-policy")
            .starts_with("default-src 'self'")
    );
    assert!(!index.text().contains("//unpkg") && !index.text().contains("https://"));
    let initializer = server.get("/docs/swagger-initializer.js").await;
    assert!(
        initializer.text().contains("/openapi.json"),
        "{}",
        initializer.text()
    );
    assert_eq!(server.get("/docs/swagger-ui-bundle.js").await.status, 200);
}

/// Processor time of this thread, on which the server of a test runs as well.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[tokio::test]
async fn what_is_always_the_same_is_compressed_once() {
    let server = Server::start().await;
    for path in [
        "/openapi.json",
        "/docs/swagger-ui-bundle.js",
        "/console/app.js",
    ] {
        let ask = |coding: &str| {
            let request = server.request(Method::GET, path);
            Answer::of(request.header("accept-encoding", coding))
        };
        // The first one has it made.
        let plain = ask("identity").await;
        assert!(!plain.headers.contains_key("content-encoding"), "{path}");
        let took = |started| processor_time() - started;
        let started = processor_time();
        for _ in 0..20 {
            ask("identity").await;
        }
        let plain_took = took(started);
        let started = processor_time();
        for _ in 0..20 {
            let gzipped = ask("gzip, br").await;
            assert_eq!(gzipped.header("content-encoding"), "gzip");
            assert_eq!(gzipped.header("vary"), "accept-encoding");
            assert_eq!(
                gzipped.header("content-length"),
                gzipped.bytes.len().to_string()
            );
        }
        let gzipped_took = took(started);
        // To compress a megabyte takes dozens of milliseconds, to copy it one or two.
        assert!(
            gzipped_took < plain_took + Duration::from_millis(20 * 4),
            "{path}: {gzipped_took:?}, uncompressed {plain_took:?}"
        );
        let gzipped = ask("gzip").await;
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(gzipped.bytes.as_slice());
        decoder.read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == plain.bytes, "{path}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_path() {
    let server = Server::start().await;
    server.put("/filters/secret-key", json!({})).await.ok();
    server
        .get("/filters/secret-key/exists?item=secret-item")
        .await
        .ok();
    server
        .get("/secret-path")
        .await
        .problem(404, "unknown_route");
    let _ = Answer::of(server.request(Method::from_bytes(b"SECRET").unwrap(), "/livez")).await;
    let metrics = server.get("/metrics").await;
    assert!(metrics.header("content-type").starts_with("text/plain"));
    let text = metrics.text();
    for line in [
        r#"cuckood_http_requests_total{method="PUT",route="/filters/{key}",status="201"} 1"#,
        r#"cuckood_http_requests_total{method="GET",route="/filters/{key}/exists",status="200"} 1"#,
        r#"cuckood_http_requests_total{method="GET",route="unmatched",status="404"} 1"#,
        r#"cuckood_http_requests_total{method="other",route="/livez",status="405"} 1"#,
        r#"cuckood_http_rejected_total{reason="overloaded"} 0"#,
        "cuckood_http_connections 1",
        "# HELP cuckood_kick_outs_total ",
        "# TYPE cuckood_expansions_total counter",
        r#"cuckood_page_reads_total{source="store"} "#,
        "process_resident_memory_bytes ",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("secret") && !text.contains("SECRET"));
}

/// The tool is not on every machine; where it is, it has the last word.
#[tokio::test]
async fn promtool_has_no_objection_to_the_metrics() {
    let server = Server::start().await;
    server
        .post("/filters/f/items", json!({"items": ["a"], "create": {}}))
        .await
        .ok();
    let text = server.get("/metrics").await;
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut check) = check else {
        eprintln!("promtool is not installed: not checked");
        return;
    };
    check.stdin.take().unwrap().write_all(&text.bytes).unwrap();
    let outcome = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned()
        + &String::from_utf8_lossy(&outcome.stdout);
    // The process's own start time is a family of the library's.
    assert!(outcome.status.success() && said.trim().is_empty(), "{said}");
}

#[tokio::test]
async fn every_described_route_exists_and_is_described_as_it_answers() {
    let server = Server::start().await;
    let document: Value = server.get("/openapi.json").await.ok();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let target = path.replace("{key}", "missing");
            let answer = Answer::of(server.request(method.clone(), &target)).await;
            let described = operation["responses"].as_object().unwrap();
            let status = answer.status.to_string();
            assert!(
                described.contains_key(&status),
                "{method} {path} answers {status}"
            );
        }
    }
}
