//! Why a lane stands still.

/// Why a lane stands still for good. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The log has another history than this pod.
    #[error(
        "the log and this pod have different histories from record {at} on: changes that were acknowledged are missing in one of them. Compare the pods with `cuckood cluster status`, then begin a new epoch from the one to keep: `cuckood cluster new-epoch`"
    )]
    Forked {
        /// This pod's position.
        at: u64,
    },
    /// The log has lost its end.
    #[error(
        "this pod has applied record {at}, the log ends with record {newest}: it was rewound or made anew, and changes that were acknowledged are missing in it. Begin a new epoch from this pod or another that has them: `cuckood cluster new-epoch`"
    )]
    Rewound {
        /// This pod's position.
        at: u64,
        /// The log's newest record, 0 if there is none.
        newest: u64,
    },
    /// The log has less than other pods had.
    #[error(
        "record {acknowledged} was acknowledged, and the log does not have it: this pod has followed the log up to record {at}, and it was rewound, purged or made anew. Other pods have more, even if their newest records have smaller numbers. Begin a new epoch from one that has that record: `cuckood cluster new-epoch`"
    )]
    Lost {
        /// This pod's position.
        at: u64,
        /// What others have applied.
        acknowledged: u64,
    },
    /// Somebody else writes to this log.
    #[error(
        "record {at} of the log is of epoch {epoch}, lane {lane}, and does not belong there: another cluster writes to the same stream. Find out who does, and give each cluster a name of its own; then begin a new epoch from a pod that lacks nothing that was acknowledged: `cuckood cluster new-epoch`"
    )]
    Foreign {
        /// Its number.
        at: u64,
        /// Its epoch.
        epoch: u64,
        /// Its lane.
        lane: u32,
    },
    /// A newer program wrote what this one can't apply.
    #[error(
        "record {at} of the log has feature level {level}, this program understands up to {reads}: start a newer cuckood"
    )]
    NewerLevel {
        /// Its number.
        at: u64,
        /// Its level.
        level: u16,
        /// The newest level that is understood.
        reads: u16,
    },
    /// It is a record, and this pod can't apply it.
    #[error(
        "record {at} of the log can't be applied by this pod: {reason}. If other pods have applied it (`cuckood cluster status`), this one's data are damaged: give it an empty data directory. If none has, the record is: keep the data of all, and begin a new epoch from a pod that stands before it: `cuckood cluster new-epoch`"
    )]
    Unfit {
        /// Its number.
        at: u64,
        /// Why.
        reason: String,
    },
    /// It is no record.
    #[error(
        "record {at} of the log can't be read: {reason}. Somebody else wrote it, or the brokers have damaged it: find out which, then begin a new epoch from a pod that lacks nothing that was acknowledged: `cuckood cluster new-epoch`"
    )]
    Unreadable {
        /// Its number.
        at: u64,
        /// Why.
        reason: String,
    },
}

impl Halt {
    /// The same in few words, for those who only hear that the lane stands still.
    pub fn in_short(&self) -> &'static str {
        match self {
            Halt::Forked { .. } | Halt::Rewound { .. } | Halt::Lost { .. } => {
                "this pod and the commit log differ"
            }
            Halt::Foreign { .. } => "another cluster writes to the commit log",
            Halt::NewerLevel { .. } => "the commit log has a record of a newer program",
            Halt::Unfit { .. } => "the commit log has a record that this pod can't apply",
            Halt::Unreadable { .. } => "the commit log has a record that can't be read",
        }
    }
}
