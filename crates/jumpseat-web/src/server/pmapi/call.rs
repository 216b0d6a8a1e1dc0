//! A request as commands take it, what they answer, and how they refuse.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use pcp_client::{ClientError, HostSpec};
use pcp_model::PmError;
use serde::Serialize;

use super::busy;
use super::choice::Choice;
use super::session::Session;
use super::target::{Command, Target};
use super::{derive, describe, fetch, indom, metric, profile, scrape, store};
use crate::server::answer::Refusal;
use crate::server::query::Query;
use crate::server::web::Shared;

/// Most bytes of an answer.
pub(super) const MAX_ANSWER: usize = 64 << 20;
/// Room that an answer has at first: most need no more.
const FIRST_ROOM: usize = 4 << 10;
/// Most metrics of a request.
pub(super) const MAX_METRICS: usize = 65_536;
/// How many metrics are asked about, or fetched, at a time.
pub(super) const BATCH: usize = 256;

/// How long a request may ask its source for one thing after the other. Whoever wants the answer has given up then.
const MAX_TIME: Duration = Duration::from_secs(60);

/// When a request has to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

/// A user and a password for the collector.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    user: String,
    password: String,
}

/// A request.
pub(super) struct Call {
    pub command: Command,
    /// Whether numbers are wanted in the form for machines.
    pub raw: bool,
    pub query: Query,
    /// The definitions, or the value, of a POST of `derive` and `store`.
    pub body: String,
    /// Whether it is a POST.
    pub posted: bool,
    /// The context it is about; `None` for a new one.
    pub number: Option<u32>,
    /// The address of the client.
    pub peer: Option<IpAddr>,
    pub credentials: Option<Credentials>,
    /// The form of `/metrics` that is wanted.
    pub exposition: scrape::Form,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Output {
    content: &'static str,
    body: Vec<u8>,
}

impl Deadline {
    /// From now on.
    pub(super) fn new() -> Deadline {
        Deadline::since(Instant::now())
    }

    pub(super) fn since(begun: Instant) -> Deadline {
        Deadline(begun)
    }

    /// # Errors
    /// It is past.
    pub(super) fn check(self) -> Result<(), Refusal> {
        match self.0.elapsed() > MAX_TIME {
            true => Err(busy(format!("it takes more than {} s: ask for less", MAX_TIME.as_secs()))),
            false => Ok(()),
        }
    }
}

impl Call {
    /// # Errors
    /// A context that is no number.
    pub(super) fn new(
        target: Target<'_>,
        query: Query,
        body: Option<String>,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        credentials: Option<Credentials>,
    ) -> Result<Call, Refusal> {
        let number = match query.get("context").or(target.context) {
            Some(text) => {
                let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
                let bad = || Refusal::bad(format!("invalid context identifier: {text}"));
                Some(number.flatten().ok_or_else(bad)?)
            }
            None => None,
        };
        let exposition = scrape::Form::of(&query, headers, target.raw);
        let Target { command, raw, .. } = target;
        let posted = body.is_some();
        let body = body.unwrap_or_default();
        Ok(Call { command, raw, query, body, posted, number, peer, credentials, exposition: exposition? })
    }

    /// What is wrong with it, whatever its context.
    ///
    /// # Errors
    /// Parameters that are missing, or that have no meaning.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let query = &self.query;
        let one_of = |names: &[&str]| match query.first(names) {
            Some(_) => Ok(()),
            None => Err(Refusal::bad(format!("parameters missing: {}", names.join(" or ")))),
        };
        match self.command {
            Command::Context | Command::Children | Command::Metric => {}
            Command::Fetch => one_of(&fetch::WHAT)?,
            Command::Indom => {
                one_of(&["name", "indom"])?;
                Choice::read(query)?;
            }
            Command::Profile => {
                one_of(&["expr"])?;
                profile::Change::read(query)?;
                Choice::read(query)?;
            }
            // An empty body is told of by the command.
            Command::Derive if self.posted => {}
            Command::Derive => one_of(&["name", "expr"])?,
            Command::Store => {
                one_of(&["name", "pmid"])?;
                if !self.posted {
                    one_of(&["value"])?;
                }
            }
            // Its filter is told of with a context.
            Command::Metrics => {}
        }
        Ok(())
    }

    /// Does it, on a thread that may wait.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn run(&self, session: &mut Session, number: u32, may_store: bool) -> Result<Output, Refusal> {
        session.begin();
        let was_connected = session.context.is_connected();
        let mut done = session.connected().and_then(|()| self.once(session, number, may_store));
        // The request that hits the loss of a connection is the one that finds out.
        if done.is_err() && was_connected && !session.context.is_connected() && self.command != Command::Store
        {
            done = session.connected().and_then(|()| self.once(session, number, may_store));
        }
        done.map_err(|refusal| Refusal { context: Some(number), ..refusal })
    }

    fn once(&self, session: &mut Session, number: u32, may_store: bool) -> Result<Output, Refusal> {
        match self.command {
            Command::Context => describe::context(self, session, number),
            Command::Children => describe::children(self, session, number),
            Command::Metric => metric::metric(self, session, number),
            Command::Indom => indom::indom(self, session, number),
            Command::Fetch => fetch::fetch(self, session, number),
            Command::Profile => profile::profile(self, session, number),
            Command::Derive => derive::derive(self, session, number),
            Command::Store => store::store(self, session, number, may_store),
            Command::Metrics => scrape::scrape(self, session),
        }
    }

    /// What the client calls itself, for the answer.
    pub(super) fn client(&self) -> Option<&str> {
        self.query.get("client").filter(|_| !self.raw)
    }

    /// Whether a parameter is `true`.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.query.get(name) == Some("true")
    }

    /// A refusal of the context asked for: all but `context` name it, as pmproxy does.
    pub(super) fn placed(&self, refusal: Refusal) -> Refusal {
        let context = self.number.filter(|_| self.command != Command::Context);
        Refusal { context, ..refusal }
    }
}

impl Output {
    /// # Errors
    /// It is too long.
    pub(super) fn json(value: &impl Serialize) -> Result<Output, Refusal> {
        let mut out = Bounded { body: Vec::with_capacity(FIRST_ROOM) };
        let written = serde_json::to_writer(&mut out, value);
        written.map_err(|_| too_long())?;
        out.body.extend_from_slice(b"\r\n");
        Ok(Output { content: "application/json", body: out.body })
    }

    /// `{"context":N,"success":true}`
    pub(super) fn success(context: u32) -> Result<Output, Refusal> {
        #[derive(Serialize)]
        struct Success {
            context: u32,
            success: bool,
        }
        Output::json(&Success { context, success: true })
    }

    pub(super) fn text(content: &'static str, body: Vec<u8>) -> Output {
        Output { content, body }
    }
}

impl IntoResponse for Output {
    fn into_response(self) -> Response {
        let content = [(header::CONTENT_TYPE, HeaderValue::from_static(self.content))];
        (content, Bytes::from(self.body)).into_response()
    }
}

/// Takes [`MAX_ANSWER`] bytes.
struct Bounded {
    body: Vec<u8>,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.body.len() + bytes.len() > MAX_ANSWER {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The answer would have more than [`MAX_ANSWER`] bytes.
pub(super) fn too_long() -> Refusal {
    Refusal::bad(format!("the answer would have more than {} MiB: ask for less", MAX_ANSWER >> 20))
}

/// A refusal in the words of a client's error: PCP's text for its code.
pub(super) fn refused(error: &ClientError) -> Refusal {
    coded("", error.code())
}

/// A refusal in PCP's text for a code, behind what failed.
pub(super) fn coded(what: &str, code: PmError) -> Refusal {
    let status = match code == PmError::from_errno(nix::libc::EPERM) {
        true => StatusCode::FORBIDDEN,
        false => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, format!("{what}{code}"))
}

/// The items of a list; empty ones are left out, as `strtok(3)` does.
pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|item| !item.is_empty())
}

/// The body of a request, as text.
///
/// # Errors
/// It is too long, no text, or does not come.
pub(super) async fn body(body: Body, most: usize) -> Result<String, Refusal> {
    let bad = |what: String| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, what);
    let bytes = Limited::new(body, most).collect().await;
    let bytes =
        bytes.map_err(|_| bad(format!("the body is cut off, or has more than {most} bytes")))?.to_bytes();
    String::from_utf8(bytes.into()).map_err(|_| Refusal::bad("the body is not UTF-8"))
}

/// Who the client says it is to the collector: by basic authentication, unless that is the way into this server itself.
///
/// # Errors
/// Status 401 where it cannot be read.
pub(super) fn credentials(web: &Shared, headers: &HeaderMap) -> Result<Option<Credentials>, Refusal> {
    if web.args.passwords.is_some() || web.args.tokens.is_some() {
        return Ok(None);
    }
    let Some(text) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
        return Ok(None);
    };
    let (scheme, encoded) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let bad = || Refusal::new(StatusCode::UNAUTHORIZED, "(none)");
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).map_err(|_| bad())?;
    let decoded = String::from_utf8(decoded).map_err(|_| bad())?;
    let (user, password) = decoded.split_once(':').ok_or_else(bad)?;
    Ok(Some(Credentials { user: user.to_owned(), password: password.to_owned() }))
}

impl Credentials {
    /// Adds them to where a context is.
    pub(super) fn add_to(&self, spec: &mut HostSpec) {
        spec.attributes.username = Some(self.user.clone());
        spec.attributes.password = Some(self.password.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_refused_and_not_held() {
        let text = "x".repeat(1 << 20);
        let texts = vec![text.as_str(); 65];
        assert_eq!(Output::json(&texts).map(|_| ()).unwrap_err(), too_long());
        assert!(Output::json(&texts[..3].to_vec()).is_ok());
    }
}
