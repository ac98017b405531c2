//! The program of brokers, and whether there is one.

use std::path::{Path, PathBuf};

/// The program: `NATS_SERVER`, as `make test` says, or what it has installed.
pub(crate) fn program() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/nats-server");
    std::env::var_os("NATS_SERVER").map_or(installed, PathBuf::from)
}

/// Whether there is one: where there is none, and nobody said that there is, the
/// tests are skipped.
pub(crate) fn is_there() -> bool {
    let program = program();
    let is_there = program.exists();
    assert!(
        is_there || std::env::var_os("NATS_SERVER").is_none(),
        "NATS_SERVER names {}, which is not there",
        program.display()
    );
    if !is_there {
        println!("skipped: no {} here", program.display());
    }
    is_there
}
