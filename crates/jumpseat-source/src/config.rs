//! Configuration of the ingest socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jumpseat_wire::socket;
use nix::unistd::{AccessFlags, Gid, Group, access};
use serde::{Deserialize, Serialize};

use super::clock::SenderClock;
use super::guard::Guard;
use super::guard::book::TokenBook;
use super::guard::tls::TlsFiles;
use super::setting::{InvalidKey, check_address, check_source, in_range};

/// The socket for an agent to make when nothing else is said: what `JUMPSEAT_SOCKET` names, else PCP's place if
/// this user may write there, else one of the user's own. Senders look there ([`jumpseat_wire::socket::to_use`]).
pub fn socket_to_make() -> PathBuf {
    socket::named().unwrap_or_else(|| {
        let system = socket::of_system();
        let may_write = |dir| access(dir, AccessFlags::W_OK).is_ok();
        if system.parent().is_some_and(may_write) { system } else { socket::of_user() }
    })
}

/// What to do with a line or field beyond its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Oversize {
    /// Refuse the event and count it.
    #[default]
    Refuse,
    /// Keep what fits and count it. Binary frames are refused all the same: half a frame means nothing.
    Truncate,
}

/// The group of those who may send.
pub const DEFAULT_GROUP: &str = "jumpseat";

impl SocketConfig {
    /// The number of the socket's group; `None`: the process's own.
    ///
    /// # Errors
    /// There is no group of the name.
    pub fn gid(&self) -> Result<Option<Gid>, InvalidKey> {
        let number = |name: &str| Group::from_name(name).ok().flatten().map(|group| group.gid);
        match &self.group {
            None => Ok(number(DEFAULT_GROUP)),
            Some(name) => number(name).map(Some).ok_or_else(|| {
                InvalidKey::other(
                    "group",
                    format!("there is no group {name:?} on this machine (groupadd -r {name})"),
                )
            }),
        }
    }
}

/// The ingest socket: where it is, who may write, and how much of what it takes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketConfig {
    /// Path of the Unix socket.
    pub path: PathBuf,
    /// Host and port to listen on in place of a Unix socket: only with `tls` and `token_file`.
    pub listen: Option<String>,
    /// What it proves itself with there.
    pub tls: Option<TlsFiles>,
    /// File with tokens there, one of which senders must begin with.
    pub token_file: Option<PathBuf>,
    /// Milliseconds there in which both sides must have agreed on TLS, and the token must have come.
    pub timeout_ms: u64,
    /// Permission bits of the socket: who may connect. Octal text such as `"0660"`.
    #[serde(deserialize_with = "octal")]
    pub mode: u32,
    /// Group of the socket; by default [`DEFAULT_GROUP`], if there is one and this process may give it away.
    pub group: Option<String>,
    /// Source name of connections that name none.
    pub source: String,
    /// Clock that numeric times in lines are of, on connections that name none.
    pub clock: SenderClock,
    /// Connections at the same time; further ones are told so and closed. Each takes at most about half a
    /// MiB: an incomplete line, and the names it defined in the binary framing.
    pub max_connections: usize,
    /// Longest line or frame, in bytes.
    #[serde(deserialize_with = "super::size::bytes")]
    pub max_line: usize,
    /// Longest text of one field, in bytes.
    #[serde(deserialize_with = "super::size::bytes")]
    pub max_field: usize,
    /// What to do with longer ones.
    pub oversize: Oversize,
    /// Batches of up to 64 KiB that may wait for the core before records are counted as missed.
    pub queue: usize,
    /// Milliseconds to wait for the core when the queue is full, before records are lost. Meanwhile
    /// senders wait in their own socket buffers. After a loss there is no more waiting until the queue
    /// moves again.
    pub patience_ms: u64,
}

impl Default for SocketConfig {
    fn default() -> SocketConfig {
        SocketConfig {
            path: socket::of_system(),
            listen: None,
            tls: None,
            token_file: None,
            timeout_ms: 10_000,
            mode: 0o660,
            group: None,
            source: "socket".to_owned(),
            clock: SenderClock::default(),
            max_connections: 256,
            max_line: 64 * 1024,
            max_field: 16 * 1024,
            oversize: Oversize::Refuse,
            queue: 64,
            patience_ms: 20,
        }
    }
}

/// Smallest and largest [`SocketConfig::max_line`]. The upper end is that of a packed
/// record ([`pcp_event::batch::MAX_RECORD`]).
pub(super) const LINE_RANGE: std::ops::RangeInclusive<u64> = 256..=256 * 1024;

impl SocketConfig {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        if self.path.as_os_str().is_empty() {
            return Err(InvalidKey::other("path", "must not be empty"));
        }
        self.check_listen()?;
        if self.mode > 0o777 {
            return Err(InvalidKey::other("mode", format!("{:o} is not between 0 and 0777", self.mode)));
        }
        check_source(&self.source)?;
        in_range("max_connections", self.max_connections as u64, 1..=100_000)?;
        in_range("max_line", self.max_line as u64, LINE_RANGE)?;
        in_range("max_field", self.max_field as u64, 16..=*LINE_RANGE.end())?;
        in_range("queue", self.queue as u64, 1..=65_536)?;
        in_range("patience_ms", self.patience_ms, 0..=1000)
    }
}

impl SocketConfig {
    /// Where it is, as messages and commands say it.
    pub fn place(&self) -> String {
        self.listen.clone().unwrap_or_else(|| self.path.display().to_string())
    }

    /// The path of the Unix socket, if it is one.
    pub fn unix(&self) -> Option<&Path> {
        self.listen.is_none().then_some(&self.path)
    }

    /// Checks the files of tokens and of the certificate, as far as there are any.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_files(&self) -> Result<(), InvalidKey> {
        self.guard(None).map(drop)
    }

    pub(crate) fn guard(&self, book: Option<&Arc<TokenBook>>) -> Result<Guard, InvalidKey> {
        Guard::new("ingest socket", self.tls.as_ref(), self.token_file.as_deref(), book)
    }

    fn check_listen(&self) -> Result<(), InvalidKey> {
        let Some(listen) = &self.listen else {
            let without = "is for a socket that listens on an address (listen)";
            return match (&self.tls, &self.token_file) {
                (Some(_), _) => Err(InvalidKey::other("tls", without)),
                (_, Some(_)) => Err(InvalidKey::other("token_file", without)),
                (None, None) => Ok(()),
            };
        };
        check_address("listen", listen)?;
        if self.tls.is_none() || self.token_file.is_none() {
            let words = "listens on an address only with TLS and tokens: tls = { certificate = ..., key = ... } and token_file";
            return Err(InvalidKey::other("listen", words));
        }
        if self.path != socket::of_system() {
            return Err(InvalidKey::other(
                "path",
                "a socket has a path or an address (listen): two need two tables",
            ));
        }
        in_range("timeout_ms", self.timeout_ms, 100..=3_600_000)
    }
}

fn octal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    u32::from_str_radix(text.trim_start_matches("0o"), 8)
        .map_err(|_| serde::de::Error::custom(format!("mode {text:?}: write octal digits, such as \"0660\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<SocketConfig, String> {
        let config: SocketConfig = serde_json::from_str(json).map_err(|e| e.to_string())?;
        config.validate().map_err(|invalid| invalid.to_string()).map(|()| config)
    }

    #[test]
    fn defaults_are_valid_and_keys_are_checked() {
        assert_eq!(parse("{}"), Ok(SocketConfig::default()));
        let config = parse(r#"{"mode":"0600","oversize":"truncate","max_line":1000}"#).expect("valid");
        assert_eq!((config.mode, config.oversize, config.max_line), (0o600, Oversize::Truncate, 1000));
        for (json, part) in [
            (r#"{"max_lines":1}"#, "unknown field `max_lines`"),
            (r#"{"max_line":1}"#, "max_line: 1 is not between 256 and 262144"),
            (r#"{"mode":"abc"}"#, "octal"),
            (r#"{"mode":"1777"}"#, "mode: 1777"),
            (r#"{"source":"a b"}"#, "is no source name"),
            (r#"{"oversize":"drop"}"#, "refuse"),
            (r#"{"clock":"sundial"}"#, "expected one of `realtime`, `monotonic`, `boottime`"),
        ] {
            let error = parse(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
