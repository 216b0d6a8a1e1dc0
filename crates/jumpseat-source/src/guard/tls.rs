//! The files of a receiver's certificate, and whom a receiver may listen to at all.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use pcp_net::{Certificate, CertificateFiles};
use serde::{Deserialize, Serialize};

use crate::setting::InvalidKey;

/// What a receiver proves itself with: PEM files, read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, with those between it and the authority's.
    pub certificate: PathBuf,
    /// Its private key, which others must not be able to read.
    pub key: PathBuf,
    /// Certificates of authorities: clients have to show one by these.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn load(&self) -> Result<Certificate, InvalidKey> {
        let files = CertificateFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
        };
        Certificate::load(&files).map_err(|error| InvalidKey::other("tls", error.to_string()))
    }

    /// Has relative paths begin at a directory.
    pub fn start_paths_at(&mut self, directory: &Path) {
        for path in [&mut self.certificate, &mut self.key].into_iter().chain(&mut self.client_ca) {
            *path = directory.join(&*path);
        }
    }

    /// All of them.
    pub fn paths(&self) -> Vec<PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).cloned().collect()
    }
}

/// Whether `address` (host and port) is of this machine alone. A name counts as what it means now; one that means nothing cannot
/// be listened on either.
pub(crate) fn is_local(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => {
            address.to_socket_addrs().is_ok_and(|mut all| all.all(|address| address.ip().is_loopback()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_alone() {
        for (address, local) in [
            ("localhost:4318", true),
            ("127.0.0.2:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:4318", false),
            ("[::]:4318", false),
            ("192.0.2.1:4318", false),
        ] {
            assert_eq!(is_local(address), local, "{address}");
        }
    }
}
