//! The configuration file: TOML, every key optional.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

pub use super::interval::Interval;
pub use super::spans::SpansConfig;
pub use jumpseat_source::ByteSize;
use jumpseat_source::SocketConfig;
use jumpseat_source::follow::{CommandConfig, FileConfig, FollowConfig, JournalConfig};
use jumpseat_source::otlp::OtlpConfig;
use jumpseat_source::rules::SourceRule;
use jumpseat_source::tracefs::KernelConfig;
use pcp_client::HostSpec;

/// Everything the configuration file says. Keys that are not there take the defaults that
/// `install/jumpseat.toml` spells out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The agent's domain number; option `-d` takes precedence.
    pub domain: Option<u16>,
    /// Where identifiers are kept across restarts; `None` is PCP's own place for it.
    pub state_dir: Option<PathBuf>,
    /// pmcd.conf says `notready` for this agent: pmcd waits until the agent says that it is.
    pub notready: bool,
    /// Limits of the event logs.
    pub events: EventsConfig,
    /// Limits of the field metrics.
    pub fields: FieldsConfig,
    /// The derived metrics.
    pub derived: DerivedConfig,
    /// Who may change the control metrics.
    pub control: ControlConfig,
    /// The ingest sockets.
    pub socket: Vec<SocketConfig>,
    /// OpenTelemetry's protocol.
    pub otlp: OtlpConfig,
    /// Limits of the span metrics.
    pub spans: SpansConfig,
    /// What is to be done with the records of single sources.
    pub source: Vec<SourceRule>,
    /// Files to follow.
    pub file: Vec<FileConfig>,
    /// Commands whose output is a source.
    pub command: Vec<CommandConfig>,
    /// Systemd journals.
    pub journal: Vec<JournalConfig>,
    /// The kernel sources.
    pub kernel: Vec<KernelConfig>,
}

/// Limits of the event logs. Sizes are in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsConfig {
    /// Memory for the records of one source.
    pub source_budget: ByteSize,
    /// Memory for the records of all sources.
    pub total_budget: ByteSize,
    /// Most bytes of records in one fetch of a records metric, shared by the sources that have some.
    pub fetch_limit: ByteSize,
    /// Number of records in `jumpseat.event.recent`, for each source.
    pub recent: u32,
    /// Number of sources; senders that name more are counted to their socket's own source.
    pub max_sources: u32,
    /// Number of event types over all sources that are counted apart.
    pub max_types: u32,
}

impl Default for EventsConfig {
    fn default() -> EventsConfig {
        EventsConfig {
            source_budget: ByteSize(8 << 20),
            total_budget: ByteSize(64 << 20),
            fetch_limit: ByteSize(4 << 20),
            recent: 10,
            max_sources: 256,
            max_types: 4096,
        }
    }
}

/// Limits of the field metrics.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldsConfig {
    /// Number of metrics below `jumpseat.field`; fields beyond are folded into one.
    pub max: u32,
}

impl Default for FieldsConfig {
    fn default() -> FieldsConfig {
        FieldsConfig { max: 4096 }
    }
}

/// The derived metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DerivedConfig {
    /// Files with definitions, and directories of such files. Relative paths start where the configuration
    /// file is. `None` stands for the definitions that are compiled in, those of `install/derived.conf`.
    pub files: Option<Vec<PathBuf>>,
    /// Take the language of PCP's own derived metrics only, without this engine's additions.
    pub portable: bool,
    /// Memory for the values that derived metrics remember, of all clients. When it is used up, clients that
    /// come new are told to come again.
    pub history_budget: ByteSize,
    /// The pmcd that is asked for metrics of other agents, as a host specification. `None` is the one of this
    /// host for an agent under pmcd, and none for others.
    pub pmcd: Option<String>,
    /// Time between samples of other agents' metrics.
    pub sample_interval: Interval,
    /// Most bytes of values in a sample.
    pub sample_budget: ByteSize,
    /// Number of metrics of other agents, over all definitions.
    pub max_operands: u32,
}

impl Default for DerivedConfig {
    fn default() -> DerivedConfig {
        DerivedConfig {
            files: None,
            portable: false,
            history_budget: ByteSize(64 << 20),
            pmcd: None,
            sample_interval: Interval(Duration::from_secs(1)),
            sample_budget: ByteSize(16 << 20),
            max_operands: 1024,
        }
    }
}

/// Who may change the control metrics, on top of pmcd's own access control.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// User names besides root and the user the agent runs as.
    pub users: Vec<String>,
}

/// Smallest budget of a source: below it a single burst of ordinary records would not fit.
pub const MIN_SOURCE_BUDGET: u64 = 64 << 10;
/// Range of the largest array in one fetch: at least one record of any size, well under the 24 bits
/// of an array's length.
pub const FETCH_LIMIT: std::ops::RangeInclusive<u64> = 128 << 10..=12 << 20;
/// Largest number of records in `jumpseat.event.recent`.
pub const MAX_RECENT: u32 = 1000;
/// Largest number of field metrics: 16 clusters of 1,024 items.
pub const MAX_FIELDS: u32 = 16 * 1024;

/// Largest number of span names, which take about 17 KiB each.
pub const MAX_SPANS: u32 = 16 * 1024;
/// Largest number of open spans, which take about 100 bytes each.
pub const MAX_OPEN_SPANS: u32 = 4 * 1024 * 1024;
/// Range of the time that quantiles look back.
pub const SPAN_WINDOW: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

/// Range of the time between samples of other agents' metrics.
pub const SAMPLE_INTERVAL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(3600);
/// Largest number of metrics of other agents in definitions: what one request to pmcd holds with ease.
pub const MAX_OPERANDS: u32 = 8192;

/// Longest configuration file: more than any real one, and little enough to read whatever a mistaken path leads to.
const MAX_FILE: u64 = 1 << 20;

/// Why a configuration was refused: the file, the line, what is wrong, and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot read the configuration: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The text is no TOML, or a key or a value's form is not among what is allowed.
    #[error("{}:{line}: {message}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: usize,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A value in the table of a source is not allowed.
    #[error("{}: {table}.{message}", place(.path, *.line))]
    Source {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1; 0 where the value is not in the file.
        line: usize,
        /// The table's name.
        table: &'static str,
        /// The key, what is wrong and what is allowed.
        message: String,
    },
    /// A path in `derived.files` or the host in `derived.pmcd` is not allowed.
    #[error("{}: derived.{key}: {message}", place(.path, *.line))]
    Derived {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1; 0 where the value is not in the file.
        line: usize,
        /// The key without its table.
        key: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A value is out of its range.
    #[error("{}: {key} = {value} is out of range: allowed is {allowed}", place(.path, *.line))]
    Range {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1; 0 where the value is not in the file.
        line: usize,
        /// The key with its table.
        key: &'static str,
        /// The value found.
        value: String,
        /// What would be right.
        allowed: String,
    },
}

impl Config {
    /// Reads and checks a configuration file.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let read = || -> io::Result<String> {
            let mut text = String::new();
            let length = std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
            if length as u64 > MAX_FILE {
                let reason = format!("longer than {MAX_FILE} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
            }
            Ok(text)
        };
        let text = read().map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
        Config::parse(&text, path)
    }

    /// Reads and checks a configuration's text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let message = in_plain_words(error.message());
            ConfigError::Syntax {
                path: path.to_owned(),
                line: line_of(text, offset),
                message: match key_at(text, offset) {
                    Some(key) => format!("{key}: {message}"),
                    None => message,
                },
            }
        })?;
        config.check(text, path)?;
        if let Some(directory) = path.parent() {
            for file in config.derived.files.iter_mut().flatten() {
                *file = directory.join(&*file);
            }
            for file in &mut config.file {
                file.path = directory.join(&file.path);
            }
        }
        Ok(config)
    }

    fn check(&self, text: &str, path: &Path) -> Result<(), ConfigError> {
        let range = |key: &'static str, value: String, allowed: String| ConfigError::Range {
            path: path.to_owned(),
            line: line_of_key(text, key, 0),
            key,
            value,
            allowed,
        };
        // `message` begins with the key and a colon; the table is the `nth` of its name.
        let source = |table: &'static str, nth: usize, message: String| {
            let key = message.split(':').next().unwrap_or_default();
            let line = line_of_key(text, &format!("{table}.{key}"), nth);
            ConfigError::Source { path: path.to_owned(), line, table, message }
        };
        let mut paths = std::collections::HashSet::new();
        for (nth, socket) in self.socket.iter().enumerate() {
            let twice =
                || (!paths.insert(&socket.path)).then(|| "path: two sockets have the same path".to_owned());
            if let Some(message) = socket.validate().err().or_else(twice) {
                return Err(source("socket", nth, message));
            }
        }
        self.otlp.validate().map_err(|message| source("otlp", 0, message))?;
        for (nth, rule) in self.source.iter().enumerate() {
            if let Err(message) = rule.validate(MIN_SOURCE_BUDGET) {
                return Err(source("source", nth, message));
            }
        }
        self.check_followed().map_err(|(table, nth, message)| source(table, nth, message))?;
        for (nth, kernel) in self.kernel.iter().enumerate() {
            let twice = || {
                let before = self.kernel.iter().take(nth).any(|other| other.source == kernel.source);
                before.then(|| "source: two kernel sources have the same name".to_owned())
            };
            if let Some(message) = kernel.validate().err().or_else(twice) {
                return Err(source("kernel", nth, message));
            }
        }
        let mut files = std::collections::HashSet::new();
        for file in self.derived.files.iter().flatten() {
            let problem = match file.as_os_str().is_empty() {
                true => "an empty path".to_owned(),
                false if !files.insert(file) => format!("{} is there twice", file.display()),
                false => continue,
            };
            return Err(ConfigError::Derived {
                path: path.to_owned(),
                line: line_of_key(text, "derived.files", 0),
                key: "files",
                message: problem,
            });
        }
        if let Some(host) = &self.derived.pmcd
            && !host.is_empty()
            && let Err(error) = host.parse::<HostSpec>()
        {
            return Err(ConfigError::Derived {
                path: path.to_owned(),
                line: line_of_key(text, "derived.pmcd", 0),
                key: "pmcd",
                message: error.to_string().trim_end().to_owned(),
            });
        }
        let interval = self.derived.sample_interval;
        if !SAMPLE_INTERVAL.contains(&interval.0) {
            let [least, most] = [SAMPLE_INTERVAL.start(), SAMPLE_INTERVAL.end()].map(|end| Interval(*end));
            let allowed = format!("{least} to {most}");
            return Err(range("derived.sample_interval", interval.to_string(), allowed));
        }
        if self.derived.max_operands > MAX_OPERANDS {
            let allowed = format!("0 to {MAX_OPERANDS}");
            return Err(range("derived.max_operands", self.derived.max_operands.to_string(), allowed));
        }
        let events = &self.events;
        if self.state_dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
            return Err(range("state_dir", "\"\"".into(), "the path of a directory".into()));
        }
        if let Some(domain) = self.domain.filter(|domain| !(1..=510).contains(domain)) {
            return Err(range("domain", domain.to_string(), "1 to 510".into()));
        }
        if events.source_budget.0 < MIN_SOURCE_BUDGET {
            let allowed = format!("{MIN_SOURCE_BUDGET} bytes or more");
            return Err(range("events.source_budget", events.source_budget.0.to_string(), allowed));
        }
        if events.total_budget < events.source_budget {
            let allowed = format!("events.source_budget ({}) or more", events.source_budget.0);
            return Err(range("events.total_budget", events.total_budget.0.to_string(), allowed));
        }
        if !FETCH_LIMIT.contains(&events.fetch_limit.0) {
            let allowed = format!("{} to {} bytes", FETCH_LIMIT.start(), FETCH_LIMIT.end());
            return Err(range("events.fetch_limit", events.fetch_limit.0.to_string(), allowed));
        }
        if events.recent > MAX_RECENT {
            return Err(range("events.recent", events.recent.to_string(), format!("0 to {MAX_RECENT}")));
        }
        // One source for each listener and each table of sources must always fit; each source is worth its smallest
        // budget.
        let most_sources = events.total_budget.0 / MIN_SOURCE_BUDGET;
        let sources = u64::from(events.max_sources);
        let tables =
            self.socket.len() + self.file.len() + self.command.len() + self.journal.len() + self.kernel.len();
        let listeners = tables.max(1);
        let listeners = listeners + usize::from(self.otlp.is_on());
        if sources < listeners as u64 || sources > most_sources {
            let allowed = format!(
                "{listeners} (one for each socket, file, command, journal and kernel, one for OTLP) to {most_sources} (events.total_budget holds {MIN_SOURCE_BUDGET} bytes for each)"
            );
            return Err(range("events.max_sources", events.max_sources.to_string(), allowed));
        }
        if self.spans.max_names > MAX_SPANS {
            let allowed = format!("0 to {MAX_SPANS}");
            return Err(range("spans.max_names", self.spans.max_names.to_string(), allowed));
        }
        if self.spans.max_open > MAX_OPEN_SPANS {
            let allowed = format!("0 to {MAX_OPEN_SPANS}");
            return Err(range("spans.max_open", self.spans.max_open.to_string(), allowed));
        }
        if !SPAN_WINDOW.contains(&self.spans.window.0) {
            let [least, most] = [SPAN_WINDOW.start(), SPAN_WINDOW.end()].map(|end| Interval(*end));
            let allowed = format!("{least} to {most}");
            return Err(range("spans.window", self.spans.window.to_string(), allowed));
        }
        if !(16..=MAX_FIELDS).contains(&self.fields.max) {
            return Err(range("fields.max", self.fields.max.to_string(), format!("16 to {MAX_FIELDS}")));
        }
        Ok(())
    }
}

impl Config {
    /// The files, commands and journals to follow.
    pub fn follow(&self) -> FollowConfig {
        FollowConfig {
            files: self.file.clone(),
            commands: self.command.clone(),
            journals: self.journal.clone(),
        }
    }

    /// Checks them: what is wrong comes with the table's name and number.
    fn check_followed(&self) -> Result<(), (&'static str, usize, String)> {
        for (nth, file) in self.file.iter().enumerate() {
            let is_same = |other: &FileConfig| other.path == file.path && other.source == file.source;
            let twice = self.file[..nth].iter().any(is_same);
            let twice = twice.then(|| "path: two tables have the same path and source".to_owned());
            file.validate().err().or(twice).map_or(Ok(()), |message| Err(("file", nth, message)))?;
        }
        for (nth, command) in self.command.iter().enumerate() {
            command.validate().map_err(|message| ("command", nth, message))?;
        }
        for (nth, journal) in self.journal.iter().enumerate() {
            let twice = self.journal[..nth].iter().any(|other| other.source == journal.source);
            let twice = twice.then(|| "source: two journals have the same source".to_owned());
            journal.validate().err().or(twice).map_or(Ok(()), |message| Err(("journal", nth, message)))?;
        }
        Ok(())
    }
}

/// File and line, or the file alone for a value that is not in it.
fn place(path: &Path, line: usize) -> String {
    match line {
        0 => path.display().to_string(),
        line => format!("{}:{line}", path.display()),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
}

/// The key, with its table, whose value is at `offset`; `None` when a key or header itself is there.
fn key_at(text: &str, offset: usize) -> Option<String> {
    let before = text.get(..offset)?;
    let (key, _) = before.lines().next_back()?.split_once('=')?;
    let table = before.lines().rev().find_map(header);
    Some(table.map_or_else(String::new, |table| format!("{table}.")) + key.trim())
}

/// The name in a line that begins a table.
fn header(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix('[')?.split(']').next()?.trim_matches('[').trim())
}

/// The messages of the parser name types of the language this is written in; those who write configurations
/// need not know them.
fn in_plain_words(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let expected = match expected {
        "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "path string" | "a string" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" if found.contains("map") => "tables of this name in double brackets, such as [[socket]]",
        "a sequence" => "a list in brackets",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// The line that sets `table.key`, in the `nth` table of that name from 0, for messages; the line that begins
/// the table when the key is not in it; 0 when the file has neither.
fn line_of_key(text: &str, dotted: &str, nth: usize) -> usize {
    let (want_table, want_key) = dotted.rsplit_once('.').unwrap_or(("", dotted));
    let (mut table, mut seen, mut begins) = ("", 0, 0);
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = header(line) {
            table = name;
            seen += usize::from(table == want_table);
            if table == want_table && seen == nth + 1 {
                begins = index + 1;
            }
        } else if let Some((key, _)) = line.split_once('=') {
            let key = key.trim();
            let here = table == want_table && seen.saturating_sub(1) == nth && key == want_key;
            if here || table.is_empty() && key == dotted {
                return index + 1;
            }
        }
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::*;
    use jumpseat_source::gate::SampleBy;

    fn error(text: &str) -> String {
        Config::parse(text, Path::new("j.toml")).expect_err("the text is wrong").to_string()
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("", Path::new("j.toml")).unwrap();
        assert_eq!(config.events.source_budget, ByteSize(8 << 20));
        assert_eq!(config.fields.max, 4096);
    }

    #[test]
    fn the_installed_file_shows_every_key_with_its_default() {
        let text = include_str!("../install/jumpseat.toml");
        let set: String = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
                    format!("{key}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let shown = Config::parse(&set, Path::new("jumpseat.toml")).unwrap();
        let mut defaults = Config {
            socket: vec![SocketConfig::default()],
            kernel: vec![KernelConfig::default()],
            ..Config::default()
        };
        // What these keys say is where the defaults come from elsewhere.
        defaults.derived.files = Some(vec!["derived.conf".into()]);
        defaults.derived.pmcd = Some("local:".into());
        defaults.otlp.listen = Some("localhost:4318".into());
        defaults.otlp.grpc = Some("localhost:4317".into());
        defaults.source = vec![SourceRule {
            enabled: Some(true),
            filter: Some(String::new()),
            sample: Some(1),
            sample_by: Some(SampleBy::Count),
            budget: Some(ByteSize(0)),
            order_window: Some(Duration::ZERO),
            max_ahead: Some(Duration::from_secs(60)),
            max_behind: Some(Duration::from_secs(24 * 3600)),
            flag_clock: Some(false),
            ..SourceRule::default()
        }];
        defaults.domain = Some(crate::DEFAULT_DOMAIN);
        defaults.state_dir = Some("/var/lib/pcp/config/pmda".into());
        assert_eq!(format!("{shown:?}"), format!("{defaults:?}"));
        for key in format!("{defaults:#?}").lines().filter_map(|line| line.trim().split_once(": ")) {
            if key.1 != "EventsConfig {" && key.0 != "events" {
                assert!(set.contains(key.0), "{} is not shown", key.0);
            }
        }
    }

    #[test]
    fn definition_files_are_looked_for_next_to_the_configuration() {
        let text = "[derived]\nfiles = [\"a.conf\", \"/b.d\"]\n";
        let config = Config::parse(text, Path::new("/etc/pcp/jumpseat/j.toml")).unwrap();
        let files = config.derived.files.unwrap();
        assert_eq!(files, [Path::new("/etc/pcp/jumpseat/a.conf"), Path::new("/b.d")]);
    }

    #[test]
    fn sizes_take_units() {
        let text = "[events]\nsource_budget = \"1 MiB\"\ntotal_budget = 33554432\nmax_sources = 8\n";
        let config = Config::parse(text, Path::new("j.toml")).unwrap();
        assert_eq!(config.events.source_budget, ByteSize(1 << 20));
        assert_eq!(config.events.total_budget, ByteSize(32 << 20));
        let socket =
            Config::parse("[[socket]]\nmax_line = \"128 KiB\"\nmax_field = 512\n", Path::new("j.toml"));
        assert_eq!(socket.map(|c| (c.socket[0].max_line, c.socket[0].max_field)).unwrap(), (128 << 10, 512));
    }

    #[test]
    fn errors_tell_file_line_what_and_what_is_allowed() {
        assert_eq!(
            error("\n[events]\nrecent = 5000\n"),
            "j.toml:3: events.recent = 5000 is out of range: allowed is 0 to 1000"
        );
        let unknown = error("[events]\nrecnt = 5\n");
        assert!(
            unknown.starts_with("j.toml:2: unknown field `recnt`, expected one of `source_budget`"),
            "{unknown}"
        );
        let size = error("[events]\n\nfetch_limit = \"2 pounds\"\n");
        assert!(size.starts_with("j.toml:3: ") && size.contains("\"64KiB\""), "{size}");
        assert_eq!(
            error("[[socket]]\npath=\"/a\"\n[[socket]]\npath=\"/b\"\nqueue = 0"),
            "j.toml:5: socket.queue: 0 is not between 1 and 65536"
        );
        assert_eq!(
            error("[[socket]]\npath=\"/a\"\n[[socket]]\npath=\"/a\""),
            "j.toml:4: socket.path: two sockets have the same path"
        );
        assert_eq!(
            error("[[socket]]\n\n[[socket]]\n"),
            "j.toml:3: socket.path: two sockets have the same path"
        );
        assert_eq!(
            error("[[source]]\nname = 'a'\n[[source]]\nname = 'b'\nfilter = 'a =='\n"),
            "j.toml:5: source.filter: column 5: found the end, expected a number, a text in quotes, true or false"
        );
        assert_eq!(
            error("[[file]]\npath=\"/a\"\n[[file]]\npath=\"/b\"\nformat = \"plain\"\npattern = '('"),
            "j.toml:6: file.pattern: (: unclosed group"
        );
        assert_eq!(
            error("[[file]]\npath=\"/a\"\n[[file]]\npath=\"/a\""),
            "j.toml:4: file.path: two tables have the same path and source"
        );
        assert_eq!(
            error("[[journal]]\n[[journal]]\n"),
            "j.toml:2: journal.source: two journals have the same source"
        );
        assert!(error("[[command]]\nrestart = 'always'\n").starts_with("j.toml:1: command.run: must be"));
        assert!(error("[[command]]\n\nrun = 7\n").starts_with("j.toml:3: command.run: a list such as"));
        assert!(error("state_dir = ''").ends_with("out of range: allowed is the path of a directory"));
        // Wrong because of a key that is not in the file: the line of its table.
        assert!(
            error("[events]\nsource_budget = '1GiB'")
                .starts_with("j.toml:1: events.total_budget = 67108864 is")
        );
        assert_eq!(
            error("[derived]\nportable = true\nfiles = [\"a\", \"\"]"),
            "j.toml:3: derived.files: an empty path"
        );
        assert_eq!(error("[derived]\nfiles = [\"a\", \"a\"]"), "j.toml:2: derived.files: a is there twice");
        assert!(error("[derived]\nfiles = \"a\"").starts_with("j.toml:2: derived.files: "));
        assert_eq!(
            error("[otlp]\nlisten = 'localhost:1'\nmax_fields = 0\n"),
            "j.toml:3: otlp.max_fields: 0 is not between 1 and 4096"
        );
        assert!(error("domain = 511").contains("allowed is 1 to 510"));
        assert!(error("domain = ").starts_with("j.toml:1: "));
    }

    #[test]
    fn values_of_the_wrong_kind_are_told_with_their_key_and_without_jargon() {
        for (text, message) in [
            ("domain = 'x'", "1: domain: invalid type: string \"x\", expected a whole number, 0 or more"),
            (
                "\n[events]\nrecent = -3",
                "3: events.recent: invalid value: integer `-3`, expected a whole number, 0 or more",
            ),
            ("[[socket]]\npath = 5", "2: socket.path: invalid type: integer `5`, expected text in quotes"),
            (
                "[control]\nusers = 'root'",
                "2: control.users: invalid type: string \"root\", expected a list in brackets",
            ),
            (
                "[[socket]]\noversize = 'drop'",
                "2: socket.oversize: unknown variant `drop`, expected `refuse` or `truncate`",
            ),
            ("notready = 1", "1: notready: invalid type: integer `1`, expected true or false"),
            (
                "[socket]\npath = '/x'",
                "1: invalid type: map, expected tables of this name in double brackets, such as [[socket]]",
            ),
        ] {
            assert_eq!(error(text), format!("j.toml:{message}"));
        }
    }

    #[test]
    fn a_path_that_leads_to_endless_bytes_is_refused() {
        let error = Config::load(Path::new("/dev/zero")).expect_err("no configuration").to_string();
        assert_eq!(error, "/dev/zero: cannot read the configuration: longer than 1048576 bytes");
    }
}
