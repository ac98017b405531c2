//! Where the server listens, and which callers it answers: TLS, API keys, host
//! names, rates.

use super::errors::ConfigErrors;
use crate::server::{HostPolicy, TlsFiles};
use axum::http::uri::Authority;
use clap::Args;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Addresses and certificates.
#[derive(Debug, Args)]
#[command(next_help_heading = "Listening")]
pub struct ListenConfig {
    /// Address and port to listen on. An address that is not loopback needs --keys-file or --allow-anonymous.
    #[arg(long, env = "CUCKOOD_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Second address and port, for operators: probes, /metrics without a key, and /admin, which is then served only there [default: none; --listen serves everything].
    #[arg(long, env = "CUCKOOD_ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,

    /// File of the server's certificate, in PEM, with the intermediate certificates; read again when it changes. Needs --tls-key. With it only TLS is spoken [default: none; no TLS].
    #[arg(long, env = "CUCKOOD_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// File of the private key of --tls-cert, in PEM; read again when it changes [default: none].
    #[arg(long, env = "CUCKOOD_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// File of certificate authorities, in PEM: callers must show a certificate that one of them signed. Not on --admin-listen, so that probes and scrapers need none [default: none; callers need no certificate].
    #[arg(long, env = "CUCKOOD_TLS_CLIENT_CA", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
}

impl ListenConfig {
    pub(super) fn tls(&self) -> Option<TlsFiles> {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        files.map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authorities: self.tls_client_ca.clone(),
        })
    }
}

/// API keys, host names and rates.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessConfig {
    /// File of API keys, made by `cuckood keys add`; read again when it changes. With it every caller needs a key [default: none; no keys].
    #[arg(long, env = "CUCKOOD_KEYS_FILE")]
    pub keys_file: Option<PathBuf>,

    /// Allow every caller everything, on any address of the machine; other host names than localhost still need --allowed-host. Not with --keys-file [default: without keys, only loopback addresses].
    #[arg(long, env = "CUCKOOD_ALLOW_ANONYMOUS")]
    pub allow_anonymous: bool,

    /// Host name, without a port, by which the server may be called beside the local ones; repeat it, or separate several by commas [default: local names only; also any address with --allow-anonymous; any name with --keys-file].
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
    pub(super) fn check(&self, listen: &ListenConfig, errors: &mut ConfigErrors) {
        let admin = listen.admin_listen.map(|it| ("--admin-listen", it));
        for (flag, address) in [("--listen", listen.listen)].into_iter().chain(admin) {
            self.check_address(flag, address, errors);
        }
        if self.allow_anonymous && self.keys_file.is_some() {
            errors.add("--allow-anonymous contradicts --keys-file: set only one of them");
        }
        for host in self.allowed_hosts.iter().filter(|host| !is_host(host)) {
            errors.add(format!(
                "--allowed-host is {host:?}, allowed is a name or an address without a port, such as filters.example.org or [fd00::1]"
            ));
        }
    }

    /// Refuses an address that others can reach where nobody is asked for a key.
    pub(super) fn check_address(&self, flag: &str, address: SocketAddr, errors: &mut ConfigErrors) {
        let is_open = self.allow_anonymous || self.keys_file.is_some();
        if !is_open && !address.ip().is_loopback() {
            errors.add(format!(
                "{flag} {address} can be reached from other machines, and there are no API keys: create one with cuckood keys add and set --keys-file, listen on 127.0.0.1, or set --allow-anonymous"
            ));
        }
    }

    /// `advertised` is the one by which other pods of a cluster call.
    pub(super) fn hosts(&self, advertised: Option<String>) -> HostPolicy {
        if self.allowed_hosts.is_empty() && self.keys_file.is_some() {
            return HostPolicy::Any;
        }
        let allowed = self.allowed_hosts.iter().cloned();
        let allowed: Vec<String> = allowed.chain(advertised).collect();
        match (allowed.as_slice(), &self.keys_file) {
            (hosts, None) if self.allow_anonymous => HostPolicy::AddressesAnd(hosts.to_vec()),
            ([], _) => HostPolicy::LocalOnly,
            (hosts, _) => HostPolicy::LocalAnd(hosts.to_vec()),
        }
    }
}

/// Whether a URL can name a server so.
fn is_host(text: &str) -> bool {
    text.parse::<Authority>()
        .is_ok_and(|authority| authority.host() == text)
}
