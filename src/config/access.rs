//! Which requests are answered: API keys, host names, rates.

use super::errors::ConfigErrors;
use crate::http::HostPolicy;
use axum::http::uri::Authority;
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// API keys, host names and rates.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessConfig {
    /// File of API keys, made by `cuckood keys add`; read again when it changes. With it every caller needs a key [default: none; no keys].
    #[arg(long, env = "CUCKOOD_KEYS_FILE")]
    pub keys_file: Option<PathBuf>,

    /// Allow every caller everything, under any host name. Not with --keys-file [default: without keys, only loopback addresses and local names].
    #[arg(long, env = "CUCKOOD_ALLOW_ANONYMOUS")]
    pub allow_anonymous: bool,

    /// Host name, without a port, by which the server may be called beside the local ones; repeat it, or separate several by commas [default: local names only; any name with --keys-file or --allow-anonymous].
    #[arg(
        long = "allowed-host",
        env = "CUCKOOD_ALLOWED_HOST",
        value_delimiter = ','
    )]
    pub allowed_hosts: Vec<String>,

    /// Requests a second of each API key, from 1, and as many at once; more are answered 429. Needs --keys-file [default: no bound].
    #[arg(long, env = "CUCKOOD_RATE_LIMIT", requires = "keys_file")]
    pub rate_limit: Option<NonZeroU32>,
}

impl AccessConfig {
    /// Whether the server may be reached from other machines.
    pub(super) fn is_open(&self) -> bool {
        self.allow_anonymous || self.keys_file.is_some()
    }

    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        if self.allow_anonymous && self.keys_file.is_some() {
            errors.add("--allow-anonymous contradicts --keys-file: set only one of them");
        }
        for host in self.allowed_hosts.iter().filter(|host| !is_host(host)) {
            errors.add(format!(
                "--allowed-host is {host:?}, allowed is a name or an address without a port, such as filters.example.org or [fd00::1]"
            ));
        }
    }

    pub(super) fn hosts(&self) -> HostPolicy {
        match (self.allowed_hosts.as_slice(), self.is_open()) {
            ([], true) => HostPolicy::Any,
            ([], false) => HostPolicy::LocalOnly,
            (hosts, _) => HostPolicy::LocalAnd(hosts.to_vec()),
        }
    }
}

/// Whether a URL can name a server so.
fn is_host(text: &str) -> bool {
    text.parse::<Authority>()
        .is_ok_and(|authority| authority.host() == text)
}
