//! What requests may take of the server.
//!
//! | file | what it bounds |
//! |---|---|
//! | `limits` | the limits themselves, as the flags set them |
//! | `body` | the bytes and the time of request bodies |
//! | `answers` | the memory of answers that their clients have not read yet |
//! | `throttle` | work of seconds beside requests of microseconds |
//! | `unread` | what is read of a body that is refused |

pub(super) mod answers;
pub(super) mod body;
pub(super) mod limits;
pub(super) mod throttle;
pub(super) mod unread;
