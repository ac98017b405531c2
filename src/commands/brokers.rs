//! Whether brokers may be used, and what is believed of what they have.

use super::failure::Result;
use crate::access::cluster_key::ClusterKey;
use crate::cluster::jetstream::{ClusterName, Connection, Founding, Seals, check_sync};
use crate::config::BrokerSettings;

/// The key of a cluster.
pub(super) fn cluster_key(settings: &BrokerSettings) -> Result<ClusterKey> {
    let read = settings.key_file.as_deref().map(ClusterKey::read);
    Ok(read.transpose()?.unwrap_or_else(ClusterKey::of_founding))
}

/// What seals leases and announcements.
pub(super) fn seals(key: &ClusterKey, cluster: &ClusterName, founding: &[u8; 16]) -> Result<Seals> {
    let cluster = cluster.to_string();
    Ok(Seals::new(key.derive(&cluster, founding, "bucket")?))
}

/// Refuses brokers that may lose what they acknowledge, unless that is accepted.
pub(super) async fn check_safe(
    connection: &Connection,
    founding: &Founding,
    settings: &BrokerSettings,
) -> Result {
    match settings.may_lose {
        true => Ok(()),
        false => Ok(check_sync(connection, &founding.stream(), &settings.monitors).await?),
    }
}
