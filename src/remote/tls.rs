//! Which servers are believed to be who they say, and how we say who we are.

use super::{Credentials, RemoteError, Trust};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

pub(super) fn config(trust: &Trust<'_>) -> Result<Arc<ClientConfig>, RemoteError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| RemoteError::BadCredentials("this program knows no version of TLS"))?;
    let credentials = match trust {
        Trust::Signed(credentials) => *credentials,
        Trust::Anybody => {
            let anybody = Arc::new(Anybody(provider));
            let builder = builder
                .dangerous()
                .with_custom_certificate_verifier(anybody);
            return Ok(Arc::new(builder.with_no_client_auth()));
        }
    };
    let builder = builder.with_root_certificates(roots(credentials)?);
    let config = match (&credentials.certificate, &credentials.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let private =
                PrivateKeyDer::from_pem_file(key).map_err(|error| bad_file(key, &error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| bad_file(certificate, &error))?
        }
        _ => {
            return Err(RemoteError::BadCredentials(
                "--client-cert and --client-key belong together: give both",
            ));
        }
    };
    Ok(Arc::new(config))
}

fn roots(credentials: &Credentials) -> Result<RootCertStore, RemoteError> {
    let mut roots = RootCertStore::empty();
    match &credentials.authorities {
        Some(path) => {
            for certificate in certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| bad_file(path, &error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // One that the system has and we do not understand is no reason
            // not to trust the others.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(RemoteError::BadCredentials(
                    "this system trusts no authority; say by --ca-file which one signed the server's certificate",
                ));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, RemoteError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| bad_file(path, &error))?;
    match found.is_empty() {
        true => Err(RemoteError::BadFile {
            path: path.to_owned(),
            reason: "it holds no certificate in PEM".to_owned(),
        }),
        false => Ok(found),
    }
}

fn bad_file(path: &Path, error: &dyn std::error::Error) -> RemoteError {
    RemoteError::BadFile {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// Believes whatever certificate it is shown.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
