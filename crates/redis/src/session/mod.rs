//! One connection's conversation: who it is, which version of the protocol it
//! speaks, and what becomes of each command, in order.
//!
//! | file | what it owns |
//! |---|---|
//! | `state` | what is known of a connection, and what it may do |
//! | `dispatch` | one command: checked, queued or done |
//! | `run` | commands on items that follow each other, worked on together |
//! | `group` | those of them that concern one filter |
//! | `transaction`, `kept` | `MULTI` and what follows it |
//! | `identity` | `AUTH`, `HELLO`, `CLIENT` and what else is about the connection |
//! | `filters` | whole filters: `CF.RESERVE`, `CF.INFO`, `DEL`, `EXPIRE`, `SCAN` |
//! | `dumps` | `CF.SCANDUMP` and `CF.LOADCHUNK` |
//! | `routes` | where commands are worked on in a cluster |
//! | `forward` | those that other pods work on: forwards them, and takes their replies |
//! | `audit` | lines about what ends or replaces filters |
//! | `server` | `INFO`, `CONFIG` and what else is about the server |
//! | `looked_at` | `SLOWLOG`, `LATENCY`, `OBJECT` and what else people look at |
//! | `failure` | why a command was not done |

mod audit;
mod dispatch;
mod dumps;
mod failure;
mod filters;
mod forward;
mod group;
mod identity;
mod kept;
mod looked_at;
mod routes;
mod run;
mod server;
mod state;
mod transaction;

pub(super) use state::Session;
