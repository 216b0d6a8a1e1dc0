//! What is in files: who is trusted over https, as whom the agent comes, and values of headers that are secret.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pcp_files::{Links, read_anyones};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};

use crate::setting::InvalidKey;

/// Longest file with the value of a header, and with certificates.
const MAX_VALUE: u64 = 16 * 1024;
const MAX_PEM: u64 = 4 << 20;

/// Who is trusted over https, and as whom the agent comes: PEM files, read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrustFiles {
    /// Certificates of the authorities that targets' are by; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// A certificate of the agent's own, for targets that want one.
    pub certificate: Option<PathBuf>,
    /// Its private key, which others must not be able to read.
    pub key: Option<PathBuf>,
    /// The name that targets' certificates are for; `None`: the host of their address.
    pub server_name: Option<String>,
}

impl TrustFiles {
    /// Checks what needs no file.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self) -> Result<(), InvalidKey> {
        if self.certificate.is_some() != self.key.is_some() {
            return Err(InvalidKey::other("tls", "certificate and key go together"));
        }
        let Some(name) = &self.server_name else { return Ok(()) };
        ServerName::try_from(name.as_str())
            .map(drop)
            .map_err(|_| InvalidKey::other("tls", format!("server_name {name:?} is no name of a host")))
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.ca, &self.certificate, &self.key].into_iter().flatten()
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.ca, &mut self.certificate, &mut self.key].into_iter().flatten()
    }

    /// Reads them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
            // Which of them cannot be read makes no difference to those that can.
            None => _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(path)) => {
                let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
                let pem = secret(path, MAX_PEM)?;
                let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| failed(&error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|error| failed(&error))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The value of a header: what is in a file, without blanks around it.
///
/// # Errors
/// The file cannot be read, or by everybody, or is no value.
pub(super) fn credential(path: &Path) -> Result<String, String> {
    let bytes = secret(path, MAX_VALUE)?;
    let text = bytes.trim_ascii();
    match !text.is_empty() && text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
        true => Ok(String::from_utf8_lossy(text).into_owned()),
        false => Err(format!("{}: not one line of printable characters", path.display())),
    }
}

fn secret(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let (file, meta) = read_anyones(path, Links::Followed).map_err(|error| error.to_string())?;
    if meta.mode() & 0o007 != 0 {
        let (shown, mode) = (path.display(), meta.mode() & 0o777);
        return Err(format!("{shown}: everybody may use it (mode {mode:o}); chmod o="));
    }
    take(path, file, max)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let (file, _) = read_anyones(path, Links::Followed).map_err(|error| error.to_string())?;
    let pem = take(path, file, MAX_PEM)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    match found.is_empty() {
        true => Err(format!("{} holds no certificate in PEM form (-----BEGIN ...)", path.display())),
        false => Ok(found),
    }
}

fn take(path: &Path, file: std::fs::File, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let length = file.take(max + 1).read_to_end(&mut bytes);
    match length.map_err(|error| format!("{}: {error}", path.display()))? as u64 > max {
        true => Err(format!("{}: longer than {max} bytes", path.display())),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_value_is_one_line_that_others_cannot_read() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        for (text, mode, expected) in [
            (" Basic dTpw \n", 0o600, Ok("Basic dTpw")),
            ("x", 0o644, Err("everybody may use it (mode 644)")),
            ("a\nb", 0o600, Err("not one line")),
            ("", 0o600, Err("not one line")),
        ] {
            fs::write(file.path(), text).expect("written");
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("ours");
            match (credential(file.path()), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn files_without_certificates_are_told() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let files = TrustFiles { ca: Some(file.path().to_owned()), ..TrustFiles::default() };
        assert!(files.load().expect_err("it is empty").contains("no certificate"));
        assert!(TrustFiles::default().load().is_ok());
    }
}
