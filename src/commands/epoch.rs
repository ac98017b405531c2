//! `cluster new-epoch`: begins a new epoch of a cluster whose log was lost or set
//! back, from what one pod has.

use super::announcing::{acknowledged, lanes_of};
use super::brokers::{check_safe, cluster_key, seals};
use super::data::see_data;
use super::failure::Result;
use crate::cluster::Position;
use crate::cluster::jetstream::{
    Announced, Announcements, Connection, Founding, JetStreamError, JetStreamLog, KeptPositions,
    NewEpoch, Patience, connect, current_epoch, is_of_epoch,
};
use crate::cluster::record::Writer;
use crate::config::{BrokerSettings, EpochSource};
use crate::store::rocks::{RocksOptions, RocksStore};
use crate::store::{LANE_PAST_RECORDS, PageStore};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long a pod that runs is waited for: it announces itself each second.
const PATIENCE: Duration = Duration::from_secs(20);

/// In a bucket that was made anew all pods that run have announced themselves after so long.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The brokers of a cluster, and how they were given.
#[derive(Clone, Copy)]
struct Brokers<'a> {
    connection: &'a Connection,
    settings: &'a BrokerSettings,
}

/// Where the lanes of the chosen pod stand.
struct Chosen {
    founding: [u8; 16],
    epoch: u64,
    lanes: Vec<Position>,
    stamp_ms: u64,
    /// Its data, if it does not run.
    store: Option<PageStore>,
    /// Lanes of which it says itself that it lacks what others have applied.
    lacking: Vec<u32>,
    /// Whether it lacks what the log no longer has.
    is_waiting: bool,
}

impl Chosen {
    /// The epoch in which it stands. How many copies its log had says nothing here.
    fn founding_of(&self, settings: &BrokerSettings) -> Founding {
        Founding {
            cluster: settings.cluster.clone(),
            founding: self.founding,
            epoch: self.epoch,
            lanes: self.lanes.len() as u32,
            copies: 1,
        }
    }

    /// Whether it has what a pod has applied, as far as that can be said.
    fn has(&self, lane: u32, position: Position) -> Result<bool> {
        let own = self.lanes.get(lane as usize);
        let Some(own) = own.filter(|own| **own != position) else {
            return Ok(true);
        };
        if own.sequence <= position.sequence {
            return Ok(false);
        }
        let Some(store) = &self.store else {
            return Ok(!self.lacking.contains(&lane));
        };
        let history = store.lane_past(lane, position.sequence)?;
        let is_known = own.sequence - position.sequence < LANE_PAST_RECORDS;
        Ok(history.map_or(!is_known, |it| it == *position.history.as_bytes()))
    }
}

pub(super) async fn begin(
    settings: &BrokerSettings,
    source: &EpochSource,
    copies: usize,
    only_say: bool,
    gives_up: bool,
) -> Result {
    let connection = &connect(&settings.brokers).await?;
    let brokers = Brokers {
        connection,
        settings,
    };
    let chosen = match (&source.from, &source.from_data_dir) {
        (Some(address), _) => {
            let make = NewEpoch::make_bucket(connection, &settings.cluster, copies);
            // What the others have, it may lack.
            if !only_say && make.await? {
                sleep(ANNOUNCED).await;
            }
            announced(brokers, address.trim_end_matches('/')).await?
        }
        (None, Some(path)) => stored(path)?,
        (None, None) => return Err("name the server with --from or --from-data-dir".into()),
    };
    if only_say {
        println!(
            "epoch {}\n{:>5} {:>20}  history",
            chosen.epoch, "lane", "record"
        );
        for (lane, Position { sequence, history }) in chosen.lanes.iter().enumerate() {
            println!("{lane:>5} {sequence:>20}  {history:?}");
        }
        if chosen.is_waiting {
            println!(
                "it waits for the state of another server: the log no longer has what it lacks"
            );
        }
        for lacks in lacking(brokers, &chosen).await? {
            println!("it lacks {lacks}");
        }
        return Ok(());
    }
    if chosen.is_waiting {
        let address = source.from.as_deref().unwrap_or_default();
        return Err(format!(
            "the server at {address} waits for the state of another one, since the log no longer has what it lacks: name one that does not wait. If all of them wait, stop the one that lacks least, and name its data directory with --from-data-dir"
        )
        .into());
    }
    let current = current_epoch(connection, &settings.cluster).await?;
    if chosen.epoch < current.epoch {
        return Err(format!(
            "the server is of epoch {}, and the current one is {}: it has nothing of what was changed since. Name one that has gone on with it",
            chosen.epoch, current.epoch
        )
        .into());
    }
    let lacks = lacking(brokers, &chosen).await?;
    if !lacks.is_empty() && !gives_up {
        return Err(format!(
            "the server lacks {}: name one that has it, whatever the numbers of its newest records are. To give it up for good, say --give-up-changes",
            lacks.join(", and ")
        )
        .into());
    }
    let founding = Founding {
        epoch: chosen.epoch + 1,
        copies,
        ..chosen.founding_of(settings)
    };
    refuse_another_founding(connection, &founding, chosen.epoch).await?;
    let furthest = chosen.lanes.iter().map(|it| it.sequence).max();
    let furthest = furthest.unwrap_or_default();
    let writer = Writer(super::random::bits()?);
    let new = NewEpoch::make(connection, founding, &current, furthest, writer).await?;
    let chosen = match close_the_one_before(brokers, source, &new, chosen).await {
        Ok(chosen) => chosen,
        Err(failure) => {
            // It may as well be left.
            let _ = new.give_up().await;
            return Err(failure);
        }
    };
    let begun = new.begin(&chosen.lanes, chosen.stamp_ms).await?;
    println!(
        "epoch {} of cluster {} has begun: start the server that you named again, and each other one with an empty data directory or after it has taken a snapshot; those that had the same go on as they are",
        begun.epoch, settings.cluster
    );
    Ok(())
}

/// Makes sure that nobody writes to the epoch before a new one any more. Returns where
/// the chosen pod stands then.
async fn close_the_one_before(
    brokers: Brokers<'_>,
    source: &EpochSource,
    new: &NewEpoch,
    chosen: Chosen,
) -> Result<Chosen> {
    check_safe(brokers.connection, &new.founding, brokers.settings).await?;
    new.seal(chosen.epoch).await?;
    match &source.from {
        // What it had not applied when it was asked first is settled now.
        Some(address) => settled(brokers, address.trim_end_matches('/')).await,
        None => Ok(chosen),
    }
}

/// What was acknowledged and the chosen pod does not have, as far as pods say and is
/// kept outside of the log.
async fn lacking(brokers: Brokers<'_>, chosen: &Chosen) -> Result<Vec<String>> {
    let Brokers {
        connection,
        settings,
    } = brokers;
    let current = current_epoch(connection, &settings.cluster).await?;
    let founding = chosen.founding_of(settings);
    let key = cluster_key(settings)?;
    let seals = seals(&key, &founding.cluster, &founding.founding)?;
    let kept = match KeptPositions::new(connection, &founding, &seals).await {
        // With the bucket the brokers have lost what was kept there.
        Err(JetStreamError::NoBucket { .. }) => return Ok(Vec::new()),
        kept => kept?.read().await?.lanes,
    };
    let mut lacks = Vec::new();
    if kept.is_none() {
        lacks.push("perhaps what is kept under another cluster key, which can't be read without that (--cluster-key-file)".to_owned());
    }
    let mut known = lanes_of(&kept.unwrap_or_default());
    let announcements = Announcements::new(connection, &founding, &seals).await?;
    let pods = announcements.all().await?;
    known.extend(acknowledged(pods.iter()));
    for (lane, position) in known {
        let at = position.sequence;
        if !is_of_epoch(&current.began, lane, at) || chosen.has(lane, position)? {
            continue;
        }
        let said = format!("record {at} of lane {lane}, which was acknowledged");
        if !lacks.contains(&said) {
            lacks.push(said);
        }
    }
    Ok(lacks)
}

/// Where a pod stands that does not run.
fn stored(path: &Path) -> Result<Chosen> {
    see_data(path)?;
    let rocks = RocksStore::open_to_read(path, RocksOptions::default())?;
    let store = PageStore::open(Arc::new(rocks))?;
    let positions = store.lane_positions()?;
    let Some((_, first)) = positions.first() else {
        let path = path.display();
        return Err(format!("{path} is no data directory of a server of a cluster").into());
    };
    // Lanes that have not come to the newest epoch stand where they stood before it.
    let epoch = positions.iter().map(|(_, it)| it.epoch).max();
    let stamp_ms = positions.iter().map(|(_, it)| it.stamp_ms).max();
    Ok(Chosen {
        founding: first.founding,
        epoch: epoch.unwrap_or_default(),
        stamp_ms: stamp_ms.unwrap_or_default(),
        store: Some(store),
        lacking: Vec::new(),
        is_waiting: false,
        lanes: positions.iter().map(|(_, it)| it.into()).collect(),
    })
}

/// Where a pod stands that runs, by what it says in the bucket of the cluster.
async fn announced(brokers: Brokers<'_>, address: &str) -> Result<Chosen> {
    let started = Instant::now();
    loop {
        if let Some(announced) = find(brokers, address).await? {
            return chosen(&announced);
        }
        if started.elapsed() > PATIENCE {
            return Err(format!(
                "no server announces itself at {address}: name one that runs, as its --advertise has it, with its --cluster-key-file, or the data directory of one that does not with --from-data-dir"
            )
            .into());
        }
        sleep(LOOK_EVERY).await;
    }
}

/// What a pod of the cluster says.
async fn find(brokers: Brokers<'_>, address: &str) -> Result<Option<Announced>> {
    let cluster = &brokers.settings.cluster;
    let key = cluster_key(brokers.settings)?;
    let seals = |founding: &_| seals(&key, cluster, founding).ok();
    Ok(Announcements::find(brokers.connection, cluster, address, seals).await?)
}

fn chosen(announced: &Announced) -> Result<Chosen> {
    let pod = &announced.pod;
    let unreadable = || format!("the server at {} does not say where it stands", pod.address);
    Ok(Chosen {
        founding: announced.founding,
        epoch: announced.epoch,
        lanes: pod.lanes().ok_or_else(unreadable)?,
        stamp_ms: pod.now_ms,
        store: None,
        lacking: pod.lacking.clone(),
        is_waiting: pod.is_waiting,
    })
}

/// The same, once it has applied all that the log of its epoch has, which takes
/// nothing any more.
async fn settled(brokers: Brokers<'_>, address: &str) -> Result<Chosen> {
    let started = Instant::now();
    let first = find(brokers, address).await?;
    let first = first.map_or(0, |it| it.revision);
    loop {
        sleep(LOOK_EVERY).await;
        if let Some(announced) = find(brokers, address).await?
            // What it said before may be from before the log was closed.
            && announced.revision > first
        {
            let chosen = chosen(&announced)?;
            if has_all(brokers, &chosen, &announced.pod.stopped).await? {
                return Ok(chosen);
            }
        }
        if started.elapsed() > PATIENCE {
            return Err(format!(
                "the server at {address} has not applied all that the log has: stop it, and name its data directory with --from-data-dir"
            )
            .into());
        }
    }
}

/// Whether a pod will apply nothing more of the log of its epoch.
async fn has_all(brokers: Brokers<'_>, chosen: &Chosen, stopped: &[u32]) -> Result<bool> {
    let (connection, founding) = (brokers.connection, chosen.founding_of(brokers.settings));
    let stream = NewEpoch::founding_of(connection, &founding.cluster, founding.epoch).await?;
    if stream.is_none() {
        return Ok(true);
    }
    let log = JetStreamLog::new(connection, founding, Patience::default()).await?;
    for (lane, at) in (0..).zip(&chosen.lanes) {
        if at.sequence < log.end(lane).await? && !stopped.contains(&lane) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A stream of this name that was founded by itself has to be removed by hand.
async fn refuse_another_founding(
    connection: &Connection,
    founding: &Founding,
    before: u64,
) -> Result {
    match NewEpoch::founding_of(connection, &founding.cluster, before).await? {
        Some(found) if found != hex::encode(founding.founding) => Err(format!(
            "the brokers have a cluster {} that was founded by itself, and the server is not of it: if nobody needs it, remove its stream and its bucket, for instance with `nats stream rm`, and try again",
            founding.cluster
        )
        .into()),
        _ => Ok(()),
    }
}
