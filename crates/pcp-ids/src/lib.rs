//! Names to ids that outlive the process, in the text format of `pmdaCache(3)` (`docs/pcp/agent.md` 17).
//!
//! ```text
//! 2 0 2147483647              version, insert mode (0: one above the highest), largest id
//! 0 1795170946 alpha          id, last used (epoch seconds), name up to the end of the line
//! 1 1795170946 beta two
//! ```
//!
//! **Invariant:** an id once handed out never means another name, because archives refer to it. So a new
//! name is on file before [`IdMap::get_or_add`] returns, ids only grow, and no line on file is ever removed. Adding
//! costs one `write(2)` of one line; looking up costs one hash. The file is written anew (to a temporary
//! file, then renamed) only by [`IdMap::save`].
//!
//! A name that is retired ([`IdMap::retire`]) leaves its line, and with it its id, to nobody: the line has `(retired:ID)` in
//! front of the name, which to C agents is a name like any other, and one of its own up to the first blank, where names
//! end for them. No name of this form is taken. The same name gets another id if it comes again.
//!
//! ```text
//! 2 1795170946 (retired:2) gamma
//! ```
//!
//! Two processes that append to one file would give the same id to two names, so a map holds an exclusive
//! `flock(2)` on its file. [`IdMap::load`] waits a moment for it, as pmcd starts an agent anew while the
//! old one may still be ending. C agents neither take nor heed the lock.

mod error;
mod format;
mod map;
mod store;

pub use error::{Binding, IdsError, LineError};
pub use map::IdMap;
pub use pcp_files::User;
pub use store::Settling;

/// The largest id of an instance domain without its own limit.
pub const MAX_ID: i32 = i32::MAX;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
