//! What an agent that outlives itself is told of the line to pmcd.
//!
//! pmcd names its clients by slots, which stay theirs while an agent dies and another one takes its place; so an agent that
//! keeps, outside of its memory, what it knows of each slot can go on where the one before ended
//! ([`Agent::on_pmcd`](crate::Agent::on_pmcd)). pmcd reads an answer as a whole or not at all: one that is cut short by the
//! agent's death is nobody's. An answer that matters is therefore sent but for its last byte, then what it changes is kept
//! ([`PmcdEvent::Leaving`]), then that byte is sent: but for the moment of one system call it is known whether the answer
//! has been given.

use std::fs;
use std::os::unix::process::parent_id;

use crate::call::{Attributes, ClientId};

/// A process of this machine that nobody else will ever be taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// When it started, in the kernel's ticks since the machine did.
    pub started: u64,
    /// Which start of the machine that is.
    pub boot: String,
}

/// News of the line to pmcd.
#[derive(Debug)]
pub enum PmcdEvent<'a> {
    /// A line to a pmcd has been opened; to which, if that can be known (never over TCP).
    Begun(Option<Process>),
    /// A client asks for the first time, after all that pmcd tells of it has come.
    Client {
        /// Its name here.
        client: ClientId,
        /// Its slot at pmcd.
        slot: i32,
        /// What is known about it.
        attributes: &'a Attributes,
    },
    /// The client of a slot is gone. If it has a name here, its end follows.
    Ended(i32),
    /// An answer that matters is about to be given: all of it has left but one byte.
    Leaving,
    /// It has been given.
    Left,
    /// The line is closed. The ends of clients that follow are not those of their contexts.
    Lost,
}

impl Process {
    /// The process with this id, if the system tells.
    pub fn of(pid: i32) -> Option<Process> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Process { pid, started: started(pid)?, boot: boot.trim().to_owned() })
    }

    /// The pmcd that has started this process, itself or through its helper for that.
    pub(crate) fn pmcd() -> Option<Process> {
        let parent = i32::try_from(parent_id()).ok()?;
        let stat = stat(parent)?;
        let pmcd = if stat.name == "pmdaroot" { stat.parent } else { parent };
        Process::of(pmcd)
    }
}

/// When a process started, in the kernel's ticks since the machine did; `None` if the system does not tell.
pub fn started(pid: i32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

struct Stat {
    name: String,
    parent: i32,
    started: u64,
}

/// The fields of `proc_pid_stat(5)` that matter.
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have parentheses, and blanks, itself.
    let (name, rest) = (text.split_once('(')?.1).rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    Some(Stat { name: name.to_owned(), parent, started: fields.nth(17)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart_by_their_start() {
        let own = i32::try_from(std::process::id()).unwrap();
        let process = Process::of(own).expect("it runs");
        assert_eq!(Some(&process), Process::of(own).as_ref());
        assert!(process.started > 0 && process.boot.len() == 36, "{process:?}");
        // The first of all is older, and nobody's child.
        assert!(stat(1).is_some_and(|first| first.parent == 0 && first.started <= process.started));
        assert_eq!(stat(own).map(|stat| stat.parent), i32::try_from(parent_id()).ok());
        assert!(Process::of(-1).is_none() && Process::pmcd().is_some());
    }
}
