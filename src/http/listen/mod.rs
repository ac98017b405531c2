//! Listeners and their connections.
//!
//! | file | what it owns |
//! |---|---|
//! | `server` | accepts connections, bounds their number, drains them |
//! | `connection` | one connection, from its handshake to its end |
//! | `timed` | the clocks of a connection |
//! | `tls` | certificates, exchanged while the server runs |
//! | `role` | what a listener serves, and how it is spoken to |

mod connection;
pub(super) mod role;
pub(super) mod server;
pub(super) mod timed;
pub(super) mod tls;
