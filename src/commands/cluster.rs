//! `cluster`: founds a cluster, and says how one is.

use super::failure::Failure;
use crate::config::{BrokerConfig, BrokerSettings, ClusterCommand};
use crate::replication::CommitLog as _;
use crate::replication::jetstream::{
    Announcements, Connection, Founding, Holder, JetStreamLog, Leases, Patience, PodState,
    check_sync, connect, found, give_up_founding, open,
};
use crate::replication::record::Writer;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The first life of a cluster.
pub(super) const EPOCH: u64 = 1;

/// How long a lease lives.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(5);

pub(super) fn run(command: ClusterCommand) -> Result<(), Failure> {
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
            } => found_one(&named(&brokers)?, lanes, copies).await,
            ClusterCommand::Status { brokers, json } => {
                let status = status(&named(&brokers)?).await?;
                match json {
                    true => println!("{}", serde_json::to_string_pretty(&status)?),
                    false => print!("{}", status.table()),
                }
                Ok(())
            }
        }
    });
    runtime.shutdown_background();
    done
}

fn named(brokers: &BrokerConfig) -> Result<BrokerSettings, Failure> {
    let settings = brokers.settings()?;
    settings.ok_or_else(|| {
        "--log is missing: name the brokers and the cluster, such as --log nats://127.0.0.1:4222 --cluster shop".into()
    })
}

async fn found_one(settings: &BrokerSettings, lanes: u32, copies: usize) -> Result<(), Failure> {
    let connection = connect(&settings.brokers).await?;
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    let founding = Founding {
        cluster: settings.cluster.clone(),
        founding: id,
        epoch: EPOCH,
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

/// How a cluster is.
#[derive(Serialize)]
struct Status {
    cluster: String,
    epoch: u64,
    copies: usize,
    lanes: Vec<LaneStatus>,
    pods: Vec<PodStatus>,
}

#[derive(Serialize)]
struct LaneStatus {
    lane: u32,
    /// Number of its newest record, 0 if there is none.
    newest: u64,
    /// Address of the pod that leads it.
    leader: Option<String>,
}

#[derive(Serialize)]
struct PodStatus {
    #[serde(flatten)]
    pod: PodState,
    /// Lanes of which it has not applied the newest record.
    lanes_behind: usize,
    /// Lanes that it leads.
    leads: usize,
}

async fn status(settings: &BrokerSettings) -> Result<Status, Failure> {
    let connection = connect(&settings.brokers).await?;
    let founding = open(&connection, &settings.cluster, EPOCH).await?;
    let log = JetStreamLog::new(&connection, founding.clone(), Patience::default());
    let log = Arc::new(log.await?);
    let nobody = Holder::new(Writer([0; 16]), String::new());
    let leases = Leases::new(&connection, founding.clone(), nobody, LEASE_TTL).await?;
    let mut lanes = Vec::new();
    for lane in 0..founding.lanes {
        let log = Arc::clone(&log);
        let newest = tokio::task::spawn_blocking(move || log.newest(lane)).await??;
        let leader = leases.held(lane).await?.map(|it| it.holder.address);
        lanes.push(LaneStatus {
            lane,
            newest,
            leader,
        });
    }
    let pods = Announcements::new(&connection, &founding)
        .await?
        .all()
        .await?;
    let pods = pods.into_iter().map(|pod| {
        let is_behind = |(lane, &at): (&LaneStatus, &u64)| at < lane.newest;
        let leads = |lane: &&LaneStatus| lane.leader.as_ref() == Some(&pod.address);
        PodStatus {
            lanes_behind: lanes
                .iter()
                .zip(&pod.positions)
                .filter(|&it| is_behind(it))
                .count(),
            leads: lanes.iter().filter(leads).count(),
            pod,
        }
    });
    Ok(Status {
        cluster: founding.cluster.to_string(),
        epoch: founding.epoch,
        copies: founding.copies,
        pods: pods.collect(),
        lanes,
    })
}

impl Status {
    /// For people.
    fn table(&self) -> String {
        let mut text = format!(
            "cluster {}, epoch {}, {} lanes, each change on {} brokers\n\n",
            self.cluster,
            self.epoch,
            self.lanes.len(),
            self.copies
        );
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:>5} {:>12}  leader", "lane", "newest");
        for lane in &self.lanes {
            let leader = lane.leader.as_deref().unwrap_or("none");
            let _ = writeln!(text, "{:>5} {:>12}  {leader}", lane.lane, lane.newest);
        }
        let _ = writeln!(
            text,
            "\n{:>6} {:>6}  {:10} pod",
            "leads", "behind", "version"
        );
        for it in &self.pods {
            let _ = writeln!(
                text,
                "{:>6} {:>6}  {:10} {}",
                it.leads, it.lanes_behind, it.pod.version, it.pod.address
            );
        }
        text
    }
}
