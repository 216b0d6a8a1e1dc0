//! Targets: where they are, what they are called, and the files they are read from.
//!
//! ```text
//! http://host:9100/metrics                a target a line, in a file or in the configuration
//! host:9100 rack=7 env=prod               http and /metrics where nothing else is said, and labels of its own; only in a file
//! # ...                                   a comment
//! [{"targets": ["host:9100"], "labels": {"env": "prod"}}]          Prometheus' file_sd, in JSON: the whole file
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::io::Read as _;
use std::path::Path;

use http::Uri;
use pcp_files::{Links, read_anyones};
use rustc_hash::FxHasher;
use serde::Deserialize;

use super::config::ScrapeConfig;

/// Longest address of a target.
const MAX_URL: usize = 1024;
/// Longest file of targets.
const MAX_FILE: u64 = 16 << 20;

/// Where a target is, and what its series are told apart by from others'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address, as it is asked for.
    pub url: String,
    /// Whether by https.
    pub is_secure: bool,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port as a request has them.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// The label `job`.
    pub job: String,
    /// The label `instance`.
    pub instance: String,
    /// Labels besides these.
    pub labels: BTreeMap<String, String>,
}

impl Target {
    /// A target of a table, by its address.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str, config: &ScrapeConfig) -> Result<Target, String> {
        Target::with(text, &BTreeMap::new(), config)
    }

    /// The same with labels of its own.
    fn with(text: &str, own: &BTreeMap<String, String>, config: &ScrapeConfig) -> Result<Target, String> {
        if text.len() > MAX_URL {
            return Err(format!("longer than {MAX_URL} bytes"));
        }
        let special = |name: &str, default: &str| own.get(name).map_or(default, String::as_str).to_owned();
        let (scheme, path) = (special("__scheme__", "http"), special("__metrics_path__", "/metrics"));
        let full = match text.contains("://") {
            true => text.to_owned(),
            false if text.contains('/') => format!("{scheme}://{text}"),
            false => format!("{scheme}://{text}{path}"),
        };
        let uri: Uri = full.parse().map_err(|error| format!("no address of a target: {error}"))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("neither http nor https".to_owned()),
        };
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        if authority.contains('@') {
            return Err(
                "a user or password in an address would be seen by everybody: use headers or token_file"
                    .to_owned(),
            );
        }
        if uri.port_u16().is_none() && uri.host() != Some(authority) {
            return Err("no port behind the colon: 1 to 65535".to_owned());
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("no host".to_owned());
        }
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let named = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let mut labels = config.labels.clone();
        for (name, value) in own.iter().filter(|(name, _)| !name.starts_with("__")) {
            check_label(name, value, config.max_label)?;
            labels.insert(name.clone(), value.clone());
        }
        let job = labels.remove("job").unwrap_or_else(|| config.name.clone());
        let instance = labels.remove("instance").unwrap_or_else(|| named.clone());
        let url = format!("{}://{named}{path}", if is_secure { "https" } else { "http" });
        Ok(Target { url, is_secure, host, port, authority: named, path, job, instance, labels })
    }

    /// What its series are told apart by from those of others.
    pub(super) fn identity(&self) -> Identity {
        let labels = self.labels.iter().filter(|(_, value)| !value.is_empty());
        let labels = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
        (head(&self.job, &self.instance), labels)
    }

    /// What tells it from all other targets, for ever.
    pub fn name(&self, table: &str) -> String {
        format!("{table}@{}", self.url)
    }

    /// A number that is always the same for it: when its turn is.
    pub fn turn(&self, table: &str) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write(self.name(table).as_bytes());
        hasher.finish()
    }
}

/// What series of a target are told apart by from those of others: [`head`], and the labels that are not empty.
pub(super) type Identity = (String, Vec<(String, String)>);

/// What the names of a target's series begin with.
pub(super) fn head(job: &str, instance: &str) -> String {
    let job = if job.is_empty() { "unknown" } else { job };
    if instance.is_empty() { job.to_owned() } else { format!("{job}@{instance}") }
}

/// Checks a label of the configuration.
///
/// # Errors
/// Why it is none.
pub(super) fn check_label(name: &str, value: &str, max: usize) -> Result<(), String> {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name = name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    match is_name && !name.starts_with("__") {
        false => Err("no name of a label: letters, digits and _, and not __ in front".to_owned()),
        true if name.len() > max || value.len() > max => Err(format!("longer than max_label, {max} bytes")),
        true => Ok(()),
    }
}

/// The targets of a file, and what is wrong with those that are left out.
#[derive(Debug, Default)]
pub struct Listed {
    /// Those that can be asked.
    pub targets: Vec<Target>,
    /// How many cannot.
    pub wrong: usize,
    /// What is wrong with the first of these.
    pub first: Option<String>,
}

impl Listed {
    fn take(&mut self, place: impl FnOnce() -> String, target: Result<Target, String>) {
        match target {
            Ok(target) => self.targets.push(target),
            Err(why) => {
                self.wrong += 1;
                self.first.get_or_insert_with(|| format!("{}: {why}", place()));
            }
        }
    }
}

/// The targets of a table, and what of those that it names is left out.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Those that are asked.
    pub targets: Vec<Target>,
    /// What is not.
    pub left: Left,
}

/// Targets that could be asked, and are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// How many there are beyond `max_targets`.
    pub beyond: usize,
    /// How many would have the series of another target.
    pub alike: usize,
    /// The address of the first of these.
    pub first: Option<String>,
}

/// All targets of a table: those of `listed`, too; each once, and no more than there may be. `taken`: what series of other tables' targets are
/// told apart by; theirs are added.
pub(super) fn all(config: &ScrapeConfig, listed: &Listed, taken: &mut BTreeSet<Identity>) -> Chosen {
    let own = config.targets.iter().filter_map(|text| Target::parse(text, config).ok());
    let (mut seen, mut chosen) = (BTreeSet::new(), Chosen::default());
    let Chosen { targets, left } = &mut chosen;
    for target in own.chain(listed.targets.iter().cloned()) {
        if !seen.insert(target.url.clone()) {
            continue;
        }
        let identity = target.identity();
        if taken.contains(&identity) {
            left.alike += 1;
            left.first.get_or_insert(target.url);
        } else if targets.len() < config.max_targets as usize {
            taken.insert(identity);
            targets.push(target);
        } else {
            left.beyond += 1;
        }
    }
    chosen
}

/// Reads a file of targets. A line that is wrong costs no other one.
///
/// # Errors
/// The file cannot be read, or is no JSON where it begins as that.
pub(super) fn read(path: &Path, config: &ScrapeConfig) -> Result<Listed, String> {
    let shown = path.display();
    let (file, _) = read_anyones(path, Links::Followed).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let length =
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| format!("{shown}: {error}"))?;
    if length as u64 > MAX_FILE {
        return Err(format!("{shown}: longer than {MAX_FILE} bytes"));
    }
    listed(&text, config).map_err(|why| format!("{shown}: {why}"))
}

/// A group of targets in Prometheus' notation.
#[derive(Deserialize)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

fn listed(text: &str, config: &ScrapeConfig) -> Result<Listed, String> {
    let mut listed = Listed::default();
    if text.trim_start().starts_with('[') {
        let groups: Vec<Group> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for Group { targets, labels } in groups {
            for target in targets {
                listed.take(|| format!("target {target:?}"), Target::with(&target, &labels, config));
            }
        }
        return Ok(listed);
    }
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(address) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let labels: Result<BTreeMap<String, String>, String> = words
            .map(|word| {
                let (name, value) =
                    word.split_once('=').ok_or_else(|| format!("{word:?} is not NAME=VALUE"))?;
                Ok((name.to_owned(), value.to_owned()))
            })
            .collect();
        let target = labels.and_then(|labels| Target::with(address, &labels, config));
        listed.take(|| format!("line {}", index + 1), target);
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ScrapeConfig {
        let labels = BTreeMap::from([("env".to_owned(), "test".to_owned())]);
        ScrapeConfig { name: "node".into(), labels, ..ScrapeConfig::default() }
    }

    #[test]
    fn addresses_long_and_short() {
        for (text, url, instance, path) in [
            ("h:9100", "http://h:9100/metrics", "h:9100", "/metrics"),
            ("h", "http://h:80/metrics", "h:80", "/metrics"),
            ("h:9100/m", "http://h:9100/m", "h:9100", "/m"),
            ("https://h/a?b=c", "https://h:443/a?b=c", "h:443", "/a?b=c"),
            ("http://[::1]:1", "http://[::1]:1/", "[::1]:1", "/"),
        ] {
            let target = Target::parse(text, &config()).expect(text);
            assert_eq!((&*target.url, &*target.instance, &*target.path), (url, instance, path));
            assert_eq!((&*target.job, target.labels["env"].as_str()), ("node", "test"));
        }
        for text in ["", "ftp://h/", "http://u:p@h/", "http://", "a b", "http://h:99999/", "h:port"] {
            assert!(Target::parse(text, &config()).is_err(), "{text}");
        }
        let url = format!("http://h/{}", "x".repeat(MAX_URL));
        assert!(Target::parse(&url, &config()).is_err());
    }

    #[test]
    fn files_of_lines_and_of_prometheus() {
        let text = "# all\nh:1 rack=7 instance=one\n\n  https://h/x\nh:2 rack\nh:3 a-b=c\n";
        let found = listed(text, &config()).expect("lines");
        assert_eq!((found.targets.len(), found.wrong), (2, 2));
        assert_eq!(found.targets[0].labels["rack"], "7");
        assert_eq!(found.targets[0].instance, "one");
        assert_eq!(found.first.as_deref(), Some("line 5: \"rack\" is not NAME=VALUE"));

        let text = r#"[{"targets":["h:1","h:2"],"labels":{"env":"prod","__scheme__":"https","__metrics_path__":"/m"}},{"targets":["ftp://x"]}]"#;
        let found = listed(text, &config()).expect("JSON");
        assert_eq!((found.targets.len(), found.wrong), (2, 1));
        assert_eq!(found.targets[0].url, "https://h:1/m");
        assert_eq!(found.targets[0].labels, BTreeMap::from([("env".to_owned(), "prod".to_owned())]));
        assert!(listed("[{", &config()).is_err());
    }

    #[test]
    fn each_is_asked_once_and_no_more_than_there_may_be() {
        let config = ScrapeConfig { targets: vec!["a:1".into(), "b:1".into()], max_targets: 3, ..config() };
        let listed = listed("http://a:1/metrics\nc:1\nd:1\n", &config).expect("lines");
        let chosen = all(&config, &listed, &mut BTreeSet::new());
        let urls: Vec<&str> = chosen.targets.iter().map(|target| &*target.authority).collect();
        assert_eq!((urls, chosen.left.beyond), (vec!["a:1", "b:1", "c:1"], 1));
    }

    #[test]
    fn no_two_have_the_same_series() {
        let text =
            "h:1/m\nh:1/m/cadvisor\nh:1/probe?module=a module=a\nh:1/probe?module=b module=b\nh:1/x empty=\n";
        let paths = |chosen: &Chosen| -> Vec<String> {
            chosen.targets.iter().map(|target| target.path.clone()).collect()
        };
        let mut taken = BTreeSet::new();
        let chosen = all(&config(), &listed(text, &config()).expect("lines"), &mut taken);
        assert_eq!(paths(&chosen), ["/m", "/probe?module=a", "/probe?module=b"]);
        let first = Some("http://h:1/m/cadvisor".to_owned());
        assert_eq!(chosen.left, Left { beyond: 0, alike: 2, first });
        // Nor of another table.
        let other = ScrapeConfig { name: "other".into(), targets: vec!["h:1".into()], ..config() };
        let more = listed("h:1/y job=node\nh:1/z job=node rack=7\n", &other).expect("lines");
        let chosen = all(&other, &more, &mut taken);
        assert_eq!(paths(&chosen), ["/metrics", "/z"]);
        assert_eq!(chosen.left.alike, 1);
    }

    #[test]
    fn a_turn_is_always_the_same() {
        let target = Target::parse("h:9100", &config()).expect("right");
        assert_eq!(target.name("node"), "node@http://h:9100/metrics");
        assert_eq!(target.turn("node"), target.clone().turn("node"));
        assert_ne!(target.turn("node"), target.turn("other"));
    }
}
