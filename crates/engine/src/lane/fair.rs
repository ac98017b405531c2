//! Whose turn it is: deficit round robin, by API key, and within a key by
//! filter (Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit Round
//! Robin", SIGCOMM 1995).
//!
//! What a command costs is known when it is planned, not before. So a flow is
//! served while its balance is above zero, what it cost is taken off
//! afterwards, and a flow in debt waits until the rounds have made up for it. A
//! flow that has nothing left keeps its debt, and loses what it did not use.
//!
//! What comes first in a flow may have to wait until something else has ended. It
//! would be chance if its turn came just then, so whatever waits like that has an
//! order of its own: who has had nothing of the kind under way for longest.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// What waits, by key and by flow within the key.
pub(super) struct FairQueue<K, F, T> {
    keys: Round<K, Round<F, VecDeque<T>>>,
    quantum: i64,
    /// Whether what was taken last came out of turn.
    was_out_of_turn: bool,
}

/// Members that take turns.
struct Round<Id, M> {
    members: HashMap<Id, Member<M>, FixedState>,
    /// Whose turn it is comes first.
    order: VecDeque<Id>,
    /// Counts who had something under way, and who came.
    events: u64,
}

struct Member<M> {
    balance: i64,
    /// When it had something under way last, or came.
    since: u64,
    of: M,
}

/// Members that are remembered though nothing of them waits and they owe
/// nothing: the next command is likely to be of one of them.
const REMEMBERED: usize = 8;

/// Something in which nothing may be left.
trait Idle {
    fn is_idle(&self) -> bool;
}

impl<T> Idle for VecDeque<T> {
    fn is_idle(&self) -> bool {
        self.is_empty()
    }
}

impl<Id, M: Idle> Idle for Round<Id, M> {
    /// Nothing waits, and nothing is owed.
    fn is_idle(&self) -> bool {
        let mut members = self.members.values();
        members.all(|member| member.balance > 0 && member.of.is_idle())
    }
}

impl<Id, M> Default for Round<Id, M> {
    fn default() -> Self {
        Round {
            members: HashMap::default(),
            order: VecDeque::new(),
            events: 0,
        }
    }
}

impl<Id: Clone + Eq + Hash, M: Default + Idle> Round<Id, M> {
    /// A member, who joins as the last one.
    fn member(&mut self, id: &Id, quantum: i64) -> &mut Member<M> {
        self.members.entry(id.clone()).or_insert_with(|| {
            self.order.push_back(id.clone());
            self.events += 1;
            Member {
                balance: quantum,
                since: self.events,
                of: M::default(),
            }
        })
    }

    /// Of those who have something wanted the one that has had nothing under way
    /// for longest.
    fn longest_waiting(&mut self, has_wanted: impl Fn(&M) -> bool) -> Option<(Id, &mut M)> {
        let members = self.members.iter_mut();
        let waiting = members.filter(|(_, member)| has_wanted(&member.of));
        let (id, member) = waiting.min_by_key(|(_, member)| member.since)?;
        Some((id.clone(), &mut member.of))
    }

    /// Says that a member has something under way.
    fn mark_under_way(&mut self, id: &Id) -> Option<&mut M> {
        let member = self.members.get_mut(id)?;
        self.events += 1;
        member.since = self.events;
        Some(&mut member.of)
    }

    /// What `serve` finds with the member whose turn it is. `None`: with no
    /// member. `can_serve` says whether there is something to be found.
    fn next<R>(
        &mut self,
        quantum: i64,
        can_serve: impl Fn(&M) -> bool,
        mut serve: impl FnMut(&mut M) -> Option<R>,
    ) -> Option<(Id, R)> {
        loop {
            // Somebody in debt could be served: then the rounds go on.
            let mut is_owed = false;
            for _ in 0..self.order.len() {
                let id = self.order.pop_front()?;
                let is_crowded = self.members.len() > REMEMBERED;
                let Some(member) = self.members.get_mut(&id) else {
                    continue;
                };
                if member.balance > 0 {
                    if let Some(found) = serve(&mut member.of) {
                        self.order.push_front(id.clone());
                        return Some((id, found));
                    }
                    if member.of.is_idle() {
                        if is_crowded {
                            self.members.remove(&id);
                            continue;
                        }
                        member.balance = quantum;
                    }
                } else {
                    is_owed |= can_serve(&member.of);
                    member.balance += quantum;
                }
                self.order.push_back(id);
            }
            if !is_owed {
                return None;
            }
        }
    }
}

impl<F, T> Round<F, VecDeque<T>> {
    /// Whether the first of a flow is wanted.
    fn has_first(&self, wanted: impl Fn(&T) -> bool) -> bool {
        let mut flows = self.members.values();
        flows.any(|flow| flow.of.front().is_some_and(&wanted))
    }
}

impl<K, F, T> FairQueue<K, F, T>
where
    K: Clone + Eq + Hash,
    F: Clone + Eq + Hash,
{
    /// Nothing waits. A member is served for about `quantum` in a row.
    pub(super) fn new(quantum: i64) -> Self {
        FairQueue {
            keys: Round::default(),
            quantum: quantum.max(1),
            was_out_of_turn: false,
        }
    }

    /// How much waits.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let flows = self.keys.members.values().map(|key| &key.of.members);
        let waiting = flows.flat_map(|flows| flows.values());
        waiting.map(|flow| flow.of.len()).sum()
    }

    /// Puts something behind all that waits in its flow.
    pub(super) fn push(&mut self, key: &K, flow: &F, it: T) {
        self.flow(key, flow).push_back(it);
    }

    /// Puts something back that is under way, see
    /// [`next_waiting`](Self::next_waiting).
    pub(super) fn put_back_under_way(&mut self, key: &K, flow: &F, it: T) {
        self.put_back(key, flow, it);
        self.mark_under_way(key, flow);
    }

    /// If another key waits for the end of what is under way, has the rest of its
    /// own key wait, too: or else a key with much to do could keep it from ending.
    /// Its key pays for it as ever. Whoever comes later waits for one round of that
    /// key at most. Looks at all flows.
    pub(super) fn bring_forward_for_others(
        &mut self,
        key: &K,
        flow: &F,
        waits_for_it: impl Fn(&T) -> bool,
    ) {
        let mut others = self.keys.members.iter().filter(|(other, _)| *other != key);
        if others.any(|(_, other)| other.of.has_first(&waits_for_it))
            && let Some(Member { of: own, .. }) = self.keys.members.get_mut(key)
            && let Some(member) = own.members.get_mut(flow)
        {
            // It is the next one, though it may owe something.
            member.balance = member.balance.max(1);
            own.order.retain(|other| other != flow);
            own.order.push_front(flow.clone());
        }
    }

    /// Puts something back before all that waits in its flow.
    pub(super) fn put_back(&mut self, key: &K, flow: &F, it: T) {
        self.flow(key, flow).push_front(it);
    }

    /// What comes next of all that may go: the first of a flow, if `may_go`
    /// says so.
    pub(super) fn next(&mut self, may_go: impl Fn(&T) -> bool) -> Option<(K, F, T)> {
        let quantum = self.quantum;
        let flow_goes = |flow: &VecDeque<T>| flow.front().is_some_and(&may_go);
        let key_goes = |flows: &Round<F, VecDeque<T>>| flows.has_first(&may_go);
        let serve_flow = |flow: &mut VecDeque<T>| flow.pop_front_if(|first| may_go(first));
        let serve_key =
            |flows: &mut Round<F, VecDeque<T>>| flows.next(quantum, flow_goes, serve_flow);
        let (key, (flow, it)) = self.keys.next(quantum, key_goes, serve_key)?;
        self.was_out_of_turn = false;
        Some((key, flow, it))
    }

    /// What comes next of that which had to wait for something under way that has
    /// ended, in turns by key, and within a key by flow: the first of a flow, if it
    /// is `wanted`. Whoever owes something owes more then. Never twice in a row: what
    /// ends at once would leave nothing to all others. Looks at all flows.
    pub(super) fn next_waiting(&mut self, wanted: impl Fn(&T) -> bool) -> Option<(K, F, T)> {
        if self.was_out_of_turn {
            return None;
        }
        let of_flow = |flow: &VecDeque<T>| flow.front().is_some_and(&wanted);
        let of_key = |flows: &Round<F, VecDeque<T>>| flows.has_first(&wanted);
        let (key, flows) = self.keys.longest_waiting(of_key)?;
        let (flow, waiting) = flows.longest_waiting(of_flow)?;
        let it = waiting.pop_front()?;
        self.was_out_of_turn = true;
        self.mark_under_way(&key, &flow);
        Some((key, flow, it))
    }

    fn mark_under_way(&mut self, key: &K, flow: &F) {
        if let Some(flows) = self.keys.mark_under_way(key) {
            flows.mark_under_way(flow);
        }
    }

    /// Takes off what something has cost that came from there.
    pub(super) fn charge(&mut self, key: &K, flow: &F, cost: i64) {
        let quantum = self.quantum;
        let of_key = self.keys.member(key, quantum);
        of_key.balance -= cost;
        of_key.of.member(flow, quantum).balance -= cost;
    }

    /// Takes out what `wanted` says yes to.
    pub(super) fn take_out(&mut self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for key in self.keys.members.values_mut() {
            let flows = key.of.members.values_mut();
            for flow in flows.filter(|flow| flow.of.iter().any(&wanted)) {
                let (out, left) = std::mem::take(&mut flow.of).into_iter().partition(&wanted);
                flow.of = left;
                taken.extend::<VecDeque<T>>(out);
            }
        }
        taken
    }

    fn flow(&mut self, key: &K, flow: &F) -> &mut VecDeque<T> {
        let quantum = self.quantum;
        let of_key = self.keys.member(key, quantum);
        &mut of_key.of.member(flow, quantum).of
    }
}

#[cfg(test)]
mod tests;
