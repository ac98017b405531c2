//! Three brokers and three pods.

use crate::hosts::{Host, Hosts, Place, Port};
use crate::mount::Mounted;
use crate::nats_server;
use crate::node::{Node, Storage};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// Of brokers, and of pods.
pub(crate) const COUNT: usize = 3;

/// Lanes of the cluster.
pub(crate) const LANES: u32 = 4;

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(90);

fn cuckood(host: Option<&Host>) -> Command {
    let built = || env!("CARGO_BIN_EXE_cuckood").into();
    let program = std::env::var_os("CUCKOOD_CHAOS_PROGRAM").unwrap_or_else(built);
    let mut command = match host {
        Some(host) => host.command(program),
        None => Command::new(program),
    };
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CUCKOOD_")) {
        command.env_remove(name);
    }
    command
}

/// The processes, and the network between them. Hosts are numbered: first those of
/// the brokers, then those of the pods.
pub(crate) struct Cluster {
    pub(crate) brokers: Vec<Node>,
    pub(crate) pods: Vec<Node>,
    pub(crate) network: Hosts,
    /// Where clients ask pods.
    pub(crate) addresses: Vec<String>,
    flags: Vec<String>,
}

impl Cluster {
    /// Founds a cluster, and starts its pods.
    pub(crate) fn start(place: Place) -> Cluster {
        let mut cluster = Cluster::of_brokers(place);
        cluster.found();
        for pod in 0..COUNT {
            cluster.start_pod(pod);
        }
        cluster.wait_until_ready();
        cluster
    }

    fn of_brokers(place: Place) -> Cluster {
        let mut network = Hosts::new(2 * COUNT, place);
        let hosts: Vec<Host> = network.all.clone();
        let at = |port: Port, scheme: &str| -> String {
            let brokers = hosts.iter().take(COUNT);
            let all: Vec<String> = brokers
                .map(|it| format!("{scheme}://{}", it.at(port)))
                .collect();
            all.join(",")
        };
        let flags = vec![
            format!("--log={}", at(Port::Clients, "nats")),
            format!("--log-monitor={}", at(Port::Monitor, "http")),
            "--cluster=shop".to_owned(),
        ];
        let routes = at(Port::Peers, "nats-route");
        let mut nodes = hosts.into_iter().enumerate().map(|(number, host)| {
            // The brokers' program counts on a journal: it forces no directory.
            let (name, mounted) = match number.checked_sub(COUNT) {
                None => (format!("broker-{number}"), Mounted::with_journal()),
                Some(pod) => (format!("pod-{pod}"), Mounted::new()),
            };
            Node::new(name, host, Storage::forgetful(mounted))
        });
        let brokers: Vec<Node> = nodes.by_ref().take(COUNT).collect();
        let pods: Vec<Node> = nodes.collect();
        for broker in &brokers {
            let at = |port| broker.host.at(port);
            let config = format!(
                "listen: \"{}\"\nhttp: \"{}\"\nserver_name: {}\n\
                 jetstream {{ store_dir: {:?}, sync_interval: always, max_file_store: 1GB }}\n\
                 cluster {{ name: test, listen: \"{}\", routes: [{routes}] }}\n",
                at(Port::Clients),
                at(Port::Monitor),
                broker.name,
                broker.data_dir(),
                at(Port::Peers),
            );
            std::fs::write(broker.beside("nats.conf"), config).unwrap();
        }
        let address = |pod: &Node| format!("http://{}", pod.host.at(Port::Clients));
        let addresses = pods.iter().map(address).collect();
        network.heal();
        let mut cluster = Cluster {
            brokers,
            pods,
            network,
            addresses,
            flags,
        };
        for broker in 0..COUNT {
            cluster.start_broker(broker);
        }
        cluster
    }

    /// Founds the cluster as soon as the brokers can.
    fn found(&self) {
        let started = Instant::now();
        loop {
            let founded = cuckood(None)
                .args(["cluster", "found"])
                .args(&self.flags)
                .args(["--lanes", &LANES.to_string()])
                // The answer to an attempt that did it may have been lost.
                .arg("--unless-founded")
                .output()
                .unwrap();
            if founded.status.success() {
                return;
            }
            let said = String::from_utf8_lossy(&founded.stderr).into_owned();
            assert!(started.elapsed() < PATIENCE, "{said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn start_broker(&mut self, broker: usize) {
        let node = &mut self.brokers[broker];
        let mut command = node.host.command(nats_server::program());
        command.arg("--config").arg(node.beside("nats.conf"));
        node.start(command);
    }

    pub(crate) fn start_pod(&mut self, pod: usize) {
        let node = &mut self.pods[pod];
        let mut command = cuckood(Some(&node.host));
        command.arg("serve").args(&self.flags).args([
            "--cache-bytes=192MiB".to_owned(),
            "--log-format=json".to_owned(),
            "--allow-anonymous".to_owned(),
            format!("--listen={}", node.host.at(Port::Clients)),
            format!("--advertise={}", self.addresses[pod]),
            format!("--data-dir={}", node.data_dir().display()),
        ]);
        node.start(command);
    }

    /// The pod that leads most lanes, if anybody says.
    pub(crate) fn busiest_pod(&self) -> Option<usize> {
        let led = self.led()?;
        (0..COUNT).max_by_key(|&pod| led[pod])
    }

    /// How many lanes each pod leads, if anybody says.
    pub(crate) fn led(&self) -> Option<[usize; COUNT]> {
        let status = cuckood(None)
            .args(["cluster", "status", "--json"])
            .args(&self.flags)
            .output();
        let status: Value = serde_json::from_slice(&status.unwrap().stdout).ok()?;
        let lanes = status["lanes"].as_array()?;
        Some(std::array::from_fn(|pod| {
            let address = self.addresses[pod].as_str();
            lanes.iter().filter(|it| it["leader"] == address).count()
        }))
    }

    /// The broker that leads the stream, if anybody says.
    pub(crate) fn leading_broker(&self) -> Option<usize> {
        let client = crate::errand::http(Duration::from_secs(1));
        let monitor = self.brokers.first()?.host.at(Port::Monitor);
        let url = format!("http://{monitor}/jsz?streams=true");
        let said: Value = client.get(url).send().ok()?.json().ok()?;
        let streams = said["account_details"][0]["stream_detail"].as_array()?;
        let is_ours = |it: &&Value| {
            it["name"]
                .as_str()
                .is_some_and(|it| it.starts_with("CUCKOOD"))
        };
        let leader = streams.iter().find(is_ours)?["cluster"]["leader"].as_str()?;
        self.brokers.iter().position(|it| it.name == leader)
    }

    /// That on a host.
    pub(crate) fn node(&mut self, number: usize) -> &mut Node {
        match number < COUNT {
            true => &mut self.brokers[number],
            false => &mut self.pods[number - COUNT],
        }
    }

    /// Starts a pod again that gave up because it found no broker in time, as an
    /// init system does.
    ///
    /// # Errors
    /// Another process ended, or it ended for another reason; says so.
    pub(crate) fn restart_what_gave_up(&mut self) -> Result<(), String> {
        for number in 0..COUNT {
            if let Some(how) = self.pods[number].ended() {
                let why = how.lines().last().unwrap_or_default();
                let is_told = why.contains("broker") || why.contains("No space left");
                if !how.contains("exit status: 1\n") || !is_told {
                    return Err(how);
                }
                self.pods[number].kill();
                self.start_pod(number);
            }
            if let Some(how) = self.brokers[number].ended() {
                return Err(how);
            }
        }
        Ok(())
    }

    /// Waits until every pod is ready and knows a leader of each lane.
    pub(crate) fn wait_until_ready(&mut self) {
        let client = crate::errand::http(Duration::from_secs(2));
        let started = Instant::now();
        for pod in 0..COUNT {
            let url = format!("{}/readyz", self.addresses[pod]);
            let mut said = String::new();
            while said != "ok\n" {
                if let Err(how) = self.restart_what_gave_up() {
                    panic!("{how}");
                }
                let log = || self.pods[pod].log(40);
                let is_late = started.elapsed() > PATIENCE;
                assert!(!is_late, "pod {pod} is not ready: {said}\n{}", log());
                let answer = client.get(&url).send();
                said = answer.and_then(|it| it.text()).unwrap_or_default();
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
