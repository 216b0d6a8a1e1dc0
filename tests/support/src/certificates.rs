//! Certificates of a test's own, made by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// An authority, a certificate by it for `localhost`, and PCP's configuration that says so.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// Makes all of it.
    ///
    /// # Panics
    /// There is no `openssl`.
    pub fn new() -> Certificates {
        let dir = crate::temp_dir();
        let openssl = |arguments: &str| {
            let output = Command::new("openssl").args(arguments.split(' ')).current_dir(dir.path()).output();
            let output = output.expect("openssl is installed");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        openssl(&format!("req -x509 {new_key} -keyout ca.key -out ca.crt -subj /CN=ca"));
        openssl(&format!("req {new_key} -keyout pcp.key -out pcp.csr -subj /CN=localhost"));
        fs::write(dir.path().join("names"), "subjectAltName=DNS:localhost\n")
            .expect("the directory is writable");
        openssl("x509 -req -in pcp.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out pcp.crt");
        let certificates = Certificates { dir };
        let path = certificates.dir.path().display();
        let trust = format!("tls-ca-cert-file = {path}/ca.crt\n");
        let own = format!("{trust}tls-cert-file = {path}/pcp.crt\ntls-key-file = {path}/pcp.key\n");
        for (name, text) in [("trust.conf", trust), ("tls.conf", own)] {
            fs::write(certificates.path(name), text).expect("the directory is writable");
        }
        certificates
    }

    /// Where it all is.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// `ca.crt`, `pcp.crt` and `pcp.key`; `trust.conf` names the first, `tls.conf` all of them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same as text.
    ///
    /// # Panics
    /// Temporary paths are not text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().expect("temporary paths are text")
    }
}

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates::new()
    }
}
