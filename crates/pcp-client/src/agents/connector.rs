//! The first words between an agent and its pmcd, from pmcd's side (`docs/pcp/agent.md` 4, 8 and 9).
//!
//! ```text
//! agent: CREDS, what it wants --> CREDS [--> ATTR, who we are] [agent: ERROR PMDAREADY, where it starts as not ready]
//! ```

use std::os::unix::net::UnixStream;
use std::process;
use std::time::Duration;

use bytes::Bytes;
use nix::unistd::{getgid, getuid};

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
const SLOT: i32 = 0;

/// Leads to one agent, once.
pub(super) struct AgentConnector {
    stream: Option<UnixStream>,
    notready: bool,
    options: HostOptions,
}

impl AgentConnector {
    /// To the agent at the other end. It has `limit` for its first words, and for each answer.
    pub(super) fn new(stream: UnixStream, notready: bool, limit: Duration) -> AgentConnector {
        let options = HostOptions { request_timeout: Some(limit), ..HostOptions::default() };
        AgentConnector { stream: Some(stream), notready, options }
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

    fn start(&mut self) -> Result<Box<dyn Connecting>> {
        let stream = self.stream.take().ok_or(ClientError::Closed)?;
        let mut line = Line::new(Socket::Unix(stream));
        line.set_limit(self.options.request_timeout);
        let limit = self.options.request_timeout;
        Ok(Box::new(AgentConnecting {
            line: Some(line),
            stage: Stage::Creds,
            notready: self.notready,
            limit,
        }))
    }
}

/// An agent that has not said all of its first words.
struct AgentConnecting {
    /// `None` once it has.
    line: Option<Line>,
    stage: Stage,
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
        while line.pump()? {
            match (self.stage, line.take()?) {
                (Stage::Creds, Pdu::Creds(creds)) => {
                    // One without a version gets no answer.
                    if let Some((_, flags)) = creds.peer_version() {
                        welcome(line, flags)?;
                    }
                    line.flush()?;
                    if !self.notready {
                        return Ok(self.line.take().map(|line| (line, Features::LABELS)));
                    }
                    self.stage = Stage::Ready;
                    line.set_limit(self.limit);
                }
                (Stage::Ready, Pdu::Error(error)) if error.code == PmError::PMDAREADY.0 => {
                    return Ok(self.line.take().map(|line| (line, Features::LABELS)));
                }
                _ => return Err(ClientError::Unexpected),
            }
        }
        Ok(None)
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        self.line.as_ref().map(Line::waiting)
    }
}

/// Answers an agent's credentials, and tells who its client is if it wants to know.
fn welcome(line: &mut Line, wishes: CredFlags) -> Result<()> {
    let id = i32::try_from(process::id()).unwrap_or_default();
    let creds = Creds::version(wishes.intersection(CredFlags::AUTH));
    line.put(&Pdu::Creds(creds), id, MAX_REQUEST)?;
    if wishes.contains(CredFlags::AUTH) {
        for (code, value) in [
            (AttrCode::PROCESSID, process::id()),
            (AttrCode::GROUPID, getgid().as_raw()),
            (AttrCode::USERID, getuid().as_raw()),
        ] {
            let payload = Bytes::from(format!("{value}\0"));
            line.put(&Pdu::Attr(Attr { code, payload }), SLOT, MAX_REQUEST)?;
        }
    }
    Ok(())
}
