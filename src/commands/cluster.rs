//! `cluster`: founds a cluster, and says how one is.

use super::brokers::{check_safe, cluster_key, seals};
use super::failure::{Failure, Result};
use crate::client::remote::Remote;
use crate::cluster::FIRST_EPOCH;
use crate::cluster::jetstream::{
    Announcements, Founding, Holder, JetStreamError, JetStreamLog, Leases, Patience, connect,
    current_epoch, found, give_up_founding, open,
};
use crate::cluster::record::Writer;
use crate::config::{BrokerConfig, BrokerSettings, ClusterCommand};
use crate::server::ClusterStatus;
use reqwest::Method;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::sleep;

/// How long a lease lives.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(5);

/// How long a server may take to say how its cluster is.
const ANSWER: Duration = Duration::from_secs(5);

/// After how long a pod that is not behind has said that it has what is newest now, and a
/// server has heard it.
const CATCHING_UP: Duration = Duration::from_secs(3);

const UNSEALED: &str = "the brokers' bucket has leases or announcements that nobody with this cluster key has written; they are left out: leaders and pods may be missing. Give the pods' --cluster-key-file, and see who else may write there";

pub(super) fn run(command: ClusterCommand) -> Result {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        match command {
            ClusterCommand::Found {
                brokers,
                lanes,
                copies,
                unless_founded,
            } => {
                let brokers = named(&brokers)?;
                match found_one(&brokers, lanes, copies.into()).await {
                    Err(error) if unless_founded && is_founded(&error) => {
                        compare(&brokers, lanes).await
                    }
                    founded => founded,
                }
            }
            ClusterCommand::Status {
                brokers,
                server,
                credentials,
                json,
            } => {
                let server = server.map(|it| Remote::named(&it, &credentials));
                let server = server.transpose()?;
                let ask = async || match &server {
                    Some(server) => Ok((told(server).await?, 0)),
                    None => status(&named(&brokers)?).await,
                };
                let (mut status, mut refused) = ask().await?;
                if status.pods.iter().any(|it| it.lanes_behind > 0) {
                    sleep(CATCHING_UP).await;
                    let before = status.lanes;
                    (status, refused) = ask().await?;
                    status.compare_with(&before);
                }
                match json {
                    true => println!("{}", serde_json::to_string_pretty(&status)?),
                    false => print!("{}", table(&status)),
                }
                match (refused, status.pods.is_empty()) {
                    (0, _) => {}
                    // With this key nobody is seen.
                    (_, true) => return Err(UNSEALED.into()),
                    (_, false) => eprintln!("cuckood: {UNSEALED}"),
                }
                Ok(())
            }
            ClusterCommand::NewEpoch {
                brokers,
                from,
                copies,
                dry_run,
                give_up_changes,
            } => {
                let brokers = named(&brokers)?;
                super::epoch::begin(&brokers, &from, copies.into(), dry_run, give_up_changes).await
            }
        }
    });
    runtime.shutdown_background();
    done
}

fn named(brokers: &BrokerConfig) -> Result<BrokerSettings> {
    brokers.settings()?.ok_or_else(|| {
        "--log is missing: name the brokers and the cluster, such as --log nats://127.0.0.1:4222 --cluster shop; cluster status also takes --server, one of the cluster's servers".into()
    })
}

async fn found_one(settings: &BrokerSettings, lanes: u32, copies: usize) -> Result {
    let connection = connect(&settings.brokers).await?;
    let founding = Founding {
        cluster: settings.cluster.clone(),
        founding: super::random::bits()?,
        epoch: FIRST_EPOCH,
        lanes,
        copies,
    };
    found(&connection, &founding).await?;
    if let Err(unsafe_log) = check_safe(&connection, &founding, settings).await {
        // Nobody has written to it.
        give_up_founding(&connection, &founding).await?;
        return Err(unsafe_log);
    }
    println!(
        "cluster {} is founded, with {lanes} lanes on {copies} brokers: start servers with --cluster {} and the same --log",
        founding.cluster, founding.cluster
    );
    Ok(())
}

fn is_founded(error: &Failure) -> bool {
    matches!(error.downcast_ref(), Some(JetStreamError::Founded { .. }))
}

/// Makes sure that a cluster that was founded before is what was asked for.
async fn compare(settings: &BrokerSettings, lanes: u32) -> Result {
    let connection = connect(&settings.brokers).await?;
    let current = current_epoch(&connection, &settings.cluster).await?;
    let founding = open(&connection, &settings.cluster, current.epoch).await?;
    let (cluster, has) = (&founding.cluster, founding.lanes);
    if has != lanes {
        return Err(format!(
            "cluster {cluster} was founded with {has} lanes, which is fixed for ever, not with {lanes}: use --lanes {has}"
        )
        .into());
    }
    check_safe(&connection, &founding, settings).await?;
    println!("cluster {cluster} is founded already, with {lanes} lanes: nothing was changed");
    Ok(())
}

/// How a cluster is as one of its servers knows it.
async fn told(server: &Remote) -> Result<ClusterStatus> {
    let request = server.request(Method::GET, &["cluster"]).timeout(ANSWER);
    Ok(server.understood(&server.ask(request).await?)?)
}

/// The same as the brokers say it, and how much of it is not believed.
async fn status(settings: &BrokerSettings) -> Result<(ClusterStatus, u64)> {
    let connection = connect(&settings.brokers).await?;
    let epoch = current_epoch(&connection, &settings.cluster).await?;
    let founding = open(&connection, &settings.cluster, epoch.epoch).await?;
    let log = JetStreamLog::new(&connection, founding.clone(), Patience::default()).await?;
    let key = cluster_key(settings)?;
    let seals = seals(&key, &founding.cluster, &founding.founding)?;
    let nobody = Holder::new(Writer([0; 16]), String::new());
    let leases = Leases::new(&connection, founding.clone(), &seals, nobody, LEASE_TTL).await?;
    let mut lanes = Vec::new();
    for lane in 0..founding.lanes {
        let newest = log.end(lane).await?;
        let leader = leases.held(lane).await?.map(|it| it.holder.address);
        lanes.push((newest, leader));
    }
    let pods = Announcements::new(&connection, &founding, &seals)
        .await?
        .all()
        .await?;
    let status = ClusterStatus::new(&founding, lanes.into_iter(), pods);
    Ok((status, seals.refused()))
}

/// For people.
fn table(status: &ClusterStatus) -> String {
    let mut text = format!(
        "cluster {}, epoch {}, {} lanes, each change on {} brokers\n\n",
        status.cluster,
        status.epoch,
        status.lanes.len(),
        status.copies
    );
    // Writing to a string can't fail.
    let _ = writeln!(text, "{:>5} {:>12}  leader", "lane", "newest");
    for lane in &status.lanes {
        let leader = lane.leader.as_deref().unwrap_or("none");
        let _ = writeln!(text, "{:>5} {:>12}  {leader}", lane.lane, lane.newest);
    }
    let _ = writeln!(
        text,
        "\n{:>6} {:>6}  {:10} pod",
        "leads", "behind", "version"
    );
    for it in &status.pods {
        let _ = writeln!(
            text,
            "{:>6} {:>6}  {:10} {}",
            it.leads, it.lanes_behind, it.version, it.address
        );
    }
    text
}
