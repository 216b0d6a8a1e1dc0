//! Who may send over a network: certificates and tokens of a receiver, which are read anew when their files change.
//!
//! * [`tls`]: the files of a certificate, as they are configured; [`tokens`]: the file of tokens, and what each of them may.
//! * [`book`]: what is done with them, counted. `pace`: how much at a time.
//!
//! **Invariant:** no token is in memory but while it is compared: what is kept, and compared in constant time, is what it
//! hashes to. Neither is ever in a message.
//!
//! **Cost:** for each request, a SHA-256 of the token and a comparison with each of those known; once a second, one `stat` a file.

pub mod book;
mod pace;
pub mod tls;
pub mod tokens;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pcp_net::{Certificate, Fresh};

use crate::setting::InvalidKey;
use book::TokenBook;
use tls::TlsFiles;
use tokens::{Token, Tokens};

/// What a receiver lets in.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The receiver, for messages: `otlp`.
    what: String,
    tokens: Option<Mutex<Fresh<Tokens, InvalidKey>>>,
    certificate: Option<Mutex<Fresh<Certificate, InvalidKey>>>,
}

impl Guard {
    /// Reads the files. `book`: where what is done with tokens is counted, if anywhere.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn new(
        what: &str,
        tls: Option<&TlsFiles>,
        token_file: Option<&Path>,
        book: Option<&Arc<TokenBook>>,
    ) -> Result<Guard, InvalidKey> {
        let tokens = token_file.map(|path| {
            let book = book.cloned();
            let read = move |paths: &[PathBuf]| {
                let mut tokens = Tokens::read(&paths[0])?;
                book.iter().for_each(|book| tokens.enlist(book));
                Ok(tokens)
            };
            Fresh::new(vec![path.to_owned()], read).map(Mutex::new)
        });
        let certificate = tls.map(|files| {
            let files = files.clone();
            Fresh::new(files.paths(), move |_| files.load()).map(Mutex::new)
        });
        Ok(Guard {
            what: what.to_owned(),
            tokens: tokens.transpose()?,
            certificate: certificate.transpose()?,
        })
    }

    /// Whether clients need a token.
    pub(crate) fn wants_token(&self) -> bool {
        self.tokens.is_some()
    }

    /// The token that this secret is, if it is one.
    pub(crate) fn token(&self, secret: &[u8]) -> Option<Arc<Token>> {
        let tokens = self.tokens.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.value().find(secret)
    }

    /// Whether connections are encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        self.certificate.is_some()
    }

    /// What connections are encrypted with that begin now.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        let certificate = self.certificate.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(certificate.value().clone())
    }

    /// Reads again what has changed; to be called now and then. What is wrong with a file is told, and what was known before
    /// holds on; but where there is no file of tokens any more, there are no tokens.
    pub(crate) fn renew(&self, now: Instant) {
        if let Some(tokens) = &self.tokens {
            let mut tokens = tokens.lock().unwrap_or_else(PoisonError::into_inner);
            let renewed = tokens.renew(now);
            if tokens.is_gone() {
                tokens.value_mut().revoke_all();
            }
            self.tell("tokens", renewed, |new| tokens.value_mut().become_these(new));
        }
        if let Some(certificate) = &self.certificate {
            let mut certificate = certificate.lock().unwrap_or_else(PoisonError::into_inner);
            let renewed = certificate.renew(now);
            self.tell("certificate", renewed, |new| *certificate.value_mut() = new);
        }
    }

    fn tell<T>(&self, kind: &str, renewed: Option<Result<T, InvalidKey>>, take: impl FnOnce(T)) {
        match renewed {
            None => {}
            Some(Ok(new)) => {
                take(new);
                tracing::info!("{}: the {kind} of its changed file count from now on", self.what);
            }
            Some(Err(error)) => {
                tracing::warn!("{}: {error}; those known before count on", self.what);
            }
        }
    }
}
