//! What `HELP` says of the commands that have subcommands.

/// The subcommands, a line each, which begins with the name of its command.
const LINES: [&str; 31] = [
    "ACL WHOAMI: what the API key is called.",
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
    "COMMAND COUNT: how many commands there are.",
    "COMMAND LIST: their names.",
    "COMMAND INFO [name ...]: which of their words are keys.",
    "COMMAND DOCS [name ...]: what they do.",
    "CONFIG GET pattern [pattern ...]: settings.",
    "LATENCY LATEST: the last second with a slow command.",
    "LATENCY HISTORY command: the last 160 of them.",
    "LATENCY RESET: forgets them.",
    "LATENCY HISTOGRAM [command ...]: how many took up to so many microseconds.",
    "LATENCY DOCTOR: the same in a sentence.",
    "MEMORY USAGE key [SAMPLES count]: bytes of a filter in memory.",
    "MODULE LIST: the modules that filters are of elsewhere.",
    "OBJECT ENCODING key: raw, as of every type of a module.",
    "OBJECT REFCOUNT key: 1.",
    "OBJECT IDLETIME key, OBJECT FREQ key: not kept here.",
    "SLOWLOG GET [count]: the latest slow commands, ten of them or so many; -1: all.",
    "SLOWLOG LEN: how many there are.",
    "SLOWLOG RESET: forgets them.",
];

/// The lines about a command; `None`: it has no subcommands.
pub(crate) fn lines(command: &str) -> Option<Vec<&'static str>> {
    let begins = command.to_ascii_uppercase() + " ";
    let lines = LINES.into_iter().filter(|it| it.starts_with(&begins));
    let lines: Vec<&str> = lines.collect();
    (!lines.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::super::table::TABLE;
    use super::*;

    #[test]
    fn every_command_with_subcommands_has_help() {
        for spec in TABLE {
            let has_some = spec.arguments.contains("subcommand");
            assert_eq!(lines(spec.name).is_some(), has_some, "{}", spec.name);
        }
        let found = TABLE.iter().filter_map(|spec| lines(spec.name));
        assert_eq!(found.flatten().count(), LINES.len());
    }
}
