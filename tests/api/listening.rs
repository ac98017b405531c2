//! Hears everything that the servers of these tests log.

use crate::words;
use cuckood::access::audit::TARGET;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// A line of the audit log, or another one: its fields, as text.
pub(crate) type AuditLine = BTreeMap<String, String>;

static AUDITED: Mutex<Vec<AuditLine>> = Mutex::new(Vec::new());

/// Other lines that operators read.
static HEARD: Mutex<Vec<AuditLine>> = Mutex::new(Vec::new());

struct Listening;

struct Looking;

/// The fields of a line of the audit log, which may name a filter.
#[derive(Default)]
struct Auditing(AuditLine);

impl Visit for Auditing {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != "filter" {
            words::look_through(field.name(), value);
        }
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

/// The lines of the audit log in which this field says that.
pub(crate) fn audited(field: &str, value: &str) -> Vec<AuditLine> {
    let lines = AUDITED.lock().unwrap();
    let says = |line: &&AuditLine| line.get(field).is_some_and(|said| said == value);
    lines.iter().filter(says).cloned().collect()
}

/// The other lines with this message in which a field says that.
pub(crate) fn heard(message: &str, field: &str, value: &str) -> Vec<AuditLine> {
    let lines = HEARD.lock().unwrap();
    let says = |line: &&AuditLine| line["message"] == message && line[field] == value;
    lines.iter().filter(says).cloned().collect()
}

/// All fields of a line.
struct Whole(AuditLine);

impl Visit for Whole {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Visit for Looking {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        words::look_through(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        words::look_through(field.name(), value);
    }
}

impl<S: Subscriber> Layer<S> for Listening {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // The client of the tests is in this process, too, and may log what it sends.
        if event.metadata().target().starts_with("cuckood") {
            event.record(&mut Looking);
            let level = *event.metadata().level();
            if level <= Level::INFO {
                let mut line = Whole(AuditLine::new());
                event.record(&mut line);
                line.0.insert("level".to_owned(), level.to_string());
                HEARD.lock().unwrap().push(line.0);
            }
        }
        if event.metadata().target() == TARGET {
            let mut line = Auditing::default();
            event.record(&mut line);
            AUDITED.lock().unwrap().push(line.0);
        }
    }
}

/// From now on.
pub(crate) fn listen() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| tracing_subscriber::registry().with(Listening).init());
}

#[test]
fn what_a_server_logs_is_heard() {
    listen();
    words::remember_request(
        &reqwest::Url::parse("http://localhost/filters/zz-listening").unwrap(),
        &reqwest::header::HeaderMap::new(),
        None,
    );
    tracing::info!(target: "cuckood::test", route = "zz-listening", "ok");
    words::assert_none_was_logged();
    assert_eq!(heard("ok", "route", "zz-listening").len(), 1);
    assert_eq!(audited("route", "zz-listening").len(), 0);
    tracing::info!(target: "cuckood::test", what_was_sent = "zz-listening", "ok");
    assert!(words::take_found("zz-listening"));
}
