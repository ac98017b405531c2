//! Logs and metrics.

use super::errors::ConfigErrors;
use crate::engine::MAX_NAMED_FILTERS;
use clap::{Args, ValueEnum};

/// Logs and metrics.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logs and metrics")]
pub struct LogConfig {
    /// Format of log lines; `auto` is `human` on a terminal and `json` otherwise.
    #[arg(long, env = "CUCKOOD_LOG_FORMAT", default_value = "auto")]
    pub log_format: LogFormat,

    /// Which log lines are written, as `level` or `module=level,…`; levels are error, warn, info, debug, trace. The audit log is always written, unless audit=off is among them.
    #[arg(long, env = "CUCKOOD_LOG_LEVEL", default_value = "info")]
    pub log_level: String,

    /// Filters with metrics of their own, the largest ones, 0 to 1000; their keys become labels.
    #[arg(long, env = "CUCKOOD_METRICS_FILTER_NAMES", default_value_t = 0)]
    pub metrics_filter_names: usize,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl LogConfig {
    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        if self.metrics_filter_names > MAX_NAMED_FILTERS {
            errors.add(format!(
                "--metrics-filter-names is more than {MAX_NAMED_FILTERS}: decrease it, because each filter has several series"
            ));
        }
    }
}
