//! What requests may take of the server: each limit, what is left of it, and what
//! becomes of a request that is refused.
//!
//! | file | what it owns |
//! |---|---|
//! | `limits` | the limits, as the flags set them, and what is left of each |
//! | `budget` | what is held at the same time of one resource, in all and for one API key |
//! | `throttle` | work of seconds beside requests of microseconds |
//! | `deadline` | until when a request is worked on |
//! | `body` | reads request bodies within their bytes and their time |
//! | `answers` | counts large answers until their clients have read them |
//! | `unread` | deals with what a refusal leaves of a body |
//!
//! How often an API key may ask is counted with the key itself, in
//! [`access`](crate::access); connections are bounded where they are accepted, in
//! `listen`.

pub(super) mod answers;
pub(super) mod body;
pub(super) mod budget;
pub(super) mod deadline;
pub(super) mod limits;
pub(super) mod throttle;
pub(super) mod unread;
