//! One answer of a target: connect, ask, read. The time all of it may take is the caller's.
//!
//! What a target can make the agent do is bounded: bytes of the head, of the answer as it comes and decompressed, and of all answers
//! together; redirects are not followed, so nobody sends the agent elsewhere.

use std::cell::Cell;
use std::error::Error as _;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, USER_AGENT,
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local, yield_now};
use tokio_rustls::TlsConnector;

use super::config::ScrapeConfig;
use super::exposition::Format;
use super::stats::{Failure, ScrapeStats, TargetStats};
use super::target::Target;
use super::trust::credential;

/// Longest head of an answer, in bytes, and most headers in it.
const MAX_HEAD: usize = 32 * 1024;
const MAX_HEADERS: usize = 100;
/// Memory of all answers under way.
const MAX_HELD: usize = 256 << 20;
/// Bytes that are decompressed before others have a turn.
const CHUNK: usize = 128 * 1024;
/// Members of an answer that is compressed, of which each may be empty.
const MAX_MEMBERS: usize = 1024;
/// Names that are looked up at the same time, each in a thread: the system's way to do that waits.
const LOOKUPS: usize = 8;
/// What the agent can read.
/// Both with names as they are, from targets that can.
const FORMATS: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
const SECONDS: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Fault {
    /// The kind of it.
    pub failure: Failure,
    /// In words.
    pub message: String,
}

impl Fault {
    pub(super) fn new(failure: Failure, message: impl Into<String>) -> Fault {
        Fault { failure, message: message.into() }
    }
}

/// How the targets of a table are asked.
pub(super) struct Ask {
    headers: HeaderMap,
    tls: Option<Arc<ClientConfig>>,
    server_name: Option<ServerName<'static>>,
}

impl Ask {
    /// With what the files of the table say now. `is_secure`: whether any target is asked by https.
    ///
    /// # Errors
    /// One of the files.
    pub(super) fn new(config: &ScrapeConfig, is_secure: bool) -> Result<Ask, String> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(FORMATS));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("jumpseat/", env!("CARGO_PKG_VERSION"))));
        let mut add = |name: &str, value: &str| -> Result<(), String> {
            let wrong = |what: &str| format!("header {name}: no {what} of a header");
            let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("name"))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong("value"))?;
            value.set_sensitive(true);
            headers.insert(known, value);
            Ok(())
        };
        add(SECONDS.as_str(), &config.limit().as_secs_f64().to_string())?;
        for (name, value) in &config.headers {
            add(name, &value.0)?;
        }
        for (name, path) in &config.header_files {
            add(name, &credential(path)?)?;
        }
        if let Some(path) = &config.token_file {
            add(AUTHORIZATION.as_str(), &format!("Bearer {}", credential(path)?))?;
        }
        let tls = if is_secure { Some(config.tls.load()?) } else { None };
        let server_name = config.tls.server_name.clone().map(ServerName::try_from).transpose();
        Ok(Ask { headers, tls, server_name: server_name.map_err(|error| error.to_string())? })
    }
}

/// What all scrapes share.
pub(super) struct Shared {
    pub stats: Arc<ScrapeStats>,
    held: Cell<usize>,
    lookups: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(stats: &Arc<ScrapeStats>) -> Shared {
        Shared { stats: Arc::clone(stats), held: Cell::new(0), lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    fn hold(&self, more: usize) -> bool {
        let all = self.held.get() + more;
        let fits = all <= MAX_HELD;
        if fits {
            self.held.set(all);
            self.stats.memory.store(all as u64, Ordering::Relaxed);
        }
        fits
    }
}

/// An answer, with memory that counts as long as it lives.
pub(super) struct Body {
    pub bytes: Vec<u8>,
    shared: Rc<Shared>,
}

impl Body {
    fn new(shared: &Rc<Shared>) -> Body {
        Body { bytes: Vec::new(), shared: Rc::clone(shared) }
    }

    fn add(&mut self, bytes: &[u8], max: usize, how: &str) -> Result<(), Fault> {
        if self.bytes.len() + bytes.len() > max {
            return Err(Fault::new(
                Failure::Size,
                format!("an answer of more than {max} bytes{how} (max_body)"),
            ));
        }
        let before = self.bytes.capacity();
        if self.bytes.len() + bytes.len() > before {
            // As much as a vector takes by itself.
            let wanted = (2 * before).max(self.bytes.len() + bytes.len()).max(4096);
            if !self.shared.hold(wanted - before) {
                return Err(Fault::new(Failure::Busy, "too many long answers at the same time"));
            }
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let all = self.shared.held.get().saturating_sub(self.bytes.capacity());
        self.shared.held.set(all);
        self.shared.stats.memory.store(all as u64, Ordering::Relaxed);
    }
}

/// A connection to a target, kept from scrape to scrape.
pub(super) struct Connection {
    send: SendRequest<Empty<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Asks a target. `kept` is its connection, which is there afterwards if it can be used again.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn fetch(
    shared: &Rc<Shared>,
    kept: &mut Option<Connection>,
    target: &Target,
    stats: &TargetStats,
    ask: &Ask,
    max: usize,
) -> Result<(Format, Body), Fault> {
    let mut used = kept.take().filter(|connection| !connection.send.is_closed());
    let (mut connection, response) = loop {
        let (mut connection, is_fresh) = match used.take() {
            Some(connection) => (connection, false),
            None => {
                stats.connections.fetch_add(1, Ordering::Relaxed);
                (connect(shared, target, ask).await?, true)
            }
        };
        match send(&mut connection, target, ask).await {
            Ok(response) => break (connection, response),
            // The other side has closed it since the last time.
            Err(_) if !is_fresh => {}
            Err(error) => return Err(failed("no answer", &error)),
        }
    };
    let body = read(shared, response, stats, max).await?;
    if connection.send.ready().await.is_ok() {
        *kept = Some(connection);
    }
    Ok(body)
}

async fn send(
    connection: &mut Connection,
    target: &Target,
    ask: &Ask,
) -> Result<Response<Incoming>, hyper::Error> {
    connection.send.ready().await?;
    let mut request = Request::new(Empty::new());
    // Both were part of an address that parses.
    *request.uri_mut() = target.path.parse().unwrap_or_default();
    *request.headers_mut() = ask.headers.clone();
    if let Ok(host) = HeaderValue::from_str(&target.authority) {
        request.headers_mut().insert(HOST, host);
    }
    connection.send.send_request(request).await
}

async fn read(
    shared: &Rc<Shared>,
    response: Response<Incoming>,
    stats: &TargetStats,
    max: usize,
) -> Result<(Format, Body), Fault> {
    let (head, mut incoming) = response.into_parts();
    if head.status != StatusCode::OK {
        let more = if head.status.is_redirection() { ": redirects are not followed" } else { "" };
        return Err(Fault::new(Failure::Status, format!("answered {}{more}", head.status)));
    }
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::of(text(CONTENT_TYPE));
    let is_gzip = match text(CONTENT_ENCODING).trim() {
        "" | "identity" => false,
        word if word.eq_ignore_ascii_case("gzip") || word.eq_ignore_ascii_case("x-gzip") => true,
        _ => return Err(Fault::new(Failure::Compression, "compressed otherwise than with gzip")),
    };
    let mut body = Body::new(shared);
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| failed("the answer was cut short", &error))?;
        if let Some(data) = frame.data_ref() {
            stats.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            body.add(data, max, "")?;
        }
    }
    if is_gzip {
        body = inflate(shared, &body, max).await?;
    }
    if !format.is_complete(&body.bytes) {
        return Err(Fault::new(Failure::Syntax, "no # EOF at the end: the answer was cut short"));
    }
    Ok((format, body))
}

async fn inflate(shared: &Rc<Shared>, packed: &Body, max: usize) -> Result<Body, Fault> {
    let wrong = |what: &str| Fault::new(Failure::Compression, what);
    let mut chunk = vec![0; CHUNK.min(max + 1)];
    let mut body = Body::new(shared);
    let mut rest = &packed.bytes[..];
    for _ in 0..MAX_MEMBERS {
        let mut member = GzDecoder::new(rest);
        loop {
            let read = member.read(&mut chunk).map_err(|_| wrong("not what gzip writes"))?;
            // Behind a member, too: it may have been an empty one.
            yield_now().await;
            if read == 0 {
                break;
            }
            body.add(&chunk[..read], max, " decompressed")?;
        }
        rest = member.into_inner();
        if rest.is_empty() {
            return Ok(body);
        }
    }
    Err(wrong("more than 1024 members of gzip"))
}

async fn connect(shared: &Rc<Shared>, target: &Target, ask: &Ask) -> Result<Connection, Fault> {
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let unreached = |error: &io::Error| Fault::new(Failure::Connect, format!("no connection: {error}"));
    let addresses = lookup(shared, &target.host, target.port).await.map_err(|error| unreached(&error))?;
    let mut stream = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error) => problem = error,
        }
    }
    let Some(stream) = stream else { return Err(unreached(&problem)) };
    let _ = stream.set_nodelay(true);
    let Some(config) = ask.tls.as_ref().filter(|_| target.is_secure) else { return begin(stream).await };
    let failed =
        |error: &dyn std::fmt::Display| Fault::new(Failure::Tls, format!("no agreement on TLS: {error}"));
    let name = match &ask.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(target.host.clone()).map_err(|error| failed(&error))?,
    };
    let agreed = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
    begin(agreed.map_err(|error| failed(&error))?).await
}

/// The addresses of a host. A look-up that takes for ever holds its place for as long, and not its target.
async fn lookup(shared: &Rc<Shared>, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let place = Arc::clone(&shared.lookups).acquire_owned().await.map_err(io::Error::other)?;
    let host = host.to_owned();
    let found = spawn_blocking(move || {
        let _place = place;
        (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
    });
    found.await.map_err(io::Error::other)?
}

async fn begin<T>(stream: T) -> Result<Connection, Fault>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD);
    let agreed = builder.handshake(TokioIo::new(stream)).await;
    let (send, connection) = agreed.map_err(|error| failed("no connection", &error))?;
    // How it ends is told to who waits for an answer.
    let driver = spawn_local(async move { drop(connection.await) });
    Ok(Connection { send, driver })
}

/// What hyper tells, with the cause, which it leaves out.
fn failed(what: &str, error: &hyper::Error) -> Fault {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Fault::new(Failure::Protocol, format!("{what}: {error}{cause}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn inflated(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let shared = Rc::new(Shared::new(&Arc::default()));
        let mut packed = Body::new(&shared);
        packed.add(bytes, 1 << 20, "").expect("room");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let body = runtime.block_on(inflate(&shared, &packed, 1 << 20));
        body.map(|body| body.bytes.clone()).map_err(|fault| fault.failure)
    }

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn members_are_one_answer_and_not_without_end() {
        let two = [member(b"a 1\n"), member(b""), member(b"b 2\n")].concat();
        assert_eq!(inflated(&two).as_deref(), Ok(&b"a 1\nb 2\n"[..]));
        assert_eq!(inflated(&member(b"").repeat(MAX_MEMBERS)), Ok(Vec::new()));
        for wrong in [&member(b"").repeat(MAX_MEMBERS + 1)[..], &two[..two.len() - 1], b"", b"a 1\n"] {
            assert_eq!(inflated(wrong), Err(Failure::Compression));
        }
    }
}
