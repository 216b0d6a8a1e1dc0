//! What memory is kept, and what is given back.
//!
//! What the start has needed, and running does not, is given back: memory that was freed, and the pages of the program and its
//! libraries that were mapped to run what is run once.
//!
//! A page of these that is needed again comes back from the system's page cache, with its neighbours, in about a
//! microsecond. Meanwhile it is nobody's, and the first that a system short of memory can do without.
//!
//! **Cost:** a third of a millisecond, once, two seconds behind the start. **Brings:** half of the 11 MiB that are resident after a start
//! with all kinds of sources (`benches/start.rs`). An idle agent touches a quarter of a megabyte of its code.

use std::fs::File;
use std::io::{BufRead, BufReader};

#[cfg(target_env = "gnu")]
use nix::libc::c_int;
use nix::libc::{self, c_void};

/// Holds what a receiver has at a time, several times.
#[cfg(target_env = "gnu")]
const KEPT: c_int = 2 << 20;

/// Has malloc keep some of what is freed for what is needed next: [`KEPT`] bytes behind the last used ones of each of its arenas, of
/// which a thread that receives events has one. Requests and batches of some hundred kilobytes come and go all the time; as malloc is
/// set otherwise, their memory goes back to the system again and again, and costs a page fault for each 4 KiB when it comes back.
/// Measured (`benches/otlp`, `benches/tracefs.rs`): 500 page faults for 200,000 spans and not 2,000 to 11,000, and a quarter less
/// processor time for an event of the kernel while a client holds the log.
pub(crate) fn keep() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) sets numbers of malloc's, under its own locks.
    unsafe {
        // Either alone turns off what adapts both.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 2 * KEPT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Gives it back. Nothing depends on it.
pub(crate) fn trim() {
    if let Ok(smaps) = File::open("/proc/self/smaps") {
        for (begin, length) in unwritten(BufReader::new(smaps)) {
            // SAFETY: these are pages of a file, mapped privately and not writable, nor ever written since they were (`unwritten`): what
            // is dropped is read from the file again, as it was, when it is touched.
            unsafe {
                libc::madvise(begin as *mut c_void, length, libc::MADV_DONTNEED);
            }
        }
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) gives back what nobody has; it takes malloc's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The mappings of `smaps` that are a file's pages as they are there: what cannot be written, and has no page of its own. Addresses are
/// written into a program's constants before these are made read-only (relocations), and breakpoints into code: these have.
fn unwritten(mut smaps: impl BufRead) -> Vec<(usize, usize)> {
    let (mut found, mut current, mut line) = (Vec::new(), None, Vec::new());
    while smaps.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A path may be anything, but is not looked at.
        let text = String::from_utf8_lossy(&line);
        if let Some(range) = of_file(&text) {
            current = range;
        } else if let Some(own) = text.strip_prefix("Anonymous:") {
            found.extend(current.filter(|_| own.trim() == "0 kB"));
        } else if text.strip_prefix("Swap:").is_some_and(|own| own.trim() != "0 kB") {
            found.retain(|range| Some(*range) != current);
        }
        line.clear();
    }
    found
}

/// The first line of a mapping, and where it is if it is private, not writable, and of a file; `None` for other lines.
fn of_file(line: &str) -> Option<Option<(usize, usize)>> {
    // 55d0c8a00000-55d0c8c80000 r--p 00000000 fe:00 1234    /usr/lib/pcp/pmdas/jumpseat/pmdajumpseat
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let (begin, end) = (usize::from_str_radix(begin, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let mut words = rest.split_ascii_whitespace();
    let is_kept = matches!(words.next(), Some("r--p" | "r-xp" | "--xp"));
    let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
    Some(end.checked_sub(begin).filter(|_| is_kept && is_file).map(|length| (begin, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_can_be_read_again() {
        let length = |line: &str, anonymous: u32, swap: u32| {
            let smaps = format!(
                "{line}\nSize:  8 kB\nPss_Dirty:  0 kB\nAnonymous:  {anonymous} kB\nSwap:  {swap} kB\nSwapPss:  0 kB\n\
                 VmFlags: rd mr mw me\n"
            );
            unwritten(smaps.as_bytes()).iter().map(|(_, length)| *length).collect::<Vec<_>>()
        };
        for (line, expected) in [
            ("1000-3000 r--p 00000000 fe:00 12                 /usr/bin/agent", vec![0x2000]),
            ("3000-8000 r-xp 00002000 fe:00 12                 /usr/bin/agent", vec![0x5000]),
            ("9000-a000 rw-p 00008000 fe:00 12                 /usr/bin/agent", vec![]),
            ("b000-c000 r-xp 00002000 fe:00 13                 /usr/lib/libc.so.6", vec![0x1000]),
            ("b000-c000 r--s 00000000 fe:00 14                 /run/shared with others", vec![]),
            ("d000-e000 r-xp 00000000 00:00 0                  [vdso]", vec![]),
            ("d000-e000 r--p 00000000 00:00 0", vec![]),
            ("3000-8000 r-xp 00002000 fe:00 12                 /usr/bin/agent (deleted)", vec![0x5000]),
            ("3000-8000", vec![]),
            ("8000-3000 r-xp 00002000 fe:00 12                 /usr/bin/agent", vec![]),
        ] {
            assert_eq!(length(line, 0, 0), expected, "{line}");
            // Relocated, or with a breakpoint.
            assert_eq!(length(line, 4, 0), [0; 0], "{line}");
            assert_eq!(length(line, 0, 4), [0; 0], "{line}");
        }
    }

    #[test]
    fn a_program_runs_on_after_it() {
        let smaps = std::fs::read("/proc/self/smaps").expect("Linux has it");
        let here = a_program_runs_on_after_it as fn() as usize;
        let mut found = unwritten(&smaps[..]).into_iter();
        assert!(found.any(|(begin, length)| (begin..begin + length).contains(&here)));
        trim();
        assert_eq!("4711".parse(), Ok(4711));
    }
}
