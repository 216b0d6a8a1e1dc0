//! An agent on another host: its ingest socket at a TCP address, with TLS, where a token comes first (`docs/ingest-protocol.md`,
//! "From other hosts"). A feature of its own, `remote`, as it takes rustls.
//!
//! ```no_run
//! use std::io::Write as _;
//! use std::time::Duration;
//! use jumpseat_wire::remote::Remote;
//!
//! let remote = Remote::to("box.example:4319").ca("/etc/shop/ca.crt").token_file("/etc/shop/token");
//! let mut stream = remote.connect(Duration::from_secs(5))?;
//! stream.write_all(b"{\"type\":\"login\"}\n")?;
//! stream.end()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files are read anew for each connection, so that tokens and certificates can be replaced under a program that runs. What is read of
//! them, and what a server says before it lets anybody in, has a limit, and all of it together one time.

mod error;
mod stream;

pub use error::RemoteError;
pub use stream::RemoteStream;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Longest file of a token.
const MAX_TOKEN_FILE: u64 = 8 * 1024;
/// Longest file of certificates, or of a key.
const MAX_PEM_FILE: u64 = 4 * 1024 * 1024;
/// Longest token, as the agent has it.
const MAX_TOKEN: usize = 4096;

/// An ingest socket at an address, and what it takes to be let in there.
#[derive(Clone)]
pub struct Remote {
    address: String,
    server_name: Option<String>,
    ca: Option<PathBuf>,
    token: Option<Token>,
    own: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone)]
enum Token {
    File(PathBuf),
    Text(Box<str>),
}

impl std::fmt::Debug for Remote {
    /// Nothing of the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Remote {
    /// One at this host and port, such as `box.example:4319` or `[::1]:4319`.
    pub fn to(address: impl Into<String>) -> Remote {
        Remote { address: address.into(), server_name: None, ca: None, token: None, own: None }
    }

    /// Trusts certificates by the authorities in this file, in PEM form. There is no other way to trust a server.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Remote {
        self.ca = Some(file.into());
        self
    }

    /// Wants a certificate for this name instead of the address's host.
    pub fn server_name(mut self, name: impl Into<String>) -> Remote {
        self.server_name = Some(name.into());
        self
    }

    /// Says the token in this file, one word; others must not be able to use the file.
    pub fn token_file(mut self, file: impl Into<PathBuf>) -> Remote {
        self.token = Some(Token::File(file.into()));
        self
    }

    /// Says this token.
    pub fn token(mut self, token: impl Into<Box<str>>) -> Remote {
        self.token = Some(Token::Text(token.into()));
        self
    }

    /// Shows this certificate, with the key that belongs to it, where the server wants one (`client_ca`);
    /// others must not be able to use the key's file.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Remote {
        self.own = Some((certificate.into(), key.into()));
        self
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether all that is said here makes sense, and the files are there and hold what they should. Connects to nothing.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), RemoteError> {
        self.prepared().map(|_| ())
    }

    /// Connects, and waits until the agent lets this sender in. All of that, but for looking up the host's name, takes `patience`
    /// at most; reads and writes on the stream then wait so long each.
    ///
    /// # Errors
    /// What [`Remote::check`] finds; what the system says; `InvalidData` of it for a server that is not trusted;
    /// [`RemoteError::Refused`] if the agent does not let this sender in.
    pub fn connect(&self, patience: Duration) -> Result<RemoteStream, RemoteError> {
        RemoteStream::open(&self.address, self.prepared()?, patience)
    }

    fn prepared(&self) -> Result<Prepared, RemoteError> {
        let name = self.name()?;
        let ca = self.ca.as_deref().ok_or(RemoteError::Missing("a file of authorities to trust"))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(ca)? {
            roots.add(authority).map_err(|error| RemoteError::file(ca, error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| RemoteError::Io(io::Error::other(error)))?
            .with_root_certificates(roots);
        let config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let own = PrivateKeyDer::from_pem_slice(&secret_contents(key, MAX_PEM_FILE)?);
                let own = own.map_err(|error| RemoteError::file(key, error))?;
                let chain = certificates(certificate)?;
                builder.with_client_auth_cert(chain, own).map_err(|error| RemoteError::file(key, error))?
            }
        };
        Ok(Prepared { name, config: Arc::new(config), token: self.secret()? })
    }

    fn name(&self) -> Result<ServerName<'static>, RemoteError> {
        let wrong = |why: &str| RemoteError::Address { address: self.address.clone(), why: why.to_owned() };
        let (host, port) = self.address.rsplit_once(':').ok_or_else(|| wrong("not host and port"))?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(wrong("not host and port"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        ServerName::try_from(name).map_err(|error| wrong(&error.to_string()))
    }

    fn secret(&self) -> Result<String, RemoteError> {
        let token = self.token.as_ref().ok_or(RemoteError::Missing("a token"))?;
        let (text, wrong): (String, &dyn Fn() -> RemoteError) = match token {
            Token::Text(text) => (text.to_string(), &|| RemoteError::Token),
            Token::File(path) => {
                let bytes = secret_contents(path, MAX_TOKEN_FILE)?;
                let word = String::from_utf8(bytes.trim_ascii().to_vec()).unwrap_or_default();
                (word, &|| RemoteError::file(path, "not one word, which a token is"))
            }
        };
        match is_token(&text) {
            true => Ok(text),
            false => Err(wrong()),
        }
    }
}

/// What a connection begins with.
struct Prepared {
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    token: String,
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, RemoteError> {
    let (bytes, _) = contents(path, MAX_PEM_FILE)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| RemoteError::file(path, error))?;
    match found.is_empty() {
        true => Err(RemoteError::file(path, "holds no certificate in PEM form (-----BEGIN ...)")),
        false => Ok(found),
    }
}

/// What a file holds that is not everybody's.
fn secret_contents(path: &Path, limit: u64) -> Result<Vec<u8>, RemoteError> {
    let (bytes, mode) = contents(path, limit)?;
    match mode & 0o007 {
        0 => Ok(bytes),
        _ => {
            let mode = mode & 0o777;
            Err(RemoteError::file(path, format!("everybody may use it (mode {mode:o}); chmod o=")))
        }
    }
}

/// What a regular file holds, and its mode.
fn contents(path: &Path, limit: u64) -> Result<(Vec<u8>, u32), RemoteError> {
    let failed = |error: io::Error| RemoteError::file(path, error);
    // What is no regular file may wait, or do something, when it is opened.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(RemoteError::file(path, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > limit {
        true => Err(RemoteError::file(path, format!("larger than {limit} bytes"))),
        false => Ok((bytes, meta.mode())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_one_word_that_others_cannot_read() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let long = "x".repeat(10_000);
        for (text, mode, expected) in [
            ("0123456789abcdef\n", 0o600, None),
            ("0123456789abcdef", 0o644, Some("everybody may use it (mode 644)")),
            ("shop 0123456789abcdef", 0o600, Some("not one word")),
            ("", 0o600, Some("not one word")),
            (long.as_str(), 0o600, Some("larger than 8192 bytes")),
        ] {
            fs::write(file.path(), text).expect("written");
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("ours");
            match (Remote::to("box:1").token_file(file.path()).secret(), expected) {
                (Ok(token), None) => assert_eq!(token, "0123456789abcdef"),
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
        let error = Remote::to("box:1").token("a\nb").secret().expect_err("two words").to_string();
        assert!(error.contains("one word") && !error.contains("a\nb"), "{error}");
    }

    #[test]
    fn a_key_is_not_everybodys() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let key = dir.path().join("key");
        fs::write(&key, "").expect("written");
        let secret = |mode| {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("ours");
            secret_contents(&key, MAX_PEM_FILE).map_err(|error| error.to_string())
        };
        assert_eq!(secret(0o640), Ok(Vec::new()));
        let error = secret(0o644).expect_err("everybody's");
        assert!(error.ends_with("everybody may use it (mode 644); chmod o="), "{error}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_before_anything_is_connected() {
        for (remote, part) in [
            (Remote::to("box"), "not host and port"),
            (Remote::to("box:http"), "not host and port"),
            (Remote::to(":1"), "not host and port"),
            (Remote::to("box:1").server_name("a b"), "\"box:1\""),
            (Remote::to("box:1"), "authorities to trust"),
            (Remote::to("box:1").ca("/nonexistent"), "/nonexistent: No such file"),
            (Remote::to("box:1").ca("/dev/null"), "/dev/null: not a regular file"),
            (Remote::to("box:1").ca(file!()), "No such file"),
        ] {
            let error = remote.check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(remote.connect(Duration::ZERO).err().map(|error| error.to_string()), Some(error));
        }
    }
}
