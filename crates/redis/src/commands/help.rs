//! What `HELP` says of the commands that have subcommands.

use super::table::Verb;

/// The subcommands of a command, a line each; empty: it has none.
pub(crate) fn lines(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Acl => &["ACL WHOAMI: what the API key is called."],
        Verb::Client => &[
            "CLIENT ID: the number of this connection.",
            "CLIENT INFO: this connection in a line.",
            "CLIENT LIST: all connections, a line each.",
            "CLIENT GETNAME: what this connection is called.",
            "CLIENT SETNAME name: calls it so.",
            "CLIENT SETINFO LIB-NAME|LIB-VER value: which library it is of.",
            "CLIENT CONSISTENCY [local|strong]: what questions in a cluster are about.",
            "CLIENT POSITION [positions]: where its changes stand, or what questions wait for.",
            "CLIENT REPLY ON: nothing, as it always is.",
            "CLIENT TRACKING OFF: the same.",
            "CLIENT NO-EVICT ON|OFF: the same.",
            "CLIENT NO-TOUCH ON|OFF: the same.",
        ],
        Verb::Command => &[
            "COMMAND COUNT: how many commands there are.",
            "COMMAND LIST: their names.",
            "COMMAND INFO [name ...]: which of their words are keys.",
            "COMMAND DOCS [name ...]: what they do.",
        ],
        Verb::Config => &["CONFIG GET pattern [pattern ...]: settings."],
        Verb::Latency => &[
            "LATENCY LATEST: the last second with a slow command.",
            "LATENCY HISTORY command: the last 160 of them.",
            "LATENCY RESET: forgets them.",
            "LATENCY HISTOGRAM [command ...]: how many took up to so many microseconds.",
            "LATENCY DOCTOR: the same in a sentence.",
        ],
        Verb::Memory => &["MEMORY USAGE key [SAMPLES count]: bytes of a filter in memory."],
        Verb::Module => &["MODULE LIST: the modules that filters are of elsewhere."],
        Verb::Object => &[
            "OBJECT ENCODING key: raw, as of every type of a module.",
            "OBJECT REFCOUNT key: 1.",
            "OBJECT IDLETIME key, OBJECT FREQ key: not kept here.",
        ],
        Verb::SlowLog => &[
            "SLOWLOG GET [count]: the latest slow commands, ten of them or so many; -1: all.",
            "SLOWLOG LEN: how many there are.",
            "SLOWLOG RESET: forgets them.",
        ],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::TABLE;
    use super::*;

    #[test]
    fn every_command_with_subcommands_has_help() {
        for spec in TABLE {
            let has_some = spec.arguments.contains("subcommand");
            assert_eq!(!lines(spec.verb).is_empty(), has_some, "{}", spec.name);
        }
    }
}
