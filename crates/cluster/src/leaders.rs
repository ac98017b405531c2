//! Who leads each lane, as far as this pod knows. It may be wrong for a moment:
//! it only says where a change is sent first.

use parking_lot::RwLock;
use std::sync::Arc;

/// Who leads a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// This pod.
    Own,
    /// The one at this address.
    At(Arc<str>),
}

/// Those of all lanes.
pub struct Leaders(Vec<RwLock<Option<Leader>>>);

impl Leaders {
    /// Of so many lanes, of which none is known.
    pub fn of_none(lanes: u32) -> Leaders {
        Leaders((0..lanes).map(|_| RwLock::default()).collect())
    }

    /// Sets who leads a lane; `None`: nobody, or nobody knows.
    pub fn set(&self, lane: u32, leader: Option<Leader>) {
        if let Some(known) = self.0.get(lane as usize) {
            *known.write() = leader;
        }
    }

    /// Who leads a lane, if that is known.
    pub fn of(&self, lane: u32) -> Option<Leader> {
        self.0.get(lane as usize)?.read().clone()
    }

    /// How many lanes nobody is known to lead.
    pub fn unknown(&self) -> usize {
        self.0.iter().filter(|it| it.read().is_none()).count()
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.0.len()
    }
}
