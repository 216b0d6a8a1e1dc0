//! What memory is kept, and what is given back.
//!
//! What the start has needed, and running does not, is given back: memory that was freed, and the pages of the program that were
//! mapped to run what is run once.
//!
//! A page of the program that is needed again comes back from the system's page cache, with its neighbours, in about a
//! microsecond. Meanwhile it is nobody's, and the first that a system short of memory can do without.
//!
//! **Cost:** a third of a millisecond, once, two seconds behind the start. **Brings:** half of the 10 MiB that are resident after a start
//! with all kinds of sources (`benches/start.rs`). An idle agent touches a quarter of a megabyte of its code.

use std::fs;
use std::path::Path;

use nix::libc::{self, c_int, c_void};

/// Holds what a receiver has at a time, several times.
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
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) gives back what nobody has; it takes malloc's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
    let Ok(program) = fs::read_link("/proc/self/exe") else { return };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (begin, length) in maps.lines().filter_map(|line| code(line, &program)) {
        // SAFETY: these are pages of a file, mapped privately and not writable, nor ever written since they were (`code`): what is
        // dropped is read from the file again, as it was, when it is touched.
        unsafe {
            libc::madvise(begin as *mut c_void, length, libc::MADV_DONTNEED);
        }
    }
}

/// A line of `maps`, if it is the program's code, or what is in front of it in the file, constants. What is behind it may have been
/// written before it was made read-only: addresses (relocations).
fn code(line: &str, program: &Path) -> Option<(usize, usize)> {
    // 55d0c8a00000-55d0c8c80000 r--p 00000000 fe:00 1234    /usr/lib/pcp/pmdas/jumpseat/pmdajumpseat
    let (range, rest) = line.split_once(' ')?;
    let mut words = rest.split_ascii_whitespace();
    let (rights, offset) = (words.next()?, words.next()?);
    let is_front = rights == "r--p" && offset.bytes().all(|byte| byte == b'0');
    if !(is_front || rights == "r-xp") || words.nth(2).is_none_or(|path| Path::new(path) != program) {
        return None;
    }
    let (begin, end) = range.split_once('-')?;
    let (begin, end) = (usize::from_str_radix(begin, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some((begin, end.checked_sub(begin)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_what_is_in_front_of_it() {
        let program = Path::new("/usr/bin/agent");
        let length = |line: &str| code(line, program).map(|(_, length)| length);
        for (line, expected) in [
            ("1000-3000 r--p 00000000 fe:00 12                 /usr/bin/agent", Some(0x2000)),
            ("3000-8000 r-xp 00002000 fe:00 12                 /usr/bin/agent", Some(0x5000)),
            // Relocated, then made read-only.
            ("8000-9000 r--p 00007000 fe:00 12                 /usr/bin/agent", None),
            ("9000-a000 rw-p 00008000 fe:00 12                 /usr/bin/agent", None),
            ("b000-c000 r-xp 00002000 fe:00 13                 /usr/lib/libc.so.6", None),
            ("d000-e000 r-xp 00000000 00:00 0                  [vdso]", None),
            ("d000-e000 rw-p 00000000 00:00 0", None),
            ("3000-8000 r-xp 00002000 fe:00 12                 /usr/bin/agent (deleted)", Some(0x5000)),
        ] {
            assert_eq!(length(line), expected, "{line}");
        }
    }

    #[test]
    fn a_program_runs_on_after_it() {
        trim();
        assert_eq!("4711".parse(), Ok(4711));
    }
}
