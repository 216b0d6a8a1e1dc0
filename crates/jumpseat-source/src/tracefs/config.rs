//! Configuration of a kernel source, and the two small notations in it.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::clock::TraceClock;
use crate::setting::{InvalidKey, check_source, in_range};
use crate::size::ByteSize;

/// A kernel source: which events of the Linux kernel it takes, and what for room.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelConfig {
    /// Source name of the records.
    pub source: String,
    /// Events, `SYSTEM:EVENT` or `SYSTEM:EVENT if FILTER`. `*` and `?` stand for any characters in both names; the
    /// filter is in the kernel's own language.
    pub events: Vec<String>,
    /// Probes to define, in the kernel's own syntax: `p:NAME PLACE ARGUMENTS` or `r:NAME ...`, optionally with
    /// ` if FILTER` behind. A place with a slash in front is one in a program (uprobe), others are in the kernel
    /// (kprobe).
    pub probes: Vec<String>,
    /// The kernel's buffer for each CPU. What does not fit until it is read is lost and counted.
    pub buffer_size: ByteSize,
    /// The clock the kernel stamps events with; records always carry real time.
    pub clock: TraceClock,
    /// Milliseconds that an event waits for older ones of other CPUs.
    pub window_ms: u64,
    /// Each record says which command it is about, as field `comm`, unless the event has such a field itself.
    pub comm: bool,
    /// `sys_enter_...` begins a span, and the `sys_exit_...` of the same thread ends it.
    pub spans: bool,
    /// What the names of this agent's tracefs instances begin with.
    pub instance: String,
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig {
            source: "kernel".to_owned(),
            events: Vec::new(),
            probes: Vec::new(),
            buffer_size: ByteSize(2 << 20),
            clock: TraceClock::Mono,
            window_ms: 10,
            comm: true,
            spans: false,
            instance: "jumpseat".to_owned(),
        }
    }
}

/// Range of [`KernelConfig::buffer_size`].
const BUFFER_RANGE: RangeInclusive<u64> = 8 << 10..=1 << 30;
/// Range of [`KernelConfig::window_ms`].
const WINDOW_RANGE: RangeInclusive<u64> = 0..=10_000;
/// Longest [`KernelConfig::instance`].
const MAX_PREFIX: usize = 24;

impl KernelConfig {
    /// Checks ranges and notations.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        check_source(&self.source)?;
        for text in &self.events {
            EventSpec::parse(text).map_err(|why| InvalidKey::notation("events", text, why))?;
        }
        let mut names = std::collections::HashSet::new();
        for text in &self.probes {
            let probe = ProbeSpec::parse(text).map_err(|why| InvalidKey::notation("probes", text, why))?;
            if !names.insert(probe.name) {
                return Err(InvalidKey::notation("probes", text, "there are two probes of this name"));
            }
        }
        in_range("buffer_size", self.buffer_size.0, BUFFER_RANGE)?;
        in_range("window_ms", self.window_ms, WINDOW_RANGE)?;
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !self.instance.starts_with(|c: char| c.is_ascii_alphabetic())
            || !self.instance.chars().all(letters)
            || self.instance.len() > MAX_PREFIX
        {
            let words = format!(
                "{:?} is not a letter and up to {} letters, digits and underscores",
                self.instance,
                MAX_PREFIX - 1
            );
            return Err(InvalidKey::other("instance", words));
        }
        Ok(())
    }
}

/// An element of [`KernelConfig::events`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The system's name, or a pattern.
    pub system: String,
    /// The event's name, or a pattern.
    pub event: String,
    /// The kernel's own filter.
    pub filter: Option<String>,
}

impl EventSpec {
    /// Takes the notation apart.
    pub fn parse(text: &str) -> Result<EventSpec, &'static str> {
        let (names, filter) = split_filter(text)?;
        let form = "write SYSTEM:EVENT, such as \"sched:sched_process_exec\" or \"block:*\"";
        let (system, event) = names.split_once(':').ok_or(form)?;
        let good = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.*?".contains(c))
        };
        if !good(system) || !good(event) {
            return Err(form);
        }
        Ok(EventSpec { system: system.to_owned(), event: event.to_owned(), filter })
    }

    /// Whether it says exactly one event's name.
    pub fn is_exact(&self) -> bool {
        !self.system.contains(['*', '?']) && !self.event.contains(['*', '?'])
    }
}

/// An element of [`KernelConfig::probes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// `p` or `r`, with a number behind `r` if one was given.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Place and arguments, as the kernel takes them.
    pub rest: String,
    /// The kernel's own filter.
    pub filter: Option<String>,
    /// Whether it is in a program rather than in the kernel.
    pub user: bool,
}

impl ProbeSpec {
    /// Takes the notation apart. The kernel checks place and arguments.
    pub fn parse(text: &str) -> Result<ProbeSpec, &'static str> {
        let form = "write \"p:NAME PLACE ARGUMENTS\", such as \"p:opens do_sys_openat2\" or \"p:tick /bin/app:0x1234\"";
        let (definition, filter) = split_filter(text)?;
        let (head, rest) = definition.split_once(char::is_whitespace).ok_or(form)?;
        let (kind, name) = head.split_once(':').ok_or(form)?;
        let numbered = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
        if kind != "p" && !kind.strip_prefix('r').is_some_and(numbered) {
            return Err(form);
        }
        if name.contains('/') {
            return Err("the name must be without a group: probes have one of the agent's own");
        }
        let rest = rest.trim();
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || !name.chars().all(letters) {
            return Err(form);
        }
        if rest.is_empty() {
            return Err(form);
        }
        Ok(ProbeSpec {
            kind: kind.to_owned(),
            name: name.to_owned(),
            user: rest.starts_with('/'),
            rest: rest.to_owned(),
            filter,
        })
    }
}

/// What is before and behind ` if `.
fn split_filter(text: &str) -> Result<(&str, Option<String>), &'static str> {
    if text.contains(['\n', '\0']) {
        return Err("must be one line without NUL");
    }
    let Some((before, filter)) = text.split_once(" if ") else { return Ok((text.trim(), None)) };
    match filter.trim() {
        "" => Err("there is nothing behind \"if\""),
        filter => Ok((before.trim(), Some(filter.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_are_taken_apart() {
        let event = EventSpec::parse("sched:sched_switch if prev_pid == 0 && next_comm ~ \"if *\"").unwrap();
        assert_eq!((event.system.as_str(), event.event.as_str()), ("sched", "sched_switch"));
        assert_eq!(event.filter.as_deref(), Some("prev_pid == 0 && next_comm ~ \"if *\""));
        assert!(event.is_exact() && !EventSpec::parse("block:*").unwrap().is_exact());
        for wrong in ["sched", "a/b:c", ":x", "x:", "a:b if ", "a:b\nc", "..:/x"] {
            assert!(EventSpec::parse(wrong).is_err(), "{wrong}");
        }
        let probe = ProbeSpec::parse("r8:leave /bin/app:0x10 ret=$retval if ret > 3").unwrap();
        assert_eq!((probe.kind.as_str(), probe.name.as_str(), probe.user), ("r8", "leave", true));
        assert_eq!(
            (probe.rest.as_str(), probe.filter.as_deref()),
            ("/bin/app:0x10 ret=$retval", Some("ret > 3"))
        );
        assert!(!ProbeSpec::parse("p:open do_sys_openat2").unwrap().user);
        for wrong in ["p:a", "p a", "p:g/a b", "q:a b", "-:a b", "p:1a b", "p:a  if x"] {
            assert!(ProbeSpec::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_checked() {
        let parse = |json: &str| {
            let config: KernelConfig = serde_json::from_str(json).map_err(|error| error.to_string())?;
            config.validate().map_err(|invalid| invalid.to_string()).map(|()| config)
        };
        assert_eq!(parse("{}"), Ok(KernelConfig::default()));
        for (json, part) in [
            (r#"{"event":[]}"#, "unknown field `event`"),
            (r#"{"events":["sched"]}"#, "events: \"sched\": write SYSTEM:EVENT"),
            (r#"{"probes":["p:a x","p:a y"]}"#, "two probes of this name"),
            (r#"{"buffer_size":"1KiB"}"#, "buffer_size: 1024 is not between 8192"),
            (r#"{"clock":"sundial"}"#, "unknown variant `sundial`"),
            (r#"{"window_ms":20000}"#, "window_ms: 20000"),
            (r#"{"instance":"a/b"}"#, "instance: \"a/b\""),
            (r#"{"source":"a b"}"#, "is no source name"),
        ] {
            let error = parse(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
