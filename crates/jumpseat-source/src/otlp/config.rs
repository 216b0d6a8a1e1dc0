//! Configuration of the OTLP source.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::json;
use super::value::AttributeLimits;
use crate::guard::Guard;
use crate::guard::book::TokenBook;
use crate::guard::tls::{TlsFiles, is_local};
use crate::setting::{InvalidKey, check_address, check_source, in_range};

/// Where OTLP is taken in, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpConfig {
    /// Host and port of OTLP over HTTP, such as `localhost:4318`; `None`: not served.
    pub listen: Option<String>,
    /// Host and port of OTLP over gRPC, such as `localhost:4317`; `None`: not served.
    pub grpc: Option<String>,
    /// Names of this machine that clients may use in `Host`, besides loopback names and addresses, where it listens on a
    /// loopback address.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send, as browsers have them: `https://shop.example`, `http://localhost:3000`.
    pub origins: Vec<String>,
    /// What it proves itself with; `None`: it listens in plain text.
    pub tls: Option<TlsFiles>,
    /// Whether it may listen beyond this machine in plain text, or to everybody.
    pub insecure: bool,
    /// File with tokens, one of which clients must send in `Authorization: Bearer TOKEN`; `None`: whoever reaches the address
    /// may send.
    pub token_file: Option<PathBuf>,
    /// Source of what names no service.
    pub source: String,
    /// Whether each instance of a service (`service.instance.id`) is a source of its own.
    pub by_instance: bool,
    /// Connections at the same time; further ones are told to come again and closed.
    pub max_connections: usize,
    /// Longest body as it is sent, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_body: usize,
    /// Longest body decompressed, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_decompressed: usize,
    /// Memory of all bodies that are not complete yet, in bytes. What goes beyond is told to come again.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_memory: usize,
    /// Longest text of one field, in bytes; longer ones are cut.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_field: usize,
    /// Attributes of a span, a span event or a log record that are kept.
    pub max_fields: usize,
    /// Milliseconds in which a request must be complete once it has begun, and its answer be read.
    pub timeout_ms: u64,
    /// Milliseconds after which a connection without a request is closed.
    pub idle_ms: u64,
    /// Batches of up to 64 KiB that may wait for the core.
    pub queue: usize,
    /// Milliseconds to wait for the core when the queue is full, before clients are told to come again.
    pub patience_ms: u64,
}

impl Default for OtlpConfig {
    fn default() -> OtlpConfig {
        OtlpConfig {
            listen: None,
            grpc: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            insecure: false,
            token_file: None,
            source: "otlp".to_owned(),
            by_instance: false,
            max_connections: 128,
            max_body: 16 << 20,
            max_decompressed: 32 << 20,
            max_memory: 64 << 20,
            max_field: 16 * 1024,
            max_fields: 128,
            timeout_ms: 10_000,
            idle_ms: 60_000,
            queue: 64,
            patience_ms: 100,
        }
    }
}

impl OtlpConfig {
    /// Whether anything is served.
    pub fn is_on(&self) -> bool {
        self.listen.is_some() || self.grpc.is_some()
    }

    /// Checks ranges.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        for (key, address) in [("listen", &self.listen), ("grpc", &self.grpc)] {
            address.as_deref().map_or(Ok(()), |address| check_address(key, address))?;
        }
        if self.listen.is_some() && self.listen == self.grpc {
            return Err(InvalidKey::duplicate("grpc", "the address of listen; each needs one of its own"));
        }
        for (key, address) in [("listen", &self.listen), ("grpc", &self.grpc)] {
            self.check_secure(key, address.as_deref())?;
        }
        self.origins.iter().try_for_each(|origin| check_origin(origin))?;
        check_source(&self.source)?;
        in_range("max_connections", self.max_connections as u64, 1..=10_000)?;
        in_range("max_body", self.max_body as u64, 1024..=json::MAX_TEXT as u64)?;
        in_range("max_decompressed", self.max_decompressed as u64, 1024..=json::MAX_TEXT as u64)?;
        in_range("max_memory", self.max_memory as u64, self.max_body as u64..=1 << 30)?;
        in_range("max_field", self.max_field as u64, 16..=64 * 1024)?;
        in_range("max_fields", self.max_fields as u64, 1..=4096)?;
        in_range("timeout_ms", self.timeout_ms, 100..=3_600_000)?;
        in_range("idle_ms", self.idle_ms, 100..=3_600_000)?;
        in_range("queue", self.queue as u64, 1..=65_536)?;
        in_range("patience_ms", self.patience_ms, 0..=1000)
    }

    /// Checks the files of tokens and of the certificate, as far as there are any: they are read, and that others may not is
    /// seen to.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_files(&self) -> Result<(), InvalidKey> {
        self.guard(None).map(drop)
    }

    pub(super) fn guard(&self, book: Option<&Arc<TokenBook>>) -> Result<Guard, InvalidKey> {
        Guard::new("otlp", self.tls.as_ref(), self.token_file.as_deref(), book)
    }

    /// Beyond this machine there has to be encryption, and somebody who is let in.
    fn check_secure(&self, key: &'static str, address: Option<&str>) -> Result<(), InvalidKey> {
        let Some(address) = address.filter(|address| !self.insecure && !is_local(address)) else {
            return Ok(());
        };
        let missing = match &self.tls {
            None => "in plain text: give it a certificate (tls = { certificate = ..., key = ... })",
            Some(tls) if tls.client_ca.is_none() && self.token_file.is_none() => {
                "to everybody: say who may send (token_file, or client_ca in tls)"
            }
            Some(_) => return Ok(()),
        };
        let words = format!(
            "{address} is not of this machine alone, and would be served {missing}; insecure = true (jumpseat serve --otlp-insecure) allows it"
        );
        Err(InvalidKey::other(key, words))
    }

    pub(super) fn limits(&self) -> AttributeLimits {
        AttributeLimits { max_field: self.max_field, max_fields: self.max_fields }
    }
}

/// An origin is compared as it is sent, so it must be written as browsers write it.
fn check_origin(origin: &str) -> Result<(), InvalidKey> {
    let scheme = ["https://", "http://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    let is_host = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || b".-:[]".contains(&byte);
    match scheme {
        Some(host) if !host.is_empty() && host.bytes().all(is_host) => Ok(()),
        _ => {
            let words = format!(
                "{origin:?} is no origin as browsers send it, such as \"https://shop.example\" or \"http://localhost:3000\": \
                 in lowercase, without a path"
            );
            Err(InvalidKey::other("origins", words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_keys_are_checked() {
        assert_eq!(OtlpConfig::default().validate(), Ok(()));
        for (json, part) in [
            (r#"{"listen":"4318"}"#, "listen: \"4318\" is not host and port"),
            (r#"{"listen":"localhost:x"}"#, "listen: \"localhost:x\" is not host and port"),
            (r#"{"listen":"h:1","grpc":"h:1"}"#, "grpc: the address of listen"),
            (r#"{"origins":["*"]}"#, "origins: \"*\" is no origin"),
            (r#"{"origins":["https://a.example/"]}"#, "origins: \"https://a.example/\" is no origin"),
            (r#"{"source":"a b"}"#, "source: \"a b\" is no source name"),
            (r#"{"max_body":"1GiB"}"#, "max_body: 1073741824 is not between 1024 and 67108864"),
            (r#"{"max_memory":"1MiB"}"#, "max_memory: 1048576 is not between 16777216 and"),
            (r#"{"max_fields":0}"#, "max_fields: 0 is not between"),
            (r#"{"timeout_ms":1}"#, "timeout_ms: 1 is not between 100 and 3600000"),
        ] {
            let config: OtlpConfig = serde_json::from_str(json).expect("well-formed");
            let error = config.validate().expect_err(json).to_string();
            assert!(error.starts_with(part), "{json}: {error}");
        }
        assert!(serde_json::from_str::<OtlpConfig>(r#"{"bind":"x"}"#).is_err());
    }
}
