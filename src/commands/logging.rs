//! Log lines, for people or for machines.

use super::failure::Result;
use crate::access::audit::TARGET;
use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

pub(super) fn start(config: &LogConfig, levels: &str) -> Result {
    let filter = EnvFilter::try_new(levels);
    let filter = filter.map_err(|error| format!("--log-level {levels}: {error}"))?;
    // Who turns the log down does not mean the audit log, unless it is named.
    let filter = match levels.contains(TARGET) {
        true => filter,
        false => filter.add_directive(format!("{TARGET}=info").parse()?),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let terminal = std::io::stdout().is_terminal();
    match (config.log_format, terminal) {
        (LogFormat::Human, _) | (LogFormat::Auto, true) => lines.with_ansi(terminal).init(),
        (LogFormat::Json, _) | (LogFormat::Auto, false) => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
