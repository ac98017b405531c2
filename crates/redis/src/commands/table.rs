//! Every command that is known: its name, what it takes, and who may send it.
//! The one place that says so: the decoder's words are looked up here, and
//! `COMMAND` is answered from it.

use crate::access::Scope;
use Verb::*;

/// A command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// Which.
    pub(crate) verb: Verb,
    /// Its name in lower case.
    pub(crate) name: &'static str,
    /// How many words it has, the name included; below zero: at least as many.
    pub(crate) arity: i8,
    /// What a key must allow its callers.
    pub(crate) scope: Scope,
    /// Which of its words are keys.
    pub(crate) keys: Keys,
    /// What becomes of it in a transaction.
    pub(crate) in_transaction: InTransaction,
    /// What it is about.
    pub(crate) group: Group,
    /// Since which version of RedisBloom, or of redis.
    pub(crate) since: &'static str,
    /// What it does, in a line.
    pub(crate) summary: &'static str,
    /// Its arguments: words, `[optional]`, `[TOKEN optional]`, `several*`.
    pub(crate) arguments: &'static str,
}

/// Which words of a command are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// None.
    None,
    /// The one behind the name.
    First,
    /// All behind the name.
    All,
    /// The one behind the subcommand.
    Second,
}

/// What becomes of a command within a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTransaction {
    /// It is queued until `EXEC`.
    Queued,
    /// It is done at once.
    AtOnce,
    /// It is refused, and the transaction with it.
    Refused,
}

/// What commands are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Filters, in the words for cuckoo filters.
    Cuckoo,
    /// The same, in the words for Bloom filters.
    Bloom,
    /// Keys, whatever is under them.
    Generic,
    /// Connections.
    Connection,
    /// The server.
    Server,
    /// Transactions.
    Transactions,
    /// Clusters, of which there are none.
    Cluster,
}

impl Group {
    /// How redis calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Cuckoo | Group::Bloom => "module",
            Group::Generic => "generic",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Transactions => "transactions",
            Group::Cluster => "cluster",
        }
    }
}

impl Spec {
    /// Whether a command may have so many words.
    #[inline]
    pub(crate) fn takes(&self, words: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exactly) => words == exactly,
            Err(_) => words >= usize::from(self.arity.unsigned_abs()),
        }
    }
}

macro_rules! commands {
    ($(
        $verb:ident $name:literal $arity:literal $scope:ident $keys:ident $in_transaction:ident
        $group:ident $since:literal $summary:literal $arguments:literal;
    )*) => {
        /// Which command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Verb {
            $(
                #[doc = $summary]
                $verb,
            )*
        }

        /// All of them, in the order of [`Verb`].
        pub(crate) const TABLE: &[Spec] = &[$(Spec {
            verb: $verb,
            name: $name,
            arity: $arity,
            scope: Scope::$scope,
            keys: Keys::$keys,
            in_transaction: InTransaction::$in_transaction,
            group: Group::$group,
            since: $since,
            summary: $summary,
            arguments: $arguments,
        }),*];

        /// The command of a name in lower case.
        #[inline]
        fn named(name: &str) -> Option<Verb> {
            match name {
                $($name => Some($verb),)*
                _ => None,
            }
        }
    };
}

commands! {
    CfExists "cf.exists" 3 Read First Queued Cuckoo "1.0.0" "Says whether an item is in a filter." "key item";
    CfMExists "cf.mexists" -3 Read First Queued Cuckoo "1.0.0" "Says of each item whether it is in a filter." "key item*";
    CfCount "cf.count" 3 Read First Queued Cuckoo "1.0.0" "Says how often an item is in a filter." "key item";
    CfAdd "cf.add" 3 Write First Queued Cuckoo "1.0.0" "Adds a copy of an item to a filter." "key item";
    CfAddNx "cf.addnx" 3 Write First Queued Cuckoo "1.0.0" "Adds an item to a filter if it is not there." "key item";
    CfInsert "cf.insert" -4 Write First Queued Cuckoo "1.0.0" "Adds a copy of each item to a filter." "key [CAPACITY capacity] [NOCREATE] ITEMS item*";
    CfInsertNx "cf.insertnx" -4 Write First Queued Cuckoo "1.0.0" "Adds each item to a filter that is not there." "key [CAPACITY capacity] [NOCREATE] ITEMS item*";
    CfDel "cf.del" 3 Write First Queued Cuckoo "1.0.0" "Deletes a copy of an item from a filter." "key item";
    CfReserve "cf.reserve" -3 Write First Queued Cuckoo "1.0.0" "Creates a filter." "key capacity [BUCKETSIZE bucketsize] [MAXITERATIONS maxiterations] [EXPANSION expansion] [LAYOUT layout] [ERRORRATE rate]";
    CfInfo "cf.info" 2 Read First Queued Cuckoo "1.0.0" "Describes a filter." "key";
    CfDebug "cf.debug" 2 Read First Queued Cuckoo "1.0.0" "Describes a filter in one line." "key";
    CfCompact "cf.compact" 2 Admin First Refused Cuckoo "1.0.0" "Begins the compaction of a filter." "key";
    CfScanDump "cf.scandump" 3 Read First Refused Cuckoo "1.0.0" "Hands out a part of a filter." "key iterator";
    CfLoadChunk "cf.loadchunk" 4 Write First Refused Cuckoo "1.0.0" "Takes in a part of a filter." "key iterator data";
    BfExists "bf.exists" 3 Read First Queued Bloom "1.0.0" "Says whether an item is in a filter." "key item";
    BfMExists "bf.mexists" -3 Read First Queued Bloom "1.0.0" "Says of each item whether it is in a filter." "key item*";
    BfAdd "bf.add" 3 Write First Queued Bloom "1.0.0" "Adds an item to a filter if it is not there." "key item";
    BfMAdd "bf.madd" -3 Write First Queued Bloom "1.0.0" "Adds each item to a filter that is not there." "key item*";
    BfInsert "bf.insert" -4 Write First Queued Bloom "1.0.0" "Adds each item to a filter that is not there." "key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] ITEMS item*";
    BfReserve "bf.reserve" -4 Write First Queued Bloom "1.0.0" "Creates a filter." "key error_rate capacity [EXPANSION expansion] [NONSCALING]";
    BfCard "bf.card" 2 Read First Queued Bloom "2.4.4" "Counts the items of a filter." "key";
    BfInfo "bf.info" -2 Read First Queued Bloom "1.0.0" "Describes a filter." "key [field]";
    BfScanDump "bf.scandump" 3 Read First Refused Bloom "1.0.0" "Is not supported." "key iterator";
    BfLoadChunk "bf.loadchunk" 4 Write First Refused Bloom "1.0.0" "Is not supported." "key iterator data";
    Ping "ping" -1 Read None Queued Connection "1.0.0" "Answers." "[message]";
    Echo "echo" 2 Read None Queued Connection "1.0.0" "Answers with what was sent." "message";
    Hello "hello" -1 Read None Refused Connection "6.0.0" "Chooses the version of the protocol, and says who is there." "[protover]";
    Auth "auth" -2 Read None Refused Connection "1.0.0" "Shows an API key." "[username] password";
    Select "select" 2 Read None Refused Connection "1.0.0" "Chooses the only database." "index";
    Quit "quit" -1 Read None AtOnce Connection "1.0.0" "Ends the connection." "";
    Reset "reset" 1 Read None AtOnce Connection "6.2.0" "Makes the connection a new one." "";
    Client "client" -2 Read None Refused Connection "2.4.0" "Names the connection, and tells of it." "subcommand";
    Command "command" -1 Read None Refused Server "2.8.13" "Describes the commands." "[subcommand]";
    Info "info" -1 Read None Refused Server "1.0.0" "Describes the server." "[section*]";
    DbSize "dbsize" 1 Read None Refused Server "1.0.0" "Counts the filters." "";
    Exists "exists" -2 Read All Queued Generic "1.0.0" "Says how many of the filters there are." "key*";
    Touch "touch" -2 Read All Refused Generic "3.2.1" "Says how many of the filters there are." "key*";
    Type "type" 2 Read First Queued Generic "1.0.0" "Says what is under a key." "key";
    Scan "scan" -2 Read None Refused Generic "2.8.0" "Lists filters, some at a time." "cursor [MATCH pattern] [COUNT count] [TYPE type]";
    KeysOf "keys" 2 Read None Refused Generic "1.0.0" "Lists filters." "pattern";
    RandomKey "randomkey" 1 Read None Refused Generic "1.0.0" "Names any filter." "";
    Object "object" -2 Read Second Refused Generic "2.2.3" "Says how a filter is kept." "subcommand [key]";
    Rename "rename" 3 Admin All Refused Generic "1.0.0" "Is not supported." "key newkey";
    RenameNx "renamenx" 3 Admin All Refused Generic "1.0.0" "Is not supported." "key newkey";
    Copy "copy" -3 Write First Refused Generic "6.2.0" "Is not supported." "source destination [DB destination-db] [REPLACE]";
    Del "del" -2 Admin All Queued Generic "1.0.0" "Deletes filters." "key*";
    Unlink "unlink" -2 Admin All Queued Generic "4.0.0" "Deletes filters." "key*";
    Expire "expire" -3 Admin First Queued Generic "1.0.0" "Has a filter end in so many seconds." "key seconds [NX] [XX] [GT] [LT]";
    PExpire "pexpire" -3 Admin First Queued Generic "2.6.0" "Has a filter end in so many milliseconds." "key milliseconds [NX] [XX] [GT] [LT]";
    ExpireAt "expireat" -3 Admin First Queued Generic "1.2.0" "Has a filter end at a second since 1970." "key unix-time-seconds [NX] [XX] [GT] [LT]";
    PExpireAt "pexpireat" -3 Admin First Queued Generic "2.6.0" "Has a filter end at a millisecond since 1970." "key unix-time-milliseconds [NX] [XX] [GT] [LT]";
    Ttl "ttl" 2 Read First Queued Generic "1.0.0" "Says in how many seconds a filter ends." "key";
    PTtl "pttl" 2 Read First Queued Generic "2.6.0" "Says in how many milliseconds a filter ends." "key";
    ExpireTime "expiretime" 2 Read First Refused Generic "7.0.0" "Says at which second since 1970 a filter ends." "key";
    PExpireTime "pexpiretime" 2 Read First Refused Generic "7.0.0" "Says at which millisecond since 1970 a filter ends." "key";
    Persist "persist" 2 Admin First Queued Generic "2.2.0" "Has a filter never end." "key";
    Memory "memory" -2 Read Second Refused Server "4.0.0" "Says what a filter takes in memory." "subcommand key [SAMPLES count]";
    FlushAll "flushall" -1 Admin None Refused Server "1.0.0" "Deletes all filters." "";
    FlushDb "flushdb" -1 Admin None Refused Server "1.0.0" "Deletes all filters." "";
    Config "config" -2 Read None Refused Server "2.0.0" "Shows settings." "subcommand [parameter*]";
    SlowLog "slowlog" -2 Read None Refused Server "2.2.12" "Shows slow commands." "subcommand [count]";
    Latency "latency" -2 Read None Refused Server "2.8.13" "Says how long commands take." "subcommand [command*]";
    Cluster "cluster" -1 Read None Refused Cluster "3.0.0" "Says that there is no cluster." "";
    ReadOnly "readonly" 1 Read None Refused Cluster "3.0.0" "Says that there is no cluster." "";
    ReadWrite "readwrite" 1 Read None Refused Cluster "3.0.0" "Says that there is no cluster." "";
    Role "role" 1 Read None Refused Server "2.8.12" "Says that there are no replicas." "";
    Wait "wait" 3 Read None Refused Generic "3.0.0" "Says that there are no replicas." "numreplicas timeout";
    Time "time" 1 Read None Refused Server "2.6.0" "Says what time it is." "";
    Module "module" -2 Read None Refused Server "4.0.0" "Lists the modules that filters are of elsewhere." "subcommand";
    Acl "acl" -2 Read None Refused Server "6.0.0" "Says whose connection it is." "subcommand";
    Multi "multi" 1 Read None AtOnce Transactions "1.2.0" "Begins a transaction." "";
    Exec "exec" 1 Read None AtOnce Transactions "1.2.0" "Does what a transaction queued." "";
    Discard "discard" 1 Read None AtOnce Transactions "2.0.0" "Forgets what a transaction queued." "";
    Watch "watch" -2 Read All AtOnce Transactions "2.2.0" "Is not supported." "key*";
    Unwatch "unwatch" 1 Read None Refused Transactions "2.2.0" "Does nothing." "";
}

/// Longest name, with room.
const MAX_NAME_BYTES: usize = 16;

/// The command that a word names, in any case.
#[inline]
pub(crate) fn find(word: &[u8]) -> Option<&'static Spec> {
    let mut folded = [0; MAX_NAME_BYTES];
    let folded = folded.get_mut(..word.len())?;
    folded.copy_from_slice(word);
    folded.make_ascii_lowercase();
    let verb = named(std::str::from_utf8(folded).ok()?)?;
    TABLE.get(verb as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_found_by_its_name_in_any_case() {
        for (index, spec) in TABLE.iter().enumerate() {
            assert_eq!(spec.verb as usize, index);
            for name in [spec.name.to_owned(), spec.name.to_uppercase()] {
                assert_eq!(find(name.as_bytes()).unwrap().verb, spec.verb);
            }
            assert!(spec.name.len() < MAX_NAME_BYTES);
            assert!(spec.summary.ends_with('.'));
            let least = usize::from(spec.arity.unsigned_abs());
            assert!(spec.takes(least) && !spec.takes(least - 1));
            assert_eq!(spec.takes(least + 1), spec.arity < 0);
        }
        for name in ["", "get", "cf.ad", "cf.addd", "bf.del", "k\u{e4}se"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }
}
