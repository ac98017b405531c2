//! API keys: who may do what, and who may know of what.

use crate::server::{Answer, Server, Setup, expect_detail};
use cuckood::access::keys::ApiKeys;
use cuckood::access::token::Token;
use cuckood::access::{KeyExpiry, Scope, file};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A keys file, and a server that goes by it.
pub(crate) struct Keyed {
    pub(crate) server: Server,
    ring: Arc<ApiKeys>,
    folder: TempDir,
}

impl Keyed {
    /// A server that knows one key, `root`, which may do everything.
    pub(crate) async fn start() -> (Keyed, Token) {
        Keyed::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> (Keyed, Token) {
        let folder = tempfile::tempdir().unwrap();
        let root = add(&folder, "root", Scope::Admin, false, None);
        let ring = Arc::new(ApiKeys::open(&folder.path().join("keys.json"), None).unwrap());
        let server = Server::with(Setup {
            keys: Some(Arc::clone(&ring)),
            ..setup
        })
        .await;
        let keyed = Keyed {
            server,
            ring,
            folder,
        };
        (keyed, root)
    }

    /// Makes a key, which may export.
    pub(crate) fn add(&self, name: &str, scope: Scope, prefix: Option<&str>) -> Token {
        let token = add(&self.folder, name, scope, true, prefix);
        self.ring.reload().unwrap();
        token
    }

    /// Makes a key, which may not export.
    pub(crate) fn add_without_export(&self, name: &str, scope: Scope) -> Token {
        let token = add(&self.folder, name, scope, false, None);
        self.ring.reload().unwrap();
        token
    }

    /// Has a key expire so long from now; `None`: never.
    pub(crate) fn set_expiry(&self, name: &str, from_now: Option<Duration>) {
        let path = self.folder.path().join("keys.json");
        let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let expiry = from_now.map(|it| KeyExpiry::after(SystemTime::now(), it).unwrap());
        for key in file["keys"].as_array_mut().unwrap() {
            if key["name"] == name {
                let key = key.as_object_mut().unwrap();
                key.remove("expires_at");
                key.extend(expiry.map(|it| ("expires_at".to_owned(), json!(it.to_string()))));
            }
        }
        std::fs::write(&path, file.to_string()).unwrap();
        self.ring.reload().unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.folder.path().join("keys.json");
        file::remove(&path, &name.parse().unwrap()).unwrap();
        self.ring.reload().unwrap();
    }

    pub(crate) fn request(&self, token: &Token, method: Method, path: &str) -> RequestBuilder {
        let request = self.server.request(method, path);
        request.bearer_auth(token.as_str())
    }

    pub(crate) async fn get(&self, token: &Token, path: &str) -> Answer {
        Answer::of(self.request(token, Method::GET, path)).await
    }

    pub(crate) async fn put(&self, token: &Token, path: &str) -> Answer {
        Answer::of(self.request(token, Method::PUT, path).json(&json!({}))).await
    }

    pub(crate) async fn post(&self, token: &Token, path: &str, body: Value) -> Answer {
        Answer::of(self.request(token, Method::POST, path).json(&body)).await
    }
}

fn add(folder: &TempDir, name: &str, scope: Scope, export: bool, prefix: Option<&str>) -> Token {
    let path = folder.path().join("keys.json");
    let new = file::NewKey {
        export,
        prefix: prefix.map(|prefix| prefix.parse().unwrap()),
        ..file::NewKey::new(name.parse().unwrap(), scope)
    };
    file::add(&path, new, UNIX_EPOCH).unwrap()
}

/// An operation as the description has it.
struct Operation {
    method: Method,
    path: String,
    /// `None`: everybody may.
    scope: Option<Scope>,
    exports: bool,
    is_narrowed: bool,
    responses: BTreeSet<String>,
}

async fn operations(server: &Server) -> Vec<Operation> {
    let document = server.get("/openapi.json").await.ok();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let security = operation["security"].as_array().unwrap();
            let scope = security[0].get("api_key");
            let id = operation["operationId"].as_str().unwrap();
            operations.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                scope: scope.map(|scopes| scopes[0].as_str().unwrap().parse().unwrap()),
                exports: scope.is_some_and(|scopes| scopes[1] == "export"),
                is_narrowed: [
                    "list_filters",
                    "look_up_items",
                    "preview_filter",
                    "get_caller",
                ]
                .contains(&id),
                responses: operation["responses"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .cloned()
                    .collect(),
            });
        }
    }
    assert!(operations.len() > 20);
    operations
}

impl Operation {
    fn on(&self, filter: &str) -> String {
        self.path
            .replace("{key}", filter)
            .replace("{id}", "20310203T000000Z")
    }

    /// Sees that the answer is this refusal, and that it was described.
    #[track_caller]
    fn refused(&self, answer: &Answer, status: u16, code: &str) {
        let (method, path) = (&self.method, &self.path);
        assert!(
            self.responses.contains(&status.to_string()),
            "{method} {path} is not said to answer {status}"
        );
        // A HEAD has no body to look into.
        if self.method == Method::HEAD {
            assert_eq!(answer.status, status, "{method} {path}");
        } else {
            answer.problem(status, code);
        }
    }
}

const REFUSALS: [&str; 6] = [
    "api_key_missing",
    "api_key_unknown",
    "api_key_expired",
    "scope_insufficient",
    "filter_forbidden",
    "server_forbidden",
];

/// Sees that the key was no obstacle.
#[track_caller]
fn let_through(operation: &Operation, answer: &Answer) {
    let (method, path) = (&operation.method, &operation.path);
    assert_ne!(answer.status, 401, "{method} {path}");
    let problem: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
    let code = problem["code"].as_str().unwrap_or_default();
    assert!(!REFUSALS.contains(&code), "{method} {path}: {problem}");
}

#[tokio::test]
async fn every_operation_asks_for_its_scope_and_no_more() {
    let (keyed, _) = Keyed::start().await;
    let keys = Scope::ALL.map(|scope| (scope, keyed.add(scope.name(), scope, None)));
    let folder = &keyed.folder;
    let bare = Scope::ALL.map(|scope| {
        let name = format!("bare-{scope}");
        (scope, add(folder, &name, scope, false, None))
    });
    keyed.ring.reload().unwrap();
    let stranger = Token::generate().unwrap();
    for operation in operations(&keyed.server).await {
        let (method, path) = (operation.method.clone(), operation.on("a"));
        let anonymous = Answer::of(keyed.server.request(method.clone(), &path)).await;
        let unknown = Answer::of(keyed.request(&stranger, method.clone(), &path)).await;
        let Some(needed) = operation.scope else {
            assert_eq!((anonymous.status, unknown.status), (200, 200), "{path}");
            continue;
        };
        operation.refused(&anonymous, 401, "api_key_missing");
        assert_eq!(
            anonymous.header("www-authenticate"),
            r#"Bearer realm="cuckood""#
        );
        operation.refused(&unknown, 401, "api_key_unknown");
        assert!(unknown.header("www-authenticate").contains("invalid_token"));
        for (scope, token) in &keys {
            let answer = Answer::of(keyed.request(token, method.clone(), &path)).await;
            if *scope >= needed {
                let_through(&operation, &answer);
            } else {
                operation.refused(&answer, 403, "scope_insufficient");
                let challenge = answer.header("www-authenticate");
                assert!(
                    challenge.contains(&format!(r#"scope="{needed}""#)),
                    "{challenge}"
                );
            }
        }
        for (scope, token) in bare.iter().filter(|it| it.0 >= needed) {
            let answer = Answer::of(keyed.request(token, method.clone(), &path)).await;
            if !operation.exports || *scope == Scope::Admin {
                let_through(&operation, &answer);
            } else {
                operation.refused(&answer, 403, "scope_insufficient");
                let challenge = answer.header("www-authenticate");
                assert!(challenge.contains(r#"scope="export""#), "{challenge}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_with_a_prefix_is_for_these_filters_alone_on_every_operation() {
    let (keyed, _) = Keyed::start().await;
    let token = keyed.add("shop", Scope::Admin, Some("shop:"));
    for operation in operations(&keyed.server).await {
        if operation.scope.is_none() {
            continue;
        }
        let method = || operation.method.clone();
        // Encoded, it is the same filter: what is compared is decoded.
        for inside in ["shop:a", "shop%3Aa", "sho%70:"] {
            let answer = Answer::of(keyed.request(&token, method(), &operation.on(inside))).await;
            if operation.path.contains("{key}") || operation.is_narrowed {
                let_through(&operation, &answer);
            } else {
                operation.refused(&answer, 403, "server_forbidden");
            }
        }
        if operation.path.contains("{key}") {
            for outside in ["a", "shop", "Shop:a", "a:shop:", "%20shop:a"] {
                let path = operation.on(outside);
                let answer = Answer::of(keyed.request(&token, method(), &path)).await;
                operation.refused(&answer, 403, "filter_forbidden");
            }
        }
    }
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let (keyed, root) = Keyed::start().await;
    let reader = keyed.add("reader", Scope::Read, None);
    let other = keyed.add("other", Scope::Admin, Some("b"));
    assert_eq!(keyed.put(&root, "/filters/a").await.status, 201);
    let items = || json!({"items": ["x"]});
    for token in [&reader, &other] {
        let added = keyed.post(token, "/filters/a/items", items()).await;
        assert_eq!(added.status, 403);
        let gone = Answer::of(keyed.request(token, Method::DELETE, "/filters/a")).await;
        assert_eq!(gone.status, 403);
    }
    assert_eq!(keyed.put(&reader, "/filters/c").await.status, 403);
    let info = keyed.get(&root, "/filters/a").await.ok();
    assert_eq!(info["items"], 0);
    let listed = keyed.get(&root, "/filters").await.ok();
    assert_eq!(listed["filters"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_that_may_write_can_not_end_or_replace_a_filter() {
    let (keyed, root) = Keyed::start().await;
    let writer = keyed.add("writer", Scope::Write, None);
    assert_eq!(keyed.put(&root, "/filters/live").await.status, 201);
    let items = json!({"items": ["x"]});
    let added = keyed.post(&writer, "/filters/live/items", items).await;
    assert_eq!(added.status, 200);
    assert_eq!(keyed.put(&root, "/filters/other").await.status, 201);
    let before = keyed.get(&root, "/filters/live").await.ok();
    let dump = keyed.get(&root, "/filters/other/dump").await;
    let restore = |token, path: &str, if_match: Option<&str>| {
        let request = keyed.request(token, Method::PUT, path);
        let request = request.header("content-type", "application/octet-stream");
        let request = match if_match {
            Some(tag) => request.header("if-match", tag),
            None => request,
        };
        Answer::of(request.body(dump.bytes.clone()))
    };
    let replace = "/filters/live/dump?replace=true";
    for if_match in [None, Some("*")] {
        let refused = restore(&writer, replace, if_match).await;
        refused.problem(403, "scope_insufficient");
        let challenge = refused.header("www-authenticate");
        assert!(challenge.contains(r#"scope="admin""#), "{challenge}");
    }
    // Also where there is none to replace: what a key may do does not depend on it.
    let none = restore(&writer, "/filters/none/dump?replace=true", None).await;
    none.problem(403, "scope_insufficient");
    let taken = restore(&writer, "/filters/live/dump", None).await;
    taken.problem(409, "filter_taken");
    let unasked = restore(&writer, "/filters/live/dump", Some("*")).await;
    assert_eq!(unasked.refused(), ["replace"]);
    for body in [json!({"ttl_seconds": 1}), json!({"ttl_seconds": null})] {
        let request = keyed.request(&writer, Method::PATCH, "/filters/live");
        let refused = Answer::of(request.json(&body)).await;
        refused.problem(403, "scope_insufficient");
    }
    let gone = Answer::of(keyed.request(&writer, Method::DELETE, "/filters/live")).await;
    gone.problem(403, "scope_insufficient");
    // A filter that is there keeps its expiry, whatever is asked for.
    let request = keyed.request(&writer, Method::PUT, "/filters/live");
    let differs = Answer::of(request.json(&json!({"ttl_seconds": 1}))).await;
    differs.problem(409, "filter_differs");
    let items = json!({"items": ["y"], "create": {"ttl_seconds": 1}});
    let added = keyed.post(&writer, "/filters/live/items", items).await;
    assert_eq!(added.status, 200);
    let after = keyed.get(&root, "/filters/live").await.ok();
    assert_eq!(after["expires_at"], json!(null));
    assert_eq!(after["created_at"], before["created_at"]);
    assert_eq!(after["items"], 2);

    // What is new is a writer's; what is there an admin's.
    let new = restore(&writer, "/filters/new/dump", None).await;
    assert_eq!(new.status, 201, "{}", new.text());
    assert_eq!(restore(&root, replace, Some("*")).await.status, 200);
}

#[tokio::test]
async fn a_long_body_that_is_refused_gets_its_answer() {
    let (keyed, _) = Keyed::start().await;
    let stranger = Token::generate().unwrap();
    let body = vec![b'x'; 8 << 20];
    let request = keyed.request(&stranger, Method::POST, "/filters/a/items");
    Answer::of(request.header("content-type", "text/plain").body(body))
        .await
        .problem(401, "api_key_unknown");
}

#[tokio::test]
async fn what_a_stranger_sends_is_not_unpacked() {
    let (keyed, root) = Keyed::start().await;
    let stranger = Token::generate().unwrap();
    let send = |token| {
        let request = keyed.request(token, Method::POST, "/filters/a/items");
        let request = request.header("content-encoding", "br");
        Answer::of(request.header("content-type", "text/plain").body("x"))
    };
    send(&stranger).await.problem(401, "api_key_unknown");
    send(&root)
        .await
        .problem(415, "unsupported_content_encoding");
}

async fn listed(keyed: &Keyed, token: &Token, query: &str) -> Vec<String> {
    let page = keyed.get(token, &format!("/filters{query}")).await.ok();
    let filters = page["filters"].as_array().unwrap();
    let keys = filters.iter().map(|it| it["key"].as_str().unwrap());
    keys.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_list_shows_the_filters_of_the_prefix_alone() {
    let (keyed, root) = Keyed::start().await;
    for filter in ["a", "shop", "shop:1", "shop:2", "shop:21", "shoq", "z"] {
        assert_eq!(
            keyed.put(&root, &format!("/filters/{filter}")).await.status,
            201
        );
    }
    let token = keyed.add("shop", Scope::Read, Some("shop:"));
    for query in [
        "",
        "?prefix=",
        "?prefix=s",
        "?prefix=shop",
        "?prefix=shop:",
        "?cursor=a",
    ] {
        let found = listed(&keyed, &token, query).await;
        assert_eq!(found, ["shop:1", "shop:2", "shop:21"], "{query}");
    }
    assert_eq!(
        listed(&keyed, &token, "?prefix=shop:2").await,
        ["shop:2", "shop:21"]
    );
    for query in ["?prefix=a", "?prefix=shoq", "?prefix=z", "?cursor=z"] {
        assert!(listed(&keyed, &token, query).await.is_empty(), "{query}");
    }
    // Page by page it is the same, and the last page says so.
    let mut keys = Vec::new();
    let mut query = "?limit=1".to_owned();
    loop {
        let page = keyed.get(&token, &format!("/filters{query}")).await.ok();
        keys.push(page["filters"][0]["key"].as_str().unwrap().to_owned());
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(keys, ["shop:1", "shop:2", "shop:21"]);
}

#[tokio::test]
async fn a_lookup_asks_the_filters_of_the_prefix_alone() {
    let (keyed, root) = Keyed::start().await;
    for filter in ["a", "shop:1", "shop:2", "z"] {
        let body = json!({"items": ["x"], "create": {}});
        let added = keyed
            .post(&root, &format!("/filters/{filter}/items"), body)
            .await;
        assert_eq!(added.status, 200);
    }
    let token = keyed.add("shop", Scope::Read, Some("shop:"));
    for (asked, found, missing) in [
        (
            json!({"prefix": ""}),
            json!([["shop:1", "shop:2"]]),
            json!([]),
        ),
        (
            json!({"prefix": "sh"}),
            json!([["shop:1", "shop:2"]]),
            json!([]),
        ),
        (json!({"prefix": "shop:2"}), json!([["shop:2"]]), json!([])),
        (json!({"prefix": "a"}), json!([[]]), json!([])),
        (
            json!({"filters": ["z", "shop:2", "a", "shop:9", "no", "shop:1"]}),
            json!([["shop:2", "shop:1"]]),
            json!(["shop:9"]),
        ),
        // Whether these exist is nothing that the answer tells.
        (json!({"filters": ["a", "no"]}), json!([[]]), json!([])),
    ] {
        let mut body = asked.clone();
        body["items"] = json!(["x"]);
        let answer = keyed.post(&token, "/lookup", body).await.ok();
        assert_eq!(answer["results"], found, "{asked}");
        assert_eq!(answer["missing_filters"], missing, "{asked}");
    }
}

#[tokio::test]
async fn one_keys_retries_are_not_anothers() {
    let (keyed, root) = Keyed::start().await;
    let other = keyed.add("other", Scope::Write, None);
    assert_eq!(keyed.put(&root, "/filters/a").await.status, 201);
    let add = |token| {
        let request = keyed.request(token, Method::POST, "/filters/a/items");
        let request = request.header("idempotency-key", "k");
        Answer::of(request.json(&json!({"items": ["x"]})))
    };
    assert_eq!(add(&root).await.header("idempotency-replayed"), "");
    assert_eq!(add(&other).await.header("idempotency-replayed"), "");
    assert_eq!(add(&root).await.header("idempotency-replayed"), "true");
    assert_eq!(add(&other).await.header("idempotency-replayed"), "true");
    let count = keyed.get(&root, "/filters/a/count?item=x").await.ok();
    assert_eq!(count["count"], 2);
    // The name is who it is: a key that was made anew has the same retries.
    keyed.remove("other");
    let anew = keyed.add("other", Scope::Write, None);
    assert_eq!(add(&anew).await.header("idempotency-replayed"), "true");
}

#[tokio::test]
async fn a_key_that_is_removed_is_refused_from_then_on() {
    let (keyed, _) = Keyed::start().await;
    let token = keyed.add("guest", Scope::Read, None);
    assert_eq!(keyed.get(&token, "/filters").await.status, 200);
    keyed.remove("guest");
    keyed
        .get(&token, "/filters")
        .await
        .problem(401, "api_key_unknown");
}

#[tokio::test]
async fn a_key_that_expires_is_refused_from_that_moment_on_and_told_why() {
    let (keyed, _) = Keyed::start().await;
    let token = keyed.add("guest", Scope::Read, None);
    keyed.set_expiry("guest", Some(Duration::from_secs(2)));
    assert_eq!(keyed.get(&token, "/filters").await.status, 200);
    let started = Instant::now();
    // Nothing is read again meanwhile.
    while keyed.get(&token, "/filters").await.status == 200 {
        assert!(started.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = keyed.get(&token, "/filters").await;
    let problem = refused.problem(401, "api_key_expired");
    expect_detail(&problem, "expired");
    assert!(refused.header("www-authenticate").contains("invalid_token"));
    let rejected = ["api_key_expired"];
    let rejected = keyed
        .server
        .metrics
        .http_rejected
        .with_label_values(&rejected);
    assert!(rejected.get() >= 2);
    keyed.set_expiry("guest", None);
    assert_eq!(keyed.get(&token, "/filters").await.status, 200);
}

#[tokio::test]
async fn paths_and_methods_that_there_are_none_of_are_told_apart_from_refusals() {
    let (keyed, _root) = Keyed::start().await;
    keyed
        .server
        .get("/nope")
        .await
        .problem(404, "unknown_route");
    let put = Answer::of(keyed.server.request(Method::PUT, "/lookup")).await;
    put.problem(405, "method_not_allowed");
    let docs = keyed.server.get("/docs/").await;
    assert_eq!(docs.status, 200);
}

#[tokio::test]
async fn a_server_with_keys_has_any_name_and_refuses_foreign_pages() {
    let (keyed, _) = Keyed::start().await;
    let (server, token) = (&keyed.server, keyed.add("reader", Scope::Read, None));
    let asked = |name, value| {
        let request = server.request(Method::GET, "/filters").header(name, value);
        Answer::of(request.bearer_auth(token.as_str()))
    };
    asked("origin", "https://example.org")
        .await
        .problem(403, "foreign_origin");
    asked("sec-fetch-site", "cross-site")
        .await
        .problem(403, "foreign_origin");
}
