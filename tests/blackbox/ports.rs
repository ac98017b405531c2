//! Ports that servers and brokers of the tests listen on.
//!
//! They lie below the range that the system hands to outgoing connections, so that
//! nobody else takes one before its server does, and a server can be started again on
//! its old port. Suites run side by side: each takes blocks of ports for itself.

use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

const PORTS: Range<u16> = 20_000..32_000;
const BLOCK: u16 = 100;

/// A port that nobody listens on, and that no other test is given.
pub(crate) fn free_port() -> u16 {
    static LEFT: Mutex<Range<u16>> = Mutex::new(0..0);
    let mut left = LEFT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loop {
        if left.is_empty() {
            *left = free_block();
        }
        let port = left.next().unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Takes a block until this process ends. The system knows which ones are taken by the
/// names of sockets that nobody connects to.
fn free_block() -> Range<u16> {
    let blocks = PORTS.step_by(BLOCK.into());
    let count = u32::try_from(blocks.len()).unwrap();
    let blocks = blocks.cycle().skip((std::process::id() % count) as usize);
    let is_taken = |first: u16| {
        let name = SocketAddr::from_abstract_name(format!("cuckood-test-ports-{first}"));
        let taken = UnixListener::bind_addr(&name.unwrap());
        taken.map(std::mem::forget).is_err()
    };
    let mut blocks = blocks.take(count as usize);
    let first = blocks.find(|&first| !is_taken(first)).unwrap();
    first..first + BLOCK
}
