//! What the listeners of an agent share.
//!
//! * [`UnixListening`]: a Unix socket that is never open to more people than it should be, and never takes the place
//!   of what is not a dead socket. [`is_served`]: whether somebody listens on one. [`listen_tcp`]: TCP at all addresses of a
//!   host.
//! * [`Keep`], [`Kept`]: who holds listeners while their process is away, so that nobody is refused meanwhile.
//! * [`next_connection`]: accepts, and tells errors of the listener from those of a client that has gone again;
//!   [`PeerCredentials`]: who is at the other end.
//! * [`Who`]: users, groups and hosts, as a configuration names them.
//! * [`Certificate`]: what a listener proves itself with; [`TlsSession`]: one encrypted connection, without any I/O.
//!   [`Passwords`]: who may log in, in a file. [`read_tokens`]: which secrets let programs in. [`Fresh`], [`Stamp`]: files that are
//!   read again.
//! * [`Worker`]: a thread that ends when it is dropped; with [`Life`], one that is started again when it breaks.
//! * [`Limiter`]: a flood of bad input must not become a flood of log lines.
//!
//! **Invariant:** nothing here knows what is said on a connection, and nothing here waits, but for the drop of a [`Worker`] and
//! files.

mod accept;
mod fill;
mod fresh;
mod keep;
mod kept;
mod limiter;
mod passwords;
mod places;
mod secret;
mod tcp;
mod tls;
mod tokens;
mod unix;
mod who;
mod worker;

pub use accept::{PeerCredentials, next_connection};
pub use fill::{Fill, Level};
pub use fresh::{Fresh, Stamp};
pub use keep::{FileId, Keep, Kept, Spot};
pub use kept::{End, Life, Restarts};
pub use limiter::Limiter;
pub use passwords::{PasswordError, Passwords};
pub use places::{Holder, gives_way};
pub use tcp::{TcpListening, listen_tcp};
pub use tls::{Certificate, CertificateError, CertificateFiles, TlsError, TlsSession};
pub use tokens::{SecretHash, TokenError, TokenLine, find_token, parse_tokens, read_tokens};
pub use unix::{ListenError, ListenProblem, UnixListening, is_served};
pub use who::{Identity, Who, WhoError};
pub use worker::Worker;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
