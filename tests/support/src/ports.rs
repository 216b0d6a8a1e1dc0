//! TCP ports for the tests, each handed out once.
//!
//! A program is told its port and binds it a moment later. Until then nobody holds the port, so whatever asks the system for any free one may get
//! it: another test, the same test's next server, or an outgoing connection. Hence ports below those that the system chooses from, and a
//! lock each, kept until the process that asked ends: on a byte of a file that all tests of this user share.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::unistd::Uid;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, OnceLock};

/// Below `net.ipv4.ip_local_port_range` as Linux has it, and off the ports of PCP's services (44321 and on).
const PORTS: Range<u16> = 20_000..32_000;

/// A TCP port nobody listens on, nor will any other test of this machine before this process ends.
#[track_caller]
pub fn free_port() -> u16 {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let mut next = NEXT.lock().expect("nothing panics while it is held");
    for _ in PORTS {
        // processes start at different ones, so that seldom two try the same
        let port = next
            .unwrap_or(PORTS.start + (std::process::id() * 37 % u32::from(PORTS.end - PORTS.start)) as u16);
        *next = Some(if port + 1 < PORTS.end { port + 1 } else { PORTS.start });
        if lock(port) && nobody_listens(port) {
            return port;
        }
    }
    panic!("all ports of {PORTS:?} are taken");
}

/// Takes the port's byte, for as long as this process lives.
fn lock(port: u16) -> bool {
    static LOCKS: OnceLock<File> = OnceLock::new();
    lock_byte(LOCKS.get_or_init(shared_file), port)
}

fn shared_file() -> File {
    let path = std::env::temp_dir().join(format!("jumpseat-ports-{}", Uid::effective()));
    File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn lock_byte(file: &File, port: u16) -> bool {
    let byte = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: port.into(),
        l_len: 1,
        // open file description locks want that
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&byte)).is_ok()
}

fn nobody_listens(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
        && (TcpListener::bind((Ipv6Addr::LOCALHOST, port)).is_ok() || !has_ipv6())
}

/// Whether this machine has the IPv6 loopback address; many containers have not.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_handed_out_once() {
        let mut ports: Vec<u16> = (0..100).map(|_| free_port()).collect();
        // another open file is what another process would have
        let other = shared_file();
        assert!(ports.iter().all(|port| !lock_byte(&other, *port)));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 100);
    }
}
