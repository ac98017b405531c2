//! What fails, and how it is mended.

use crate::cluster::{COUNT, Cluster};
use crate::node::Node;
use crate::random::Random;
use std::fmt;
use std::time::Duration;

/// What happens to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Killed,
    Stopped,
    Paused,
    PowerLost,
    DiskFull,
    Wiped,
    HostDown,
    /// Cut from all nodes of the other kind.
    CutFromOthers,
    /// Cut from the other nodes of their kind.
    CutFromLike,
}

/// Whom it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Brokers(usize),
    Pods(usize),
    /// All of both.
    All,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    whom: Whom,
    what: What,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |count: usize| if count == 1 { "" } else { "s" };
        let (whom, other) = match self.whom {
            Whom::Brokers(count) => (format!("{count} broker{}", many(count)), "pods"),
            Whom::Pods(count) => (format!("{count} pod{}", many(count)), "brokers"),
            Whom::All => ("all brokers and pods".to_owned(), ""),
        };
        match self.what {
            What::Killed => write!(out, "{whom}: killed"),
            What::Stopped => write!(out, "{whom}: stopped"),
            What::Paused => write!(out, "{whom}: paused"),
            What::PowerLost => write!(out, "{whom}: power lost"),
            What::DiskFull => write!(out, "{whom}: disk full"),
            What::Wiped => write!(out, "{whom}: wiped"),
            What::HostDown => write!(out, "{whom}: host cut off"),
            What::CutFromOthers => write!(out, "{whom}: cut from {other}"),
            What::CutFromLike => write!(out, "{whom}: cut from its like"),
        }
    }
}

impl Kind {
    /// All kinds that can be tried on this cluster.
    pub(crate) fn all(cluster: &Cluster) -> Vec<Kind> {
        let mut nodes = cluster.brokers.iter().chain(&cluster.pods);
        let can_forget = nodes.all(Node::can_forget);
        let mut kinds = Vec::new();
        let mut add = |whom, what| kinds.push(Kind { whom, what });
        for count in 1..=COUNT {
            for whom in [Whom::Brokers(count), Whom::Pods(count)] {
                for what in [What::Killed, What::Stopped, What::Paused] {
                    add(whom, what);
                }
                if cluster.network.can_be_cut() {
                    add(whom, What::CutFromOthers);
                    // One that is cut from its like leaves two together.
                    if count != 2 {
                        add(whom, What::CutFromLike);
                    }
                    if count != COUNT {
                        add(whom, What::HostDown);
                    }
                }
            }
            if can_forget {
                add(Whom::Brokers(count), What::PowerLost);
                add(Whom::Pods(count), What::PowerLost);
                add(Whom::Pods(count), What::DiskFull);
            }
        }
        add(Whom::All, What::Killed);
        if can_forget {
            add(Whom::All, What::PowerLost);
            add(Whom::Brokers(1), What::DiskFull);
        }
        add(Whom::Pods(1), What::Wiped);
        add(Whom::Pods(2), What::Wiped);
        kinds
    }
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Numbers of hosts.
    nodes: Vec<usize>,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {:?} for {:?}", self.kind, self.nodes, self.lasts)
    }
}

impl Fault {
    /// Half of all faults hit whoever leads.
    pub(crate) fn new(kind: Kind, cluster: &Cluster, random: &mut Random) -> Fault {
        let (first, count) = match kind.whom {
            Whom::Brokers(count) => (0, count),
            Whom::Pods(count) => (COUNT, count),
            Whom::All => (0, 2 * COUNT),
        };
        let any = random.below(2 * COUNT as u64) as usize;
        let start = match kind.whom {
            _ if any < COUNT => Some(any),
            Whom::Brokers(_) => cluster.leading_broker(),
            Whom::Pods(_) | Whom::All => cluster.busiest_pod(),
        }
        .unwrap_or_default();
        let nodes = match kind.whom {
            Whom::All => (0..count).collect(),
            _ => (start..start + count)
                .map(|it| first + it % COUNT)
                .collect(),
        };
        Fault {
            kind,
            nodes,
            lasts: Duration::from_millis(300 + random.below(5700)),
        }
    }

    pub(crate) fn begin(&self, cluster: &mut Cluster, random: &mut Random) {
        for &number in &self.nodes {
            match self.kind.what {
                What::Killed => cluster.node(number).kill(),
                What::Stopped => drop(cluster.node(number).terminate()),
                What::Paused => cluster.node(number).pause(),
                // The power goes everywhere at the same moment.
                What::PowerLost => {}
                What::DiskFull => cluster.node(number).set_full(true),
                What::Wiped => cluster.node(number).wipe(),
                What::HostDown => cluster.network.take_down(number),
                What::CutFromOthers => {
                    let others = if number < COUNT { COUNT } else { 0 };
                    for other in others..others + COUNT {
                        cluster.network.cut(number, other);
                    }
                }
                What::CutFromLike => {
                    let like = if number < COUNT { 0 } else { COUNT };
                    for other in like..like + COUNT {
                        // Where all are cut from each other, each pair once.
                        if other != number && !(self.nodes.contains(&other) && other < number) {
                            cluster.network.cut(number, other);
                        }
                    }
                }
            }
        }
        if self.kind.what == What::PowerLost {
            for &number in &self.nodes {
                cluster.node(number).kill();
            }
            for &number in &self.nodes {
                cluster.node(number).lose_power(random);
            }
        }
    }

    /// Mends it.
    pub(crate) fn end(&self, cluster: &mut Cluster) {
        cluster.network.heal();
        for &number in &self.nodes {
            let node = cluster.node(number);
            node.resume();
            node.set_full(false);
            // One whose disk was full has stopped to store anything.
            if self.kind.what == What::DiskFull && number < COUNT {
                node.kill();
            }
            match number < COUNT {
                true => cluster.start_broker(number),
                false => cluster.start_pod(number - COUNT),
            }
        }
    }
}
