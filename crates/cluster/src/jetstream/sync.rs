//! Whether every broker forces what it acknowledges to its disk. A client of
//! the log can't see it; a broker's monitoring address tells.

use super::connect::{Connection, choose_cryptography};
use super::error::{JetStreamError, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a monitoring address may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is read of `/varz`.
#[derive(Deserialize)]
struct Varz {
    server_name: String,
    jetstream: Option<JetStreamVarz>,
}

#[derive(Deserialize)]
struct JetStreamVarz {
    config: Option<JetStreamConfig>,
}

#[derive(Deserialize)]
struct JetStreamConfig {
    #[serde(default)]
    sync_always: bool,
}

/// Looks at the monitoring addresses, `http://host:port`, whether all brokers
/// that keep the stream force what they acknowledge to their disks.
///
/// # Errors
/// One does not, or was not seen.
pub async fn check_sync(connection: &Connection, stream: &str, monitors: &[String]) -> Result<()> {
    choose_cryptography();
    let http = reqwest::Client::builder().timeout(TIMEOUT).build();
    let http = http.map_err(JetStreamError::while_doing("preparing to ask the brokers"))?;
    let mut unseen = keepers(connection, stream).await?;
    let mut failures = Vec::new();
    for monitor in monitors {
        match varz(&http, monitor).await {
            Ok(varz) => {
                let config = varz.jetstream.and_then(|it| it.config);
                if unseen.contains(&varz.server_name) && !config.is_some_and(|it| it.sync_always) {
                    let server = varz.server_name;
                    return Err(JetStreamError::NotSynced { server });
                }
                unseen.remove(&varz.server_name);
            }
            Err(error) => failures.push(format!("{monitor}: {error}")),
        }
    }
    let Some(server) = unseen.pop_first() else {
        return Ok(());
    };
    let reason = match failures.is_empty() {
        true => "none of the addresses is its".to_owned(),
        false => failures.join("; "),
    };
    Err(JetStreamError::SyncUnseen { server, reason })
}

async fn varz(http: &reqwest::Client, monitor: &str) -> Result<Varz, String> {
    let url = format!("{}/varz", monitor.trim_end_matches('/'));
    let text = async {
        let response = http.get(url).send().await?.error_for_status()?;
        response.text().await
    };
    let text = text.await.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// The names of the brokers that keep a stream.
async fn keepers(connection: &Connection, stream: &str) -> Result<BTreeSet<String>> {
    let found = connection.context.get_stream(stream).await;
    let found = found.map_err(JetStreamError::while_doing("looking for the stream"))?;
    let cluster = found.cached_info().cluster.clone().unwrap_or_default();
    let replicas = cluster.replicas.into_iter().map(|it| it.name);
    let names: BTreeSet<String> = cluster.leader.into_iter().chain(replicas).collect();
    match names.is_empty() {
        true => Ok(BTreeSet::from([connection
            .client
            .server_info()
            .server_name])),
        false => Ok(names),
    }
}
