//! What the benches share.
//!
//! - [`rounds`]: things measured beside each other, round by round
//! - [`engines`]: an engine on RocksDB, and items to fill it with
//! - [`legend`]: which colour is which in a plot
//! - [`machine`]: what the kernel says of this process and its files
//! - [`metered`]: a store that counts what it is asked for
//! - [`phases`]: one run in several processes, so that each starts afresh
//! - [`server`]: the real program, and a client that costs little

#![allow(dead_code, reason = "each bench uses a part of it")]

pub(crate) mod engines;
pub(crate) mod legend;
pub(crate) mod machine;
#[path = "../../crates/pages/tests/metered/mod.rs"]
pub(crate) mod metered;
pub(crate) mod phases;
pub(crate) mod rounds;
pub(crate) mod server;

use std::error::Error;
use std::str::FromStr;

/// A number from the environment, or what is usual.
pub(crate) fn setting<T: FromStr>(name: &str, usual: T) -> Result<T, Box<dyn Error>>
where
    T::Err: Error + 'static,
{
    Ok(match std::env::var(name) {
        Ok(text) => text.replace('_', "").parse()?,
        Err(_) => usual,
    })
}

/// Where the items of a run come from: `CUCKOOD_BENCH_SEED`, or always the
/// same. Prints it, since a run without it can't be repeated.
pub(crate) fn seed() -> Result<u64, Box<dyn Error>> {
    let seed = setting("CUCKOOD_BENCH_SEED", 20_261_121)?;
    println!("seed {seed}; {}", machine::described());
    Ok(seed)
}

/// A directory under `target`, on the disk that the project is on, for as long
/// as it is held.
pub(crate) fn folder() -> Result<tempfile::TempDir, Box<dyn Error>> {
    Ok(tempfile::tempdir_in(
        std::env::current_dir()?.join("target"),
    )?)
}
