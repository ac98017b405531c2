//! Three pods over three brokers, against one server that forces each commit to its own
//! disk; all of them on the same cores.

use super::{BATCH, Bench, POOL, Target, mixed, present, ratios};
use crate::broker::Brokers;
use crate::operator::{flags, found};
use crate::rounds::{Measure, Row};
use crate::servers::{Server, batches};
use crate::wire::{Form, get, post};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long brokers and pods may take until they work together.
const PATIENCE: Duration = Duration::from_secs(60);

/// For how long the same pods must have led the lanes before they are measured.
const STEADY: Duration = Duration::from_secs(5);

/// Filters that are added to at once: they lie in many lanes.
const FILTERS: u64 = 16;

/// Three pods, and the brokers under them.
pub(super) struct Pods {
    pods: [Server; 3],
    _brokers: Brokers,
}

impl Pods {
    /// Has all of them work, as a cluster of so many lanes.
    pub(super) fn start(folder: &Path, lanes: u32) -> Result<Pods, Box<dyn Error>> {
        let folder = folder.join(format!("pods-{lanes}"));
        std::fs::create_dir_all(&folder)?;
        let brokers = Brokers::start_in(tempfile::tempdir_in(&folder)?, 3, "");
        found(&brokers, lanes);
        let flags = flags(&brokers);
        let pod = |number: usize| Server::pod(&folder.join(format!("pod-{number}")), &flags);
        let pods = Pods {
            pods: [pod(0)?, pod(1)?, pod(2)?],
            _brokers: brokers,
        };
        // Leases go to the pods that lead fewer, one after the other: it begins once
        // that is over.
        let (started, mut since) = (Instant::now(), Instant::now());
        let mut before = Vec::new();
        loop {
            let leaders = pods.leaders()?;
            let led = |pod| leaders.iter().filter(|it| **it == Some(pod)).count();
            let led = [led(0), led(1), led(2)];
            let most = led.iter().max().copied().unwrap_or(0);
            let least = led.iter().min().copied().unwrap_or(0);
            if leaders != before || most > least + 1 || !leaders.iter().all(Option::is_some) {
                since = Instant::now();
            }
            if since.elapsed() > STEADY {
                return Ok(pods);
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("these lead the lanes: {leaders:?}").into());
            }
            before = leaders;
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Which pod leads each lane.
    fn leaders(&self) -> Result<Vec<Option<usize>>, Box<dyn Error>> {
        let [pod, ..] = &self.pods;
        let status: serde_json::Value = serde_json::from_str(&pod.about("/cluster")?)?;
        let lanes = status.get("lanes").and_then(|it| it.as_array());
        let lanes = lanes.ok_or("a cluster without lanes")?;
        let number = |leader: &str| {
            let is_it = |pod: &Server| leader == format!("http://{}", pod.address);
            self.pods.iter().position(is_it)
        };
        Ok(lanes
            .iter()
            .map(|lane| number(lane.get("leader")?.as_str()?))
            .collect())
    }

    fn all(&self) -> Vec<&Server> {
        self.pods.iter().collect()
    }

    /// Makes a filter, and waits until each pod has it.
    fn create(&self, key: &str, capacity: u64) -> Result<(), Box<dyn Error>> {
        let [pod, ..] = &self.pods;
        pod.create(key, &json!({ "capacity": capacity }))?;
        self.wait(|pod| pod.about(&format!("/filters/{key}")).is_ok())
    }

    fn wait(&self, is_so: impl Fn(&Server) -> bool) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        while !self.pods.iter().all(&is_so) {
            if started.elapsed() > PATIENCE {
                return Err("a pod stays behind".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl<'a> Bench<'a> {
    /// Adds to several filters at once.
    pub(super) fn cluster_adds(
        &self,
        pods: &'a Pods,
        number: u32,
    ) -> Result<Row<'a>, Box<dyn Error>> {
        let (what, unit, batch, connections, requests) = match number {
            8 => (
                "POST items, 1,000 a request, 16 filters, 16 connections",
                "items",
                BATCH,
                16,
                1_000,
            ),
            _ => (
                "POST items, one a request, 16 filters, 64 connections",
                "requests",
                1,
                64,
                20_000,
            ),
        };
        let mut variants = Vec::new();
        for (name, servers) in [
            ("three pods", pods.all()),
            ("one server", vec![self.cuckood]),
        ] {
            let key = move |filter: u64| format!("cluster-{number}-{filter}");
            for filter in 0..FILTERS {
                match name {
                    "three pods" => pods.create(&key(filter), 2_000_000)?,
                    _ => self
                        .cuckood
                        .create(&key(filter), &json!({ "capacity": 2_000_000 }))?,
                }
            }
            let mut sent = 0;
            let make = move || {
                let first = sent;
                sent += batch as u64;
                let filter = (first / batch as u64) % FILTERS;
                let path = format!("/filters/{}/items", key(filter));
                post(&path, Form::Lines, (first..sent).map(present))
            };
            let target = Target::All(servers);
            let measure = self.fresh(target, connections, make, requests, batch)?;
            variants.push((name.to_owned(), measure));
        }
        Ok(Row {
            number,
            what,
            unit,
            ratios: ratios(&[(0, 1, None)], variants.len(), 0),
            variants,
        })
    }

    /// Questions, each pod asked as much as the others.
    pub(super) fn cluster_questions(
        &self,
        pods: &'a Pods,
        number: u32,
    ) -> Result<Row<'a>, Box<dyn Error>> {
        let items = self.options.items;
        let key = format!("cluster-{number}");
        pods.create(&key, items)?;
        let [pod, ..] = &pods.pods;
        pod.fill(&key, (0..items).map(present))?;
        let last = || (items - BATCH as u64..items).map(present);
        pods.wait(|pod| pod.found(&key, last()).is_ok_and(|found| found == BATCH))?;
        self.cuckood.create(&key, &json!({ "capacity": items }))?;
        self.cuckood.fill(&key, (0..items).map(present))?;
        let ask = || match number {
            10 => {
                let mut item = mixed(items);
                let one = |_| get(&format!("/filters/{key}/exists?item={}", item()));
                (0..POOL).map(one).collect()
            }
            _ => {
                let path = format!("/filters/{key}/exists");
                batches(&path, Form::Lines, POOL / 4, BATCH, mixed(items))
            }
        };
        let (what, unit, each, connections, requests) = match number {
            10 => ("GET exists, 48 connections", "requests", 1, 48, 100_000),
            _ => (
                "POST exists, 1,000 items, 6 connections",
                "items",
                BATCH,
                6,
                8_000,
            ),
        };
        let measure = |servers| -> Result<Measure<'a>, Box<dyn Error>> {
            self.repeated(Target::All(servers), connections, ask(), requests, each)
        };
        let variants = vec![
            ("three pods".to_owned(), measure(pods.all())?),
            ("one server".to_owned(), measure(vec![self.cuckood])?),
        ];
        Ok(Row {
            number,
            what,
            unit,
            ratios: ratios(&[(0, 1, None)], variants.len(), 0),
            variants,
        })
    }

    /// What adds cost the pod that leads their lane, and those that follow it.
    pub(super) fn following(&self, pods: &'a Pods) -> Result<Row<'a>, Box<dyn Error>> {
        let leader = pods.leaders()?.first().copied().flatten();
        let leader = leader.ok_or("nobody leads the lane")?;
        let led = pods.pods.get(leader).ok_or("there is no such pod")?;
        let follows = |pod: &&'a Server| pod.address != led.address;
        let follower = pods
            .pods
            .iter()
            .find(follows)
            .ok_or("there is one pod alone")?;
        let mut variants = Vec::new();
        for (name, measured) in [("the leader", led), ("a follower", follower)] {
            let key = format!("cluster-12-{}", variants.len());
            pods.create(&key, 20_000_000)?;
            let mut sent = 0;
            let make = move || {
                let first = sent;
                sent += BATCH as u64;
                let path = format!("/filters/{key}/items");
                post(&path, Form::Lines, (first..sent).map(present))
            };
            let target = Target::One {
                asked: led,
                measured,
            };
            variants.push((name.to_owned(), self.fresh(target, 4, make, 500, BATCH)?));
        }
        Ok(Row {
            number: 12,
            what: "processor time of adds, 1,000 a request, one lane, 4 connections",
            unit: "items",
            ratios: ratios(&[(1, 0, None)], variants.len(), 0),
            variants,
        })
    }
}
