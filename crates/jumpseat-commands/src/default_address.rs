//! Where `jumpseat serve` answers PCP clients if nobody has said where.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use jumpseat_tools::complain;
use pcp_pmda::Listen;

use crate::serve::addresses_of;

/// The port of pmcd, and so the one that PCP's tools try when none is given.
pub(crate) const FIRST: &str = "localhost:44321";
/// Where there is a pmcd.
const SECOND: &str = "localhost:44399";
/// Where that is taken as well.
const ANY: &str = "localhost:0";

/// PCP's port, or another one if that is taken. `waiting`: what was left by the agent before, and is not taken.
///
/// # Errors
/// That this machine has no `localhost`.
pub(crate) fn tcp(waiting: &[SocketAddr]) -> Result<Vec<Listen>, String> {
    let mut text = FIRST;
    if is_taken(&addresses_of(text)?, waiting) {
        let other = if is_taken(&addresses_of(SECOND)?, waiting) { ANY } else { SECOND };
        complain!(
            "jumpseat: {text} is in use, probably by pmcd: another port is taken, for which clients need -h"
        );
        text = other;
    }
    Ok(addresses_of(text)?.into_iter().map(Listen::Tcp).collect())
}

/// A Unix socket next to that for events, by which this knows who a client is: so it may store.
pub(crate) fn unix(events: &Path, mode: u32) -> Listen {
    let name = events.file_stem().unwrap_or_default().to_string_lossy();
    let path: PathBuf = events.with_file_name(format!("{name}-pcp.socket"));
    Listen::Unix { path, mode }
}

fn is_taken(addresses: &[SocketAddr], waiting: &[SocketAddr]) -> bool {
    let refusal = |address| TcpListener::bind(address).err().map(|error| error.kind());
    let mut others = addresses.iter().filter(|address| !waiting.contains(address));
    others.any(|address| refusal(address) == Some(ErrorKind::AddrInUse))
}
