//! TLS for listeners, of rustls: 1.2 and 1.3.
//!
//! * [`Certificate`] (`certificate`): what a listener proves itself with, and whom it wants a proof of, from files.
//! * [`TlsSession`] (`session`): one connection, from bytes to bytes. Whoever owns the socket reads and writes.

mod certificate;
mod session;

pub use certificate::{Certificate, CertificateError, CertificateFiles};
pub use session::{TlsError, TlsSession};
