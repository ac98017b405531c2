//! What requests may take: bytes of memory, places, and turns of long work.
//!
//! | file | what it owns |
//! |---|---|
//! | `limits` | the limits as flags set them, and what is left of them |
//! | `budget` | what requests hold of one resource |
//! | `answers` | memory for large answers |
//! | `threads` | permits for the async threads |
//! | `throttle` | the pace of long work beside short requests |

pub mod answers;
pub mod budget;
pub mod limits;
pub mod threads;
pub mod throttle;
