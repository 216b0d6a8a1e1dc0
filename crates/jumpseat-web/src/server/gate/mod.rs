//! Who may look: every request passes here first.
//!
//! ```text
//! request --> Host is a name of ours? --> Origin may read? --> who is it (people: passwords; tokens)? --> not too many at once? --> routes
//! ```
//!
//! * [`names`]: by which names browsers come, and from which pages: against DNS rebinding and requests that pages of others make.
//! * [`people`]: passwords and tokens. [`turns`]: how much at a time; [`hold`]: until it has been sent. [`form`]: refusals as the
//!   protocol asked has them.
//!
//! Beyond this machine the server listens only with a certificate and passwords or tokens, unless it is told that it is `--insecure`.
//!
//! **Invariant:** no secret is kept but what it hashes to, none is in a message or a log, and none is taken from a URL.
//!
//! **Cost:** a few comparisons a request; with passwords or tokens a SHA-256, and for a password that was not seen lately a tenth of
//! a second of a thread of the pool.

mod form;
mod hold;
mod names;
mod people;
mod turns;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode, header};
use pcp_net::{Certificate, CertificateError, CertificateFiles, Fresh};
use tokio::time::timeout;

use super::run::WebError;
use crate::WebArgs;
pub(super) use form::refusal;
pub(super) use hold::{Unsent, charge};
use names::Names;
use people::{Known, People};
pub(super) use turns::Turns;

/// Most requests at a time, and most of an address.
const MAX_REQUESTS: usize = 2048;
const MAX_REQUESTS_OF_ONE: usize = 256;
/// How long a request may take in all. Those of a WebSocket have been answered by then.
const LIMIT: Duration = Duration::from_secs(60);

/// What lets in.
#[derive(Debug)]
pub(super) struct Gate {
    certificate: Option<Mutex<Fresh<Certificate, CertificateError>>>,
    names: Names,
    people: People,
    turns: Arc<Turns>,
}

impl Gate {
    /// Reads the files. `addresses`: where the server listens.
    ///
    /// # Errors
    /// What is wrong with them, or what is missing for where it listens.
    pub(super) fn open(args: &WebArgs, addresses: &[SocketAddr]) -> Result<Gate, WebError> {
        let certificate = match (&args.certificate, &args.key) {
            (Some(certificate), Some(key)) => {
                Some(Mutex::new(certificate_of(certificate.clone(), key.clone())?))
            }
            _ => None,
        };
        let people = People::open(args.passwords.as_deref(), args.tokens.as_deref())?;
        let is_open = certificate.is_none() || people.is_everybody();
        if let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback())
            && is_open
            && !args.insecure
        {
            return Err(WebError::Usage(format!(
                "{address} can be reached from other machines: that takes --certificate and --key, and --passwords or --tokens; \
                 or listen at localhost; or say --insecure, and everybody there may read everything"
            )));
        }
        let names = Names::new(&args.listen, addresses, &args.allow_name, &args.allow_origin)?;
        Ok(Gate { certificate, names, people, turns: Turns::new(MAX_REQUESTS, MAX_REQUESTS_OF_ONE) })
    }

    /// Whether connections are encrypted.
    pub(super) fn encrypts(&self) -> bool {
        self.certificate.is_some()
    }

    /// What connections are encrypted with that begin now. Looks, once a second at most, whether the files have changed.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        let mut fresh = self.certificate.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        match fresh.renew(Instant::now()) {
            None => {}
            Some(Ok(new)) => *fresh.value_mut() = new,
            Some(Err(error)) => tracing::warn!("{error}; the certificate known before counts on"),
        }
        Some(fresh.value().clone())
    }
}

fn certificate_of(
    certificate: PathBuf,
    key: PathBuf,
) -> Result<Fresh<Certificate, CertificateError>, CertificateError> {
    Fresh::new(vec![certificate, key], |paths| {
        Certificate::load(&CertificateFiles {
            certificate: paths[0].clone(),
            key: paths[1].clone(),
            client_ca: None,
        })
    })
}

/// The layer around all routes.
pub(super) async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if let Err(why) = gate.names.check(&request, gate.encrypts()) {
        return refusal(&path, StatusCode::FORBIDDEN, &why);
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let asks_first = request.method() == Method::OPTIONS;
    let mut answer = gate.admit(&path, asks_first, request, next).await;
    // What a browser asks first of those, pmapi answers.
    if let Some(origin) = origin
        && !(asks_first && is_of_pcp(&path))
    {
        names::may_read(origin, asks_first, &mut answer);
    }
    answer
}

/// Whether pmproxy has this path, too: its form of CORS is that of `pmapi`.
fn is_of_pcp(path: &str) -> bool {
    ["/pmapi/", "/series/", "/metrics"].iter().any(|begin| path.starts_with(begin))
}

impl Gate {
    /// Lets in who may, when there is a turn. `asks_first`: what a browser asks on its own, before it shows who asks.
    async fn admit(&self, path: &str, asks_first: bool, request: Request, next: Next) -> Response {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        let who = if asks_first { Known::Yes } else { self.people.who(request.headers(), peer).await };
        match who {
            Known::Yes => {}
            Known::No => return people::log_in(path),
            Known::Later(wait) => return form::later(path, "too many attempts to log in", wait),
        }
        let Some(turn) = self.turns.take(peer) else {
            return form::later(path, "too many requests at once", Duration::from_secs(1));
        };
        match timeout(LIMIT, next.run(request)).await {
            Ok(answer) => hold::until_sent(answer, turn),
            Err(_) => refusal(path, StatusCode::GATEWAY_TIMEOUT, "this takes too long: ask for less"),
        }
    }
}
