//! Founds a cluster, and sees whether its stream and its bucket are still as they were made.

use super::bucket::Bucket;
use super::connect::Connection;
use super::epochs::current_epoch;
use super::error::{JetStreamError, Result};
use super::stream::{FOUNDING, Founding, get, is_taken, open};
use crate::record::MAX_LANES;

/// Founds a cluster: makes its stream, and the bucket of its leases.
///
/// # Errors
/// It is there already; or the brokers refuse, for instance because there are
/// fewer of them than copies.
pub async fn found(connection: &Connection, founding: &Founding) -> Result<()> {
    let context = &connection.context;
    if !(1..=MAX_LANES).contains(&founding.lanes) {
        let lanes = founding.lanes;
        return Err(JetStreamError::BadLanes { lanes });
    }
    let current = current_epoch(connection, &founding.cluster).await?.epoch;
    if current != founding.epoch {
        let stream = founding.cluster.stream(current);
        return Err(JetStreamError::Founded { stream });
    }
    Bucket::make(connection, &founding.cluster, founding.copies).await?;
    // The stream comes last: a cluster that has it is complete. An equal one
    // would be no error to the broker.
    let stream = founding.stream();
    if get(context, &stream).await?.is_some() {
        return Err(JetStreamError::Founded { stream });
    }
    match context.create_stream(founding.config()).await {
        Ok(_) => Ok(()),
        Err(error) if is_taken(&error) => Err(JetStreamError::Founded { stream }),
        Err(error) => Err(JetStreamError::while_doing("making the stream")(error)),
    }
}

/// Takes back a founding of this moment, to which nobody has written.
///
/// # Errors
/// The brokers refuse.
pub async fn give_up_founding(connection: &Connection, founding: &Founding) -> Result<()> {
    const DOING: &str = "taking the stream back";
    let context = &connection.context;
    let stream = context.get_stream(founding.stream()).await;
    let stream = stream.map_err(JetStreamError::while_doing(DOING))?;
    let info = stream.cached_info();
    let id = info.config.metadata.get(FOUNDING);
    if id != Some(&hex::encode(founding.founding)) || info.state.messages > 0 {
        return Ok(());
    }
    let deleted = context.delete_stream(founding.stream()).await;
    deleted.map_err(JetStreamError::while_doing(DOING))?;
    Ok(())
}

/// Compares its stream and its bucket with what was made. Brokers let whoever may do so
/// change them at any time.
///
/// # Errors
/// [`JetStreamError::Stream`]: one of them is another; or the brokers do not answer.
pub async fn check_settings(connection: &Connection, founding: &Founding) -> Result<()> {
    open(connection, &founding.cluster, founding.epoch).await?;
    Bucket::check(connection, &founding.cluster).await
}
