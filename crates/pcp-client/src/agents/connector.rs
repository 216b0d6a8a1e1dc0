//! The first words between an agent and its pmcd, from pmcd's side (`docs/pcp/agent.md` 4, 8 and 9).
//!
//! ```text
//! agent: CREDS, what it wants --> CREDS [agent: ERROR PMDAREADY, where it starts as not ready] [--> ATTR, who we are]
//! ```
//! One that starts as not ready is waited for as for any answer. One that takes longer is taken as it is, [`READY`] left out.

use std::os::unix::net::UnixStream;
use std::process;
use std::time::Duration;

use bytes::Bytes;
use nix::unistd::{getgid, getuid};
use tempfile::TempDir;

use crate::error::{ClientError, Result};
use crate::host::this_host;
use crate::line::{Line, MAX_REQUEST};
use crate::options::HostOptions;
use crate::provider::ContextKind;
use crate::socket::Socket;
use crate::waiting::Waiting;
use crate::wire::{Connecting, Connector};
use pcp_model::PmError;
use pcp_pdu::{Attr, AttrCode, CredFlags, Creds, Features, Pdu};

/// The slot of the one client that the agent has.
pub(super) const SLOT: i32 = 0;

/// Of what an agent is said to be able to: it takes requests. No collector has this bit.
pub(super) const READY: Features = Features(0x8000);
/// The same: it wants to know who its clients are.
pub(super) const WANTS_ATTRIBUTES: Features = Features::AUTH;

/// Leads to one agent, once.
pub(super) struct AgentConnector {
    /// The connection, and the folder that the agent runs in.
    agent: Option<(UnixStream, TempDir)>,
    notready: bool,
    options: HostOptions,
}

impl AgentConnector {
    /// To the agent at the other end. It has `limit` for its first words, and for each answer. The folder goes with its credentials, before
    /// which it has begun its log, or with its end: then nothing is left of it however this program ends.
    pub(super) fn new(stream: UnixStream, dir: TempDir, notready: bool, limit: Duration) -> AgentConnector {
        let options = HostOptions { request_timeout: Some(limit), ..HostOptions::default() };
        AgentConnector { agent: Some((stream, dir)), notready, options }
    }
}

impl Connector for AgentConnector {
    fn kind(&self) -> ContextKind {
        ContextKind::Local
    }

    fn options(&self) -> &HostOptions {
        &self.options
    }

    fn host_name(&self) -> String {
        this_host()
    }

    fn refuses_profiles(&self) -> bool {
        false
    }

    fn tells_changes(&self) -> bool {
        false
    }

    fn start(&mut self) -> Result<Box<dyn Connecting>> {
        let (stream, dir) = self.agent.take().ok_or(ClientError::Closed)?;
        let mut line = Line::new(Socket::Unix(stream));
        line.set_limit(self.options.request_timeout);
        let limit = self.options.request_timeout;
        Ok(Box::new(AgentConnecting {
            line: Some(line),
            dir: Some(dir),
            stage: Stage::Creds,
            features: Features::LABELS,
            notready: self.notready,
            limit,
        }))
    }
}

/// An agent that has not said all of its first words.
struct AgentConnecting {
    /// `None` once it has.
    line: Option<Line>,
    /// Where it runs, until it has begun its log.
    dir: Option<TempDir>,
    stage: Stage,
    features: Features,
    notready: bool,
    limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Creds,
    Ready,
}

impl Connecting for AgentConnecting {
    fn advance(&mut self) -> Result<Option<(Line, Features)>> {
        let Some(line) = &mut self.line else { return Ok(None) };
        loop {
            match line.pump() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // Requests have to do without it until it says more.
                Err(ClientError::Timeout(_)) if self.stage == Stage::Ready => break,
                Err(error) => return Err(error),
            }
            match (self.stage, line.take()?) {
                (Stage::Creds, Pdu::Creds(creds)) => {
                    self.dir = None;
                    // One without a version gets no answer.
                    if let Some((_, wishes)) = creds.peer_version() {
                        let id = i32::try_from(process::id()).unwrap_or_default();
                        let answer = Creds::version(wishes.intersection(CredFlags::AUTH));
                        line.put(&Pdu::Creds(answer), id, MAX_REQUEST)?;
                        if wishes.contains(CredFlags::AUTH) {
                            self.features |= WANTS_ATTRIBUTES;
                        }
                    }
                    line.flush()?;
                    if !self.notready {
                        self.features |= READY;
                        break;
                    }
                    self.stage = Stage::Ready;
                    line.set_limit(self.limit);
                }
                (Stage::Ready, Pdu::Error(error)) if error.code == PmError::PMDAREADY.0 => {
                    self.features |= READY;
                    break;
                }
                // It says what is known.
                (Stage::Ready, Pdu::Error(error)) if error.code == PmError::PMDANOTREADY.0 => {}
                _ => return Err(ClientError::Unexpected),
            }
        }
        Ok(self.line.take().map(|line| (line, self.features)))
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        self.line.as_ref().map(Line::waiting)
    }
}

/// Tells an agent who its one client is.
pub(super) fn attributes() -> [Pdu; 3] {
    [
        (AttrCode::PROCESSID, process::id()),
        (AttrCode::GROUPID, getgid().as_raw()),
        (AttrCode::USERID, getuid().as_raw()),
    ]
    .map(|(code, value)| Pdu::Attr(Attr { code, payload: Bytes::from(format!("{value}\0")) }))
}
