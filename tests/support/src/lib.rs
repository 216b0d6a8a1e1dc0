//! Harness of the interop tests: a private pmcd, the agent under test, and PCP's own tools around them.
//!
//! Everything lives in a temporary directory: configuration, name space, sockets, logs. Nothing of the
//! machine's PCP is touched or signalled, so tests run as any user, several at once, next to a system pmcd.
//! Everything started is stopped by its own process id when its value is dropped.
//!
//! ```ignore
//! let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
//! assert_eq!(pmcd.run("pminfo", ["-f", "sample.long.one"]).ok(), "\nsample.long.one\n    value 1\n");
//! ```
//!
//! Where PCP is missing the tests fail and say what to install; they never skip.
#![allow(missing_docs, reason = "for tests, whose authors read the code")]

pub mod alloc;
mod c_peer;
mod certificates;
mod dbpmda;
mod disk;
mod events;
mod examples;
mod logger;
mod pmcd;
mod ports;
mod process;
pub mod random;

pub use c_peer::{CPeer, preload};
pub use certificates::Certificates;
pub use dbpmda::{Dbpmda, Transcript};
pub use disk::SimulatedDisk;
pub use events::{Record, records, whole_records};
pub use examples::example;
pub use logger::{Archive, LoggerRun};
pub use pmcd::{AgentSpec, PmcdBuilder, PmnsSource, PrivatePmcd, SAMPLE_PMDA};
pub use ports::{free_port, has_ipv6};
pub use process::{
    Output, PcpEnv, Process, eventually, is_listening, program_path, repository, scratch_dir, temp_dir, user,
    wait_until,
};
