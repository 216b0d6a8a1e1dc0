//! The beginning of a connection (spec `wire.md` 4 and 16).
//!
//! ```text
//! collector: ERROR, what it can do --> client: CREDS, what it wants
//!                                      [collector: ERROR, no error --> both: TLS]
//!                                      [collector: ATTR, mechanisms --> client: ATTR, name and password]
//!                                      [client: ATTR, container]
//! ```
//! The collector says nothing when it has let the client in, and an error that nobody waits for when it has not.
//! So where there is a password the first request goes out at once: whatever comes before its answer is a refusal.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::error::{ClientError, Result};
use super::line::{Line, MAX_REQUEST};
use super::spec::{HostAttributes, Security};
use super::tls::Session;
use super::waiting::Waiting;
use tracing::trace;

use pcp_model::PmError;
use pcp_pdu::{Attr, AttrCode, CredFlags, Creds, ErrorPdu, Features, Pdu, PmnsChild};

/// What a client wants of a connection, and what is known about the way there.
#[derive(Clone, Debug, Default)]
pub(super) struct HandshakeConfig {
    pub security: Security,
    pub attributes: HostAttributes,
    /// The longest wait for each answer.
    pub limit: Option<Duration>,
    /// The way is a Unix socket: the kernel tells the collector who its client is.
    pub known_to_kernel: bool,
    /// Where PCP's configuration of TLS is.
    pub tls_config: PathBuf,
    /// The host as the user calls it: its certificate has to be in that name.
    pub host: String,
    /// What is sent stays on this machine.
    pub local: bool,
    /// The collector takes the client for a local one, from which it never wants a certificate.
    pub local_by_name: bool,
}

/// A connection that is being opened.
pub(super) struct Handshake {
    line: Line,
    config: HandshakeConfig,
    features: Features,
    encrypt: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Encryption,
    Encrypting,
    Mechanisms,
    FirstAnswer,
    Done,
}

impl Handshake {
    /// Begins on a connected transport.
    pub(crate) fn new(mut line: Line, config: HandshakeConfig) -> Handshake {
        line.set_limit(config.limit);
        Handshake { line, config, features: Features(0), encrypt: false, stage: Stage::Greeting }
    }

    /// Goes on without waiting. True when the connection is open.
    ///
    /// # Errors
    /// [`ClientError::Pcp`]: the collector refuses. [`ClientError::Unsupported`]: something that is wanted cannot be had. Else the
    /// connection is of no use.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        while self.stage != Stage::Done {
            // TLS speaks its own records: there are no PDUs to take until both sides have agreed.
            if self.stage == Stage::Encrypting {
                if !self.line.is_encrypted()? {
                    return Ok(false);
                }
                self.stage = self.identify()?;
                continue;
            }
            if !self.line.pump()? {
                return Ok(false);
            }
            let pdu = self.line.take()?;
            self.stage = match (self.stage, pdu) {
                // A refusal may come without the challenge; anything else without one is no greeting.
                (Stage::Greeting, Pdu::Error(greeting))
                    if greeting.challenge.is_some() || greeting.code < 0 =>
                {
                    self.features = greeting.as_greeting()?.features;
                    trace!(target: "pcp::attr", "the collector can: {}", self.features);
                    self.introduce()?
                }
                // "No error" is the collector's sign that its next bytes are TLS.
                (Stage::Encryption, Pdu::Error(ErrorPdu { code: 0, .. })) => {
                    self.start_tls()?;
                    Stage::Encrypting
                }
                (Stage::Mechanisms, Pdu::Attr(Attr { code: AttrCode::SASL, payload })) => {
                    self.authenticate(&payload)?
                }
                (Stage::FirstAnswer, Pdu::PmnsNames(_)) => {
                    trace!(target: "pcp::auth", "the collector has let the user in");
                    Stage::Done
                }
                (stage, Pdu::Error(error)) => {
                    trace!(target: "pcp::attr", "refused ({stage:?}): {}", Pdu::Error(error).summary());
                    return Err(error.error().map_or(ClientError::Unexpected, ClientError::Pcp));
                }
                _ => return Err(ClientError::Unexpected),
            };
            self.line.set_limit(self.config.limit);
        }
        // What was put last needs no answer, so no pump has sent it yet.
        self.line.flush()?;
        Ok(true)
    }

    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.line.waiting()
    }

    /// Whether this is with a collector at a Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        self.config.known_to_kernel
    }

    /// The connection, and what the collector can do.
    pub(crate) fn finish(self) -> (Line, Features) {
        (self.line, self.features)
    }

    /// Says what is wanted.
    fn introduce(&mut self) -> Result<Stage> {
        let HandshakeConfig { attributes, .. } = &self.config;
        let (offers, wants_authentication) = (self.features, attributes.wants_authentication());
        if attributes.compress {
            return Err(unsupported("no collector can compress what it sends"));
        }
        // Without the acknowledgement nobody could tell where TLS begins in what the collector sends.
        let tls = Features::SECURE.union(Features::SECURE_ACK);
        self.encrypt = match self.config.security {
            Security::Plain => false,
            Security::Relaxed => offers.contains(tls),
            Security::Enforced if !offers.contains(tls) => {
                return Err(unsupported("the collector cannot encrypt connections"));
            }
            Security::Enforced => true,
        };
        // Without TLS there is no way to show it one.
        if offers.contains(Features::CERT_REQD) && !self.config.local_by_name && !self.encrypt {
            return Err(PmError::NEEDCLIENTCERT.into());
        }
        if wants_authentication && !offers.contains(Features::AUTH) {
            return Err(unsupported("the collector cannot authenticate users"));
        }
        if attributes.container.is_some() && !offers.contains(Features::CONTAINER) {
            return Err(unsupported("the collector knows nothing about containers"));
        }
        // Over a Unix socket the kernel has told it already who this is.
        let demands = offers.contains(Features::CREDS_REQD);
        if demands && !wants_authentication && !self.config.known_to_kernel {
            let text = "the collector wants to know the user: give ?user=NAME&pass=PASSWORD with the host";
            return Err(unsupported(text));
        }
        let mut flags = CredFlags(0);
        if self.encrypt {
            flags = flags.union(CredFlags::SECURE).union(CredFlags::SECURE_ACK);
        }
        if wants_authentication {
            flags = flags.union(CredFlags::AUTH);
        }
        // A collector that is told both skips the password of a client it knows from the kernel.
        if demands && !(wants_authentication && self.config.known_to_kernel) {
            flags = flags.union(CredFlags::CREDS_REQD);
        }
        if attributes.container.is_some() {
            flags = flags.union(CredFlags::CONTAINER);
        }
        trace!(
            target: "pcp::attr",
            "wished for: {flags}; encryption {:?}, host {:?}, user {:?}, container {:?}, by {}",
            self.config.security,
            self.config.host,
            attributes.username,
            attributes.container,
            if self.config.known_to_kernel { "the collector's own socket" } else { "a network address" },
        );
        self.put(&Pdu::Creds(Creds::version(flags)), std::process::id() as i32)?;
        // Names and passwords wait until nobody can read them on the way.
        if self.encrypt {
            return Ok(Stage::Encryption);
        }
        self.identify()
    }

    /// Goes on when the connection is as private as it shall be.
    fn identify(&mut self) -> Result<Stage> {
        if self.config.attributes.wants_authentication() {
            return Ok(Stage::Mechanisms);
        }
        self.name_container()?;
        Ok(Stage::Done)
    }

    fn start_tls(&mut self) -> Result<()> {
        let HandshakeConfig { tls_config, host, .. } = &self.config;
        self.line.encrypt(Session::new(tls_config, host)?)
    }

    /// Answers the list of mechanisms: PLAIN (RFC 4616) is the one this client knows.
    fn authenticate(&mut self, mechanisms: &[u8]) -> Result<Stage> {
        let private = self.encrypt || self.config.local;
        let attributes = &self.config.attributes;
        let offered = String::from_utf8_lossy(mechanisms);
        let is_plain = |name: &str| name.eq_ignore_ascii_case("PLAIN");
        trace!(
            target: "pcp::auth",
            "mechanisms offered: {offered:?}; asked for {:?}, user {:?}, on behalf of {:?}, {}",
            attributes.method,
            attributes.username,
            attributes.userauth,
            if private { "nobody else can read it" } else { "others may read it" },
        );
        if !offered.split_ascii_whitespace().any(is_plain)
            || !attributes.method.as_deref().is_none_or(is_plain)
        {
            return Err(unsupported(&format!("of the mechanisms '{offered}' this program knows PLAIN only")));
        }
        if attributes.method.is_none() && !private {
            let text = "the password would cross the network in clear: say method=plain if it may";
            return Err(unsupported(text));
        }
        let (Some(user), Some(password)) = (&attributes.username, &attributes.password) else {
            return Err(unsupported("authentication takes a user and a password"));
        };
        let on_behalf = attributes.userauth.as_deref().unwrap_or("");
        trace!(target: "pcp::auth", "PLAIN: name and password of {user:?} are sent");
        let response = format!("PLAIN\0{on_behalf}\0{user}\0{password}");
        self.put(&Pdu::Attr(Attr { code: AttrCode::SASL, payload: Bytes::from(response) }), 0)?;
        self.name_container()?;
        // Nothing tells that a password was right but an answer to something else: the root's children are there
        // on every collector, and few.
        self.put(&Pdu::PmnsChild(PmnsChild { name: "".into(), status: false }), 0)?;
        Ok(Stage::FirstAnswer)
    }

    fn put(&mut self, pdu: &Pdu, from: i32) -> Result<()> {
        self.line.put(pdu, from, MAX_REQUEST)
    }

    fn name_container(&mut self) -> Result<()> {
        if let Some(container) = &self.config.attributes.container {
            let payload = Bytes::copy_from_slice(container.as_bytes());
            self.put(&Pdu::Attr(Attr { code: AttrCode::CONTAINER, payload }), 0)?;
        }
        Ok(())
    }
}

fn unsupported(text: &str) -> ClientError {
    ClientError::Unsupported(text.to_owned())
}
