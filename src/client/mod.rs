//! Clients of a server that runs elsewhere: what the command line asks of one.
//! They know the API, nothing of what is behind it.
//!
//! | file | what it owns |
//! |---|---|
//! | `remote` | how a server is reached: address, API key, TLS |
//! | `operations` | whether it is alive, and a backup of it |
//! | `patience` | sending a request until it is answered |
//! | `lists` | how lists of items begin |
//! | `filter` | the commands `filter`: what people do with filters and items |
//! | `load` | files into a filter: the client of imports |
//! | `from_redis` | a filter of RedisBloom, from a running Redis into a server |

pub mod filter;
pub mod from_redis;
mod lists;
pub mod load;
pub mod operations;
mod patience;
pub mod remote;
