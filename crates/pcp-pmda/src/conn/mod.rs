//! Connections, sans-I/O: bytes in, bytes out. [`PmcdConnection`] is the agent's side of the line to pmcd,
//! [`DirectConnection`] the server's side of a line to one PMAPI client.
//!
//! **Invariant:** nothing here reads, writes, waits or looks at a clock. A connection answers its peer's
//! requests in order and takes the next one only when the last answer has left ([`Output::is_clear`]), so
//! what waits to be written is bounded by one answer, whatever the peer does.

mod answer;
mod direct;
mod handshake;
mod login;
mod output;
mod pmcd;

pub use direct::DirectConnection;
pub use handshake::{Denial, Offer};
pub use login::{Claim, User};
pub use output::{Broken, Next, Output};
pub use pmcd::{PmcdConnection, PmcdOptions};
