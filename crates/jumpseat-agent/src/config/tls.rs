//! `[tls]`: what `jumpseat serve` proves itself with.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use jumpseat_source::setting::InvalidKey;
use pcp_net::CertificateFiles;

use super::InvalidTable;

/// TLS for direct clients. Under pmcd, connections are pmcd's.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate, in PEM form, with those between it and the authority's.
    pub certificate: Option<PathBuf>,
    /// Its private key, which others must not be able to read.
    pub key: Option<PathBuf>,
    /// Certificates of authorities: clients over TCP have to show one by these.
    pub client_ca: Option<PathBuf>,
    /// Clients over TCP have to begin TLS.
    pub required: bool,
}

impl TlsConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidTable> {
        let problem = match (&self.certificate, &self.key) {
            (Some(_), None) => Some(("certificate", "there is no key; TLS needs both")),
            (None, Some(_)) => Some(("key", "there is no certificate; TLS needs both")),
            (None, None) if self.client_ca.is_some() => {
                Some(("client_ca", "TLS needs a certificate and a key as well"))
            }
            (None, None) if self.required => Some(("required", "TLS needs a certificate and a key")),
            _ => None,
        };
        let Some((key, text)) = problem else { return Ok(()) };
        Err(InvalidTable { table: "tls", nth: 0, invalid: InvalidKey::other(key, text.to_owned()) })
    }

    /// The files, if there are any.
    pub fn files(&self) -> Option<CertificateFiles> {
        Some(CertificateFiles {
            certificate: self.certificate.clone()?,
            key: self.key.clone()?,
            client_ca: self.client_ca.clone(),
        })
    }

    /// Has relative paths begin at a directory.
    pub(super) fn start_paths_at(&mut self, directory: &Path) {
        for path in [&mut self.certificate, &mut self.key, &mut self.client_ca].into_iter().flatten() {
            *path = directory.join(&*path);
        }
    }
}
