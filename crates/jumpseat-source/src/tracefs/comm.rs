//! Which command a thread runs.
//!
//! The kernel's records have a thread's number only. Its name is kept here: read from procfs when a thread is met
//! for the first time, and from then on what the kernel itself says of new threads and new names. The events that
//! say so are enabled besides those configured, and do not become records unless they are configured, too.

use rustc_hash::FxHashMap;

use super::format::{Format, FormatField};

/// The events that tell of names.
pub const EVENTS: [(&str, &str); 3] =
    [("task", "task_newtask"), ("task", "task_rename"), ("sched", "sched_process_free")];

/// Most threads remembered.
const MAX_THREADS: usize = 64 * 1024;
/// Longest name, as the kernel has it.
const MAX_NAME: usize = 15;

/// What an event tells of a thread's name.
#[derive(Clone, Debug)]
pub enum Role {
    /// The thread has this name from now on.
    Named {
        /// The thread.
        pid: FormatField,
        /// Its name.
        name: FormatField,
    },
    /// The thread's number is free again.
    Gone {
        /// The thread.
        pid: FormatField,
    },
}

impl Role {
    /// The role of an event, if it has one.
    pub fn of(format: &Format) -> Option<Role> {
        let field = |name: &str| format.field(name).cloned();
        Some(match format.name.as_str() {
            "task:task_newtask" => Role::Named { pid: field("pid")?, name: field("comm")? },
            "task:task_rename" => Role::Named {
                // Newer kernels leave the number out: only the thread itself can change its name.
                pid: field("pid").or_else(|| field("common_pid"))?,
                name: field("newcomm")?,
            },
            "sched:sched_process_free" => Role::Gone { pid: field("pid")? },
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Name {
    len: u8,
    bytes: [u8; MAX_NAME],
}

impl Name {
    fn new(text: &[u8]) -> Name {
        let end = text.iter().take(MAX_NAME).position(|byte| *byte == 0).unwrap_or(text.len().min(MAX_NAME));
        let mut name = Name { len: end as u8, bytes: [0; MAX_NAME] };
        name.bytes[..end].copy_from_slice(&text[..end]);
        name
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The names of threads.
#[derive(Debug, Default)]
pub struct Names {
    names: FxHashMap<i32, Name>,
}

impl Names {
    /// The name of a thread; empty if it is not known.
    #[inline]
    pub fn get(&mut self, pid: i32) -> &[u8] {
        if pid == 0 {
            return b"<idle>";
        }
        self.make_room();
        self.names.entry(pid).or_insert_with(|| read(pid)).text()
    }

    /// Takes note of what a record says.
    pub fn note(&mut self, role: &Role, record: &[u8]) {
        match role {
            Role::Named { pid, name } => {
                if let (Some(pid), Some(name)) = (pid.int(record), name.bytes(record)) {
                    self.make_room();
                    self.names.insert(pid as i32, Name::new(name));
                }
            }
            Role::Gone { pid } => {
                if let Some(pid) = pid.int(record) {
                    self.names.remove(&(pid as i32));
                }
            }
        }
    }

    /// Forgets all names: some changes of them have been lost.
    pub fn clear(&mut self) {
        self.names.clear();
    }

    #[inline]
    fn make_room(&mut self) {
        if self.names.len() >= MAX_THREADS {
            self.names.clear();
        }
    }
}

#[cold]
fn read(pid: i32) -> Name {
    match std::fs::read(format!("/proc/{pid}/comm")) {
        Ok(text) => Name::new(text.trim_ascii_end()),
        Err(_) => Name::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_procfs_and_from_events() {
        let mut names = Names::default();
        let own = std::fs::read_to_string("/proc/thread-self/comm").expect("Linux tells");
        let pid = nix::unistd::gettid().as_raw();
        assert_eq!(names.get(pid), own.trim_end().as_bytes());
        assert_eq!(names.get(0), b"<idle>");
        assert_eq!(names.get(-5), b"");
        let text = "name: task_newtask\nID: 1\nformat:\n\
            \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n";
        let role = Role::of(&Format::parse("task", text).unwrap()).expect("it tells names");
        let mut record = vec![0; 28];
        record[8..12].copy_from_slice(&pid.to_ne_bytes());
        record[12..19].copy_from_slice(b"another");
        names.note(&role, &record);
        assert_eq!(names.get(pid), b"another");
        names.note(&role, &record[..10]);
        let Role::Named { pid: field, .. } = role else { panic!("it is named") };
        names.note(&Role::Gone { pid: field }, &record);
        assert_eq!(names.get(pid), own.trim_end().as_bytes());
    }
}
