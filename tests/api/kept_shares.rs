//! Shares of what is kept when a request has ended, row by row of the table in
//! `docs/limits.md`: one key leaves behind all that it can, another is served;
//! also after a restart.

use crate::memory::MemoryStore;
use crate::server::{Server, Setup};
use crate::tenants::{Raw, Tenants, create, restarted};

#[tokio::test]
async fn filters_of_a_key() {
    let store = MemoryStore::new();
    let setup = || {
        let mut setup = Setup::over(&store);
        setup.engine.defaults.max_filters_per_key = Some(3);
        setup
    };
    // One that was made before there were keys is nobody's.
    let before = Server::with(setup()).await;
    before.put("/filters/old", serde_json::json!({})).await.ok();
    before.stop().await;

    let mut tenants = Tenants::with(setup()).await;
    for n in 0..3 {
        let filter = create(&format!("g{n}"), 1000);
        assert_eq!(tenants.answered(&tenants.greedy, &filter).await.status, 201);
    }
    for _ in 0..2 {
        let more = create("more", 1000);
        let refused = tenants.answered(&tenants.greedy, &more).await;
        refused.is_refused(507, "over_key_quota");
        assert!(
            refused.body.contains("--max-filters-per-key"),
            "{}",
            refused.body
        );
        assert!(tenants.refusals("filters", "share") > 0);
        let served = tenants.answered(&tenants.modest, &create("m", 1000)).await;
        assert!([200, 201].contains(&served.status), "{}", served.body);
        // The accounts outlive a restart.
        tenants = restarted(tenants, setup()).await;
    }
    // Whoever deletes one makes room for one of its key.
    let delete = Raw::whole("DELETE /filters/g1", "text/plain", "");
    assert_eq!(tenants.answered(&tenants.modest, &delete).await.status, 204);
    let again = tenants
        .answered(&tenants.greedy, &create("again", 1000))
        .await;
    assert_eq!(again.status, 201, "{}", again.body);
    let refused = tenants
        .answered(&tenants.greedy, &create("more", 1000))
        .await;
    refused.is_refused(507, "over_key_quota");
}

#[tokio::test]
async fn bytes_of_filters_of_a_key() {
    let store = MemoryStore::new();
    let setup = || {
        let mut setup = Setup::over(&store);
        setup.engine.defaults.max_bytes_per_key = Some(100_000);
        setup
    };
    let tenants = Tenants::with(setup()).await;
    let small = tenants
        .answered(&tenants.greedy, &create("small", 1000))
        .await;
    assert_eq!(small.status, 201, "{}", small.body);
    let large = tenants
        .answered(&tenants.greedy, &create("large", 1_000_000))
        .await;
    large.is_refused(507, "over_key_quota");
    // It grows a little filter instead, until it is over, and no further.
    let mut first = 0;
    let refused = loop {
        assert!(first < 2_000_000, "it is never refused");
        let lines: String = (first..first + 20_000).map(|n| format!("{n}\n")).collect();
        let add = Raw::whole("POST /filters/small/items", "text/plain", &lines);
        let reply = tenants.answered(&tenants.greedy, &add).await;
        match reply.status {
            200 => first += 20_000,
            _ => break reply,
        }
    };
    refused.is_refused(507, "over_key_quota");
    let tenants = restarted(tenants, setup()).await;
    let add = Raw::whole("POST /filters/small/items", "text/plain", "x");
    let refused = tenants.answered(&tenants.greedy, &add).await;
    refused.is_refused(507, "over_key_quota");
    let import = Raw::whole("POST /filters/small/import?import_id=i", "text/plain", "x");
    let refused = tenants.answered(&tenants.greedy, &import).await;
    refused.is_refused(507, "over_key_quota");
    // Questions and deletes are served, and so is the other key.
    let ask = Raw::whole("POST /filters/small/exists", "text/plain", "1");
    assert_eq!(tenants.answered(&tenants.greedy, &ask).await.status, 200);
    let made = tenants
        .answered(&tenants.modest, &create("modest", 50_000))
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
    let add = Raw::whole("POST /filters/modest/items", "text/plain", "x");
    assert_eq!(tenants.answered(&tenants.modest, &add).await.status, 200);
    let delete = Raw::whole("DELETE /filters/small", "text/plain", "");
    assert_eq!(tenants.answered(&tenants.greedy, &delete).await.status, 204);
    let made = tenants
        .answered(&tenants.greedy, &create("next", 50_000))
        .await;
    assert_eq!(made.status, 201, "{}", made.body);
}

/// The greedy key does what leaves something behind until it is refused, also
/// after a restart; the modest one does it as well.
async fn leaves_behind(
    set: fn(&mut Setup),
    resource: &str,
    refusal: (u16, &str),
    request: fn(usize) -> Raw,
) {
    let store = MemoryStore::new();
    let setup = || {
        let mut setup = Setup::over(&store);
        set(&mut setup);
        setup
    };
    let mut tenants = Tenants::with(setup()).await;
    let create = create("g", 1000);
    assert_eq!(tenants.answered(&tenants.greedy, &create).await.status, 201);
    let mut left = 0;
    let refused = loop {
        assert!(left < 100, "{resource}: it is never refused");
        let reply = tenants.answered(&tenants.greedy, &request(left)).await;
        if reply.status != 200 {
            break reply;
        }
        left += 1;
    };
    assert!(left > 1, "{resource}: {left}");
    refused.is_refused(refusal.0, refusal.1);
    assert!(tenants.refusals(resource, "share") > 0);
    for restart in 0..2 {
        let served = tenants
            .answered(&tenants.modest, &request(1000 + restart))
            .await;
        assert_eq!(served.status, 200, "{}", served.body);
        tenants = restarted(tenants, setup()).await;
        let refused = tenants.answered(&tenants.greedy, &request(left)).await;
        refused.is_refused(refusal.0, refusal.1);
    }
}

/// An add whose answer is kept for so long.
fn keyed_add(key: usize, seconds: u32) -> Raw {
    let media_type =
        format!("text/plain\r\nidempotency-key: key-{key}\r\nidempotency-key-lifetime: {seconds}");
    Raw::whole("POST /filters/g/items", media_type.leak(), "x")
}

#[tokio::test]
async fn bytes_of_answers_for_retries() {
    let set = |setup: &mut Setup| setup.engine.max_retry_bytes = 4000;
    let refusal = (429, "over_share");
    leaves_behind(set, "idempotency_bytes", refusal, |n| keyed_add(n, 86_400)).await;
}

#[tokio::test]
async fn who_has_its_share_of_answers_is_told_when_the_first_of_its_own_ends() {
    let mut setup = Setup::default();
    setup.engine.max_retry_bytes = 4000;
    let tenants = Tenants::with(setup).await;
    let made = tenants.answered(&tenants.modest, &create("g", 1000)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let modest = tenants.answered(&tenants.modest, &keyed_add(0, 300)).await;
    assert_eq!(modest.status, 200, "{}", modest.body);
    let mut key = 0;
    let refused = loop {
        key += 1;
        assert!(key < 100, "it is never refused");
        let reply = tenants
            .answered(&tenants.greedy, &keyed_add(key, 3000))
            .await;
        if reply.status != 200 {
            break reply;
        }
    };
    refused.is_refused(429, "over_share");
    let seconds = refused.retry_after().unwrap();
    assert!((1000..=3002).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn imports_that_are_kept() {
    let set = |setup: &mut Setup| setup.engine.max_imports = 10;
    leaves_behind(set, "imports_kept", (507, "over_key_quota"), |n| {
        let line = format!("POST /filters/g/import?import_id=import-{n}");
        Raw::whole(&line, "text/plain", "x")
    })
    .await;
}
