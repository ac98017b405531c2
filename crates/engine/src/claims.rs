//! Who goes on with filters that are taken in through a commit log.
//!
//! Their pages are on every pod before the filter has its name. A number with which
//! nobody goes on is given up by the pod that leads its lane: by a commit, because
//! no pod can know by itself that no record to come names the filter. Whoever
//! takes one in holds a claim, in the memory of one pod: the number of a pod that
//! died has none on its successor. What is given up under somebody who still goes
//! on is noticed by the lane, which looks whether the number is staged.

use crate::page::FilterId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Held as long as somebody goes on with a filter.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim(Arc<()>);

/// The numbers that are claimed on this pod.
#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<FilterId, Weak<()>>>);

impl Claims {
    /// Says whose a number is. To be called before anybody else can see it.
    pub(super) fn insert(&self, id: FilterId, claim: &Claim) {
        let mut claims = self.0.lock();
        claims.retain(|_, claim| claim.strong_count() > 0);
        claims.insert(id, Arc::downgrade(&claim.0));
    }

    /// Whether somebody goes on with it. Once that is not so it stays so.
    pub(super) fn has(&self, id: FilterId) -> bool {
        let claims = self.0.lock();
        claims.get(&id).is_some_and(|it| it.strong_count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_claimed_until_the_last_holder_is_gone() {
        let (claims, claim) = (Claims::default(), Claim::default());
        claims.insert(FilterId(3), &claim);
        let second = claim.clone();
        drop(claim);
        assert!(claims.has(FilterId(3)) && !claims.has(FilterId(4)));
        drop(second);
        assert!(!claims.has(FilterId(3)));
        claims.insert(FilterId(4), &Claim::default());
        assert!(!claims.has(FilterId(4)));
        assert_eq!(claims.0.lock().len(), 1);
    }
}
