//! Connections that have shown no key, on a listener whose callers have keys: each
//! gives up its place when a new connection finds none. So those who show none
//! can't keep out those who do, however many they are and whatever they ask.

use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use tokio::sync::oneshot;

/// What a host's connections are ranked by: whose are the most, and among those
/// with as many whose oldest came first.
type Rank = (usize, Reverse<u64>, IpAddr);

/// See the module. `P` is what a connection gives up.
pub(crate) struct Strangers<P>(Mutex<Queue<P>>);

struct Queue<P> {
    next: u64,
    by_number: BTreeMap<u64, Stranger<P>>,
    of_hosts: HashMap<IpAddr, BTreeSet<u64>>,
    ranks: BTreeSet<Rank>,
}

struct Stranger<P> {
    host: IpAddr,
    place: P,
    gone: oneshot::Sender<()>,
}

impl<P> Default for Strangers<P> {
    fn default() -> Self {
        Strangers(Mutex::new(Queue {
            next: 0,
            by_number: BTreeMap::new(),
            of_hosts: HashMap::new(),
            ranks: BTreeSet::new(),
        }))
    }
}

impl<P> Strangers<P> {
    /// Keeps the place of a new connection from there: its number, and what says
    /// that the place is given up.
    pub(crate) fn add(&self, host: IpAddr, place: P) -> (u64, oneshot::Receiver<()>) {
        let (gone, told) = oneshot::channel();
        let queue = &mut *self.0.lock();
        let number = queue.next;
        queue.next += 1;
        let stranger = Stranger { host, place, gone };
        queue.by_number.insert(number, stranger);
        queue.change(host, |numbers| numbers.insert(number));
        (number, told)
    }

    /// The place of a connection that is none of them any more; `None`: it was given
    /// up.
    pub(crate) fn take(&self, number: u64) -> Option<P> {
        self.0.lock().take(number).map(|stranger| stranger.place)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().by_number.is_empty()
    }

    /// The place of one for another connection, if there is one: the oldest of the
    /// host that has the most. Its connection is told.
    pub(crate) fn give_up(&self) -> Option<(IpAddr, P)> {
        let queue = &mut *self.0.lock();
        let &(_, Reverse(oldest), host) = queue.ranks.last()?;
        let stranger = queue.take(oldest)?;
        // It may be ending.
        let _ = stranger.gone.send(());
        Some((host, stranger.place))
    }
}

impl<P> Queue<P> {
    fn take(&mut self, number: u64) -> Option<Stranger<P>> {
        let stranger = self.by_number.remove(&number)?;
        self.change(stranger.host, |numbers| numbers.remove(&number));
        Some(stranger)
    }

    fn change(&mut self, host: IpAddr, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let numbers = self.of_hosts.entry(host).or_default();
        let rank = |numbers: &BTreeSet<u64>| {
            let oldest = numbers.first();
            oldest.map(|&oldest| (numbers.len(), Reverse(oldest), host))
        };
        if let Some(before) = rank(numbers) {
            self.ranks.remove(&before);
        }
        change(numbers);
        match rank(numbers) {
            Some(after) => drop(self.ranks.insert(after)),
            None => drop(self.of_hosts.remove(&host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn the_oldest_of_the_host_with_the_most_goes_first() {
        let strangers = Strangers::default();
        let mut told = Vec::new();
        // The first one is alone; two hosts have three each.
        for (place, from) in [1, 3, 2, 2, 3, 2, 3].into_iter().enumerate() {
            told.push(strangers.add(host(from), place).1);
        }
        let order: Vec<usize> = (0..7).map(|_| strangers.give_up().unwrap().1).collect();
        assert_eq!(order, [1, 2, 3, 4, 0, 5, 6]);
        assert!(strangers.is_empty() && strangers.give_up().is_none());
        assert!(told.iter_mut().all(|told| told.try_recv().is_ok()));
    }

    #[test]
    fn one_that_is_a_stranger_no_more_keeps_its_place() {
        let strangers = Strangers::default();
        let (first, mut told) = strangers.add(host(1), "first");
        let (second, _) = strangers.add(host(1), "second");
        assert_eq!(strangers.take(first), Some("first"));
        assert_eq!(strangers.give_up(), Some((host(1), "second")));
        assert_eq!(
            (strangers.take(first), strangers.take(second)),
            (None, None)
        );
        assert!(told.try_recv().is_err());
        assert!(strangers.0.lock().of_hosts.is_empty() && strangers.0.lock().ranks.is_empty());
    }
}
