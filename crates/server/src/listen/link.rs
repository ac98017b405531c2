//! Whether a connection is one of another pod of the cluster.

use super::places::Place;
use crate::access::mac::MacKey;
use crate::share::Permit;
use parking_lot::Mutex;

/// What all paths begin with that pods ask each other for.
pub const BETWEEN_PODS: &str = "/internal/";

/// What a pod has said that is about to prove that it is one.
pub struct Greeting {
    pub(crate) from: String,
    /// What that pod and this one have chosen.
    pub(crate) nonces: [String; 2],
    /// The key that it knows.
    pub(crate) key: MacKey,
}

/// Who is at the other end of a connection, and the place that it takes.
pub struct Link(Mutex<Who>);

enum Who {
    /// It has a place among those of its address.
    Anybody {
        place: Place,
        greeting: Option<Box<Greeting>>,
    },
    /// It has shown that it knows the key of the cluster.
    Pod { _place: Permit<String> },
}

impl Link {
    /// A connection that has this place, of anybody so far.
    pub fn of(place: Place) -> Link {
        Link(Mutex::new(Who::Anybody {
            place,
            greeting: None,
        }))
    }

    /// Has it keep its place if it shows a key now and has shown none before.
    pub fn keep_place_if(&self, shows_key: impl FnOnce() -> bool) {
        if let Who::Anybody { place, .. } = &*self.0.lock()
            && place.is_strangers()
            && shows_key()
        {
            place.keep();
        }
    }

    /// Notes that it says to be of a pod.
    pub fn greeted(&self, by: Greeting) {
        if let Who::Anybody { greeting, .. } = &mut *self.0.lock() {
            *greeting = Some(Box::new(by));
        }
    }

    /// What it has said, once.
    pub fn take_greeting(&self) -> Option<Greeting> {
        match &mut *self.0.lock() {
            Who::Anybody { greeting, .. } => greeting.take().map(|it| *it),
            Who::Pod { .. } => None,
        }
    }

    /// Gives it a place among those of pods, and the one that it had to others.
    pub fn is_of_a_pod(&self, place: Permit<String>) {
        *self.0.lock() = Who::Pod { _place: place };
    }

    /// Whether it has shown that it is of a pod.
    pub fn is_proven(&self) -> bool {
        matches!(*self.0.lock(), Who::Pod { .. })
    }
}
