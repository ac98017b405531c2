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
//! | `program.rs` | those processes, and what asks them |
//! | `broker.rs` and `support.rs` | what the tests share |

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod broker;
mod engines;
mod lane;
mod leases;
mod log;
mod pods;
mod program;
mod serve;
mod support;
