//! Compares every now and then how the brokers keep what the pods of a cluster share with
//! how they must: a start looks, and somebody may change it afterwards.

use crate::cluster::jetstream::{Connection, Founding, JetStreamError, check_settings};
use crate::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How often.
const EVERY: Duration = Duration::from_secs(10);

/// Goes on until it is told to stop.
pub(super) async fn watch_settings(
    connection: Connection,
    founding: Founding,
    metrics: Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
) {
    let mut said = String::new();
    while !*stop.borrow() {
        match check_settings(&connection, &founding).await {
            Ok(()) => {
                said.clear();
                metrics.commit_log_misconfigured.set(0);
            }
            Err(error @ JetStreamError::Stream { .. }) => {
                metrics.commit_log_misconfigured.set(1);
                let text = error.to_string();
                if said != text {
                    tracing::error!(%error, "the brokers' settings were changed: what is acknowledged may get lost");
                    said = text;
                }
            }
            // Brokers that do not answer say nothing about it.
            Err(_) => {}
        }
        // An error means that the server stops.
        if let Ok(Err(_)) = timeout(EVERY, stop.changed()).await {
            break;
        }
    }
}
