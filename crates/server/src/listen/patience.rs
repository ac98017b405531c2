//! How long a client is waited for.

use std::time::Duration;
use tokio::time::Instant;

/// How long a client may be waited for while it takes or sends bytes: so long
/// without a byte, and on average no longer than its bytes need at the slowest
/// rate. One that trickles uses it up as one that pauses does.
#[derive(Clone, Debug)]
pub struct Patience {
    longest: Duration,
    /// 0: no rate is asked for.
    bytes_per_second: u64,
    left: Duration,
}

impl Patience {
    /// All of it.
    pub fn new(longest: Duration, bytes_per_second: u64) -> Patience {
        Patience {
            longest,
            bytes_per_second,
            left: longest,
        }
    }

    /// How long the client is waited for from now on.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Takes off how long the client was waited for, and adds what the bytes that came earn.
    pub fn spend(&mut self, waited: Duration, bytes: usize) {
        let left = self.left.saturating_sub(waited);
        self.left = match self.bytes_per_second {
            _ if bytes == 0 => left,
            0 => self.longest,
            rate => {
                let earned = Duration::from_secs_f64(bytes as f64 / rate as f64);
                left.saturating_add(earned).min(self.longest)
            }
        };
    }
}

/// So long from now, or as good as never.
pub fn after(time: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for so many bytes every so often; how often until it is over.
    fn steps(rate: u64, every: Duration, bytes: usize) -> Option<usize> {
        let mut patience = Patience::new(Duration::from_secs(30), rate);
        for step in 0..10_000 {
            if patience.left() < every {
                return Some(step);
            }
            patience.spend(every, bytes);
        }
        None
    }

    #[test]
    fn who_trickles_is_waited_for_as_long_as_who_pauses() {
        let second = Duration::from_secs(1);
        assert_eq!(steps(1000, 31 * second, 1 << 20), Some(0));
        assert_eq!(steps(1000, second, 0), Some(30));
        assert_eq!(steps(1000, second, 1), Some(30));
        assert_eq!(steps(1000, second, 500), Some(59));
        assert_eq!(steps(1000, second, 1000), None);
        assert_eq!(steps(1000, 29 * second, 29_000), None);
        // Without a rate only pauses count.
        assert_eq!(steps(0, 29 * second, 1), None);
    }
}
