//! The way to an ingest socket: a Unix socket; or TCP with TLS, on which the token comes first (`docs/ingest-protocol.md`, "From
//! other hosts").

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pcp_files::{Links, read_anyones};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

/// Longest file of a token.
const MAX_FILE: u64 = 8 * 1024;

/// An ingest socket at an address, and what it takes to be let in there.
#[derive(Clone)]
pub struct Remote {
    /// Host and port.
    pub address: String,
    token: Vec<u8>,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Files for that.
#[derive(Clone, Copy, Debug)]
pub struct RemoteFiles<'a> {
    /// Certificates of authorities that the server's is by, in PEM form.
    pub ca: &'a Path,
    /// The token, one word.
    pub token: &'a Path,
    /// A certificate of one's own and its key, where the server wants one.
    pub own: Option<(&'a Path, &'a Path)>,
}

impl std::fmt::Debug for Remote {
    /// Nothing of the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Remote {
    /// An address (host and port), with what these files say.
    ///
    /// # Errors
    /// What is wrong with the address or a file, and what to do.
    pub fn new(address: &str, files: RemoteFiles<'_>) -> Result<Remote, String> {
        let host = address.rsplit_once(':').map(|(host, _)| host).filter(|host| !host.is_empty());
        let host =
            host.ok_or_else(|| format!("{address:?} is not host and port, such as \"box.example:4319\""))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|error| format!("{address}: {error}"))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(files.ca)? {
            roots.add(authority).map_err(|error| format!("{}: {error}", files.ca.display()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match files.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let shown = key.display();
                let own = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{shown}: {error}"))?;
                let chain = certificates(certificate)?;
                builder.with_client_auth_cert(chain, own).map_err(|error| format!("{shown}: {error}"))?
            }
        };
        let token = token(files.token)?;
        Ok(Remote { address: address.to_owned(), token, config: Arc::new(config), name })
    }

    /// The first line on a connection.
    fn token_line(&self) -> Vec<u8> {
        let token = String::from_utf8_lossy(&self.token);
        format!("{}\n", json!({"jumpseat": {"token": token}})).into_bytes()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error: rustls::pki_types::pem::Error| format!("{}: {error}", path.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(failed)?.collect();
    let found = found.map_err(failed)?;
    match found.is_empty() {
        true => Err(format!("{} holds no certificate in PEM form (-----BEGIN ...)", path.display())),
        false => Ok(found),
    }
}

fn token(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let (file, meta) = read_anyones(path, Links::Followed).map_err(|error| error.to_string())?;
    if meta.mode() & 0o007 != 0 {
        let mode = meta.mode() & 0o777;
        return Err(format!("{shown}: everybody may use it (mode {mode:o}); chmod o="));
    }
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text).map_err(|error| format!("{shown}: {error}"))?;
    let token = text.trim_ascii();
    match !token.is_empty() && token.iter().all(u8::is_ascii_graphic) {
        true => Ok(token.to_vec()),
        false => Err(format!("{shown}: not one word, which a token is")),
    }
}

/// A connection.
pub(super) enum Way {
    Local(UnixStream),
    Remote(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Way {
    /// Connects. Nothing takes longer than `patience`.
    ///
    /// # Errors
    /// The system's; `InvalidData` for a server that is not trusted, with what is wrong.
    pub(super) fn open(socket: &Path, remote: Option<&Remote>, patience: Duration) -> io::Result<Way> {
        let Some(remote) = remote else {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            return Ok(Way::Local(stream));
        };
        let mut problem = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in remote.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => return Way::encrypt(stream, remote, patience),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    fn encrypt(stream: TcpStream, remote: &Remote, patience: Duration) -> io::Result<Way> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let tls = ClientConnection::new(Arc::clone(&remote.config), remote.name.clone());
        let mut tls = StreamOwned::new(tls.map_err(io::Error::other)?, stream);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock)?;
        }
        tls.write_all(&remote.token_line())?;
        tls.flush()?;
        Ok(Way::Remote(Box::new(tls)))
    }

    /// Whether a read that finds nothing waits.
    pub(super) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.each(|stream| stream.set_nonblocking(on), |stream| stream.set_nonblocking(on))
    }

    /// How long a read waits.
    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        self.each(|stream| stream.set_read_timeout(timeout), |stream| stream.set_read_timeout(timeout))
    }

    fn each(
        &self,
        local: impl FnOnce(&UnixStream) -> io::Result<()>,
        remote: impl FnOnce(&TcpStream) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Way::Local(stream) => local(stream),
            Way::Remote(tls) => remote(&tls.sock),
        }
    }

    /// Says that nothing more comes.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self {
            Way::Local(stream) => stream.shutdown(Shutdown::Write),
            Way::Remote(tls) => {
                tls.conn.send_close_notify();
                tls.flush()
            }
        }
    }
}

impl Read for Way {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Way::Local(stream) => stream.read(buffer),
            Way::Remote(tls) => tls.read(buffer),
        }
    }
}

impl Write for Way {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Way::Local(stream) => stream.write(bytes),
            Way::Remote(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Way::Local(stream) => stream.flush(),
            Way::Remote(tls) => tls.flush(),
        }
    }
}

/// Where messages say that it is.
pub(super) fn place(socket: &Path, remote: Option<&Remote>) -> PathBuf {
    remote.map_or_else(|| socket.to_owned(), |remote| PathBuf::from(&remote.address))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_one_word_that_others_cannot_read() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        for (text, mode, expected) in [
            ("0123456789abcdef\n", 0o600, None),
            ("0123456789abcdef", 0o644, Some("everybody may use it (mode 644)")),
            ("shop 0123456789abcdef", 0o600, Some("not one word")),
            ("", 0o600, Some("not one word")),
        ] {
            fs::write(file.path(), text).expect("written");
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("ours");
            match (token(file.path()), expected) {
                (Ok(token), None) => assert_eq!(token, b"0123456789abcdef"),
                (Err(error), Some(part)) => assert!(error.contains(part), "{error}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_address_or_no_certificate_is_told() {
        let files =
            RemoteFiles { ca: Path::new("/nonexistent"), token: Path::new("/nonexistent"), own: None };
        for (address, part) in [("box", "not host and port"), ("box:1", "/nonexistent")] {
            let error = Remote::new(address, files).expect_err(address);
            assert!(error.contains(part), "{error}");
        }
    }
}
