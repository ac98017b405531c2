//! What the users may do at the brokers that `deploy/nats/brokers.conf` makes for pods
//! and for who founds a cluster.

use crate::broker::Brokers;
use crate::nats_server;
use crate::operator::{cuckood, flags};
use crate::program::refused;
use async_nats::ConnectOptions;
use async_nats::jetstream::{self, Context};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

/// The users of that file, with passwords.
fn users() -> String {
    let file = fs::read_to_string("deploy/nats/brokers.conf").unwrap();
    let (_, behind) = file.split_once("\nauthorization {").unwrap();
    let (users, _) = behind.split_once("\n}\n").unwrap();
    let users = users.replace("$pods", "one").replace("$founder", "two");
    format!("authorization {{{users}\n}}")
}

/// The broker as a user sees it, who does not wait long for what is not answered.
async fn context(brokers: &Brokers, user: &str, password: &str) -> Context {
    let options = ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
        .custom_inbox_prefix("_INBOX.cuckood_shop")
        .retry_on_initial_connect();
    let client = options.connect(&brokers.addresses[0]).await.unwrap();
    let mut context = jetstream::new(client);
    context.set_timeout(Duration::from_secs(2));
    context
}

/// What is answered, if anything is.
async fn ask(context: &Context, subject: &str, asked: &Value) -> Option<Value> {
    let answer: Value = context.request(subject.to_owned(), asked).await.ok()?;
    assert_eq!(answer.get("error"), None, "{subject}");
    Some(answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_may_touch_no_stream_but_their_own() {
    if !nats_server::is_there() {
        return;
    }
    let brokers = Brokers::start_with(1, &users());
    let founder = context(&brokers, "founder", "two").await;
    let streams = [
        ("CUCKOOD_shop_1", "cuckood.shop.1.*"),
        ("OTHER", "cuckood.shop.other"),
    ];
    for (stream, subject) in streams {
        let create = json!({"name": stream, "subjects": [subject]});
        let subject = format!("STREAM.CREATE.{stream}");
        let mut tries = 0..20;
        while ask(&founder, &subject, &create).await.is_none() {
            tries.next().expect("the broker is not there");
        }
    }
    for subject in ["cuckood.shop.1.0", "cuckood.shop.other"] {
        let sent = founder.publish(subject, "x".into()).await.unwrap();
        sent.await.unwrap();
    }
    let pods = context(&brokers, "pods", "one").await;
    let create = json!({"name": "THEIRS", "subjects": ["cuckood.shop.1.theirs"]});
    for (subject, asked) in [
        ("STREAM.PURGE.OTHER", &json!({})),
        ("STREAM.DELETE.OTHER", &json!({})),
        ("STREAM.DELETE.CUCKOOD_shop_1", &json!({})),
        ("STREAM.CREATE.THEIRS", &create),
        ("STREAM.NAMES", &json!({})),
    ] {
        assert_eq!(ask(&pods, subject, asked).await, None, "{subject}");
    }
    let purged = ask(&pods, "STREAM.PURGE.CUCKOOD_shop_1", &json!({})).await;
    assert_eq!(purged.unwrap()["purged"], 1);
    let other = ask(&founder, "STREAM.INFO.OTHER", &json!({})).await;
    assert_eq!(other.unwrap()["state"]["messages"], 1);
}

#[test]
fn who_has_too_few_rights_or_brokers_is_told_which() {
    if !nats_server::is_there() {
        return;
    }
    let brokers = Brokers::start_with(1, &users());
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("credentials");
    for (user, words) in [
        ("founder: two", "with one broker: --copies 1"),
        (
            "pods: one",
            "timed out; a moment ago the brokers refused: Permissions Violation for Publish to \"$JS.API.INFO\"",
        ),
    ] {
        fs::write(&file, user).unwrap();
        let mut found = cuckood();
        found.args(["cluster", "found"]).args(flags(&brokers));
        found.arg("--log-credentials").arg(&file);
        let mut tries = 0..5;
        loop {
            let said = refused(&found.output().unwrap());
            if said.contains(words) {
                break;
            }
            tries.next().expect(&said);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
