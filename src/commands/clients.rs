//! `filter`, `healthcheck`, `backup`, `load` and `import-redis`: clients of a
//! running server.

use super::failure::Result;
use crate::client::filter::{self, FilterOptions, Verdict};
use crate::client::from_redis::{self, RedisImport};
use crate::client::load::{LoadOptions, load};
use crate::client::operations;
use crate::client::remote::{Remote, ServerAddress};
use std::net::SocketAddr;
use std::process::ExitCode;

pub(super) fn run_healthcheck(listen: SocketAddr, has_tls: bool) -> Result {
    let scheme = if has_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", operations::own_address(listen));
    let server = Remote::on_this_machine(&url)?;
    Ok(on_one_thread(operations::is_alive(&server))??)
}

pub(super) fn run_backup(server: &ServerAddress) -> Result {
    let server = server.remote()?;
    server.announce();
    let backup = on_one_thread(operations::back_up(&server))??;
    println!("backup {} is complete: {} bytes", backup.id, backup.bytes);
    Ok(())
}

pub(super) fn run_filter(options: &FilterOptions) -> Result<ExitCode> {
    Ok(match on_one_thread(filter::run(options))?? {
        Verdict::Yes => ExitCode::SUCCESS,
        Verdict::No => ExitCode::from(1),
    })
}

pub(super) fn run_load(options: &LoadOptions) -> Result {
    Ok(on_one_thread(load(options))??)
}

pub(super) fn run_import_redis(options: &RedisImport) -> Result {
    let imported = on_one_thread(from_redis::import(options))??;
    println!("{}: {imported} items", options.filter);
    Ok(())
}

fn on_one_thread<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // A thread may still wait for the standard input, or for Redis.
    runtime.shutdown_background();
    Ok(done)
}
