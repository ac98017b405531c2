//! Positions as headers have them: `epoch.lane.record`.

use crate::engine::Engine;
use std::collections::BTreeMap;
use std::fmt;

/// Where a record stands in the commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// Which life of the cluster.
    pub epoch: u64,
    /// The lane.
    pub lane: u32,
    /// The record's number.
    pub sequence: u64,
}

impl RecordPosition {
    /// Where a lane stands on this pod.
    pub fn of_lane(engine: &Engine, lane: u32) -> Option<RecordPosition> {
        Some(RecordPosition {
            epoch: engine.epoch()?,
            lane,
            sequence: engine.lane_state(lane)?.position.sequence,
        })
    }

    /// What a header says.
    pub fn parse(text: &str) -> Option<RecordPosition> {
        let mut numbers = text.split('.');
        let mut next = || -> Option<u64> {
            let digits = numbers.next()?;
            let is_number = digits.bytes().all(|it| it.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        let position = RecordPosition {
            epoch: next()?,
            lane: u32::try_from(next()?).ok()?,
            sequence: next()?,
        };
        numbers.next().is_none().then_some(position)
    }

    /// What a request may wait for, of what it gives: the newest of each lane. Those of
    /// epochs that are over are before all of the current one: what was kept of them is
    /// there.
    ///
    /// # Errors
    /// What can be no position in the cluster.
    pub fn newest<'a>(
        given: impl Iterator<Item = &'a str>,
        engine: &Engine,
    ) -> Result<Vec<RecordPosition>, &'a str> {
        let epoch = engine.epoch();
        let mut newest = BTreeMap::<u32, RecordPosition>::new();
        for text in given.map(str::trim) {
            let position = RecordPosition::parse(text).filter(|it| Some(it.epoch) <= epoch);
            let position = position.filter(|it| engine.lane_state(it.lane).is_some());
            let position = position.ok_or(text)?;
            if Some(position.epoch) == epoch {
                let known = newest.entry(position.lane).or_insert(position);
                known.sequence = known.sequence.max(position.sequence);
            }
        }
        Ok(newest.into_values().collect())
    }

    /// Several of them, in one header.
    pub fn list(positions: &[RecordPosition]) -> String {
        let texts: Vec<String> = positions.iter().map(RecordPosition::to_string).collect();
        texts.join(",")
    }
}

impl fmt::Display for RecordPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.lane, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_one_list() {
        let position = |lane| RecordPosition {
            epoch: 1,
            lane,
            sequence: 7,
        };
        assert_eq!(RecordPosition::list(&[]), "");
        assert_eq!(
            RecordPosition::list(&[position(2), position(3)]),
            "1.2.7,1.3.7"
        );
    }

    #[test]
    fn a_position_is_three_numbers() {
        let position = RecordPosition {
            epoch: 1,
            lane: 15,
            sequence: 4711,
        };
        assert_eq!(position.to_string(), "1.15.4711");
        assert_eq!(RecordPosition::parse("1.15.4711"), Some(position));
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "1.2.",
            "a.2.3",
            "1.-2.3",
            "1.+2.3",
            "1.4294967296.1",
        ] {
            assert_eq!(RecordPosition::parse(text), None, "{text}");
        }
    }
}
