//! The Redis protocol (RESP2 and RESP3), pure: from bytes to commands, and from
//! replies to bytes.
//!
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>, and
//! the bounds and words of redis 7.4 (`networking.c`, `sds.c`, `util.c`).
//!
//! | file | what it owns |
//! |---|---|
//! | `decode` | from bytes, cut anywhere, to pipelines of commands |
//! | `lines` | where lines end that announce lengths, or that people type |
//! | `pipeline` | commands as places in the bytes that they came in |
//! | `inline` | commands as a person types them: words, maybe in quotes |
//! | `malformed` | what a client sends that is no command |
//! | `encode` | replies, in the version that a connection speaks |
//! | `pieces` | commands as clients write them, for another pod |
//! | `replies` | where a reply ends that another pod has written |
//! | `number` | integers as Redis takes them |

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
mod inline;
mod lines;
pub(crate) mod malformed;
pub(crate) mod number;
pub(crate) mod pieces;
pub(crate) mod pipeline;
pub(crate) mod replies;
