//! Whether brokers may be used, and what is believed of what they have.

use super::failure::Failure;
use crate::access::cluster_key::ClusterKey;
use crate::config::BrokerSettings;
use crate::replication::jetstream::{ClusterName, Connection, Founding, Seals, check_sync};

/// The key of a cluster.
pub(super) fn cluster_key(settings: &BrokerSettings) -> Result<ClusterKey, Failure> {
    Ok(match &settings.key_file {
        Some(file) => ClusterKey::read(file)?,
        None => ClusterKey::OF_FOUNDING,
    })
}

/// What seals leases and announcements.
pub(super) fn seals(
    key: &ClusterKey,
    cluster: &ClusterName,
    founding: &[u8; 16],
) -> Result<Seals, Failure> {
    let cluster = cluster.to_string();
    Ok(Seals::new(key.derive(&cluster, founding, "bucket")?))
}

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
