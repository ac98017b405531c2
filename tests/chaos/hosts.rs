//! Hosts of our own: network namespaces on a bridge, in a network that only this
//! test has.

use crate::ports::free_port;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

/// Says that the test is in namespaces of its own already.
const INSIDE: &str = "CUCKOOD_TEST_NAMESPACES";

/// Everything in it ends with its first process.
const NAMESPACES: [&str; 6] = [
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Where the test itself is on the bridge.
const BRIDGE: &str = "10.77.0.254/24";

/// The ports of a host: what clients use, what monitors it, what its like use.
const PORTS: [u16; 3] = [4222, 8222, 6222];

/// Where a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In namespaces of its own.
    Namespaces,
    /// On loopback: there are no namespaces here.
    Loopback,
    /// It ran, in namespaces of its own, and passed.
    Passed,
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(NAMESPACES);
    command
}

/// Runs a test again, in namespaces of its own, if there can be any.
///
/// # Panics
/// It failed there.
pub(crate) fn place(test: &str) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Namespaces;
    }
    let probe = "mount -t tmpfs tmpfs /run && ip netns add probe && \
                 ip link add probe0 type veth peer name eth0 netns probe";
    let probed = unshare().args(["sh", "-c", probe]).output();
    let why = match probed {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        crate::required::missing("netns", why);
        return Place::Loopback;
    }
    let test = unshare()
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(INSIDE, "1")
        .status();
    assert!(test.unwrap().success(), "it failed in its namespaces");
    Place::Passed
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {arguments}: {said}");
}

/// A host.
#[derive(Clone)]
pub(crate) struct Host {
    number: usize,
    has_namespace: bool,
    address: String,
    ports: [u16; 3],
}

/// What clients use on a host, what monitors it, what its like use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Port {
    Clients = 0,
    Monitor = 1,
    Peers = 2,
}

impl Host {
    pub(crate) fn at(&self, port: Port) -> String {
        format!("{}:{}", self.address, self.ports[port as usize])
    }

    /// A program on this host.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        if !self.has_namespace {
            return Command::new(program);
        }
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/h{}", self.number));
        command.arg("--").arg(program);
        command
    }
}

/// The hosts, and what is cut between them.
pub(crate) struct Hosts {
    pub(crate) all: Vec<Host>,
    cuts: Vec<(usize, usize)>,
    down: Vec<usize>,
}

impl Hosts {
    pub(crate) fn new(count: usize, place: Place) -> Hosts {
        let has_namespace = place == Place::Namespaces;
        if has_namespace {
            let mounted = Command::new("mount")
                .args(["-t", "tmpfs", "tmpfs", "/run"])
                .stdin(Stdio::null())
                .status();
            assert!(mounted.unwrap().success());
            ip("link set lo up");
            ip("link add bridge type bridge");
            ip(&format!("addr add {BRIDGE} dev bridge"));
            ip("link set bridge up");
        }
        let host = |number: usize| {
            if !has_namespace {
                return Host {
                    number,
                    has_namespace,
                    address: "127.0.0.1".to_owned(),
                    ports: [free_port(), free_port(), free_port()],
                };
            }
            let address = format!("10.77.0.{}", number + 1);
            ip(&format!("netns add h{number}"));
            ip(&format!(
                "link add v{number} type veth peer name eth0 netns h{number}"
            ));
            ip(&format!("link set v{number} master bridge up"));
            ip(&format!("-n h{number} link set lo up"));
            ip(&format!("-n h{number} addr add {address}/24 dev eth0"));
            ip(&format!("-n h{number} link set eth0 up"));
            Host {
                number,
                has_namespace,
                address,
                ports: PORTS,
            }
        };
        Hosts {
            all: (0..count).map(host).collect(),
            cuts: Vec::new(),
            down: Vec::new(),
        }
    }

    /// Whether anything can be cut.
    pub(crate) fn can_be_cut(&self) -> bool {
        self.all.iter().all(|it| it.has_namespace)
    }

    /// Nothing gets from one to the other any more.
    pub(crate) fn cut(&mut self, one: usize, other: usize) {
        self.route("add", one, other);
        self.cuts.push((one, other));
    }

    fn route(&self, what: &str, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let to = &self.all[to].address;
            ip(&format!("-n h{from} route {what} blackhole {to}/32"));
        }
    }

    /// Nothing gets to a host or from it any more.
    pub(crate) fn take_down(&mut self, host: usize) {
        ip(&format!("-n h{host} link set eth0 down"));
        self.down.push(host);
    }

    /// Everything gets everywhere again.
    pub(crate) fn heal(&mut self) {
        for (one, other) in std::mem::take(&mut self.cuts) {
            self.route("del", one, other);
        }
        for host in std::mem::take(&mut self.down) {
            ip(&format!("-n h{host} link set eth0 up"));
        }
    }
}
