//! Flags and environment variables, read once by `main`. Every setting has a
//! default that makes sense.
//!
//! | file | what it owns |
//! |---|---|
//! | `cli` | the subcommands, and the flags of those that have few; [`client`](crate::client) has those of `load` and `import-redis` |
//! | `serve` | the settings of `serve`, checked together, and what each module gets |
//! | `access`, `storage`, `resources`, `filters`, `limits`, `logs` | the flags of `serve`, one or two sections of `--help` each, with their checks |
//! | `cluster` | the flags about a cluster and its brokers |
//! | `files` | the flags of commands that work on files of filters |
//! | `errors` | what is wrong with the settings |
//! | `size` | sizes as flags spell them |
//! | `call` | how the program was called |
//! | `machine` | memory and cores, from which defaults follow |
//!
//! The help text of a flag says its unit, its range and what its absence means;
//! flag, variable and default stand in the attribute below it.

mod access;
mod call;
mod cli;
mod cluster;
mod errors;
mod files;
mod filters;
mod limits;
mod logs;
mod machine;
mod redis;
mod resources;
mod serve;
mod size;
mod storage;
#[cfg(test)]
mod tests;

pub use call::{same_call, unknown_variables};
pub use cli::{Cli, ClusterCommand, Command, EpochSource, KeysCommand};
pub use cluster::{BrokerConfig, BrokerSettings, ClusterConfig, ClusterSettings};
pub use errors::ConfigErrors;
pub use files::{BuildOptions, MergeOptions};
pub use logs::{LogConfig, LogFormat};
pub use machine::Machine;
pub use serve::{ServeConfig, Settings};
