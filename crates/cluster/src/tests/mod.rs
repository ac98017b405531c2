//! What must hold of lanes that several pods have, over a log that does
//! everything that was ever seen of one.
//!
//! | file | what it owns |
//! |---|---|
//! | `rules.rs`, `losses.rs` | each rule by itself: a story that goes wrong without it |
//! | `story.rs` | what those stories are told with |
//! | `simulated_log.rs` | the log, and what goes wrong with it |
//! | `shared_log.rs` | the same for engines of one process |
//! | `simulation.rs` and `pod.rs` | pods over it, and one random schedule of what happens |
//! | `schedules.rs` | many schedules, and what must hold of each |
//! | `random`, of the engine | chance with a seed |

mod losses;
mod pod;
#[path = "../../../engine/src/random.rs"]
pub(crate) mod random;
mod rules;
mod schedules;
pub(crate) mod shared_log;
mod simulated_log;
mod simulation;
mod story;

use super::*;

/// The lane of these tests.
fn lane(lane: u32) -> LaneIdentity {
    LaneIdentity {
        founding: [1; 16],
        epoch: 1,
        lane,
    }
}

const LEVELS: Levels = Levels {
    reads: 1,
    writes: 1,
};
