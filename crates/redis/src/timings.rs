//! How long commands take: of each kind the sum and a distribution, the slow ones one by
//! one for `SLOWLOG`, and the slowest of each second for `LATENCY`. All of it is bounded,
//! and is forgotten with the process. Of slow ones that are too many the oldest of whoever
//! has most is forgotten, so that nobody pushes out what others are to see.
//!
//! Commands that were worked on together have equal parts of the time that all of them
//! took, and are one entry if that was slow.

use super::commands::errors::is_rejection;
use super::commands::table::{TABLE, Verb};
use super::protocol::pipeline::Words;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What takes longer is slow: redis' default.
pub(crate) const SLOWER_THAN: Duration = Duration::from_millis(10);

/// Slow commands that are remembered, and bytes of their words.
pub(crate) const MOST_SLOW: usize = 128;
const MOST_SLOW_BYTES: usize = 256 << 10;

/// Words of a slow command, and bytes of a word, that are remembered: redis' numbers.
const MOST_WORDS: usize = 32;
const MOST_WORD_BYTES: usize = 128;

/// Seconds with slow commands that are remembered: redis' number.
const MOST_SECONDS: usize = 160;

/// Powers of two of microseconds that are told apart; the last one is 35 minutes.
const BUCKETS: usize = 32;

/// What stands for words that no log may hold.
const REDACTED: &[u8] = b"(redacted)";

/// See the module.
pub(crate) struct Timings {
    /// One for each command of the table.
    of_verbs: Vec<OfVerb>,
    slow: Mutex<SlowLog>,
    ids: Ids,
}

/// Numbers that grow, and tell whoever sees some of them nothing of how many others
/// there are: each is the time at which it was given, in microseconds.
#[derive(Default)]
pub(crate) struct Ids(AtomicU64);

impl Ids {
    pub(crate) fn next(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |it| u64::try_from(it.as_micros()).unwrap_or(0));
        let after = |last: u64| now.max(last + 1);
        let given = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(after(last))
            });
        after(given.unwrap_or_else(|last| last))
    }
}

#[derive(Default)]
struct OfVerb {
    nanos: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    /// Commands that took up to 1, 2, 4 … microseconds.
    buckets: [AtomicU64; BUCKETS],
}

/// Times of one kind of command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) calls: u64,
    pub(crate) micros: u64,
    /// Of these, that ended with an error, and that were not even begun.
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    /// How many took up to so many microseconds, without those that none took.
    pub(crate) up_to: Vec<(u64, u64)>,
}

#[derive(Default)]
struct SlowLog {
    commands: VecDeque<Arc<SlowCommand>>,
    bytes: usize,
    seconds: VecDeque<SlowSecond>,
    most_millis: u64,
}

/// A slow command.
#[derive(Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    /// Seconds since 1970.
    pub(crate) at: u64,
    pub(crate) micros: u64,
    /// Shortened.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) peer: SocketAddr,
    /// What the client calls itself.
    pub(crate) client: String,
    /// What its API key is called.
    pub(crate) user: String,
}

impl SlowCommand {
    pub(crate) fn bytes(&self) -> usize {
        let words = self
            .words
            .iter()
            .map(|word| word.len() + size_of::<Vec<u8>>());
        words.sum::<usize>() + self.client.len() + self.user.len() + size_of::<SlowCommand>()
    }
}

impl SlowLog {
    /// Forgets the oldest command of whoever has most, until the rest has room.
    fn make_room(&mut self) {
        loop {
            let weight: fn(&SlowCommand) -> usize = match self.commands.len() {
                count if count > MOST_SLOW => |_| 1,
                _ if self.bytes > MOST_SLOW_BYTES => SlowCommand::bytes,
                _ => return,
            };
            let mut held: HashMap<&str, usize> = HashMap::new();
            for command in &self.commands {
                *held.entry(&command.user).or_default() += weight(command);
            }
            let most = held.values().copied().max();
            let is_of_most = |it: &Arc<SlowCommand>| held.get(it.user.as_str()).copied() == most;
            let oldest = self.commands.iter().position(is_of_most);
            let Some(oldest) = oldest.and_then(|at| self.commands.remove(at)) else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }
}

/// The slowest command of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlowSecond {
    /// Since 1970.
    pub(crate) at: u64,
    pub(crate) millis: u64,
}

impl Timings {
    pub(crate) fn new() -> Timings {
        Timings {
            of_verbs: TABLE.iter().map(|_| OfVerb::default()).collect(),
            slow: Mutex::default(),
            ids: Ids::default(),
        }
    }

    /// Observes commands of one kind, each of which took so long.
    #[inline]
    pub(crate) fn observe(&self, verb: Verb, count: u64, each: Duration) {
        let Some(of_verb) = self.of_verbs.get(verb as usize) else {
            return;
        };
        let nanos = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
        let total = nanos.saturating_mul(count);
        of_verb.nanos.fetch_add(total, Ordering::Relaxed);
        let exponent = (nanos / 1000).max(1).next_power_of_two().ilog2() as usize;
        if let Some(bucket) = of_verb.buckets.get(exponent.min(BUCKETS - 1)) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counts the error with which a command ended.
    pub(crate) fn count_error(&self, verb: Verb, reply: &[u8]) {
        if let Some(of_verb) = self.of_verbs.get(verb as usize) {
            let errors = match is_rejection(reply) {
                true => &of_verb.rejected,
                false => &of_verb.failed,
            };
            errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The times of a kind of command; `None`: there was none.
    pub(crate) fn times(&self, verb: Verb) -> Option<Times> {
        let of_verb = self.of_verbs.get(verb as usize)?;
        let (mut calls, mut up_to) = (0, Vec::new());
        for (exponent, bucket) in of_verb.buckets.iter().enumerate() {
            let count = bucket.load(Ordering::Relaxed);
            calls += count;
            if count > 0 {
                up_to.push((1 << exponent, calls));
            }
        }
        let micros = of_verb.nanos.load(Ordering::Relaxed) / 1000;
        (calls > 0).then_some(Times {
            calls,
            micros,
            failed: of_verb.failed.load(Ordering::Relaxed),
            rejected: of_verb.rejected.load(Ordering::Relaxed),
            up_to,
        })
    }

    /// Remembers a slow command; its number is chosen here.
    pub(crate) fn remember_slow(&self, command: SlowCommand) {
        let (at, millis) = (command.at, command.micros / 1000);
        let mut slow = self.slow.lock();
        slow.most_millis = slow.most_millis.max(millis);
        match slow.seconds.back_mut().filter(|last| last.at == at) {
            Some(last) => last.millis = last.millis.max(millis),
            None => slow.seconds.push_back(SlowSecond { at, millis }),
        }
        if slow.seconds.len() > MOST_SECONDS {
            slow.seconds.pop_front();
        }
        let command = SlowCommand {
            id: self.ids.next(),
            ..command
        };
        slow.bytes += command.bytes();
        slow.commands.push_back(Arc::new(command));
        slow.make_room();
    }

    /// The slow commands that a caller may see, the latest first.
    pub(crate) fn slow(&self, may_see: impl Fn(&SlowCommand) -> bool) -> Vec<Arc<SlowCommand>> {
        let slow = self.slow.lock();
        let seen = slow.commands.iter().rev().filter(|it| may_see(it));
        seen.cloned().collect()
    }

    /// Forgets them.
    pub(crate) fn forget_slow(&self, may_see: impl Fn(&SlowCommand) -> bool) {
        let mut slow = self.slow.lock();
        slow.commands.retain(|it| !may_see(it));
        slow.bytes = slow.commands.iter().map(|it| it.bytes()).sum();
    }

    /// The seconds with slow commands, and the most milliseconds that one took.
    pub(crate) fn slow_seconds(&self) -> (Vec<SlowSecond>, u64) {
        let slow = self.slow.lock();
        (slow.seconds.iter().copied().collect(), slow.most_millis)
    }

    /// Forgets them; `false`: there are none.
    pub(crate) fn forget_seconds(&self) -> bool {
        let mut slow = self.slow.lock();
        let had_some = !slow.seconds.is_empty();
        slow.seconds.clear();
        slow.most_millis = 0;
        had_some
    }
}

/// The words of a command as the log shows them: long ones shortened, as redis does it,
/// and what shows who somebody is left out.
pub(crate) fn shown(verb: Option<Verb>, words: Words<'_>, others: usize) -> Vec<Vec<u8>> {
    let is_secret = matches!(verb, Some(Verb::Auth | Verb::Hello));
    let room = MOST_WORDS - usize::from(others > 0);
    let whole = match words.len() > room {
        true => room - 1,
        false => words.len(),
    };
    let mut shown: Vec<Vec<u8>> = words
        .iter()
        .take(whole)
        .enumerate()
        .map(|(at, word)| match word.split_at_checked(MOST_WORD_BYTES) {
            _ if is_secret && at > 0 => REDACTED.to_vec(),
            Some((start, rest)) if !rest.is_empty() => {
                let more = format!("... ({} more bytes)", rest.len());
                [start, more.as_bytes()].concat()
            }
            _ => word.to_vec(),
        })
        .collect();
    if whole < words.len() {
        shown.push(format!("... ({} more arguments)", words.len() - whole).into_bytes());
    }
    if others > 0 {
        shown.push(format!("... ({others} more commands at once)").into_bytes());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::pipeline::KeptCommands;

    fn slow(word: &[u8]) -> SlowCommand {
        SlowCommand {
            id: 0,
            at: 7,
            micros: 20_000,
            words: vec![word.to_vec()],
            peer: SocketAddr::from(([0, 0, 0, 0], 0)),
            client: String::new(),
            user: "u".to_owned(),
        }
    }

    #[test]
    fn slow_commands_are_bounded_in_number_and_in_bytes() {
        let timings = Timings::new();
        for number in 0..300 {
            timings.remember_slow(slow(b"w"));
            let all = timings.slow(|_| true);
            assert_eq!(all.len(), (number + 1).min(MOST_SLOW));
            assert!(all.is_sorted_by(|one, before| one.id > before.id));
        }
        for _ in 0..300 {
            timings.remember_slow(slow(&[0; 10_000]));
            let bytes: usize = timings.slow(|_| true).iter().map(|it| it.bytes()).sum();
            assert!(bytes <= MOST_SLOW_BYTES);
        }
        assert_eq!(timings.slow(|_| true).len(), 25);
        timings.forget_slow(|_| true);
        let second = SlowSecond { at: 7, millis: 20 };
        assert_eq!(timings.slow_seconds(), (vec![second], 20));
        assert!(timings.forget_seconds() && !timings.forget_seconds());
    }

    #[test]
    fn one_who_is_slow_again_and_again_pushes_nobody_out() {
        let timings = Timings::new();
        let of = |user: &str, word: &[u8]| SlowCommand {
            user: user.to_owned(),
            ..slow(word)
        };
        let held = |user: &str| timings.slow(|it| it.user == user);
        for _ in 0..3 {
            timings.remember_slow(of("modest", b"m"));
        }
        let first = held("modest");
        // By their number, then by their bytes.
        for length in [1, 10_000] {
            for _ in 0..300 {
                timings.remember_slow(of("greedy", &vec![b'g'; length]));
                let kept = held("modest");
                assert!(
                    kept.iter()
                        .zip(&first)
                        .all(|(one, other)| one.id == other.id)
                );
                assert_eq!(kept.len(), 3);
            }
            assert!(held("greedy").len() > 20);
        }
        // Nor is it pushed out by others, but by the part that they may have.
        for _ in 0..300 {
            timings.remember_slow(of("third", b"t"));
        }
        assert_eq!(held("modest").len(), 3);
        assert!(held("greedy").len() > 10 && held("third").len() > 10);
    }

    #[test]
    fn numbers_grow_and_tell_nothing_of_how_many_there_are() {
        let ids = Ids::default();
        let first = ids.next();
        let all: Vec<u64> = (0..1000).map(|_| ids.next()).collect();
        assert!(first < all[0] && all.is_sorted_by(|one, next| one < next));
        std::thread::sleep(Duration::from_millis(20));
        // As far behind the first as it is later, however many came between.
        let later = ids.next() - all[999];
        assert!(later >= 10_000, "{later}");
    }

    #[test]
    fn words_are_shortened_and_secrets_are_left_out() {
        let shown = |verb, words: &[&[u8]], others| -> Vec<String> {
            let mut kept = KeptCommands::default();
            kept.push(words.iter().copied());
            let shown = shown(verb, kept.into_pipeline().command(0), others);
            shown
                .iter()
                .map(|it| it.escape_ascii().to_string())
                .collect()
        };
        let long = [b'x'; 130];
        assert_eq!(
            shown(None, &[b"cf.add", &long[..128], &long], 3),
            [
                "cf.add",
                &"x".repeat(128),
                &format!("{}... (2 more bytes)", "x".repeat(128)),
                "... (3 more commands at once)"
            ]
        );
        let many = shown(None, &[b"a".as_slice(); 40], 0);
        assert_eq!(
            (many.len(), many[31].as_str()),
            (32, "... (9 more arguments)")
        );
        assert_eq!(shown(None, &[b"a".as_slice(); 32], 0).len(), 32);
        assert_eq!(shown(None, &[b"a".as_slice(); 40], 1).len(), 32);
        for verb in [Verb::Auth, Verb::Hello] {
            let told = shown(Some(verb), &[b"auth", b"a", b"secret"], 0);
            assert_eq!(told, ["auth", "(redacted)", "(redacted)"]);
        }
    }

    #[test]
    fn times_are_told_by_powers_of_two() {
        let timings = Timings::new();
        assert_eq!(timings.times(Verb::CfAdd), None);
        let micros = Duration::from_micros;
        for (count, each) in [(3, 0), (1, 1), (1, 2), (10, 3), (1, 4), (1, 1_000_000)] {
            timings.observe(Verb::CfAdd, count, micros(each));
        }
        timings.observe(Verb::CfAdd, 1, Duration::from_secs(100_000));
        let times = timings.times(Verb::CfAdd).unwrap();
        assert_eq!((times.calls, times.micros), (18, 100_001_000_037));
        let up_to = [(1, 4), (2, 5), (4, 16), (1 << 20, 17), (1 << 31, 18)];
        assert_eq!(times.up_to, up_to);
        assert_eq!(timings.times(Verb::CfDel), None);
    }
}
