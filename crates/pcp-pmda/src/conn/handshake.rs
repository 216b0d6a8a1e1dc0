//! The beginning of a direct client's connection, from the collector's side (`docs/pcp/wire.md` 4 and 16).
//!
//! ```text
//! server: ERROR, what it can do --> client: CREDS, what it wants
//!                                   [server: ERROR, no error --> both: TLS]
//!                                   [server: ATTR, mechanisms --> client: ATTR, name and password --> verdict]
//!                                   [client: ATTR, container]
//! ```
//!
//! **Invariant:** a connection is open only if whoever is at its other end may do something there, and has come the way
//! that was asked of it. A password is never asked for where others could read it.

use std::fmt;

use bytes::Bytes;

use super::login::{BAD_PASSWORD, BAD_PROTOCOL, Claim, MECHANISMS, NO_MECHANISM};
use super::output::{Broken, Next};
use pcp_model::PmError;
use pcp_pdu::{Attr, AttrCode, Cred, CredFlags, Creds, ErrorPdu, Features, Pdu, kind};

const EOPNOTSUPP: PmError = PmError::from_errno(nix::errno::Errno::EOPNOTSUPP as i32);

/// What a client can have on its connection, or has to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// There is a certificate for TLS.
    pub tls: bool,
    /// Nobody is let in without TLS.
    pub tls_required: bool,
    /// Nor without a certificate.
    pub certificate_required: bool,
    /// There are passwords.
    pub passwords: bool,
    /// Nobody can read on the way, TLS or not: a Unix socket.
    pub private: bool,
}

impl Offer {
    /// Whether a client that nothing is known about may come to be let in.
    pub(crate) fn may_log_in(self) -> bool {
        self.passwords && (self.private || self.tls)
    }
}

/// Why a client that keeps to the protocol is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It has not begun TLS.
    NotEncrypted,
    /// It has not begun TLS, and so shows no certificate.
    NoCertificate,
    /// It would have sent its password in clear.
    ClearPassword,
    /// What it answered to the list of mechanisms, or that user's password is another.
    Password(PmError),
    /// There have been too many attempts.
    TooManyAttempts,
    /// It may neither fetch nor store.
    NoAccess,
}

/// What a PDU comes to.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing to be said.
    Silence,
    Answer(Pdu),
    /// The client has named a container, and is in.
    Container(Attr),
    /// It is open, and this is a request.
    Request(Pdu),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before CREDS.
    Start,
    /// The CREDS were not acceptable: the next PDU ends the connection.
    Refused,
    /// The line is to be encrypted, or is about to be.
    Encrypting,
    /// The mechanisms are told.
    Login,
    /// Somebody looks whether the password is right.
    Verdict,
    /// The client has announced a container.
    Container,
    Open,
    /// Every request has this for an answer.
    Denied(Denial),
}

/// How far a client has come.
#[derive(Debug)]
pub(super) struct Handshake {
    offer: Offer,
    stage: Stage,
    flags: CredFlags,
    encrypted: bool,
    /// The client may do something, as far as is known who it is.
    admitted: bool,
    /// The kernel says who it is.
    known: bool,
    claim: Option<Claim>,
}

impl Denial {
    /// What the client is told.
    pub fn code(self) -> PmError {
        match self {
            Denial::NoCertificate => PmError::NEEDCLIENTCERT,
            Denial::ClearPassword => NO_MECHANISM,
            Denial::Password(code) => code,
            Denial::TooManyAttempts => PmError::from_errno(nix::errno::Errno::EAGAIN as i32),
            Denial::NotEncrypted | Denial::NoAccess => PmError::PERMISSION,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denial::NotEncrypted => "TLS is required, and it has not begun it; pcps://HOST does",
            Denial::NoCertificate => "a certificate is required, and it has not begun TLS; pcps://HOST does",
            Denial::ClearPassword => "passwords are taken over TLS (pcps://HOST) and Unix sockets only",
            Denial::Password(_) => "no such user, or not the password",
            Denial::TooManyAttempts => "too many attempts to log in from there",
            Denial::NoAccess => "it may neither fetch nor store",
        })
    }
}

impl Handshake {
    pub(super) fn new(offer: Offer, admitted: bool, known: bool) -> Handshake {
        let (stage, flags) = (Stage::Start, CredFlags(0));
        Handshake { offer, stage, flags, encrypted: false, admitted, known, claim: None }
    }

    /// The first PDU, the server's.
    pub(super) fn greeting(&self) -> Pdu {
        let Offer { tls, certificate_required, .. } = self.offer;
        let asks = self.offer.may_log_in();
        let features = [
            (
                Features::CONTAINER.union(Features::LABELS).union(Features::HIGHRES).union(Features::DESCS),
                true,
            ),
            (Features::SECURE.union(Features::SECURE_ACK), tls),
            (Features::AUTH, asks),
            (Features::CREDS_REQD, asks && !self.admitted),
            (Features::CERT_REQD, certificate_required),
        ];
        let on = features.into_iter().filter(|(_, on)| *on).map(|(feature, _)| feature);
        Pdu::Error(ErrorPdu::greeting(on.fold(Features::default(), Features::union)))
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Why the client is not let in, if it is not.
    pub(super) fn denial(&self) -> Option<Denial> {
        match self.stage {
            Stage::Denied(denial) => Some(denial),
            _ => None,
        }
    }

    /// What the line has to do before the next PDU.
    pub(super) fn next(&self) -> Next {
        match self.stage {
            Stage::Encrypting if !self.encrypted => Next::Encrypt,
            Stage::Verdict => Next::Verdict,
            _ => Next::Input,
        }
    }

    /// Goes on once the line is encrypted, or is about to be: what is said from now on nobody can read.
    pub(super) fn go_on(&mut self) -> Step {
        if self.stage != Stage::Encrypting {
            return Step::Silence;
        }
        self.encrypted = true;
        self.identify()
    }

    /// The name and password to be judged.
    pub(super) fn claim(&mut self) -> Option<Claim> {
        self.claim.take()
    }

    /// The password is right, and whoever it is may do something, or not.
    pub(super) fn verdict(&mut self, verdict: Result<bool, Denial>) -> Step {
        if self.stage != Stage::Verdict {
            return Step::Silence;
        }
        match verdict {
            Ok(admitted) => {
                self.admitted = admitted;
                self.enter();
                Step::Silence
            }
            Err(denial) => {
                self.stage = Stage::Denied(denial);
                failure(denial.code())
            }
        }
    }

    /// Judges a PDU.
    ///
    /// # Errors
    /// It ends the connection.
    pub(super) fn take(&mut self, number: u32, pdu: Result<Pdu, PmError>) -> Result<Step, Broken> {
        Ok(match (self.stage, pdu) {
            (Stage::Open, Ok(pdu)) => Step::Request(pdu),
            (Stage::Open, Err(error)) => failure(error),
            (Stage::Denied(denial), _) => failure(denial.code()),
            (Stage::Start, Ok(Pdu::Creds(creds))) => self.creds(&creds),
            (Stage::Start, Err(error)) if number == kind::CREDS => {
                self.stage = Stage::Refused;
                failure(error)
            }
            (Stage::Login, pdu) => self.answer(pdu),
            (Stage::Container, pdu) => {
                self.stage = Stage::Open;
                match pdu {
                    Ok(Pdu::Attr(attr)) if attr.code == AttrCode::CONTAINER => Step::Container(attr),
                    _ => failure(PmError::IPC),
                }
            }
            // The last two are not given anything.
            (Stage::Start | Stage::Refused | Stage::Encrypting | Stage::Verdict, _) => {
                return Err(Broken::Handshake);
            }
        })
    }

    /// The first PDU. What pmcd accepts silently but does not like ends the connection at the next one.
    fn creds(&mut self, creds: &Creds) -> Step {
        let Some(Cred::Version { version: 1.., flags }) = creds.creds.last() else {
            self.stage = Stage::Refused;
            return Step::Silence;
        };
        self.flags = *flags;
        let Offer { tls, passwords, certificate_required, .. } = self.offer;
        let allowed = if tls { CredFlags::CLIENT.0 } else { CredFlags::CLIENT.0 & !CredFlags::CERT_REQD.0 };
        let unknown = flags.0 & !allowed != 0;
        let unavailable = [
            (CredFlags::COMPRESS, true),
            (CredFlags::SECURE.union(CredFlags::SECURE_ACK), !tls),
            (CredFlags::AUTH, !passwords),
        ];
        let unavailable = unavailable.into_iter().any(|(flag, off)| off && flags.0 & flag.0 != 0);
        if tls && !unknown && !unavailable && flags.contains(CredFlags::SECURE) {
            self.stage = Stage::Encrypting;
            return match flags.contains(CredFlags::SECURE_ACK) {
                true => Step::Answer(Pdu::Error(ErrorPdu::success())),
                false => Step::Silence,
            };
        }
        if self.offer.tls_required {
            let denial = if certificate_required { Denial::NoCertificate } else { Denial::NotEncrypted };
            self.stage = Stage::Denied(denial);
            return Step::Silence;
        }
        if unknown || unavailable {
            // The connection stays usable, as with pmcd.
            self.enter();
            return failure(if unknown { PmError::IPC } else { EOPNOTSUPP });
        }
        self.identify()
    }

    /// Asks for a password, if there shall be one.
    fn identify(&mut self) -> Step {
        let Offer { passwords, private, .. } = self.offer;
        let insists = self.flags.contains(CredFlags::CREDS_REQD) && !(self.known && self.admitted);
        if !(passwords && (insists || self.flags.contains(CredFlags::AUTH))) {
            self.enter();
            return Step::Silence;
        }
        if !(private || self.encrypted) {
            self.stage = Stage::Denied(Denial::ClearPassword);
            return failure(NO_MECHANISM);
        }
        self.stage = Stage::Login;
        Step::Answer(Pdu::Attr(Attr { code: AttrCode::SASL, payload: Bytes::from_static(MECHANISMS) }))
    }

    /// The answer to the mechanisms. There is one attempt a connection.
    fn answer(&mut self, pdu: Result<Pdu, PmError>) -> Step {
        let claim = match pdu {
            Ok(Pdu::Attr(Attr { code: AttrCode::SASL, payload })) => Claim::parse(&payload),
            _ => Err(BAD_PROTOCOL),
        };
        match claim {
            Ok(claim) => {
                self.claim = Some(claim);
                self.stage = Stage::Verdict;
                Step::Silence
            }
            Err(error) => {
                self.stage = Stage::Denied(Denial::Password(error));
                failure(error)
            }
        }
    }

    fn enter(&mut self) {
        self.stage = match self.flags.contains(CredFlags::CONTAINER) {
            _ if !self.admitted => Stage::Denied(Denial::NoAccess),
            true => Stage::Container,
            false => Stage::Open,
        };
    }
}

impl Denial {
    /// Somebody else's password, or nobody's.
    pub(crate) const WRONG_PASSWORD: Denial = Denial::Password(BAD_PASSWORD);
}

fn failure(error: PmError) -> Step {
    Step::Answer(Pdu::Error(ErrorPdu::failure(error)))
}
