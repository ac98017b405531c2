//! What time it is for the brokers: a second clock for a pod that starts alone.

use super::connect::Connection;
use super::error::{JetStreamError, Result};
use super::stream::Founding;
use serde::Deserialize;
use std::time::UNIX_EPOCH;

/// What is read of what a broker says of a stream: the client passes over it.
#[derive(Deserialize)]
struct BrokerTime {
    /// When it said so.
    ts: Option<String>,
}

/// The time of the broker that leads the cluster's stream, in milliseconds since 1970;
/// `None`: it does not say.
///
/// # Errors
/// No broker answered.
pub async fn brokers_time(connection: &Connection, founding: &Founding) -> Result<Option<u64>> {
    let subject = format!("STREAM.INFO.{}", founding.stream());
    let told: Result<BrokerTime, _> = connection.context.request(subject, &()).await;
    let told = told.map_err(JetStreamError::while_doing("asking for the time"))?;
    let time = told.ts.and_then(|it| humantime::parse_rfc3339(&it).ok());
    let since_1970 = time.and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    Ok(since_1970.and_then(|it| u64::try_from(it.as_millis()).ok()))
}
