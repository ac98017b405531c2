//! What most tests begin with; none of it where there is no `nats-server`: then the
//! test is skipped.

use crate::broker::Brokers;
use crate::support::Cluster;
use crate::{nats_server, operator};

/// A broker by itself.
pub(crate) fn broker() -> Option<Brokers> {
    nats_server::is_there().then(|| Brokers::start(1, "always"))
}

/// One on which the program has founded a cluster with so many lanes: that of a shop.
pub(crate) fn shop(lanes: u32) -> Option<Brokers> {
    let brokers = broker()?;
    operator::found(&brokers, lanes);
    Some(brokers)
}

/// A cluster on one, that was founded without the program.
pub(crate) fn founded() -> Option<Cluster> {
    nats_server::is_there().then(|| Cluster::found(1))
}
