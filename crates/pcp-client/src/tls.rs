//! TLS towards collectors: who is trusted is in PCP's own configuration file (`pmcd(1)`, FILES; spec `wire.md` 4.2).
//!
//! ```text
//! tls-ca-cert-file = FILE      certificates of authorities; PCP never takes the system's
//! tls-ca-cert-dir = DIRECTORY  the same, every file in it
//! tls-cert-file, tls-key-file  the client's own certificate, for collectors that want one
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::ClientConnection;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::error::{ClientError, Result};
use super::socket::Socket;

/// The encrypted side of a connection.
pub(super) struct Session {
    tls: ClientConnection,
    /// For messages: what the collector is called, and where it says who is trusted.
    host: String,
    config: PathBuf,
}

impl Session {
    /// A session with a host, trusting those whom the configuration file names.
    ///
    /// # Errors
    /// [`ClientError::Unsupported`]: what is wrong with the configuration.
    pub(crate) fn new(config: &Path, host: &str) -> Result<Session> {
        let bad =
            |what: &dyn std::fmt::Display| ClientError::Unsupported(format!("{}: {what}", config.display()));
        let text = fs::read_to_string(config).map_err(|error| {
            bad(&format!(
                "{error}; write tls-ca-cert-file = FILE there, with the certificates of who is trusted"
            ))
        })?;
        let settings = Settings::parse(&text);
        let roots = settings.authorities().map_err(|error| bad(&error))?;
        if roots.is_empty() {
            return Err(bad(&"tls-ca-cert-file names no authority, so no collector can be trusted"));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&error))?
            .with_root_certificates(roots);
        let client = match settings.own_certificate().map_err(|error| bad(&error))? {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| bad(&error))?,
            None => builder.with_no_client_auth(),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| bad(&error))?;
        let mut tls = ClientConnection::new(Arc::new(client), name).map_err(|error| bad(&error))?;
        // Whole PDUs are taken, and few are under way.
        tls.set_buffer_limit(None);
        Ok(Session { tls, host: host.to_owned(), config: config.to_owned() })
    }

    /// Takes one PDU, of several at the front of `bytes`. pmcd does not notice a second one in the same record.
    pub(crate) fn write(&mut self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.first_chunk::<4>().map_or(bytes.len(), |len| u32::from_be_bytes(*len) as usize);
        let taken = self.tls.writer().write(bytes.get(..len).unwrap_or(bytes))?;
        self.send(socket)?;
        Ok(taken)
    }

    pub(crate) fn read(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without a farewell is an end: every PDU tells its length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.send(socket)?;
            if self.tls.read_tls(socket)? == 0 {
                return Ok(0);
            }
            if let Err(error) = self.tls.process_new_packets() {
                // The peer is told why, if it still listens.
                let _ = self.send(socket);
                let text = explain(&error, &self.host, &self.config);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
    }

    /// What both sides have agreed on, in words.
    pub(crate) fn agreed(&self) -> String {
        let version = self.tls.protocol_version();
        let suite = self.tls.negotiated_cipher_suite().map(|suite| suite.suite());
        let certificates = self.tls.peer_certificates().map_or(0, <[_]>::len);
        let host = &self.host;
        format!("{version:?}, {suite:?}; {certificates} certificates, of which the first is {host}'s")
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    pub(crate) fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    fn send(&mut self, socket: &mut Socket) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What failed, and what to do about it.
fn explain(error: &rustls::Error, host: &str, config: &Path) -> String {
    use rustls::CertificateError as Bad;
    let config = config.display();
    match error {
        rustls::Error::InvalidCertificate(bad) => match bad {
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => format!(
                "the certificate is not for the name '{host}' ({bad}): ask by a name that it is for, or have one made that \
                 lists this one (subjectAltName)"
            ),
            // The other one is of an authority that only has the name of one that is trusted.
            Bad::UnknownIssuer | Bad::BadSignature => format!(
                "nobody who is trusted vouches for the certificate of '{host}': add its authority's certificate to the file \
                 of tls-ca-cert-file in {config}"
            ),
            Bad::Expired | Bad::ExpiredContext { .. } => {
                format!("the certificate of '{host}' has expired ({bad}): have it renewed there")
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                format!("the certificate of '{host}' is not valid yet ({bad}): look at the clocks")
            }
            bad => format!("the certificate of '{host}' is of no use: {bad}"),
        },
        rustls::Error::AlertReceived(alert) => format!(
            "'{host}' ends the encryption ({alert:?}); if it wants a certificate of its clients, name one that it trusts by \
             tls-cert-file and tls-key-file in {config}"
        ),
        error => format!("TLS with '{host}': {error}"),
    }
}

/// What the configuration file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    authority_file: Option<PathBuf>,
    authority_dir: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Settings {
    fn parse(text: &str) -> Settings {
        let mut settings = Settings::default();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let Some((key, value)) = line.split_once('=') else { continue };
            let place = match key.trim() {
                "tls-ca-cert-file" => &mut settings.authority_file,
                "tls-ca-cert-dir" => &mut settings.authority_dir,
                "tls-cert-file" => &mut settings.certificate,
                "tls-key-file" => &mut settings.key,
                _ => continue,
            };
            *place = Some(PathBuf::from(value.trim()));
        }
        settings
    }

    fn authorities(&self) -> io::Result<RootCertStore> {
        let mut files: Vec<PathBuf> = self.authority_file.iter().cloned().collect();
        if let Some(dir) = &self.authority_dir {
            let entries = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
            files.extend(entries.filter(|path| path.is_file()));
        }
        let mut roots = RootCertStore::empty();
        for file in files {
            roots.add_parsable_certificates(certificates(&file)?);
        }
        Ok(roots)
    }

    /// The client's certificates and key, if it has both and may read them: the key is mostly pmcd's own.
    fn own_certificate(&self) -> io::Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else { return Ok(None) };
        // Without it most collectors are content, and those that are not say so.
        let Ok(pem) = fs::read(key) else { return Ok(None) };
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(io::Error::other)?;
        Ok(Some((certificates(certificate)?, key)))
    }
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let pem = fs::read(file)?;
    CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<_, _>>().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_file_is_read_as_pcp_writes_it() {
        let text = "# tls-cert-file = /no\n#\n##tls-ca-cert-dir = /no\ntls-ca-cert-file = /etc/pcp/tls/ca.crt\n\
                    tls-cert-file=/c\n tls-key-file = /k \ntls-ciphers = DEFAULT\n";
        let path = |path: &str| Some(PathBuf::from(path));
        let expected = Settings {
            authority_file: path("/etc/pcp/tls/ca.crt"),
            authority_dir: None,
            certificate: path("/c"),
            key: path("/k"),
        };
        assert_eq!(Settings::parse(text), expected);
    }

    #[test]
    fn each_failure_says_what_to_do() {
        use rustls::CertificateError as Bad;
        let certificate = rustls::Error::InvalidCertificate;
        for (error, text) in [
            (certificate(Bad::NotValidForName), "subjectAltName"),
            (certificate(Bad::UnknownIssuer), "tls-ca-cert-file in /c"),
            (certificate(Bad::BadSignature), "tls-ca-cert-file in /c"),
            (certificate(Bad::Expired), "have it renewed"),
            (certificate(Bad::NotValidYet), "look at the clocks"),
            (certificate(Bad::Revoked), "of no use"),
            (
                rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired),
                "tls-key-file in /c",
            ),
            (rustls::Error::HandshakeNotComplete, "TLS with 'box'"),
        ] {
            let told = explain(&error, "box", Path::new("/c"));
            assert!(told.contains(text) && told.contains("'box'"), "{told}");
        }
    }

    #[test]
    fn whom_nobody_vouches_for_is_not_trusted() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("tls.conf");
        let problem = |config: &Path| match Session::new(config, "localhost") {
            Err(ClientError::Unsupported(text)) => text,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("there is nobody to trust"),
        };
        assert!(problem(&config).contains("No such file"));
        fs::write(&config, "#tls-ca-cert-file = x\n").expect("writable");
        assert!(problem(&config).contains("no authority"));
        fs::write(&config, "tls-ca-cert-file = /nonexistent/ca\n").expect("writable");
        assert!(problem(&config).contains("No such file"));
    }
}
