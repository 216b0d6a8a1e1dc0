//! The agent's log, in the form PCP's programs give theirs (`docs/pcp/agent.md` 20).
//!
//! Everything goes through `tracing`: [`Log`] is the subscriber (one of its own, as it has less to do than a formatter for
//! `tracing-subscriber` would have to be taught: no spans, no layers, a limit for each place) that writes
//! `[Fri Nov 20 10:44:40] pmdax(123) Info: text` lines to standard error, which [`open`] has made the log
//! file, or one JSON object a line ([`LogFormat`]). Each place in the program may write [`BURST`] lines per [`PERIOD`]; what it would write beyond that is
//! counted and told later, so that no input can fill the disk.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use pcp_net::Limiter;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::time;

/// Lines one place in the program may write per period.
pub const BURST: u32 = 10;
/// How long a burst counts.
pub const PERIOD: Duration = Duration::from_secs(10);

/// The target of events that are logged however many there are: lists that come to an end, such as what is wrong with a
/// configuration. Never for what others can have happen.
pub const EVERY: &str = "every";

/// The log file is open while this lives; then the closing line is written.
#[derive(Debug)]
pub struct LogFile {
    /// The file, if this process has made it: its to give away.
    pub(crate) own: Option<File>,
}

/// Makes `path` the log: an old one is renamed to `<path>.prev`, standard error goes to the new one, with the
/// line that begins every PCP log. Nothing else is written to but a device below `/dev`, or `/dev/stdout` and `/dev/stderr`
/// for what this process has as such; on a device, lines are lost that it does not take at once.
///
/// # Errors
/// What the system says, or what is there. Standard error is what it was, then.
pub fn open(name: &str, path: &Path) -> io::Result<LogFile> {
    let (mut file, is_own) = match path.to_str() {
        Some("/dev/stdout") => (duplicate(io::stdout())?, false),
        Some("/dev/stderr") => (duplicate(io::stderr())?, false),
        _ if path.starts_with("/dev") => (pcp_files::device(path)?, false),
        _ => (pcp_files::begin_anew(path, ".prev")?, true),
    };
    let host = nix::unistd::gethostname().unwrap_or_default();
    writeln!(
        file,
        "Log for {name} on {} started {}\n",
        host.to_string_lossy(),
        time::ctime(SystemTime::now())
    )?;
    nix::unistd::dup2_stderr(&file)?;
    Ok(LogFile { own: is_own.then_some(file) })
}

fn duplicate(stream: impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

impl Drop for LogFile {
    fn drop(&mut self) {
        // Nobody is left to be told of an error.
        let _ = writeln!(io::stderr(), "\nLog finished {}", time::ctime(SystemTime::now()));
    }
}

/// A `tracing` subscriber that writes PCP's log lines to standard error.
#[derive(Debug)]
pub struct Log {
    name: String,
    level: Level,
    format: LogFormat,
    limits: Mutex<HashMap<tracing::callsite::Identifier, Limiter>>,
    spans: AtomicU64,
}

impl Log {
    /// Lines of the program `name`, down to `level`.
    pub fn new(name: &str, level: Level) -> Log {
        Log {
            name: name.to_owned(),
            level,
            format: LogFormat::Text,
            limits: Mutex::new(HashMap::new()),
            spans: AtomicU64::new(1),
        }
    }

    /// The same in another form.
    pub fn format(self, format: LogFormat) -> Log {
        Log { format, ..self }
    }

    /// Makes this the process's log. Without effect if there is one already.
    pub fn install(self) {
        let _ = tracing::subscriber::set_global_default(self);
    }

    fn line(&self, event: &Event<'_>, kept_back: u64) -> String {
        match self.format {
            LogFormat::Text => self.text(event, kept_back),
            LogFormat::Json => self.json(event, kept_back),
        }
    }

    fn text(&self, event: &Event<'_>, kept_back: u64) -> String {
        let level = match *event.metadata().level() {
            Level::ERROR => "Error",
            Level::WARN => "Warning",
            Level::INFO => "Info",
            Level::DEBUG | Level::TRACE => "Debug",
        };
        let mut text = Text::default();
        event.record(&mut text);
        let Text { message, fields, held_back } = text;
        let time = time::log_time(SystemTime::now());
        let mut line = format!("[{time}] {}({}) {level}: {message}{fields}", self.name, std::process::id());
        let kept_back = kept_back.saturating_add(held_back);
        if kept_back > 0 {
            // Writing to a String cannot fail.
            let _ = write!(line, " ({kept_back} more like this were not logged)");
        }
        line.push('\n');
        line
    }

    /// One object: what the text has, each for itself.
    fn json(&self, event: &Event<'_>, kept_back: u64) -> String {
        let mut object = Object::default();
        event.record(&mut object);
        let Object { message, fields, held_back } = object;
        let mut line = json!({
            "time": time::rfc3339(SystemTime::now()),
            "level": event.metadata().level().as_str().to_ascii_lowercase(),
            "program": self.name,
            "pid": std::process::id(),
            "message": message,
        });
        if !fields.is_empty() {
            line["fields"] = fields.into();
        }
        if kept_back.saturating_add(held_back) > 0 {
            line["not_logged"] = kept_back.saturating_add(held_back).into();
        }
        format!("{line}\n")
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let allowed = if event.metadata().target() == EVERY {
            Some(0)
        } else {
            let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = limits.entry(event.metadata().callsite());
            limit.or_insert_with(|| Limiter::per_period(BURST, PERIOD)).allow(Instant::now())
        };
        if let Some(kept_back) = allowed {
            // One write per line; a log that cannot be written is nothing to end for.
            let _ = io::stderr().write_all(self.line(event, kept_back).as_bytes());
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        // Never asked for, as spans are not enabled; but ids must not be 0.
        span::Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// PCP's.
    #[default]
    Text,
    /// One JSON object a line: `time`, `level`, `program`, `pid`, `message`, `fields`, and in `not_logged` how many more like
    /// this there were.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(word: &str) -> Result<LogFormat, String> {
        match word {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("--log-format {word}: write text or json")),
        }
    }
}

/// How many messages whoever writes one has kept back: told like those that the log keeps back.
const HELD_BACK: &str = "held_back";

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
    held_back: u64,
}

#[derive(Default)]
struct Object {
    message: String,
    fields: Map<String, Value>,
    held_back: u64,
}

impl Object {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", value) => self.message = value.to_string(),
            (HELD_BACK, value) => self.held_back = value.as_u64().unwrap_or_default(),
            (name, value) => _ = self.fields.insert(name.to_owned(), value),
        }
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl Text {
    fn push(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        let value = harmless(&value.to_string());
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            "error" | "reason" => write!(self.fields, ": {value}"),
            name => write!(self.fields, " {name}={value}"),
        };
    }
}

/// A text of whoever: line breaks would let it pass for another line of the log, and other control characters do things to
/// the terminal of who reads it.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => shown.push(' '),
            c if c.is_control() || is_bidi_control(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether it changes the direction in which what follows is shown.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.push(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            HELD_BACK => self.held_back = value,
            _ => self.push(field, format_args!("{value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_others_stay_visible() {
        assert_eq!(harmless("a\tb\r\nc"), "a\\u{9}b  c");
        assert_eq!(harmless("\x1b]0;pwned\x07\u{9b}2J"), "\\u{1b}]0;pwned\\u{7}\\u{9b}2J");
        assert_eq!(harmless("\u{202e}live"), "\\u{202e}live");
        assert_eq!(harmless("größe ✓"), "größe ✓");
    }

    #[test]
    fn lines_have_pcps_form_or_are_json() {
        use std::sync::{Arc, Mutex};
        struct Capture(Log, Arc<Mutex<Vec<String>>>);
        impl Subscriber for Capture {
            fn enabled(&self, metadata: &Metadata<'_>) -> bool {
                self.0.enabled(metadata)
            }
            fn event(&self, event: &Event<'_>) {
                self.1.lock().unwrap().push(self.0.line(event, 0));
            }
            fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
                self.0.new_span(attributes)
            }
            fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
            fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
            fn enter(&self, _: &span::Id) {}
            fn exit(&self, _: &span::Id) {}
        }
        let lines = Arc::new(Mutex::new(Vec::new()));
        let say = || {
            tracing::warn!(client = 7, error = %"it\nbroke", "dropped");
            tracing::debug!("not shown");
        };
        tracing::subscriber::with_default(Capture(Log::new("pmdax", Level::INFO), lines.clone()), say);
        let as_json = Log::new("pmdax", Level::INFO).format(LogFormat::Json);
        tracing::subscriber::with_default(Capture(as_json, lines.clone()), || {
            say();
            tracing::error!(held_back = 3_u64, "what {}", "\"ever\"");
        });
        let text = Log::new("pmdax", Level::INFO);
        tracing::subscriber::with_default(Capture(text, lines.clone()), || {
            tracing::info!(held_back = 0_u64, "first");
            tracing::info!(held_back = 2_u64, "then");
        });
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 5);
        assert!(lines[3].ends_with(" Info: first\n"), "{}", lines[3]);
        assert!(lines[4].ends_with(" Info: then (2 more like this were not logged)\n"), "{}", lines[4]);
        let object = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        let told = object(&lines[1]);
        assert_eq!(told["level"], "warn");
        assert_eq!(told["message"], "dropped");
        assert_eq!(told["fields"], json!({"client": 7, "error": "it\nbroke"}));
        assert!(told["time"].as_str().unwrap().contains('T') && told["not_logged"].is_null(), "{told}");
        let told = object(&lines[2]);
        assert_eq!((&told["message"], &told["not_logged"]), (&json!("what \"ever\""), &json!(3)));
        let pid = std::process::id();
        assert!(lines[0].starts_with('['), "{}", lines[0]);
        assert!(
            lines[0].ends_with(&format!("] pmdax({pid}) Warning: dropped client=7: it broke\n")),
            "{}",
            lines[0]
        );
    }
}
