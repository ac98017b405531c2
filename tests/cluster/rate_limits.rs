//! A pod that refuses what another one passed on, because the API key is over its rate
//! there: the caller gets that answer as it is.

use crate::founded::shop;
use crate::operator::api_key;
use crate::program::{Answer, Client, Pod};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn what_the_pod_that_leads_refuses_for_its_rate_arrives_as_it_was_said() {
    let Some(brokers) = shop(1) else { return };
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.json");
    let bearer = format!("Bearer {}", api_key(&keys, "web", &["--scope=admin"]));
    let (client, keys) = (Client::new(), format!("--keys-file={}", keys.display()));
    // The first one leads the only lane.
    let mut leader = Pod::start_with(&brokers, &[&keys, "--rate-limit=1"]);
    leader.ready(&client);
    let mut other = Pod::start_with(&brokers, &[&keys]);
    other.ready(&client);
    let send = |pod: &Pod, method: &str, path: &str, body: Option<Value>| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("cuckood-consistency", "strong"),
        ];
        let url = format!("{}/filters/f{path}", pod.address);
        client.send(method, &url, &headers, body.as_ref()).unwrap()
    };
    // One request a second is let through: of several in a row some are refused.
    let until = |status: u16, ask: &dyn Fn(u64) -> Answer| {
        let started = Instant::now();
        for attempt in 0.. {
            let answer = ask(attempt);
            if answer.status == status {
                return (attempt, answer);
            }
            let said = &answer.body;
            assert!([200, 201, 429].contains(&answer.status), "{said}");
            assert!(started.elapsed() < Duration::from_secs(30), "{said}");
        }
        unreachable!()
    };
    until(201, &|_| send(&other, "PUT", "", Some(json!({}))));

    let ask = |item: u64| send(&other, "GET", &format!("/exists?item={item}"), None);
    let add = |item: u64| send(&other, "POST", "/items", Some(json!({ "items": [item] })));
    let (_, direct) = until(429, &|_| send(&leader, "GET", "", None));
    let (item, change) = until(429, &add);
    let (_, question) = until(429, &ask);
    assert_eq!(direct.body["code"], "rate_limited");
    let said = |answer: Answer| {
        let mut body = answer.body;
        body.as_object_mut().unwrap().remove("request_id").unwrap();
        (body, answer.retry_after)
    };
    let direct = said(direct);
    assert!(direct.1);
    for passed_back in [change, question] {
        assert_eq!(said(passed_back), direct);
    }
    // Nothing was done of the change.
    let (_, found) = until(200, &|_| ask(item));
    assert_eq!(found.body, json!({ "exists": false }));
}
