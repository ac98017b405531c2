//! Certificates that were made a moment ago.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use tempfile::TempDir;

/// An authority, and the folder where it and what it signs are.
pub(crate) struct Authority {
    folder: TempDir,
}

impl Authority {
    /// One that has signed `server.pem` for this very machine.
    pub(crate) fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let (own, server) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&own).unwrap();
        let issuer = Issuer::new(params, own);
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.signed_by(&server, &issuer).unwrap();
        for (name, content) in [
            ("ca.pem", authority.pem()),
            ("server.pem", certificate.pem()),
            ("server.key", server.serialize_pem()),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        Authority { folder }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}
