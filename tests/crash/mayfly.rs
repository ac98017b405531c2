//! A client that makes filters which end by themselves: until then everything
//! acknowledged is in them, and afterwards they are gone, whatever crashed in
//! between. No name is used twice.

use crate::load::Life;
use crate::random::Random;
use crate::server::Server;
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What all its filters' names begin with.
pub(crate) const PREFIX: &str = "mayfly-";

/// How far the server's clock and the test's may be apart.
const MARGIN: Duration = Duration::from_millis(100);

/// Within so long of its end the server has removed a filter.
const NOTICE: Duration = Duration::from_millis(50);

pub(crate) struct Mayfly {
    random: Random,
    made: u64,
    alive: Option<Alive>,
    /// Filters that must be gone from a moment on.
    ending: Vec<(String, Instant)>,
    /// Filters that were seen to be gone.
    pub(crate) ended: u64,
}

struct Alive {
    name: String,
    /// It is there until then, at least.
    stays: Instant,
    /// It is gone from then on, at the latest.
    gone: Instant,
    items: u64,
}

impl Mayfly {
    pub(crate) fn new(seed: u64) -> Mayfly {
        Mayfly {
            random: Random(seed),
            made: 0,
            alive: None,
            ending: Vec::new(),
            ended: 0,
        }
    }

    pub(crate) fn load(&mut self, client: &Client, base: &str, life: &Life) {
        while self.step(client, base) {
            life.pause();
        }
        assert!(life.is_over(), "a request failed while the server was up");
    }

    /// One request; `false` if it was not answered.
    fn step(&mut self, client: &Client, base: &str) -> bool {
        let Some(alive) = &mut self.alive else {
            return self.make(client, base);
        };
        let url = format!("{base}/filters/{}", alive.name);
        let now = Instant::now();
        if now < alive.stays {
            if self.random.below(4) == 0 {
                let names = names(0..alive.items);
                let Some(found) = post_lines_if_there(client, &format!("{url}/exists"), &names)
                else {
                    return false;
                };
                if Instant::now() < alive.stays {
                    let found = found.expect("a filter ended too early");
                    assert!(found.iter().all(|found| found == "true"), "{}", alive.name);
                }
                return true;
            }
            let items = alive.items..alive.items + 1 + self.random.below(20);
            let names = names(items.clone());
            let added = post_lines_if_there(client, &format!("{url}/items"), &names);
            match added {
                None => return false,
                Some(Some(_)) => alive.items = items.end,
                Some(None) => assert!(Instant::now() >= alive.stays, "it ended too early"),
            }
            return true;
        }
        if now < alive.gone {
            sleep(Duration::from_millis(20));
            return true;
        }
        let Ok(answer) = client.get(&url).send() else {
            return false;
        };
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{}", alive.name);
        self.ended += 1;
        self.alive = None;
        true
    }

    fn make(&mut self, client: &Client, base: &str) -> bool {
        self.made += 1;
        let name = format!("{PREFIX}{}", self.made);
        let ttl = Duration::from_secs(1 + self.random.below(3));
        let parameters = json!({"capacity": 100, "ttl_seconds": ttl.as_secs()});
        let before = Instant::now();
        let request = client.put(format!("{base}/filters/{name}"));
        match request.json(&parameters).send() {
            Ok(answer) => {
                assert_eq!(answer.status(), StatusCode::CREATED);
                self.alive = Some(Alive {
                    name,
                    stays: before + ttl - MARGIN,
                    gone: Instant::now() + ttl + MARGIN,
                    items: 0,
                });
                true
            }
            Err(_) => {
                // Perhaps it is there; then it ends all the same.
                self.ending.push((name, Instant::now() + ttl + MARGIN));
                false
            }
        }
    }

    /// After a restart: what lives is there with everything, the rest is gone.
    pub(crate) fn verify(&mut self, server: &Server) {
        if let Some(alive) = &self.alive
            && Instant::now() < alive.stays
        {
            let url = server.url(&format!("/filters/{}/exists", alive.name));
            let found = post_lines_if_there(server.client(), &url, &names(0..alive.items));
            if Instant::now() < alive.stays {
                let found = found.unwrap().expect("a filter ended too early");
                assert!(found.iter().all(|found| found == "true"), "{}", alive.name);
            }
        }
        let now = Instant::now();
        let is_over = |(_, gone): &(String, Instant)| *gone < now;
        for (name, _) in self.ending.iter().filter(|it| is_over(it)) {
            let answer = server.client().get(server.url(&format!("/filters/{name}")));
            assert_eq!(answer.send().unwrap().status(), StatusCode::NOT_FOUND);
        }
        let before = self.ending.len();
        self.ending.retain(|it| !is_over(it));
        self.ended += (before - self.ending.len()) as u64;
    }

    /// Waits until all of them must be gone, and sees that they are.
    pub(crate) fn outlive(&mut self, server: &Server) {
        let alive = self.alive.take().map(|alive| (alive.name, alive.gone));
        self.ending.extend(alive);
        let last = self.ending.iter().map(|(_, gone)| *gone).max();
        if let Some(last) = last {
            sleep(last.saturating_duration_since(Instant::now()) + NOTICE);
        }
        self.verify(server);
    }
}

fn names(items: std::ops::Range<u64>) -> Vec<String> {
    items.map(|item| format!("item {item}")).collect()
}

/// The results; `Some(None)` if there is no such filter, `None` if no answer
/// came.
fn post_lines_if_there(
    client: &Client,
    url: &str,
    items: &[String],
) -> Option<Option<Vec<String>>> {
    let answer = client
        .post(url)
        .header("content-type", "text/plain")
        .header("accept", "text/plain")
        .body(items.join("\n"))
        .send()
        .ok()?;
    let status = answer.status();
    let text = answer.text().ok()?;
    if status == StatusCode::NOT_FOUND {
        return Some(None);
    }
    assert_eq!(status, StatusCode::OK, "POST {url}: {text}");
    Some(Some(text.lines().map(str::to_owned).collect()))
}
