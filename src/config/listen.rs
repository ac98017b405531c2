//! Where the server listens, and TLS.

use crate::http::TlsFiles;
use clap::Args;
use std::net::SocketAddr;
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
