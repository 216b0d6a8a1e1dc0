//! Configuration of targets to scrape: `[[scrape]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue,
};
use serde::{Deserialize, Serialize, Serializer};

use super::target::{Target, check_label};
use super::trust::{TrustFiles, credential};
use crate::interval::Interval;
use crate::setting::{InvalidKey, in_range};

/// Most tables.
pub const MAX_TABLES: usize = 1000;

/// Targets that are asked for their metrics, and how.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScrapeConfig {
    /// What these targets are together: the label `job`.
    pub name: String,
    /// Where they are: `http://host:9100/metrics`, or `host:9100` for short.
    pub targets: Vec<String>,
    /// A file with more of them, read again when it changes.
    pub targets_file: Option<PathBuf>,
    /// How often each is asked.
    pub interval: Interval,
    /// How long one may take, from its name to the last byte of its answer.
    pub timeout: Interval,
    /// Headers to send.
    pub headers: BTreeMap<String, Hidden>,
    /// Headers whose values are in files, read again when they change.
    pub header_files: BTreeMap<String, PathBuf>,
    /// A file with a token, for `Authorization: Bearer TOKEN`.
    pub token_file: Option<PathBuf>,
    /// Who is trusted over https, and as whom the agent comes.
    pub tls: TrustFiles,
    /// Labels that all series get.
    pub labels: BTreeMap<String, String>,
    /// Whether a target's labels win over `job`, `instance` and `labels`; else they are renamed `exported_NAME`.
    pub honor_labels: bool,
    /// Targets, those of the file included; further ones are left out.
    pub max_targets: u32,
    /// Longest answer, compressed or not, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_body: usize,
    /// Samples of one answer; further ones are refused.
    pub max_samples: u32,
    /// Series of all these targets; further ones are refused.
    pub max_series: u32,
    /// Longest name or value of a label, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_label: usize,
}

impl Default for ScrapeConfig {
    fn default() -> ScrapeConfig {
        ScrapeConfig {
            name: String::new(),
            targets: Vec::new(),
            targets_file: None,
            interval: Interval(Duration::from_secs(60)),
            timeout: Interval(Duration::from_secs(10)),
            headers: BTreeMap::new(),
            header_files: BTreeMap::new(),
            token_file: None,
            tls: TrustFiles::default(),
            labels: BTreeMap::new(),
            honor_labels: false,
            max_targets: 2000,
            max_body: 16 << 20,
            max_samples: 50_000,
            max_series: 2_000_000,
            max_label: 1024,
        }
    }
}

/// A text that is shown to nobody.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(left out)")
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(left out)")
    }
}

impl ScrapeConfig {
    /// Checks ranges, and all that needs no file.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"@{}%".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_plain) {
            let words = format!("{:?} is no name: 1 to 64 bytes without blanks, @, {{, }} and %", self.name);
            return Err(InvalidKey::other("name", words));
        }
        if self.targets.is_empty() && self.targets_file.is_none() {
            let words =
                "there is none: name some, such as \"http://localhost:9100/metrics\", or a targets_file";
            return Err(InvalidKey::other("targets", words));
        }
        let mut seen = BTreeSet::new();
        for text in &self.targets {
            let target =
                Target::parse(text, self).map_err(|why| InvalidKey::notation("targets", text, why))?;
            if !seen.insert(target.url.clone()) {
                return Err(InvalidKey::other("targets", format!("{text:?} is there twice")));
            }
        }
        let (interval, timeout) = (self.interval.0, self.timeout.0);
        if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&interval) {
            let words = format!("{} is not between 100ms and 24h", self.interval);
            return Err(InvalidKey::other("interval", words));
        }
        // By default not below an interval that is shorter.
        let is_default = timeout == ScrapeConfig::default().timeout.0;
        if timeout < Duration::from_millis(10) || (timeout > interval && !is_default) {
            let words = format!("{} is not between 10ms and the interval, {}", self.timeout, self.interval);
            return Err(InvalidKey::other("timeout", words));
        }
        for (name, value) in &self.headers {
            check_header("headers", name)?;
            if HeaderValue::from_str(&value.0).is_err() {
                return Err(InvalidKey::other(
                    "headers",
                    format!("the value of {name} has control characters"),
                ));
            }
        }
        for name in self.header_files.keys() {
            check_header("header_files", name)?;
        }
        let named = |name: &str| self.names_header(name);
        if self.token_file.is_some() && named(AUTHORIZATION.as_str()) {
            return Err(InvalidKey::duplicate("token_file", "a header Authorization is configured as well"));
        }
        for (name, value) in &self.labels {
            check_label(name, value, self.max_label)
                .map_err(|why| InvalidKey::notation("labels", name, why))?;
        }
        self.tls.check()?;
        in_range("max_targets", self.max_targets.into(), 1..=100_000)?;
        in_range("max_body", self.max_body as u64, 1024..=256 << 20)?;
        in_range("max_samples", self.max_samples.into(), 1..=500_000)?;
        in_range("max_series", self.max_series.into(), 1..=10_000_000)?;
        in_range("max_label", self.max_label as u64, 16..=4096)
    }

    /// How long one scrape may take.
    pub fn limit(&self) -> Duration {
        self.timeout.0.min(self.interval.0)
    }

    /// Has relative paths begin at a directory.
    pub fn start_paths_at(&mut self, directory: &Path) {
        let single = [&mut self.targets_file, &mut self.token_file].into_iter().flatten();
        for path in single.chain(self.header_files.values_mut()).chain(self.tls.paths_mut()) {
            *path = directory.join(&*path);
        }
    }

    /// All files with secrets or trust that it names; that with the targets is not among them.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.token_file.iter().chain(self.header_files.values()).chain(self.tls.paths()).cloned().collect()
    }

    /// Checks what is in the files.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub fn check_files(&self) -> Result<(), InvalidKey> {
        let other = |key, why: String| InvalidKey::other(key, why);
        self.tls.load().map_err(|why| other("tls", why))?;
        if let Some(path) = &self.token_file {
            credential(path).map_err(|why| other("token_file", why))?;
        }
        for path in self.header_files.values() {
            credential(path).map_err(|why| other("header_files", why))?;
        }
        if let Some(path) = &self.targets_file {
            super::target::read(path, self).map_err(|why| other("targets_file", why))?;
        }
        Ok(())
    }

    fn names_header(&self, wanted: &str) -> bool {
        self.headers.keys().chain(self.header_files.keys()).any(|name| name.eq_ignore_ascii_case(wanted))
    }
}

/// A header that is not the scraper's own.
fn check_header(key: &'static str, name: &str) -> Result<(), InvalidKey> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| InvalidKey::notation(key, name, "no name of a header"))?;
    match [ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST].contains(&parsed) {
        true => Err(InvalidKey::notation(key, name, "the agent sends that itself")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_checked() {
        let wrong = |json: &str| {
            let config: ScrapeConfig = serde_json::from_str(json).expect("well-formed");
            config.validate().expect_err(json).to_string()
        };
        for (keys, part) in [
            (r#""name":"""#, "name: \"\" is no name"),
            (r#""name":"a b""#, "name: \"a b\" is no name"),
            (r#""targets":[]"#, "targets: there is none"),
            (r#""targets":["ftp://x/"]"#, "targets: \"ftp://x/\": neither http nor https"),
            (r#""targets":["h:1","http://h:1/metrics"]"#, "targets: \"http://h:1/metrics\" is there twice"),
            (r#""interval":"1ms""#, "interval: 1ms is not between"),
            (r#""interval":"5s","timeout":"6s""#, "timeout: 6s is not between 10ms and the interval, 5s"),
            (r#""headers":{"a b":"x"}"#, "headers: \"a b\": no name of a header"),
            (r#""headers":{"host":"x"}"#, "headers: \"host\": the agent sends that itself"),
            (r#""headers":{"x":"a\nsecret"}"#, "headers: the value of x has control characters"),
            (r#""headers":{"authorization":"x"},"token_file":"t""#, "token_file: a header Authorization"),
            (r#""labels":{"a-b":"x"}"#, "labels: \"a-b\""),
            (r#""max_samples":0"#, "max_samples: 0 is not between"),
            (r#""tls":{"key":"k"}"#, "tls: certificate and key go together"),
        ] {
            // What is said later wins, as it does not come twice in a table.
            let mut all: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(r#"{"name":"x","targets":["h:1"]}"#).expect("JSON");
            all.extend(serde_json::from_str::<serde_json::Map<_, _>>(&format!("{{{keys}}}")).expect("JSON"));
            let error = wrong(&serde_json::to_string(&all).expect("JSON"));
            assert!(error.starts_with(part), "{keys}: {error}");
        }
        assert!(serde_json::from_str::<ScrapeConfig>(r#"{"url":"x"}"#).is_err());
        let short: ScrapeConfig =
            serde_json::from_str(r#"{"name":"x","targets":["h:1"],"interval":"1s"}"#).expect("JSON");
        assert_eq!((short.validate(), short.limit()), (Ok(()), Duration::from_secs(1)));
    }

    #[test]
    fn values_of_headers_are_shown_to_nobody() {
        let config: ScrapeConfig =
            serde_json::from_str(r#"{"headers":{"X-Key":"open sesame"}}"#).expect("JSON");
        let shown = format!("{config:?} {}", serde_json::to_string(&config).expect("JSON"));
        assert!(shown.contains("X-Key") && !shown.contains("sesame"), "{shown}");
        let other: ScrapeConfig = serde_json::from_str(r#"{"headers":{"X-Key":"x"}}"#).expect("JSON");
        assert_ne!(config, other);
    }
}
