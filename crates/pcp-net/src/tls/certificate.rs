//! What a listener proves itself with.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection, WebPkiClientVerifier};
use rustls::{RootCertStore, crypto};

use super::TlsSession;
use crate::secret;

/// Where a listener's certificate is: PEM files, as `openssl` and every authority write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those between it and the authority's.
    pub certificate: PathBuf,
    /// Its private key, which others must not be able to read.
    pub key: PathBuf,
    /// Certificates of the authorities whose clients are let in; `None`: clients need not prove who they are.
    pub client_ca: Option<PathBuf>,
}

/// A certificate and its key, ready for connections.
#[derive(Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    asks_clients: bool,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read, or not by so few that it could be kept secret.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file holds none of what it is for.
    #[error("{} holds no {what} in PEM form (-----BEGIN ...)", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// Certificate and key are no pair, or of a kind that is not known.
    #[error("{}: {problem}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what is allowed.
        problem: String,
    },
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn load(files: &CertificateFiles) -> Result<Certificate, CertificateError> {
        let chain = certificates(&files.certificate)?;
        let key = private_key(&files.key)?;
        let provider = Arc::new(crypto::ring::default_provider());
        let unusable = |path: &Path, problem: &dyn fmt::Display| CertificateError::Unusable {
            path: path.to_owned(),
            problem: problem.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&files.certificate, &error))?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| unusable(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| unusable(path, &error))?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            unusable(&files.key, &format!("not the key of {}: {error}", files.certificate.display()))
        })?;
        // Clients of collectors stay connected: nothing would be won by remembering them.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Certificate { config: Arc::new(config), asks_clients: files.client_ca.is_some() })
    }

    /// Whether clients have to prove who they are, with a certificate of their own.
    pub fn asks_clients(&self) -> bool {
        self.asks_clients
    }

    /// The same for who has a loop that reads and writes, and speaks one of these protocols (ALPN, such as `h2`); clients that name
    /// others only are refused.
    pub fn server_config(&self, protocols: &[&str]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A connection on which a client is about to begin.
    ///
    /// # Errors
    /// The library has none to give; a defect of this program.
    pub fn begin(&self) -> io::Result<TlsSession> {
        let session = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        Ok(TlsSession::new(session))
    }
}

impl fmt::Debug for Certificate {
    /// Nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("asks_clients", &self.asks_clients).finish_non_exhaustive()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let file = |error| CertificateError::File { path: path.to_owned(), error };
    let pem = secret::read_public(path).map_err(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| file(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    if found.is_empty() {
        return Err(CertificateError::Empty { path: path.to_owned(), what: "certificate" });
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let pem = secret::read(path).map_err(|error| CertificateError::File { path: path.to_owned(), error })?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| CertificateError::Empty {
        path: path.to_owned(),
        what: "private key without a passphrase",
    })
}
