//! How the program was called.

use super::cli::Cli;
use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What calls this program again as it was called, in the same environment.
///
/// # Errors
/// The system does not say which program this is.
pub fn same_call() -> io::Result<Command> {
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_default();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(name).args(given);
    Ok(command)
}

/// What the names of the program's variables begin with.
const OWN: &str = "CUCKOOD_";

/// The variables that are named like ours, but that no flag has: each with a similar one
/// of the server, if there is one.
pub fn unknown_variables() -> Vec<(String, Option<String>)> {
    unknown_of(std::env::vars_os())
}

fn unknown_of(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(String, Option<String>)> {
    let command = Cli::command();
    let unknown = environment.filter_map(|(name, value)| {
        let is_known = knows(&command, &name) || is_of_a_service(name.to_str()?, value.to_str()?);
        let name = name.into_string().ok();
        name.filter(|it| it.starts_with(OWN) && !is_known)
    });
    unknown.map(|name| (name.clone(), similar(&name))).collect()
}

/// Whether Kubernetes has set it in every pod, for a Service whose name begins as ours:
/// CUCKOOD_SERVICE_HOST, CUCKOOD_PORT, CUCKOOD_PORT_8080_TCP_ADDR.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let is_port = name.ends_with("_PORT") && value.contains("://");
    is_port || ["_SERVICE_", "_PORT_"].iter().any(|it| name.contains(it))
}

fn knows(command: &clap::Command, variable: &OsStr) -> bool {
    let mut flags = command.get_arguments();
    flags.any(|it| it.get_env() == Some(variable))
        || command.get_subcommands().any(|it| knows(it, variable))
}

/// What is suggested to who misspells a flag is what is meant here, too.
fn similar(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(OWN)?.to_lowercase();
    let line = ["cuckood", "serve", &format!("--{}", name.replace('_', "-"))];
    let error = Cli::command().try_get_matches_from(line).err()?;
    match error.get(ContextKind::SuggestedArg)? {
        // To a short name a long one is similar that has its letters somewhere.
        ContextValue::String(flag) if flag.len() <= 2 * line[2].len() => {
            let flag = flag.trim_start_matches('-').to_uppercase();
            Some(format!("{OWN}{}", flag.replace('-', "_")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_is_told_from_those_of_others() {
        let environment = [
            ("CUCKOOD_CACHE_BYTE", "1GiB"),
            ("CUCKOOD_KEY_FILE", "keys.json"),
            ("CUCKOOD_XYZ", ""),
            ("CUCKOOD_PORT", "8080"),
            ("CUCKOOD_CACHE_BYTES", "1GiB"),
            ("CUCKOOD_API_KEY", "of a client"),
            ("CUCKOOD_SERVICE_HOST", "10.0.0.1"),
            ("CUCKOOD_SERVICE_PORT_HTTP", "8080"),
            ("CUCKOOD_PORT", "tcp://10.0.0.1:8080"),
            ("CUCKOOD_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("CUCKOOD_HEADLESS_SERVICE_HOST", "10.0.0.1"),
            ("PATH", "/bin"),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let unknown = unknown_of(environment.into_iter());
        let unknown = unknown.iter().map(|(name, it)| (&**name, it.as_deref()));
        let unknown: Vec<_> = unknown.collect();
        let misspelt = [
            ("CUCKOOD_CACHE_BYTE", Some("CUCKOOD_CACHE_BYTES")),
            ("CUCKOOD_KEY_FILE", Some("CUCKOOD_KEYS_FILE")),
            ("CUCKOOD_XYZ", None),
            ("CUCKOOD_PORT", None),
        ];
        assert_eq!(unknown, misspelt);
    }
}
