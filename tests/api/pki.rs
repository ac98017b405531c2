//! Certificates that were made a moment ago.

use cuckood::client::remote::Credentials;
use cuckood::server::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An authority, and the folder where all that it signs is.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Signs a certificate for this very machine, as `name.pem` with
    /// `name.key` beside it.
    pub(crate) fn sign(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// The files of a server whose certificate is signed now.
    pub(crate) fn server(&self) -> TlsFiles {
        self.sign("server");
        TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authorities: None,
        }
    }

    /// One who believes this authority.
    pub(crate) fn believer(&self) -> Credentials {
        Credentials {
            ca_file: Some(self.path("ca.pem")),
            ..Credentials::default()
        }
    }

    /// One who shows a certificate of this authority, and believes another.
    pub(crate) fn client(&self, believes: &Path) -> Credentials {
        self.sign("client");
        Credentials {
            ca_file: Some(believes.to_owned()),
            client_cert: Some(self.path("client.pem")),
            client_key: Some(self.path("client.key")),
            ..Credentials::default()
        }
    }
}
