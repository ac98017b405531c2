//! Lanes that several pods have, over real brokers: processes of `nats-server`
//! that are killed and started again.
//!
//! | file | what it shows |
//! |---|---|
//! | `log.rs` | the stream is what it must be; appends, reads, looks, trims |
//! | `leases.rs` | leases are taken, renewed, lost and given back |
//! | `lane.rs` | a lane over a broker that dies, is rewound, loses its stream |
//! | `pods.rs` | three pods over three brokers that die |
//! | `engines.rs` | three engines over three brokers that die: every change counts once |
//! | `serve.rs` | processes of `cuckood serve` over brokers: a leader is killed, what is wrong is said |
//! | `epochs.rs` | a log that was lost or set back: pods stop, a new epoch begins from one of them |
//! | `forks.rs` | a log that was purged: a pod with less does not go on in it |
//! | `new_epochs.rs` | two of them that are begun at once; streams that must stay |
//! | `ends.rs` | what ends by itself, and quotas, are the same on all pods |
//! | `backups.rs` | a pod, and a whole cluster, from a backup of one pod |
//! | `refusals.rs` | what a pod does not start with, and that its data stay as they are |
//! | `rights.rs` | what pods may do at brokers |
//! | `levels.rs` | programs of several versions in one cluster |
//! | `handing_over.rs` | lanes spread over pods, and how long a hand-over takes |
//! | `commands.rs` | those processes over the Redis protocol: any pod takes any command |
//! | `clocks.rs` | a pod that starts alone, whose clock is wrong |
//! | `passed_commands.rs` | such commands on their way to the pod that leads |
//! | `rate_limits.rs` | what the pod that leads refuses for an API key's rate, on its way back |
//! | `snapshots.rs` | pods that lack what the log no longer has; keys and TLS between pods |
//! | `trust.rs` | what pods believe of each other, and who learns no API key |
//! | `program.rs`, `operator.rs` | those processes, what asks them, and what operators do |
//! | `broker.rs`, `nats_server.rs`, `founded.rs`, `pki.rs` and `support.rs` | what the tests share |

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod backups;
mod broker;
#[path = "../../crates/engine/tests/checked/mod.rs"]
mod checked;
mod clocks;
mod commands;
mod ends;
mod engines;
mod epochs;
mod forks;
mod founded;
mod handing_over;
mod lane;
mod leases;
mod levels;
mod log;
mod nats_server;
mod new_epochs;
mod operator;
mod passed_commands;
mod pki;
mod pods;
#[path = "../blackbox/ports.rs"]
mod ports;
mod positions;
mod program;
mod rate_limits;
mod refusals;
mod rights;
mod serve;
mod snapshots;
mod support;
mod trust;
mod unfit;
