//! The tables `[[file]]`, `[[command]]` and `[[journal]]`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use pcp_files::Links;
use serde::{Deserialize, Serialize};

use crate::config::{LINE_RANGE, Oversize};
use crate::event::Limits;
use crate::registry::MAX_SOURCE_NAME;
use crate::setting::{InvalidKey, check_source, in_range};
use pcp_model::text::cut;

use super::lines::{FieldNames, Pattern, Reading, When};
use super::multiline::Multiline;

/// How lines are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatName {
    /// The whole line is the message; a time and a severity at its beginning are taken.
    #[default]
    Text,
    /// One JSON object a line, as on the ingest socket.
    Json,
    /// `key=value key="quoted value"`.
    Logfmt,
    /// RFC 5424, RFC 3164, and what syslog daemons write to files.
    Syslog,
    /// A regular expression whose named groups are the fields.
    Plain,
    /// nginx's logs of requests (combined format) and errors.
    Nginx,
    /// Apache's logs of requests (common or combined format) and errors.
    Apache,
    /// What klog, the logger of Kubernetes, and glog write.
    Klog,
}

impl FormatName {
    /// Whether what is in lines has names there.
    fn has_names(self) -> bool {
        matches!(self, FormatName::Json | FormatName::Logfmt | FormatName::Syslog | FormatName::Plain)
    }

    /// Whether it says how times are written.
    fn has_times(self) -> bool {
        matches!(self, FormatName::Nginx | FormatName::Apache | FormatName::Klog)
    }
}

/// Where to begin with a file that was never seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// With what is written from now on.
    #[default]
    End,
    /// With its first line.
    Beginning,
}

/// Files to follow: one, or all that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileConfig {
    /// A path, or a pattern with `*`, `?`, `[...]` and `**`.
    pub path: PathBuf,
    /// The source's name; without one each file's own name without its last extension.
    pub source: Option<String>,
    /// How lines are read.
    pub format: FormatName,
    /// The regular expression of format `plain`.
    pub pattern: Option<String>,
    /// How times are written, as `strptime(3)` says it; without it the usual forms are found out.
    pub time_format: Option<String>,
    /// The zone of times that have none, by its name; without it the machine's.
    pub time_zone: Option<String>,
    /// What time, severity, message and type are called in lines whose format has names.
    pub fields: FieldNames,
    /// Which lines are one record, unless each is.
    pub multiline: Option<Multiline>,
    /// Where to begin with files that were there before the table was.
    pub from: From,
    /// Whether a path may lead over links that anybody has made; without it yes, but not for root.
    pub follow_links: Option<bool>,
    /// Files followed at a time.
    pub max_files: usize,
    /// Milliseconds without growth after which a last line without a newline is taken as it is.
    pub partial_ms: u64,
    /// Longest line, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_line: usize,
    /// Longest text of one field, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_field: usize,
    /// What to do with longer ones.
    pub oversize: Oversize,
}

impl Default for FileConfig {
    fn default() -> FileConfig {
        FileConfig {
            path: PathBuf::new(),
            source: None,
            format: FormatName::Text,
            pattern: None,
            time_format: None,
            time_zone: None,
            fields: FieldNames::default(),
            multiline: None,
            from: From::End,
            follow_links: None,
            max_files: 256,
            partial_ms: 10_000,
            max_line: MAX_LINE,
            max_field: MAX_FIELD,
            oversize: Oversize::Truncate,
        }
    }
}

/// What to run: a program with its arguments, or text for `/bin/sh`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a list such as [\"bpftrace\", \"-f\", \"json\", \"x.bt\"], or text for the shell"
)]
pub enum Run {
    /// Text for `/bin/sh -c`.
    Shell(String),
    /// Program and arguments.
    Argv(Vec<String>),
}

impl Run {
    /// Program and arguments.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Run::Shell(text) => ["/bin/sh", "-c", text].map(str::to_owned).to_vec(),
            Run::Argv(argv) => argv.clone(),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Run::Shell(text) => f.write_str(text),
            Run::Argv(argv) => f.write_str(&argv.join(" ")),
        }
    }
}

/// When to start a command again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Whenever it has ended.
    #[default]
    Always,
    /// When it has ended with another status than 0.
    OnFailure,
    /// Not.
    Never,
}

/// A command whose standard output is a source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandConfig {
    /// What to run.
    pub run: Run,
    /// The source's name; without one the program's name.
    pub source: Option<String>,
    /// How lines are read.
    pub format: FormatName,
    /// The regular expression of format `plain`.
    pub pattern: Option<String>,
    /// How times are written, as for files.
    pub time_format: Option<String>,
    /// The zone of times that have none, by its name; without it the machine's.
    pub time_zone: Option<String>,
    /// What time, severity, message and type are called in lines whose format has names.
    pub fields: FieldNames,
    /// Which lines are one record, unless each is.
    pub multiline: Option<Multiline>,
    /// When to start it again.
    pub restart: Restart,
    /// Milliseconds before it is started again; twice as many after each short run.
    pub backoff_ms: u64,
    /// Most milliseconds before it is started again. A run that lasts longer resets the back-off.
    pub max_backoff_ms: u64,
    /// Longest line, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_line: usize,
    /// Longest text of one field, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_field: usize,
    /// What to do with longer ones.
    pub oversize: Oversize,
}

impl Default for CommandConfig {
    fn default() -> CommandConfig {
        CommandConfig {
            run: Run::Argv(Vec::new()),
            source: None,
            format: FormatName::Text,
            pattern: None,
            time_format: None,
            time_zone: None,
            fields: FieldNames::default(),
            multiline: None,
            restart: Restart::Always,
            backoff_ms: 1000,
            max_backoff_ms: 60_000,
            max_line: MAX_LINE,
            max_field: MAX_FIELD,
            oversize: Oversize::Truncate,
        }
    }
}

/// The systemd journal, read by `journalctl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalConfig {
    /// The source's name.
    pub source: String,
    /// Units whose entries to take; none: all.
    pub units: Vec<String>,
    /// Matches as `journalctl` takes them, such as `_UID=0`.
    pub matches: Vec<String>,
    /// Directory of the journal's files, where it is not the system's.
    pub directory: Option<PathBuf>,
    /// Where to begin when there is no cursor from an earlier run.
    pub from: From,
    /// Fields of entries to take besides message, priority, identifier and time.
    pub fields: Vec<String>,
    /// Longest entry, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_line: usize,
    /// Longest text of one field, in bytes.
    #[serde(deserialize_with = "crate::size::bytes")]
    pub max_field: usize,
    /// What to do with longer ones.
    pub oversize: Oversize,
}

impl Default for JournalConfig {
    fn default() -> JournalConfig {
        JournalConfig {
            source: "journal".to_owned(),
            units: Vec::new(),
            matches: Vec::new(),
            directory: None,
            from: From::End,
            fields: ["_SYSTEMD_UNIT", "_PID", "_UID", "_COMM", "_HOSTNAME"].map(str::to_owned).to_vec(),
            max_line: 256 * 1024,
            max_field: MAX_FIELD,
            oversize: Oversize::Truncate,
        }
    }
}

const MAX_LINE: usize = 64 * 1024;
const MAX_FIELD: usize = 16 * 1024;
const FIELD_RANGE: RangeInclusive<u64> = 16..=*LINE_RANGE.end();
/// A day.
const MAX_BACKOFF: u64 = 86_400_000;

impl FileConfig {
    /// Checks what can be checked without the files.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        if self.path.to_str().is_none_or(|path| path.contains('\0')) {
            return Err(InvalidKey::other("path", "not UTF-8, or with a NUL"));
        }
        if let Err(error) = glob::Pattern::new(&self.path.to_string_lossy()) {
            return Err(InvalidKey::other("path", format!("{}: {}", self.path.display(), error.msg)));
        }
        self.source.as_deref().map_or(Ok(()), check_source)?;
        check_lines(&self.reading())?;
        self.multiline.as_ref().map_or(Ok(()), Multiline::validate)?;
        in_range("max_files", self.max_files as u64, 1..=65_536)?;
        in_range("partial_ms", self.partial_ms, 100..=MAX_BACKOFF)?;
        check_limits(self.max_line, self.max_field)?;
        // The last: a key that is not there says nothing of those that are.
        if self.path.as_os_str().is_empty() {
            let words = "must be the path of a file, or a pattern such as \"/var/log/app/*.log\"";
            return Err(InvalidKey::other("path", words));
        }
        Ok(())
    }

    /// How its lines are read.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            format: self.format,
            pattern: self.pattern.as_deref(),
            time_format: self.time_format.as_deref(),
            time_zone: self.time_zone.as_deref(),
            fields: Some(&self.fields),
        }
    }

    /// Whether more than one file may match.
    pub fn is_pattern(&self) -> bool {
        self.path.to_string_lossy().contains(['*', '?', '['])
    }

    /// What to do with links. Root reads everything: whoever may write to a directory of logs must not choose what.
    pub(super) fn links(&self) -> Links {
        match self.follow_links.unwrap_or_else(|| !geteuid().is_root()) {
            true => Links::Followed,
            false => Links::Refused,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        limits(self.max_line, self.max_field, self.oversize)
    }
}

impl CommandConfig {
    /// Checks what can be checked without running it.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        self.source.as_deref().map_or(Ok(()), check_source)?;
        check_lines(&self.reading())?;
        self.multiline.as_ref().map_or(Ok(()), Multiline::validate)?;
        in_range("backoff_ms", self.backoff_ms, 10..=MAX_BACKOFF)?;
        in_range("max_backoff_ms", self.max_backoff_ms, self.backoff_ms..=MAX_BACKOFF)?;
        check_limits(self.max_line, self.max_field)?;
        let argv = self.run.argv();
        let empty = match &self.run {
            Run::Shell(text) => text.trim().is_empty(),
            Run::Argv(argv) => argv.first().is_none_or(String::is_empty),
        };
        if empty || argv.iter().any(|word| word.contains('\0')) {
            let words = "must be a program and its arguments in a list, or text for the shell";
            return Err(InvalidKey::other("run", words));
        }
        Ok(())
    }

    /// How its lines are read.
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading {
            format: self.format,
            pattern: self.pattern.as_deref(),
            time_format: self.time_format.as_deref(),
            time_zone: self.time_zone.as_deref(),
            fields: Some(&self.fields),
        }
    }

    /// The source's name: the one given, else that of the program.
    pub fn source_name(&self) -> String {
        self.source.clone().unwrap_or_else(|| {
            let word = match &self.run {
                Run::Shell(text) => text.split_whitespace().next().unwrap_or_default().to_owned(),
                Run::Argv(argv) => argv.first().cloned().unwrap_or_default(),
            };
            source_of(Path::new(&word))
        })
    }

    pub(super) fn limits(&self) -> Limits {
        limits(self.max_line, self.max_field, self.oversize)
    }
}

impl JournalConfig {
    /// Checks ranges and names.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), InvalidKey> {
        check_source(&self.source)?;
        for (key, words) in [("units", &self.units), ("matches", &self.matches)] {
            if let Some(word) = words.iter().find(|word| word.is_empty() || word.starts_with('-')) {
                return Err(InvalidKey::other(key, format!("{word:?} is none")));
            }
        }
        if let Some(word) = self.matches.iter().find(|word| !word.contains('=')) {
            let words = format!("{word:?} is no match: write FIELD=value");
            return Err(InvalidKey::other("matches", words));
        }
        if let Some(field) = self.fields.iter().find(|field| !is_journal_field(field)) {
            let words = format!("{field:?} is no journal field, such as \"_SYSTEMD_UNIT\"");
            return Err(InvalidKey::other("fields", words));
        }
        check_limits(self.max_line, self.max_field)
    }

    pub(super) fn limits(&self) -> Limits {
        limits(self.max_line, self.max_field, self.oversize)
    }
}

fn is_journal_field(field: &str) -> bool {
    (1..=64).contains(&field.len())
        && field.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn limits(max_line: usize, max_field: usize, oversize: Oversize) -> Limits {
    Limits { max_line, max_field, truncate: oversize == Oversize::Truncate }
}

fn check_limits(max_line: usize, max_field: usize) -> Result<(), InvalidKey> {
    in_range("max_line", max_line as u64, LINE_RANGE)?;
    in_range("max_field", max_field as u64, FIELD_RANGE)
}

fn check_lines(reading: &Reading<'_>) -> Result<(), InvalidKey> {
    let Reading { format, pattern, time_format, time_zone, fields } = *reading;
    match (format, pattern) {
        (FormatName::Plain, None) => {
            let words = "format \"plain\" needs one, such as '^(?<time>\\S+) (?<message>.*)$'";
            return Err(InvalidKey::other("pattern", words));
        }
        (FormatName::Plain, Some(pattern)) => {
            drop(Pattern::new(pattern).map_err(|why| InvalidKey::other("pattern", why.to_string()))?);
        }
        (_, Some(_)) => return Err(InvalidKey::other("pattern", "is for format = \"plain\" only")),
        (_, None) => {}
    }
    if format.has_times() && time_format.is_some() {
        return Err(InvalidKey::other(
            "time_format",
            "is not for nginx, apache and klog, whose times are known",
        ));
    }
    let when = When::new(time_format).map_err(|why| InvalidKey::other("time_format", why))?;
    if let Some(zone) = time_zone {
        when.in_zone(zone).map_err(|why| InvalidKey::other("time_zone", why))?;
    }
    match fields {
        Some(fields) if !fields.is_empty() && !format.has_names() => {
            Err(InvalidKey::other("fields", "is for formats with names: json, logfmt, plain and syslog"))
        }
        Some(fields) => fields.validate().map_err(|why| InvalidKey::other("fields", why)),
        None => Ok(()),
    }
}

/// A source's name made of a file's: without directories and the last extension, blanks and the like replaced.
pub fn source_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let tidy = |c: char| if c.is_whitespace() || c.is_control() || matches!(c, '/' | '[') { '_' } else { c };
    let name: String = cut(&stem, MAX_SOURCE_NAME).chars().map(tidy).collect();
    if name.is_empty() { "file".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(json: &str) -> Result<FileConfig, String> {
        let config: FileConfig = serde_json::from_str(json).map_err(|error| error.to_string())?;
        config.validate().map_err(|invalid| invalid.to_string()).map(|()| config)
    }

    fn command(json: &str) -> Result<CommandConfig, String> {
        let config: CommandConfig = serde_json::from_str(json).map_err(|error| error.to_string())?;
        config.validate().map_err(|invalid| invalid.to_string()).map(|()| config)
    }

    #[test]
    fn files_are_checked() {
        assert!(file(r#"{"path":"/a/*.log"}"#).is_ok_and(|file| file.is_pattern()));
        for (json, part) in [
            ("{}", "path: must be"),
            (r#"{"path":"/a/[x"}"#, "path: /a/[x: "),
            (r#"{"path":"/a","format":"plain"}"#, "pattern: format \"plain\" needs one"),
            (r#"{"path":"/a","pattern":"x"}"#, "pattern: is for format = \"plain\" only"),
            (r#"{"path":"/a","format":"plain","pattern":"(?<a>"}"#, "pattern: "),
            (r#"{"path":"/a","format":"plain","pattern":"abc"}"#, "pattern: there is no named group"),
            (r#"{"path":"/a","time_format":"%H:%!"}"#, "time_format: "),
            (r#"{"path":"/a","time_zone":"Mars/Olympus"}"#, "time_zone: \"Mars/Olympus\" is not in"),
            (r#"{"path":"/a","format":"klog","time_format":"%H"}"#, "time_format: is not for nginx"),
            (r#"{"path":"/a","fields":{"time":"t"}}"#, "fields: is for formats with names"),
            (r#"{"path":"/a","format":"json","fields":{"when":"t"}}"#, "unknown field `when`"),
            (r#"{"path":"/a","format":"json","fields":{"time":""}}"#, "fields: \"\" is no name"),
            (r#"{"path":"/a","source":"a b"}"#, "source: \"a b\" is no source name"),
            (r#"{"path":"/a","max_line":1}"#, "max_line: 1 is not between"),
            (r#"{"path":"/a","format":"xml"}"#, "unknown variant `xml`, expected one of `text`"),
        ] {
            let error = file(json).expect_err(json);
            assert!(error.starts_with(part), "{json}: {error}");
        }
    }

    #[test]
    fn commands_are_checked_and_named() {
        let named = |json: &str| command(json).expect(json).source_name();
        assert_eq!(named(r#"{"run":["/usr/bin/bpftrace","-f","json"]}"#), "bpftrace");
        assert_eq!(named(r#"{"run":"vmstat 1 | grep x"}"#), "vmstat");
        assert_eq!(named(r#"{"run":"x","source":"y"}"#), "y");
        for (json, part) in [
            ("{}", "run: must be"),
            (r#"{"run":" "}"#, "run: must be"),
            (r#"{"run":[]}"#, "run: must be"),
            (r#"{"run":5}"#, "a list such as"),
            (r#"{"run":"x","backoff_ms":500,"max_backoff_ms":20}"#, "max_backoff_ms: 20 is not between 500"),
            (r#"{"run":"x","restart":"maybe"}"#, "unknown variant `maybe`"),
        ] {
            let error = command(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }

    #[test]
    fn journals_are_checked() {
        assert_eq!(JournalConfig::default().validate(), Ok(()));
        let config = JournalConfig { matches: vec!["-x".into()], ..JournalConfig::default() };
        assert!(config.validate().is_err_and(|error| error.to_string().starts_with("matches: ")));
        let config = JournalConfig { fields: vec!["unit".into()], ..JournalConfig::default() };
        assert!(config.validate().is_err_and(|error| error.to_string().starts_with("fields: \"unit\"")));
    }

    #[test]
    fn names_come_from_files() {
        for (path, name) in [
            ("/var/log/nginx/access.log", "access"),
            ("/var/log/messages", "messages"),
            ("/x/a b[1].log", "a_b_1]"),
            ("/", "file"),
        ] {
            assert_eq!(source_of(Path::new(path)), name);
        }
    }
}
