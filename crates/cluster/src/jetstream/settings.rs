//! Whether the stream and the bucket of a cluster are set up as they were made.

use super::bucket::Bucket;
use super::connect::Connection;
use super::error::Result;
use super::stream::{Founding, open};

/// Compares them. Brokers let whoever may do so change them at any time.
///
/// # Errors
/// [`JetStreamError::Stream`](super::JetStreamError::Stream): one of them is another; or the brokers do not answer.
pub async fn check_settings(connection: &Connection, founding: &Founding) -> Result<()> {
    open(connection, &founding.cluster, founding.epoch).await?;
    Bucket::check(connection, &founding.cluster).await
}
