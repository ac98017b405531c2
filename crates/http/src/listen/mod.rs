//! Listeners of HTTP and their connections.
//!
//! | file | what it owns |
//! |---|---|
//! | `server` | accepts connections and drains them |
//! | `connection` | one connection, from its handshake to its end |
//! | `timed` | the clocks of a connection |

mod connection;
pub(super) mod server;
mod timed;
