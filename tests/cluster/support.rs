//! A cluster over brokers, and lanes of pods that keep what they applied.

use crate::broker::Brokers;
use async_nats::jetstream::{self, Context};
use bytes::Bytes;
use cuckood::access::cluster_key::ClusterKey;
use cuckood::cluster::jetstream::{
    Brokers as Addresses, ClusterName, Connection, Founding, JetStreamError, JetStreamLog,
    Patience, Seals, connect, found, open,
};
use cuckood::cluster::{
    Apply, CommitLog as _, Driver, Event, LaneIdentity, Levels, Plan, PlanNumber, PlanOutcome,
    Position, Record, Replica, Report, Writer,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What these tests wait for a broker.
pub(crate) const PATIENCE: Patience = Patience {
    append: Duration::from_secs(2),
    ask: Duration::from_secs(2),
    absence: Duration::from_secs(1),
};

/// Brokers, a cluster that was founded on them, and what asks them.
pub(crate) struct Cluster {
    pub(crate) runtime: Runtime,
    pub(crate) brokers: Brokers,
    pub(crate) founding: Founding,
}

impl Cluster {
    /// Founds one.
    pub(crate) fn found(brokers: usize) -> Cluster {
        let runtime = Runtime::new().unwrap();
        let founding = Founding {
            cluster: ClusterName::new("shop").unwrap(),
            founding: [5; 16],
            epoch: 1,
            lanes: 2,
            copies: brokers,
        };
        let cluster = Cluster {
            runtime,
            brokers: Brokers::start(brokers, "always"),
            founding,
        };
        cluster.found_again();
        cluster
    }

    /// Makes the stream, as soon as the brokers can.
    pub(crate) fn found_again(&self) {
        self.patiently(|| {
            let connection = self.connection()?;
            self.runtime.block_on(found(&connection, &self.founding))
        });
    }

    pub(crate) fn connection(&self) -> Result<Connection, JetStreamError> {
        let brokers = Addresses {
            servers: self.brokers.addresses.clone(),
            ..Addresses::default()
        };
        self.runtime.block_on(connect(&brokers))
    }

    /// What its pods seal leases with.
    pub(crate) fn seals(&self) -> Seals {
        let key = ClusterKey::of_founding().derive("shop", &self.founding.founding, "bucket");
        Seals::new(key.unwrap())
    }

    /// What an operator's tool has to change a stream.
    pub(crate) fn stream_tool(&self) -> Context {
        let addresses = self.brokers.addresses.clone();
        self.runtime.block_on(async {
            let client = async_nats::connect(addresses).await.unwrap();
            jetstream::new(client)
        })
    }

    /// The log, as a pod opens it.
    pub(crate) fn log(&self) -> Arc<JetStreamLog> {
        self.patiently(|| {
            let connection = self.connection()?;
            let cluster = &self.founding.cluster;
            let founding = self.runtime.block_on(open(&connection, cluster, 1))?;
            assert_eq!(founding, self.founding);
            let log = JetStreamLog::new(&connection, founding, PATIENCE);
            Ok(Arc::new(self.runtime.block_on(log).unwrap()))
        })
    }

    /// Tries until it works, for as long as brokers may take to start.
    pub(crate) fn patiently<T>(&self, mut what: impl FnMut() -> Result<T, JetStreamError>) -> T {
        let started = Instant::now();
        loop {
            match what() {
                Ok(done) => return done,
                Err(error) if started.elapsed() > Duration::from_secs(30) => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    pub(crate) fn lane(&self, lane: u32) -> LaneIdentity {
        LaneIdentity {
            founding: self.founding.founding,
            epoch: self.founding.epoch,
            lane,
        }
    }

    /// A pod's lane 0, which has applied nothing.
    pub(crate) fn pod(&self, number: u8) -> Pod {
        let origin = self.lane(0).origin();
        self.pod_at(number, origin, Model::default())
    }

    /// A pod's lane 0, which has applied so much.
    pub(crate) fn pod_at(&self, number: u8, position: Position, model: Model) -> Pod {
        let levels = Levels {
            reads: 1,
            writes: 1,
        };
        let writer = Writer([number; 16]);
        let replica = Replica::new(self.lane(0), writer, levels, position, 0);
        let log = self.log();
        Pod {
            driver: Driver::new(replica, log.clone(), 0, model),
            log,
            plans: 0,
        }
    }
}

/// What a lane applied: the commits, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model(pub(crate) Vec<(Position, Bytes)>);

impl Apply for Model {
    fn apply(&mut self, position: Position, record: &Record) {
        self.0.push((position, record.commit.clone()));
    }
}

/// A lane of a pod.
pub(crate) struct Pod {
    pub(crate) driver: Driver<Model>,
    log: Arc<JetStreamLog>,
    plans: u64,
}

impl Pod {
    pub(crate) fn handle(&mut self, event: Event, wait: Duration) -> Vec<Report> {
        self.driver.handle(event, Instant::now() + wait)
    }

    /// Leads from now on, as far as it knows.
    pub(crate) fn lead(&mut self, revision: u64) -> Vec<Report> {
        self.handle(Event::Lease(Some(revision)), Duration::from_secs(10))
    }

    /// Begins to commit something; returns what was settled in this time.
    pub(crate) fn commit_within(&mut self, commit: &str, wait: Duration) -> Option<PlanOutcome> {
        self.plans += 1;
        let plan = Plan {
            number: PlanNumber(self.plans),
            term: self.driver.replica().term()?,
            clock_ms: 0,
            commit: Bytes::from(commit.to_owned()),
        };
        settled(&self.handle(Event::Plan(plan), wait))
    }

    pub(crate) fn commit(&mut self, commit: &str) -> Position {
        match self.commit_within(commit, Duration::from_secs(20)) {
            Some(PlanOutcome::Committed(position)) => position,
            other => panic!("{commit}: {other:?}"),
        }
    }

    /// Waits for records of others once nothing is left to be done, as the thread that
    /// reads the log of a lane does.
    pub(crate) fn follow(&mut self, wait: Duration) -> Vec<Report> {
        let mut reports = self.driver.go_on(Instant::now() + wait);
        let replica = self.driver.replica();
        if !self.driver.has_work() && replica.halted().is_none() {
            let read = self.log.read(0, replica.position().sequence, wait);
            let records = read.unwrap_or_else(|_| {
                std::thread::sleep(wait);
                Vec::new()
            });
            let is_all = false;
            reports.extend(self.handle(Event::Read { records, is_all }, wait));
        }
        reports
    }

    /// Reads on until it has so many records.
    pub(crate) fn follow_to(&mut self, records: usize) {
        let started = Instant::now();
        while self.commits().len() < records {
            assert!(started.elapsed() < Duration::from_secs(30));
            self.follow(Duration::from_millis(200));
        }
    }

    pub(crate) fn commits(&self) -> Vec<String> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let commits = self.driver.state().0.iter();
        commits.map(|(_, commit)| text(commit)).collect()
    }
}

/// What became of a plan, if it was settled.
pub(crate) fn settled(reports: &[Report]) -> Option<PlanOutcome> {
    reports.iter().find_map(|report| match report {
        Report::Settled(_, outcome) => Some(*outcome),
        Report::Restore | Report::Halted(_) => None,
    })
}
