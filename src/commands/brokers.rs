//! Whether brokers may be used.

use super::failure::Failure;
use crate::config::BrokerSettings;
use crate::replication::jetstream::{Connection, Founding, check_sync};

/// Refuses brokers that may lose what they acknowledge, unless that is accepted.
pub(super) async fn check_safe(
    connection: &Connection,
    founding: &Founding,
    settings: &BrokerSettings,
) -> Result<(), Failure> {
    match settings.may_lose {
        true => Ok(()),
        false => Ok(check_sync(connection, &founding.stream(), &settings.monitors).await?),
    }
}
