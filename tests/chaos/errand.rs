//! Sends a change to one pod after the other until its outcome is known, and asks one
//! pod after the other until a question is answered.

use crate::pauses::Pauses;
use crate::random::Random;
use reqwest::blocking::Client;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a client waits for the answer to a change before it asks another pod.
pub(crate) const CHANGE_WAITS: Duration = Duration::from_secs(3);

/// And to a question.
pub(crate) const QUESTION_WAITS: Duration = Duration::from_secs(1);

/// How long it rests before it asks another pod.
const RESTS: Duration = Duration::from_millis(20);

/// Changes go on within so long of a fault's end.
pub(crate) const GOES_ON_WITHIN: Duration = Duration::from_secs(120);

/// What must not change while a request is sent again: nothing was done, or nobody
/// knows, or somebody is at it.
const TO_BE_SENT_AGAIN: [u16; 5] = [409, 429, 500, 503, 507];

/// What asks pods and gives up after so long.
pub(crate) fn http(timeout: Duration) -> Client {
    cuckood::client::remote::choose_cryptography();
    let client = Client::builder()
        .timeout(timeout)
        .connect_timeout(timeout.min(Duration::from_secs(1)))
        .no_proxy();
    client.build().unwrap()
}

/// What is asked of a pod.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// Of the body and of the answer.
    pub(crate) kind: &'a str,
    pub(crate) body: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
}

impl<'a> Ask<'a> {
    pub(crate) fn get(path: &'a str) -> Ask<'a> {
        Ask {
            method: "GET",
            path,
            kind: "application/json",
            body: "",
            headers: &[],
        }
    }

    pub(crate) fn json(method: &'a str, path: &'a str, body: &'a str) -> Ask<'a> {
        Ask {
            method,
            body,
            ..Ask::get(path)
        }
    }

    pub(crate) fn lines(path: &'a str, body: &'a str) -> Ask<'a> {
        Ask {
            method: "POST",
            kind: "text/plain",
            body,
            ..Ask::get(path)
        }
    }

    pub(crate) fn with(self, headers: &'a [(&'a str, &'a str)]) -> Ask<'a> {
        Ask { headers, ..self }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) position: Option<String>,
    pub(crate) etag: Option<String>,
    pub(crate) text: String,
}

/// What all clients share.
pub(crate) struct World {
    pub(crate) addresses: Vec<String>,
    changes: Client,
    questions: Client,
    patient: Client,
    pub(crate) pauses: Pauses,
    /// Questions of clients for their own changes, on any pod.
    pub(crate) own: AtomicU64,
    /// The clients have to end.
    pub(crate) is_over: AtomicBool,
    /// What a client found that must not be.
    wrong: Mutex<Vec<String>>,
}

/// The test is over.
pub(crate) struct Over;

impl World {
    pub(crate) fn new(addresses: Vec<String>) -> World {
        World {
            addresses,
            changes: http(CHANGE_WAITS + Duration::from_millis(500)),
            questions: http(QUESTION_WAITS),
            patient: http(Duration::from_secs(40)),
            pauses: Pauses::default(),
            own: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            wrong: Mutex::default(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Says that something is as it must not be.
    pub(crate) fn accuse(&self, what: String) {
        println!("WRONG: {what}");
        self.wrong.lock().unwrap().push(what);
    }

    pub(crate) fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }

    fn send(&self, client: &Client, pod: usize, ask: Ask<'_>) -> Option<Answer> {
        let url = format!("{}{}", self.addresses[pod], ask.path);
        let mut request = client
            .request(ask.method.parse().unwrap(), url)
            .header("accept", ask.kind);
        if !ask.body.is_empty() {
            request = request.header("content-type", ask.kind);
        }
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(ask.body.to_owned()).send().ok()?;
        let header = |name: &str| {
            let value = answer.headers().get(name)?.to_str();
            Some(value.unwrap().to_owned())
        };
        Some(Answer {
            status: answer.status().as_u16(),
            position: header("cuckood-position"),
            etag: header("etag"),
            text: answer.text().ok()?,
        })
    }

    /// Sends a change until somebody answers it, the same each time, with its key.
    pub(crate) fn change(
        &self,
        random: &mut Random,
        key: &str,
        ask: Ask<'_>,
    ) -> Result<Answer, Over> {
        let started = Instant::now();
        let wait = format!("wait={}", CHANGE_WAITS.as_secs());
        let headers = [("idempotency-key", key), ("prefer", &wait)];
        let first = random.next() as usize;
        let mut last = None;
        for attempt in 0.. {
            let pod = first.wrapping_add(attempt) % self.addresses.len();
            let answer = self.send(&self.changes, pod, ask.with(&headers));
            match answer {
                Some(answer) if !TO_BE_SENT_AGAIN.contains(&answer.status) => {
                    self.pauses.changed(started.elapsed());
                    return Ok(answer);
                }
                answer => last = answer.or(last),
            }
            if self.is_over() {
                return Err(Over);
            }
            if started.elapsed() > GOES_ON_WITHIN {
                self.accuse(format!("{key} has no outcome: {last:?}"));
                return Err(Over);
            }
            std::thread::sleep(RESTS);
        }
        Err(Over)
    }

    /// Asks one pod after the other until one answers.
    pub(crate) fn question(&self, random: &mut Random, ask: Ask<'_>) -> Result<Answer, Over> {
        let started = Instant::now();
        let first = random.next() as usize;
        for attempt in 0.. {
            let pod = first.wrapping_add(attempt) % self.addresses.len();
            if let Some(answer) = self.ask(pod, ask)
                && answer.status != 503
            {
                self.pauses.asked(started.elapsed());
                return Ok(answer);
            }
            if self.is_over() {
                return Err(Over);
            }
            std::thread::sleep(RESTS);
        }
        Err(Over)
    }

    /// Asks a pod once.
    pub(crate) fn ask(&self, pod: usize, ask: Ask<'_>) -> Option<Answer> {
        self.send(&self.questions, pod, ask)
    }

    /// Asks a pod once, and waits for long.
    pub(crate) fn ask_patiently(&self, pod: usize, ask: Ask<'_>) -> Option<Answer> {
        self.send(&self.patient, pod, ask)
    }
}
