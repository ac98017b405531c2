//! A cluster of real processes, three brokers and three pods, in which everything
//! fails that can: processes die, stop and hang, networks are cut, power goes, disks
//! fill up and are lost. Meanwhile clients change filters and ask questions, and
//! know exactly what must be there.
//!
//! | file | what it owns |
//! |---|---|
//! | `hosts.rs` | hosts of our own in network namespaces, and cuts between them |
//! | `node.rs` | a process on a host, with a disk that forgets, fills up and hangs |
//! | `cluster.rs` | three brokers and three pods |
//! | `faults.rs` | what fails, and how it is mended |
//! | `errand.rs` | sends a change until its outcome is known, a question until it is answered |
//! | `clients.rs` | clients that change filters of their own and know what is in them |
//! | `readers.rs` | clients that only ask |
//! | `checks.rs` | whether all pods have what was acknowledged, and the same |
//! | `pauses.rs` | how long clients waited, for each kind of fault |
//! | `load.rs` | all clients at once, and how they rest while they are judged |
//! | `rounds.rs` | rounds of faults |
//! | `full.rs` | a disk that is full and stays so |
//! | `upgrade.rs` | pods are restarted one after the other |
//! | `history.rs` | changes and strong questions on three pods are linearizable |
//!
//! The tests run in namespaces of their own (`unshare`), with which all processes
//! end. Where there can be none they run on loopback, without cuts.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

#[path = "../linearizable/checker.rs"]
mod checker;
mod checks;
mod clients;
mod cluster;
#[path = "../crash/disk.rs"]
mod disk;
mod errand;
mod faults;
mod full;
mod history;
mod hosts;
mod load;
#[path = "../crash/mount.rs"]
#[expect(dead_code, reason = "the tests of one server need more of it")]
mod mount;
#[path = "../cluster/nats_server.rs"]
mod nats_server;
mod node;
mod pauses;
#[path = "../blackbox/ports.rs"]
mod ports;
#[path = "../blackbox/random.rs"]
mod random;
mod readers;
#[path = "../crash/required.rs"]
mod required;
mod rounds;
mod upgrade;
