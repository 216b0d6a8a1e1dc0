//! A tracefs instance of our own: buffers and enabled events that nobody else sees, and a group for our probes.
//!
//! An instance outlives its maker. The maker holds a lock on the instance's directory, which the kernel gives back
//! when the process ends, however it ends: an instance of our naming without a lock is left over, and goes when the
//! next agent starts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use super::config::ProbeSpec;
use super::{TracefsError, read_file};

/// Attempts to make an instance whose name nobody has.
const TRIES: u32 = 100;
/// Attempts to remove what the kernel still uses, and the time between them.
const REMOVALS: u32 = 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// A private instance. Dropping it removes it and its probes.
#[derive(Debug)]
pub struct Instance {
    root: PathBuf,
    /// Its directory.
    pub dir: PathBuf,
    /// The group of its probes.
    group: String,
    /// Held as long as the instance is used.
    lock: Option<Flock<File>>,
}

impl Instance {
    /// Makes an instance whose name begins with `prefix`, after removing what ended agents left of that naming.
    ///
    /// # Errors
    /// [`TracefsError::Instance`].
    pub fn create(root: &Path, prefix: &str) -> Result<Instance, TracefsError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let instances = root.join("instances");
        remove_leftovers(root, prefix);
        let refused = |error| TracefsError::Instance { dir: instances.clone(), error };
        for _ in 0..TRIES {
            let (pid, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let dir = instances.join(format!("{prefix}-{pid}-{number}"));
            match fs::create_dir(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(refused(error)),
            }
            // Between the two calls it was nobody's, and another agent may be removing it.
            let Some(lock) = lock(&dir) else { continue };
            let group = format!("{prefix}_{pid}_{number}");
            return Ok(Instance { root: root.to_owned(), dir, group, lock: Some(lock) });
        }
        Err(refused(io::Error::other("other agents have removed every one that was made")))
    }

    /// The path of one of its files.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Writes to one of its files.
    ///
    /// # Errors
    /// The kernel's own words where it has some, else the error.
    pub fn set(&self, file: &str, text: &str) -> Result<(), String> {
        put(&self.path(file), text).map_err(|error| reason(&self.dir, text, &error))
    }

    /// Defines a probe. Returns the system its event is found under.
    ///
    /// # Errors
    /// What is wrong, in the kernel's own words where it has some.
    pub fn define(&self, probe: &ProbeSpec) -> Result<&str, String> {
        let (list, option) = match probe.user {
            true => ("uprobe_events", "CONFIG_UPROBE_EVENTS"),
            false => ("kprobe_events", "CONFIG_KPROBE_EVENTS"),
        };
        let path = self.root.join(list);
        if !path.exists() {
            return Err(format!("this kernel does not have {list} (it was built without {option})"));
        }
        let ProbeSpec { kind, name, rest, .. } = probe;
        let definition = format!("{kind}:{}/{name} {rest}\n", self.group);
        put(&path, &definition).map_err(|error| reason(&self.root, &definition, &error))?;
        Ok(&self.group)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove_instance(&self.dir);
        remove_probes(&self.root, |group| group == self.group);
        self.lock = None;
    }
}

/// Why the kernel refused what was written. Its log has the reason for some of it, each with the text it is about.
fn reason(dir: &Path, written: &str, error: &io::Error) -> String {
    let log = read_file(&dir.join("error_log")).unwrap_or_default();
    let is_about = |(_, next): &(&str, &str)| {
        next.trim_start().strip_prefix("Command: ").is_some_and(|text| text.trim_end() == written.trim_end())
    };
    let mut lines: Vec<(&str, &str)> = log.lines().zip(log.lines().skip(1)).collect();
    lines.retain(is_about);
    match lines.last().and_then(|(line, _)| line.rsplit_once("error: ")) {
        Some((_, told)) => format!("{told} ({error})"),
        None => error.to_string(),
    }
}

/// Writes without creating or emptying: emptying the list of probes would remove everybody's.
fn put(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Locks a directory if nobody else has, and if it is still there then.
fn lock(dir: &Path) -> Option<Flock<File>> {
    let lock = Flock::lock(File::open(dir).ok()?, FlockArg::LockExclusiveNonblock).ok()?;
    let (held, there) = (lock.metadata().ok()?, fs::metadata(dir).ok()?);
    ((held.dev(), held.ino()) == (there.dev(), there.ino())).then_some(lock)
}

/// Removes the instances of ended agents, and probes whose instance is gone.
fn remove_leftovers(root: &Path, prefix: &str) {
    let instances = root.join("instances");
    for entry in fs::read_dir(&instances).into_iter().flatten().flatten() {
        if is_ours(&entry.file_name().to_string_lossy(), prefix, '-')
            && let Some(_lock) = lock(&entry.path())
        {
            tracing::info!("removing {}, which an agent left that has ended", entry.path().display());
            remove_instance(&entry.path());
        }
    }
    let is_orphan = |group: &str| {
        is_ours(group, prefix, '_') && {
            let numbers = &group[prefix.len() + 1..];
            !instances.join(format!("{prefix}-{}", numbers.replace('_', "-"))).exists()
        }
    };
    remove_probes(root, is_orphan);
}

/// Whether a name is the prefix and two numbers.
fn is_ours(name: &str, prefix: &str, separator: char) -> bool {
    let Some(numbers) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(separator)) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split_once(separator).is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

fn remove_instance(dir: &Path) {
    // Events that are enabled keep their probes.
    let _ = put(&dir.join("tracing_on"), "0");
    let _ = put(&dir.join("events/enable"), "0");
    let removed = patiently(|| match fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    });
    if let Err(error) = removed {
        tracing::warn!("cannot remove {}: {error}", dir.display());
    }
}

fn remove_probes(root: &Path, of: impl Fn(&str) -> bool) {
    for list in ["uprobe_events", "kprobe_events"] {
        let path = root.join(list);
        for line in read_file(&path).unwrap_or_default().lines() {
            let Some((group, event)) = probe_name(line).filter(|(group, _)| of(group)) else { continue };
            let removed = patiently(|| match put(&path, &format!("-:{group}/{event}\n")) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => removed,
            });
            if let Err(error) = removed {
                tracing::warn!("cannot remove the probe {group}/{event}: {error}");
            }
        }
    }
}

/// Group and event of a line such as `p:GROUP/EVENT PLACE ARGUMENTS`.
fn probe_name(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_whitespace().next()?.split_once('/')
}

/// The kernel may be in the middle of an event.
fn patiently(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..REMOVALS {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(REMOVAL_PAUSE),
            done => return done,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_making_are_ours() {
        assert!(is_ours("jumpseat-12-0", "jumpseat", '-') && is_ours("jumpseat_12_34", "jumpseat", '_'));
        for name in [
            "jumpseat",
            "jumpseat-1",
            "jumpseat-1-",
            "jumpseat-a-1",
            "jumpseat2-1-1",
            "x-1-1",
            "jumpseat-1-1-1",
        ] {
            assert!(!is_ours(name, "jumpseat", '-'), "{name}");
        }
        assert_eq!(probe_name("r8:group/event /bin/true:0x10 a=%di"), Some(("group", "event")));
        assert_eq!(probe_name("nonsense"), None);
    }
}
