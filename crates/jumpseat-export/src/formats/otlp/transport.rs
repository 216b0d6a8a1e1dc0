//! One request to a receiver, over HTTP or gRPC, and what its answer means.
//!
//! | answer | HTTP | gRPC | what follows |
//! | --- | --- | --- | --- |
//! | taken, all or in part | 200 | OK | what was not is counted with its reason, and not sent again |
//! | later | 429, 502, 503, 504, no answer | `UNAVAILABLE`, `ABORTED`, `CANCELLED`, `DEADLINE_EXCEEDED`, `OUT_OF_RANGE`, `DATA_LOSS`; `RESOURCE_EXHAUSTED` with `RetryInfo` | sent again, after `Retry-After` or `RetryInfo` if there is one |
//! | not for us | 401, 403, 404, 405 | `UNAUTHENTICATED`, `PERMISSION_DENIED`, `UNIMPLEMENTED` | the export ends, as no other request would be taken |
//! | refused | any other | any other | counted with its reason, and not sent again |
//!
//! (OTLP's specification, "Failures" of both transports.)

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, TE,
    USER_AGENT,
};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::args::Protocol;

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 4 << 20;
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long idle connections are kept.
const IDLE: Duration = Duration::from_secs(60);
/// Longest text of a receiver that is told, in characters.
const MAX_REASON: usize = 300;

/// What a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Signal {
    Metrics,
    Traces,
    Logs,
}

impl Signal {
    fn path(self, protocol: Protocol) -> &'static str {
        match (protocol, self) {
            (Protocol::Http, Signal::Metrics) => "/v1/metrics",
            (Protocol::Http, Signal::Traces) => "/v1/traces",
            (Protocol::Http, Signal::Logs) => "/v1/logs",
            (Protocol::Grpc, Signal::Metrics) => {
                "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
            }
            (Protocol::Grpc, Signal::Traces) => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            (Protocol::Grpc, Signal::Logs) => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was taken, but for so many of its items.
    Taken { rejected: u64, reason: String },
    /// It may be sent again, after so long if the receiver says so.
    Later { after: Option<Duration>, reason: String },
    /// It will not be taken.
    Refused { reason: String },
    /// Nothing will be taken from this sender.
    Barred { reason: String },
}

/// Where to, and how.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub url: String,
    pub protocol: Option<Protocol>,
    /// `name=value`.
    pub headers: Vec<String>,
    /// Certificates to trust instead of the system's, in PEM.
    pub ca: Option<PathBuf>,
    /// A file with a bearer token, read for each request, so that it may be replaced.
    pub token: Option<PathBuf>,
    pub gzip: bool,
}

/// Sends requests.
pub(super) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    protocol: Protocol,
    headers: HeaderMap,
    token: Option<PathBuf>,
    gzip: bool,
}

impl Transport {
    /// A transport to a target; nothing is connected yet.
    ///
    /// # Errors
    /// What is wrong with the target, and what would be right.
    pub(super) fn new(target: &Target) -> Result<Transport, String> {
        let Target { url, protocol, headers, ca, token, gzip } = target;
        let uri: Uri = url
            .parse()
            .map_err(|error| format!("--otlp {url}: {error}: write http://HOST:4318 or https://HOST:4318"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() {
            return Err(format!(
                "--otlp {url}: write http:// or https:// in front of a host, as http://localhost:4318"
            ));
        }
        // 4317 is the port that gRPC has by convention.
        let by_port = if uri.port_u16() == Some(4317) { Protocol::Grpc } else { Protocol::Http };
        let protocol = protocol.unwrap_or(by_port);
        if let Some(token) = token {
            if uri.scheme_str() == Some("http") && !is_loopback(uri.host().unwrap_or_default()) {
                return Err(format!(
                    "--token-file: a token is not sent in plain text to {url}: use https://"
                ));
            }
            bearer(token)?;
        }
        let tls = tls(ca.as_deref())?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        // What is agreed upon by TLS; over plain text gRPC is HTTP/2 from its first byte.
        let connector = match protocol {
            Protocol::Http => connector.enable_all_versions().build(),
            Protocol::Grpc => connector.enable_http2().build(),
        };
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).timer(TokioTimer::new());
        builder.http2_only(protocol == Protocol::Grpc);
        Ok(Transport {
            client: builder.build(connector),
            base: url.trim_end_matches('/').to_owned(),
            protocol,
            headers: own_headers(headers, protocol, *gzip)?,
            token: token.clone(),
            gzip: *gzip,
        })
    }

    /// The body of a request as it is sent: compressed, framed for gRPC. Done once, however often it is sent.
    pub(super) fn wrap(&self, message: &[u8]) -> Bytes {
        let mut body = BytesMut::new();
        if self.protocol == Protocol::Grpc {
            body.put_u8(self.gzip.into());
            body.put_u32(0);
        }
        if self.gzip {
            let mut encoder = flate2::write::GzEncoder::new(body.writer(), flate2::Compression::fast());
            // Memory takes everything.
            let _ = std::io::Write::write_all(&mut encoder, message);
            body = encoder.finish().map(bytes::buf::Writer::into_inner).unwrap_or_default();
        } else {
            body.extend_from_slice(message);
        }
        if self.protocol == Protocol::Grpc && body.len() >= 5 {
            let len = u32::try_from(body.len() - 5).unwrap_or(u32::MAX);
            body[1..5].copy_from_slice(&len.to_be_bytes());
        }
        body.freeze()
    }

    /// Sends a wrapped request, and reads the answer.
    pub(super) async fn send(&self, signal: Signal, body: Bytes) -> Answer {
        let request = match self.request(signal, body) {
            Ok(request) => request,
            // The token's file: it may be there again.
            Err(reason) => return Answer::Later { after: None, reason },
        };
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| said(&error))?;
            match self.protocol {
                Protocol::Http => http_answer(response).await,
                Protocol::Grpc => grpc_answer(response).await,
            }
        };
        match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(reason)) => Answer::Later { after: None, reason },
            Err(_) => {
                Answer::Later { after: None, reason: format!("no answer within {} s", TIMEOUT.as_secs()) }
            }
        }
    }

    fn request(&self, signal: Signal, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::post(format!("{}{}", self.base, signal.path(self.protocol)))
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        request.headers_mut().clone_from(&self.headers);
        if let Some(path) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, bearer(path)?);
        }
        Ok(request)
    }
}

fn own_headers(sent: &[String], protocol: Protocol, gzip: bool) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("jumpseat/", env!("CARGO_PKG_VERSION"))));
    for header in sent {
        let wrong = |why: String| format!("--header {header}: {why}: write NAME=VALUE");
        let (name, value) = header.split_once('=').ok_or_else(|| wrong("there is no =".to_owned()))?;
        let name: HeaderName =
            name.trim().parse().map_err(|_| wrong("this is no name of a header".to_owned()))?;
        let value = HeaderValue::from_str(value.trim())
            .map_err(|_| wrong("this is no value of a header".to_owned()))?;
        headers.append(name, value);
    }
    let (kind, encoding) = match protocol {
        Protocol::Http => ("application/x-protobuf", CONTENT_ENCODING),
        Protocol::Grpc => ("application/grpc", HeaderName::from_static("grpc-encoding")),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if gzip {
        headers.insert(encoding, HeaderValue::from_static("gzip"));
    }
    if protocol == Protocol::Grpc {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    Ok(headers)
}

/// The header with the token that is in a file.
fn bearer(path: &Path) -> Result<HeaderValue, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("--token-file {}: {error}", path.display()))?;
    let token = text.trim();
    let header = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty());
    let mut header =
        header.ok_or_else(|| format!("--token-file {}: put one word into it", path.display()))?;
    header.set_sensitive(true);
    Ok(header)
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn tls(ca: Option<&Path>) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    match ca {
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| {
                format!("--ca {}: {error}: it takes certificates in PEM", path.display())
            };
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"there is none in it"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

async fn http_answer(response: Response<Incoming>) -> Result<Answer, String> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await;
    let status = head.status;
    if status.is_success() {
        // That it was taken is known; what the body says of parts is lost with it.
        return Ok(taken(&body.map(|body| body.to_bytes()).unwrap_or_default()));
    }
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let reason = match details(&bytes).message {
        message if message.is_empty() => format!("{status} {}", short(&String::from_utf8_lossy(&bytes))),
        message => format!("{status} {}", short(&message)),
    };
    let reason = reason.trim_end().to_owned();
    Ok(match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Answer::Later { after: retry_after(&head.headers), reason },
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED => Answer::Barred { reason },
        _ => Answer::Refused { reason },
    })
}

async fn grpc_answer(response: Response<Incoming>) -> Result<Answer, String> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let reason = format!("{} over HTTP, where gRPC was expected", head.status);
        return Ok(match head.status.as_u16() {
            429 | 502..=504 => Answer::Later { after: retry_after(&head.headers), reason },
            _ => Answer::Barred { reason },
        });
    }
    let collected = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let bytes = collected.to_bytes();
    let field = |name: &str| trailers.get(name).or_else(|| head.headers.get(name));
    let Some(code) = field("grpc-status").and_then(|code| code.to_str().ok()?.parse::<u32>().ok()) else {
        return Err("the answer ended without a status".to_owned());
    };
    if code == 0 {
        return Ok(taken(bytes.get(5..).unwrap_or_default()));
    }
    let said = field("grpc-message").map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
    let reason = format!("gRPC status {code} {}", short(&said.unwrap_or_default())).trim_end().to_owned();
    let delay = field("grpc-status-details-bin").and_then(|text| retry_delay(text.as_bytes()));
    Ok(match code {
        1 | 4 | 10 | 11 | 14 | 15 => Answer::Later { after: delay, reason },
        8 if delay.is_some() => Answer::Later { after: delay, reason },
        7 | 12 | 16 => Answer::Barred { reason },
        _ => Answer::Refused { reason },
    })
}

/// What the message of an answer says of items that were not taken: it is laid out alike for all signals.
fn taken(bytes: &[u8]) -> Answer {
    let success =
        ExportTraceServiceResponse::decode(bytes).ok().and_then(|response| response.partial_success);
    let success = success.unwrap_or_default();
    let rejected = u64::try_from(success.rejected_spans).unwrap_or_default();
    Answer::Taken { rejected, reason: short(&success.error_message) }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Details {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`, with its `google.protobuf.Duration`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

fn details(bytes: &[u8]) -> Details {
    Details::decode(bytes).unwrap_or_default()
}

fn retry_delay(header: &[u8]) -> Option<Duration> {
    let bytes = STANDARD_NO_PAD.decode(header).or_else(|_| STANDARD.decode(header)).ok()?;
    let details = details(&bytes).details;
    let info = details.iter().find(|detail| detail.type_url.ends_with("google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(&*info.value).ok()?.delay.unwrap_or_default();
    Some(Duration::new(u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?.min(999_999_999)))
}

/// `Retry-After` in seconds. A date is not minded: it needs clocks that agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A text of a receiver, in one line that is not too long.
fn short(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_REASON).collect()
}

/// An error with those that it is due to.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_delay_is_read_from_the_details_of_a_status() {
        let info = RetryInfo { delay: Some(Delay { seconds: 2, nanos: 500_000_000 }) };
        let detail = Detail {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: info.encode_to_vec(),
        };
        let status = Details { message: "slow down".to_owned(), details: vec![detail] }.encode_to_vec();
        for text in [STANDARD.encode(&status), STANDARD_NO_PAD.encode(&status)] {
            assert_eq!(retry_delay(text.as_bytes()), Some(Duration::from_millis(2500)));
        }
        assert_eq!(retry_delay(b"AA"), None);
    }

    #[test]
    fn targets_that_are_none_are_refused_with_what_would_be_right() {
        let target = |url: &str| Target {
            url: url.to_owned(),
            protocol: None,
            headers: Vec::new(),
            ca: None,
            token: None,
            gzip: true,
        };
        for (url, part) in [("localhost:4318", "http://"), ("ftp://x", "http://"), ("", "http://")] {
            let error = Transport::new(&target(url)).err().expect("refused");
            assert!(error.contains(part), "{error}");
        }
        let wrong = Target { headers: vec!["x".to_owned()], ..target("http://x") };
        assert!(Transport::new(&wrong).err().expect("refused").contains("NAME=VALUE"));
        let plain = Target { token: Some("/nonexistent".into()), ..target("http://example.com") };
        assert!(Transport::new(&plain).err().expect("refused").contains("https"));
        let grpc = Transport::new(&target("http://localhost:4317")).expect("a target");
        assert_eq!(grpc.protocol, Protocol::Grpc);
    }

    proptest! {
        /// A receiver may say anything.
        #[test]
        fn answers_of_any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            taken(&bytes);
            details(&bytes);
            retry_delay(&bytes);
        }
    }
}
