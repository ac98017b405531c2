//! Listeners and their connections.
//!
//! | file | what it owns |
//! |---|---|
//! | `server` | accepts connections, bounds their number, drains them |
//! | `timed` | the clocks of one connection |
//! | `tls` | certificates, exchanged while the server runs |
//! | `role` | what a listener serves, and how it is spoken to |

pub(super) mod role;
pub(super) mod server;
pub(super) mod timed;
pub(super) mod tls;
