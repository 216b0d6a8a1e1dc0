//! Files in directories that others may write to.
//!
//! PCP keeps state and logs in directories of the user and group `pcp`, archives often in `/tmp`. A program that runs as
//! root and opens a name there opens what somebody else has put there: a link to `/etc/shadow`, a FIFO that nobody
//! writes to, a file with a second name elsewhere. All files of that kind are opened, made and replaced here:
//!
//! * [`read`]: a file of ours. [`open`] and [`create`]: one to write to. [`begin_anew`]: a log.
//! * [`Replacement`] and [`replace`]: a whole file takes the place of another, on disk before it has its name.
//! * [`Workplace`]: several whole files get names that nobody has, all or none.
//! * [`read_anyones`]: a file of somebody else, such as a log that is followed. [`device`]: what is written to below `/dev`.
//! * [`Disk`]: a directory of files that must survive what happens to the program or the machine.
//! * [`Ahead`]: room on the disk for a file that grows. [`lock`], [`try_lock`]: a file for one process alone.
//! * [`give`]: a file or socket gets another owner.
//! * [`settings`]: where PCP has these directories, and whose they are, as `pcp.conf` says.
//!
//! **Invariants.** A file is opened below the descriptor of its directory, which is reached step by step; on the way only
//! links of root and of the effective user count. The last step is never a link. What was opened is judged by its
//! descriptor: a regular file, of root, the effective user or the owner of the directory (who could put any file in its
//! place); if it is written to, without a second name. Nothing here waits for a FIFO or a device.
//!
//! **Cost:** a system call for each directory of the path; these files are opened once, or a few times a second.

mod ahead;
mod disk;
mod error;
mod lock;
mod open;
mod owner;
mod place;
mod replace;
pub mod settings;
mod workplace;

pub use ahead::Ahead;
pub use disk::{Directory, Disk, DiskFile};
pub use error::{FileError, FileProblem};
pub use lock::{LockError, User, lock, try_lock};
pub use open::{Links, Writes, begin_anew, create, device, open, read, read_anyones};
pub use owner::give;
pub use replace::{Replacement, replace, sweep, temporary};
pub use workplace::Workplace;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
