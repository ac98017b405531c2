//! Hears everything that the servers of these tests log.

use crate::words;
use std::fmt::Debug;
use std::sync::Once;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

struct Listening;

struct Looking;

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
    words::note_request(
        &reqwest::Url::parse("http://localhost/filters/zz-listening").unwrap(),
        &reqwest::header::HeaderMap::new(),
        None,
    );
    tracing::info!(target: "cuckood::test", route = "zz-listening", "nothing");
    words::assert_none_was_logged();
    tracing::info!(target: "cuckood::test", what_was_sent = "zz-listening", "something");
    assert!(words::take_found("zz-listening"));
}
