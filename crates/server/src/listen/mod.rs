//! Connections, whatever is spoken on them.
//!
//! | file | what it owns |
//! |---|---|
//! | `places` | how many there may be, in all and from one address |
//! | `strangers` | which of them give up their places to others |
//! | `turned` | what is said where there is no place |
//! | `link` | whether one is of another pod |
//! | `patience` | how long a client is waited for |
//! | `polls` | how much processor time one poll takes |
//! | `drain` | the end of all of them when the server stops |
//! | `tls` | certificates, exchanged while the server runs |
//! | `role` | what a listener serves, and how it is spoken to |

pub mod drain;
pub mod link;
pub mod patience;
pub mod places;
pub mod polls;
pub mod role;
mod strangers;
pub(crate) mod tls;
pub mod turned;
