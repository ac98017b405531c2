//! What operators do with the program.

use crate::broker::Brokers;
use cuckood::cluster::jetstream::{Brokers as Addresses, ClusterName, connect, open};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long brokers may take to start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program, as the tests call it: nothing but its arguments tells it anything.
pub(crate) fn cuckood() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuckood"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CUCKOOD_")) {
        command.env_remove(name);
    }
    command
}

/// What names the brokers and their cluster on a command line.
pub(crate) fn flags(brokers: &Brokers) -> Vec<String> {
    vec![
        format!("--log={}", brokers.addresses.join(",")),
        format!("--log-monitor={}", brokers.monitors.join(",")),
        "--cluster=shop".to_owned(),
    ]
}

/// Runs a command about a cluster whose stream all brokers keep.
fn about(brokers: &Brokers, arguments: &[&str]) -> Output {
    let done = cuckood()
        .arg("cluster")
        .args(arguments)
        .args(flags(brokers))
        .args(["--copies", &brokers.all.len().to_string()])
        .output();
    done.unwrap()
}

/// Does something as soon as the brokers can.
#[track_caller]
fn patiently(what: impl Fn() -> Output) {
    let started = Instant::now();
    loop {
        let done = what();
        if done.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(started.elapsed() < PATIENCE, "{said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What was chosen when the cluster was founded.
pub(crate) fn founding(brokers: &Brokers) -> [u8; 16] {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let addresses = Addresses {
            servers: brokers.addresses.clone(),
            ..Addresses::default()
        };
        let connection = connect(&addresses).await.unwrap();
        let cluster = ClusterName::new("shop").unwrap();
        open(&connection, &cluster, 1).await.unwrap().founding
    })
}

/// Founds a cluster.
pub(crate) fn found(brokers: &Brokers, lanes: u32) {
    let lanes = format!("--lanes={lanes}");
    // The answer to an attempt that did it may have been lost.
    patiently(|| about(brokers, &["found", &lanes, "--unless-founded"]));
}

/// Begins an epoch as these arguments say, if that can be done at once.
pub(crate) fn new_epoch(brokers: &Brokers, arguments: &[&str]) -> Output {
    about(brokers, &[&["new-epoch"], arguments].concat())
}

/// Begins an epoch from there.
#[track_caller]
pub(crate) fn begin(brokers: &Brokers, from: &str) {
    patiently(|| new_epoch(brokers, &[from]));
}

/// Makes a data directory from a backup.
pub(crate) fn restore(archive: &Path, data_dir: &Path) {
    let restored = cuckood()
        .args(["restore", "--backup"])
        .arg(archive)
        .arg("--data-dir")
        .arg(data_dir)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{restored:?}");
}

/// Adds an API key to a file; returns it.
pub(crate) fn api_key(file: &Path, name: &str, what: &[&str]) -> String {
    let made = cuckood()
        .args(["keys", "add", name, "--keys-file"])
        .arg(file)
        .args(what)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}
