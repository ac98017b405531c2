//! What a new epoch does to the streams of others, and of attempts that did not come to
//! their end.

use crate::founded::founded;
use crate::support::{Cluster, PATIENCE};
use bytes::Bytes;
use cuckood::cluster::jetstream::{
    Connection, Epoch, Founding, JetStreamError, JetStreamLog, NewEpoch, current_epoch, open,
};
use cuckood::cluster::{Answer, Append, CommitLog, Found, MessageId, Position, Record, Writer};

/// Somebody who begins epochs of a cluster.
struct Beginner<'a> {
    cluster: &'a Cluster,
    connection: Connection,
}

impl Beginner<'_> {
    fn new(cluster: &Cluster) -> Beginner<'_> {
        Beginner {
            cluster,
            connection: cluster.patiently(|| cluster.connection()),
        }
    }

    fn current(&self) -> Epoch {
        let cluster = &self.cluster.founding.cluster;
        let current = current_epoch(&self.connection, cluster);
        self.cluster.runtime.block_on(current).unwrap()
    }

    /// Makes the one after the first.
    fn make(&self, current: &Epoch, writer: u8) -> Result<NewEpoch, JetStreamError> {
        let founding = Founding {
            epoch: 2,
            ..self.cluster.founding.clone()
        };
        let writer = Writer([writer; 16]);
        let made = NewEpoch::make(&self.connection, founding, current, 3, writer);
        self.cluster.runtime.block_on(made)
    }

    /// Begins one where lanes of the first epoch stand that have no record.
    fn begin(&self, new: NewEpoch) -> Result<Epoch, JetStreamError> {
        let lanes: Vec<Position> = (0..self.cluster.founding.lanes)
            .map(|lane| self.cluster.lane(lane).origin())
            .collect();
        self.cluster.runtime.block_on(new.begin(&lanes, 0))
    }

    fn is_there(&self, epoch: u64) -> bool {
        let cluster = &self.cluster.founding.cluster;
        let found = NewEpoch::founding_of(&self.connection, cluster, epoch);
        self.cluster.runtime.block_on(found).unwrap().is_some()
    }

    fn log_of(&self, epoch: u64) -> JetStreamLog {
        let cluster = &self.cluster.founding.cluster;
        let log = async {
            let founding = open(&self.connection, cluster, epoch).await.unwrap();
            JetStreamLog::new(&self.connection, founding, PATIENCE).await
        };
        self.cluster.runtime.block_on(log).unwrap()
    }
}

#[test]
fn of_two_epochs_that_are_begun_at_once_one_is_the_current_one_and_the_other_is_given_up() {
    let Some(cluster) = founded() else { return };
    let (one, other) = (Beginner::new(&cluster), Beginner::new(&cluster));
    let before = one.current();
    let first = one.make(&before, 1).unwrap();
    let second = other.make(&before, 2).unwrap();
    let begun = one.begin(first).unwrap();
    let overtaken = other.begin(second).unwrap_err();
    assert!(
        matches!(overtaken, JetStreamError::EpochOvertaken),
        "{overtaken}"
    );
    assert_eq!(one.current(), begun);
    // Its lanes begin with its own barriers.
    let log = one.log_of(begun.epoch);
    for lane in 0..cluster.founding.lanes {
        let Found::Record(bytes) = log.look(lane, log.newest(lane).unwrap()) else {
            panic!("lane {lane} lacks its barrier");
        };
        let record = Record::decode(&bytes).unwrap();
        assert_eq!((record.lane, record.writer), (lane, Writer([1; 16])));
        assert_eq!(record.previous, begun.began[lane as usize]);
    }
    // Nothing is left of the other one.
    assert!(!one.is_there(begun.epoch + 1));
}

#[test]
fn a_stream_with_changes_is_never_removed_and_one_without_is_left_where_it_is() {
    let Some(cluster) = founded() else { return };
    let beginner = Beginner::new(&cluster);
    let before = beginner.current();
    // An attempt that was cut off: the next one takes the next number.
    drop(beginner.make(&before, 1).unwrap());
    let begun = beginner.make(&before, 2).unwrap();
    let begun = beginner.begin(begun).unwrap();
    assert_eq!(begun.epoch, 3);
    let log = beginner.log_of(3);
    let mut newest = log.newest(0).unwrap();
    for number in 1..=3 {
        let append = Append {
            id: MessageId {
                writer: Writer([3; 16]),
                lane: 0,
                number,
            },
            expected: newest,
            bytes: Bytes::from_static(b"a change"),
        };
        let Answer::Stored { sequence, .. } = log.append(0, &append) else {
            panic!("record {number} was not stored");
        };
        newest = sequence;
    }
    // The brokers lose which epoch is the current one.
    let lost = cluster.stream_tool();
    let lost = lost.delete_stream("KV_cuckood_shop");
    cluster.runtime.block_on(lost).unwrap();
    let lost = beginner.current();
    assert_eq!(lost.epoch, 1);
    let refused = beginner.make(&lost, 4).err().unwrap();
    assert!(
        matches!(refused, JetStreamError::EpochInUse { epoch: 3, .. }),
        "{refused}"
    );
    assert_eq!(log.newest(0).unwrap(), newest);
}
