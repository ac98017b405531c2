//! Listeners and their connections.
//!
//! | file | what it owns |
//! |---|---|
//! | `server` | accepts connections and drains them |
//! | `places` | how many there may be, in all and from one address |
//! | `connection` | one connection, from its handshake to its end |
//! | `link` | whether it is one of another pod |
//! | `strangers` | which of them give up their places to others |
//! | `timed` | the clocks of a connection |
//! | `polls` | how much processor time one poll of it takes |
//! | `observed` | whether its client has left |
//! | `tls` | certificates, exchanged while the server runs |
//! | `role` | what a listener serves, and how it is spoken to |

pub(super) mod connection;
pub(super) mod link;
pub(super) mod observed;
pub(super) mod places;
pub(super) mod polls;
pub(super) mod role;
pub(super) mod server;
mod strangers;
pub(super) mod timed;
pub(super) mod tls;
