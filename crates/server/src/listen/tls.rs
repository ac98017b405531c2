//! TLS: certificates from PEM files, exchanged while the server runs.

use crate::metrics::Metrics;
use arc_swap::ArcSwap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Where the certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those that lead from it to an authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of which every caller must show a certificate; `None`:
    /// callers need none.
    pub client_authorities: Option<PathBuf>,
}

/// What becomes of callers that show no certificate where there are authorities
/// for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertPolicy {
    /// There is no connection.
    Required,
    /// They are let in as far as [`ListenerRole`](crate::listen::role::ListenerRole) says of scrapers.
    OptionalForScrapers,
}

impl TlsFiles {
    /// All of them.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.certificate.clone(), self.key.clone()];
        paths.extend(self.client_authorities.clone());
        paths
    }
}

/// Why TLS can't be spoken with these files. The private key is in no text.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read, or holds no PEM.
    #[error("{path} can't be read: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: pem::Error,
    },
    /// There is no certificate in a file.
    #[error("{path} holds no certificate in PEM")]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// Certificate and key do not belong together, or are of a kind that is
    /// not known.
    #[error("the certificate {path} can't be used with its key: {source}")]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: rustls::Error,
    },
    /// The authorities of callers make no sense.
    #[error("the authorities of callers in {path} can't be used: {reason}")]
    Authorities {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// What a listener speaks TLS with.
pub struct Tls {
    files: TlsFiles,
    policy: ClientCertPolicy,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One can't be read or makes no sense, or they do not belong together.
    pub fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        Tls::open_for(files, ClientCertPolicy::Required)
    }

    /// Reads the files, for a listener to which callers without a certificate
    /// may come, too.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for(files: TlsFiles, policy: ClientCertPolicy) -> Result<Tls, TlsError> {
        let config = configure(&files, policy)?;
        Ok(Tls {
            files,
            policy,
            config: ArcSwap::from_pointee(config),
        })
    }

    /// Reads them again, for the connections from now on.
    ///
    /// # Errors
    /// As [`open`](Self::open); all stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = configure(&self.files, self.policy)?;
        self.config.store(Arc::new(config));
        Ok(())
    }

    /// Whether a caller on this connection is kept from what only those with a
    /// certificate get.
    pub fn lacks_certificate<S>(&self, stream: &TlsStream<S>) -> bool {
        self.files.client_authorities.is_some() && stream.get_ref().1.peer_certificates().is_none()
    }

    /// Speaks TLS from now on. `None` if the handshake fails or takes longer, which
    /// is counted and logged.
    pub async fn accept<S>(
        &self,
        stream: S,
        longest: Duration,
        metrics: &Metrics,
    ) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        let reason = match timeout(longest, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        metrics.tls_handshake_failures.inc();
        tracing::debug!(reason, "a TLS handshake failed");
        None
    }
}

fn configure(files: &TlsFiles, policy: ClientCertPolicy) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let path = &files.certificate;
    let unusable = |source| TlsError::Unusable {
        path: path.clone(),
        source,
    };
    let chain = certificates(path)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Unreadable {
        path: files.key.clone(),
        source,
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(client_verifier(path, policy, provider)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn client_verifier(
    path: &Path,
    policy: ClientCertPolicy,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unusable = |reason: String| TlsError::Authorities {
        path: path.to_owned(),
        reason,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| unusable(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match policy {
        ClientCertPolicy::Required => verifier,
        ClientCertPolicy::OptionalForScrapers => verifier.allow_unauthenticated(),
    };
    verifier
        .build()
        .map_err(|error| unusable(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(unreadable)?;
    match found.is_empty() {
        true => Err(TlsError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(found),
    }
}
