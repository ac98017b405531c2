//! The dearest forms of each command.

use crate::form::{Form, Round, command};
use crate::prepared::{World, name};
use bytes::Bytes;

/// Commands that are taken apart before they are worked on.
const PIPELINE: usize = 1024;

/// Commands of a transaction about the longest name: with a tenth more, the memory that
/// they are kept in would be more than a command may have.
const IN_A_TRANSACTION: usize = 60_000;

/// Filters about whose items a transaction may be.
const FILTERS: usize = 1024;

/// Longest item.
const ITEM: usize = 64 << 10;

/// A pipeline of this line, whose words have no blanks; `LONG` is the longest name of
/// a filter with a long description, `ITEM` the longest item, `KEY` the API key, `NEW`
/// and `PAGED` names that are new in each.
fn piped(door: &'static str, line: &'static str, times: usize) -> Form {
    let what = format!("{line}, {times} at once");
    Form::new(door, &what, move |world| {
        let of = |round: usize, n: usize| {
            let words = line.split(' ').map(|word| match word {
                "LONG" => name('l', 3).into_bytes(),
                "ITEM" => vec![b'i'; ITEM],
                "KEY" => world.key.clone().into_bytes(),
                "NEW" => name('n', round * times + n).into_bytes(),
                "PAGED" => name('p', round * times + n).into_bytes(),
                "BLOOM" => name('b', round * times + n).into_bytes(),
                "FIXED" => name('f', round * times + n).into_bytes(),
                word => word.as_bytes().to_vec(),
            });
            command(&words.collect::<Vec<_>>())
        };
        let times = times.min(world.many);
        let rounds = if line.contains("F.RESERVE") {
            64.min(world.many)
        } else {
            1
        };
        let pipeline = |round| (0..times).flat_map(|n| of(round, n)).collect::<Vec<u8>>();
        (0..rounds)
            .map(|round| Round::Redis(Bytes::from(pipeline(round))))
            .collect()
    })
}

/// One command of as many words as there may be: those before, and so many more.
fn wide(
    door: &'static str,
    before: &'static str,
    word: impl Fn(usize) -> Vec<u8> + 'static,
) -> Form {
    let what = format!("{before}, 250,000 words");
    Form::new(door, &what, move |world| {
        let mut words: Vec<Vec<u8>> = before.split(' ').map(|it| it.as_bytes().to_vec()).collect();
        words.extend((0..world.many).map(&word));
        vec![Round::Redis(command(&words).into())]
    })
}

/// A pipeline of a command of so many words behind those before.
fn full(
    door: &'static str,
    before: &'static str,
    count: usize,
    word: impl Fn(usize) -> Vec<u8> + 'static,
) -> Form {
    let what = format!("{before}, {count} words, {PIPELINE} at once");
    Form::new(door, &what, move |world| {
        let mut words: Vec<Vec<u8>> = before.split(' ').map(|it| it.as_bytes().to_vec()).collect();
        words.extend((0..count).map(&word));
        let times = PIPELINE.min(world.many);
        vec![Round::Redis(command(&words).repeat(times).into())]
    })
}

/// One command, one word of which has 31 MiB.
fn long(door: &'static str, before: &'static str, of: u8, bytes: usize) -> Form {
    let what = format!("{before}, a word of {} KiB", bytes >> 10);
    Form::new(door, &what, move |world| {
        let mut words: Vec<Vec<u8>> = before.split(' ').map(|it| it.as_bytes().to_vec()).collect();
        let mut word = vec![of; bytes.min(100 * world.many)];
        if of == b'[' {
            word.insert(0, b'*');
        }
        words.push(word);
        vec![Round::Redis(command(&words).into())]
    })
}

/// A transaction of as many commands of one word as there may be.
fn transaction(door: &'static str, line: &'static str) -> Form {
    let what = format!("{line} in a transaction");
    Form::new(door, &what, move |world| {
        let words: Vec<&str> = line.split(' ').collect();
        let times = world.many / words.len();
        let end = if door == "discard" { "DISCARD" } else { "EXEC" };
        vec![within_multi(&command(&words).repeat(times), end)]
    })
}

/// A transaction of these commands.
fn within_multi(commands: &[u8], end: &str) -> Round {
    let bytes = [&command(&["MULTI"])[..], commands, &command(&[end])].concat();
    Round::Redis(bytes.into())
}

fn short(n: usize) -> Vec<u8> {
    n.to_string().into_bytes()
}

pub(crate) fn forms() -> Vec<Form> {
    let mut all = of_items();
    all.extend(of_filters());
    all.extend(of_names());
    all.extend(of_server());
    all.extend(of_connections());
    // They go on for a while after those who asked are gone, so nothing is behind them.
    all.extend(of_transactions());
    all
}

fn of_items() -> Vec<Form> {
    let item = |n: usize| format!("{n:i>110}").into_bytes();
    vec![
        piped("cf.exists", "CF.EXISTS deep ITEM", 400),
        wide("cf.mexists", "CF.MEXISTS chain", short).among_the_worst(),
        wide("cf.mexists", "CF.MEXISTS large", item),
        piped("cf.count", "CF.COUNT deep ITEM", 400),
        piped("cf.add", "CF.ADD piped ITEM", 400),
        piped("cf.addnx", "CF.ADDNX piped ITEM", 400),
        piped("cf.del", "CF.DEL piped ITEM", 400),
        wide(
            "cf.insert",
            "CF.INSERT inserted CAPACITY 4000000 ITEMS",
            short,
        ),
        wide("cf.insert", "CF.INSERT inserted NOCREATE ITEMS", item),
        piped("bf.exists", "BF.EXISTS deep ITEM", 400),
        wide("bf.mexists", "BF.MEXISTS large", item),
        piped("bf.add", "BF.ADD piped ITEM", 400),
        wide("bf.madd", "BF.MADD unless", item),
        wide(
            "bf.insert",
            "BF.INSERT bloomed CAPACITY 4000000 ERROR 0.0000001 EXPANSION 2 ITEMS",
            short,
        ),
        wide(
            "bf.insert",
            "BF.INSERT inserted NOCREATE NONSCALING ITEMS",
            item,
        ),
        wide(
            "cf.insertnx",
            "CF.INSERTNX unless CAPACITY 4000000 NOCREATE ITEMS",
            item,
        ),
    ]
}

fn of_filters() -> Vec<Form> {
    vec![
        piped(
            "cf.reserve",
            "CF.RESERVE NEW 1000 LAYOUT classic BUCKETSIZE 255 MAXITERATIONS 65535 EXPANSION 32768",
            16,
        ),
        piped(
            "cf.reserve",
            "CF.RESERVE PAGED 1000 LAYOUT paged ERRORRATE 0.001",
            16,
        ),
        piped(
            "bf.reserve",
            "BF.RESERVE BLOOM 0.0000001 1000 EXPANSION 32768",
            16,
        ),
        piped("bf.reserve", "BF.RESERVE FIXED 0.01 1000 NONSCALING", 16),
        piped("bf.info", "BF.INFO LONG", PIPELINE),
        piped("bf.card", "BF.CARD LONG", PIPELINE),
        piped("bf.scandump", "BF.SCANDUMP bloom 0", PIPELINE).refused(),
        long("bf.loadchunk", "BF.LOADCHUNK bloom 1", b'x', 31 << 20).refused(),
        piped("cf.info", "CF.INFO LONG", PIPELINE),
        piped("cf.debug", "CF.DEBUG deep", PIPELINE),
        piped("cf.compact", "CF.COMPACT shrinking", PIPELINE),
        piped("cf.scandump", "CF.SCANDUMP bloom 0", 16),
        Form::new("cf.scandump", "all parts", |world| {
            let parts = world.parts.iter().map(|(at, _)| *at);
            let asked = [0].into_iter().chain(parts);
            let commands = asked.flat_map(|at| command(&["CF.SCANDUMP", "bloom", &at.to_string()]));
            vec![Round::Redis(commands.collect())]
        }),
        Form::new("cf.loadchunk", "all parts", |world| {
            let of = |n: usize| {
                let key = name('m', n);
                let nothing = [(1, Vec::new())];
                let parts = if world.parts.is_empty() {
                    &nothing
                } else {
                    &world.parts[..]
                };
                let parts = parts.iter().flat_map(|(at, bytes)| {
                    let at = at.to_string();
                    command(&[&b"CF.LOADCHUNK"[..], key.as_bytes(), at.as_bytes(), bytes])
                });
                let end = command(&["DEL", &key]);
                Round::Redis(parts.chain(end).collect())
            };
            (0..64.min(world.many)).map(of).collect()
        }),
        piped("memory", "MEMORY USAGE LONG SAMPLES 1000000", PIPELINE),
        piped("type", "TYPE LONG", PIPELINE),
        piped("ttl", "TTL LONG", PIPELINE),
        piped("pttl", "PTTL LONG", PIPELINE),
        piped("expiretime", "EXPIRETIME LONG", PIPELINE),
        piped("pexpiretime", "PEXPIRETIME LONG", PIPELINE),
        piped("expire", "EXPIRE LONG 3000000000", PIPELINE),
        wide("expire", "EXPIRE large 3000000000", |_| b"XX".to_vec()),
        piped("expire", "EXPIRE LONG 3000000000 NX XX GT LT", PIPELINE).refused(),
        piped("pexpire", "PEXPIRE LONG 3000000000000", PIPELINE),
        piped("pexpire", "PEXPIRE LONG 1 NX XX GT LT", PIPELINE).refused(),
        piped("expireat", "EXPIREAT LONG 4000000000", PIPELINE),
        piped("expireat", "EXPIREAT LONG 1 NX XX GT LT", PIPELINE).refused(),
        piped("pexpireat", "PEXPIREAT LONG 4000000000000", PIPELINE),
        piped("pexpireat", "PEXPIREAT LONG 1 NX XX GT LT", PIPELINE).refused(),
        piped("persist", "PERSIST LONG", PIPELINE),
        // It would delete what others have: the server has it off.
        piped("flushall", "FLUSHALL SYNC", PIPELINE).refused(),
        piped("flushdb", "FLUSHDB ASYNC", PIPELINE).refused(),
    ]
}

fn of_names() -> Vec<Form> {
    vec![
        wide("exists", "EXISTS", |n| {
            name('l', n % 1000).into_bytes()[..100].to_vec()
        }),
        wide("exists", "EXISTS", |_| b"large".to_vec()).among_the_worst(),
        wide("touch", "TOUCH", |_| b"large".to_vec()),
        wide("del", "DEL", short).among_the_worst(),
        wide("unlink", "UNLINK", |n| format!("{n:x>110}").into_bytes()),
        piped("dbsize", "DBSIZE", PIPELINE),
        piped("scan", "SCAN 0 MATCH *l*l*x COUNT 1000 TYPE MBbloomCF", 256).among_the_worst(),
        Form::new("scan", "a pattern of 1 KiB of classes", |_| {
            let pattern = format!("*{}", "[a-z".repeat(250));
            let words = ["SCAN", "0", "MATCH", &pattern, "COUNT", "1000"];
            vec![Round::Redis(command(&words).repeat(100).into())]
        })
        .among_the_worst(),
        long("scan", "SCAN 0 COUNT 1000 MATCH", b'[', 300_000)
            .refused()
            .among_the_worst(),
        piped("keys", "KEYS *", 16),
        piped("randomkey", "RANDOMKEY", 16).among_the_worst(),
        piped("object", "OBJECT ENCODING LONG", PIPELINE),
        piped("rename", "RENAME LONG large", PIPELINE).refused(),
        piped("renamenx", "RENAMENX LONG large", PIPELINE).refused(),
        piped("copy", "COPY LONG large DB 0 REPLACE", PIPELINE).refused(),
        long("keys", "KEYS", b'[', 1000),
        long("keys", "KEYS", b'[', 300_000).refused(),
    ]
}

fn of_server() -> Vec<Form> {
    // All patterns of a command together have 1 KiB.
    let patterns = |_| b"*[a-z".to_vec();
    let mut all: Vec<Form> = [
        ("command", "COMMAND INFO", "cf.add"),
        ("info", "INFO", "everything"),
        ("client", "CLIENT LIST", "x"),
        ("cluster", "CLUSTER INFO", "x"),
    ]
    .into_iter()
    .map(|(door, before, word)| {
        // Beyond what one that names no key may have.
        wide(door, before, move |_| word.as_bytes().to_vec()).refused()
    })
    .collect();
    all.extend([
        piped("command", "COMMAND", PIPELINE),
        wide("command", "COMMAND DOCS", |_| b"cf.reserve".to_vec())
            .refused()
            .among_the_worst(),
        piped("command", "COMMAND DOCS", PIPELINE),
        piped("command", "COMMAND LIST", PIPELINE),
        full("command", "COMMAND DOCS", 126, |_| b"cf.reserve".to_vec()),
        full("command", "COMMAND INFO", 126, |_| b"cf.add".to_vec()),
        full("info", "INFO", 127, |_| b"everything".to_vec()),
        full("config", "CONFIG GET", 126, patterns),
        long("config", "CONFIG GET", b'[', 31 << 20)
            .refused()
            .among_the_worst(),
        piped("info", "INFO everything", PIPELINE),
        piped("config", "CONFIG GET *", PIPELINE),
        piped("slowlog", "SLOWLOG GET -1", PIPELINE),
        piped("latency", "LATENCY HISTOGRAM", PIPELINE),
        full("latency", "LATENCY HISTOGRAM", 126, |_| b"cf.add".to_vec()),
        piped("role", "ROLE", PIPELINE),
        piped("wait", "WAIT 1000000 3600000", PIPELINE),
        piped("time", "TIME", PIPELINE),
        piped("module", "MODULE LIST", PIPELINE),
        piped("acl", "ACL WHOAMI", PIPELINE),
        piped("readonly", "READONLY", PIPELINE).refused(),
        piped("readwrite", "READWRITE", PIPELINE).refused(),
    ]);
    all
}

fn of_connections() -> Vec<Form> {
    let mut all = vec![
        long("ping", "PING", b'x', 60 << 10),
        long("echo", "ECHO", b'x', 60 << 10),
        long("echo", "ECHO", b'x', 31 << 20)
            .refused()
            .among_the_worst(),
        piped("hello", "HELLO 3 AUTH default KEY SETNAME a-name", PIPELINE),
        piped("auth", "AUTH default KEY", PIPELINE),
        piped("select", "SELECT 0", PIPELINE),
        piped("client", "CLIENT LIST", PIPELINE),
        piped("client", "CLIENT INFO", PIPELINE),
        piped("client", "CLIENT SETINFO LIB-NAME a-name", PIPELINE),
        piped("client", "CLIENT CONSISTENCY strong", PIPELINE),
        piped("client", "CLIENT POSITION", PIPELINE),
        piped("unwatch", "UNWATCH", PIPELINE),
        wide("watch", "WATCH", short).refused(),
        transaction("multi", "CF.EXISTS deep x"),
        transaction("exec", "CF.DEBUG deep").among_the_worst(),
        transaction("exec", "CF.INFO large"),
        transaction("exec", "EXISTS large"),
        transaction("exec", "TYPE none"),
        transaction("exec", "PING"),
        transaction("discard", "PING"),
    ];
    all.push(Form::new("quit", "each connects anew", |_| {
        vec![Round::Redis(command(&["QUIT"]).into())]
    }));
    all.push(Form::new("reset", "and shows its key", |world: &World| {
        let bytes = [command(&["RESET"]), command(&["AUTH", &world.key])].concat();
        vec![Round::Redis(bytes.repeat(PIPELINE / 2).into())]
    }));
    all
}

/// Transactions about many filters, and of commands that are commits.
fn of_transactions() -> Vec<Form> {
    vec![
        Form::new("exec", "items of 1,024 filters in a transaction", |world| {
            let items = (world.many / FILTERS).max(3) - 2;
            let asked = |n: usize| {
                let mut words = vec![b"CF.MEXISTS".to_vec(), name('w', n).into_bytes()];
                words.extend((0..items).map(short));
                command(&words)
            };
            let mut commands: Vec<u8> = (0..FILTERS).flat_map(asked).collect();
            // Those of a run with a change may be worked on at once.
            commands.extend(command(&["CF.ADD", &name('w', FILTERS - 1), "x"]));
            vec![within_multi(&commands, "EXEC")]
        }),
        Form::new(
            "exec",
            "CF.RESERVE of new names in a transaction",
            |world| {
                let of = |round: usize| {
                    let reserve = |n: usize| {
                        let key = name('t', round * PIPELINE + n);
                        command(&["CF.RESERVE", &key, "1000", "LAYOUT", "paged"])
                    };
                    let commands = (0..PIPELINE.min(world.many)).flat_map(reserve);
                    within_multi(&commands.collect::<Vec<u8>>(), "EXEC")
                };
                (0..8.min(world.many)).map(of).collect()
            },
        ),
        // Each is a commit: one that is answered soon, and one that outlasts who asks.
        Form::new("exec", "EXPIRE LONG in a transaction", |world| {
            let one = command(&["EXPIRE", &name('l', 3), "3000000000"]);
            let of = |times: usize| within_multi(&one.repeat(times.min(world.many)), "EXEC");
            [PIPELINE, IN_A_TRANSACTION].map(of).into()
        }),
    ]
}
