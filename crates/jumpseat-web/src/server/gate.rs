//! Who may look: certificate, passwords, tokens; which names and origins browsers may come by.

use pcp_net::{Certificate, CertificateFiles};

use super::run::WebError;
use crate::WebArgs;

/// What lets in.
#[derive(Debug)]
pub(super) struct Gate {
    certificate: Option<Certificate>,
}

impl Gate {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with them, or what is missing for where it listens.
    pub(super) fn open(args: &WebArgs) -> Result<Gate, WebError> {
        let certificate = match (&args.certificate, &args.key) {
            (Some(certificate), Some(key)) => {
                let files =
                    CertificateFiles { certificate: certificate.clone(), key: key.clone(), client_ca: None };
                Some(Certificate::load(&files)?)
            }
            _ => None,
        };
        Ok(Gate { certificate })
    }

    /// What connections are encrypted with that begin now.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.certificate.clone()
    }
}
