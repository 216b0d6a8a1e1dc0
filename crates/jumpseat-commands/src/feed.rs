//! `jumpseat feed`: sends lines from files or standard input to the ingest socket.

use jumpseat_tools::complain;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use jumpseat_source::clock::SenderClock;
use jumpseat_source::feed::{FeedOptions, Input, LineKind, Progress, Remote, Report, feed};

/// Send events to a running agent: one JSON object a line, or plain lines
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    echo '{\"type\":\"login\",\"message\":\"hello\",\"user\":\"ann\",\"ms\":12}' | jumpseat feed --source app\n  \
    tail -f /var/log/app.log | jumpseat feed --plain --type log --source app\n  \
    jumpseat feed --binary events.ndjson\n\n\
    Exit status: 0 if every event was accepted, 1 otherwise.")]
pub(crate) struct FeedArgs {
    /// Files to send, one after the other; `-` or none is standard input
    files: Vec<PathBuf>,
    /// The agent's ingest socket [default: $JUMPSEAT_SOCKET, or /run/pcp/jumpseat.socket, or the user's own]
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Send to an agent elsewhere, over TLS: the `listen` of a [[socket]]
    #[arg(
        long,
        value_name = "HOST:PORT",
        conflicts_with = "socket",
        requires = "ca",
        requires = "token_file"
    )]
    connect: Option<String>,
    /// Certificates (PEM) of the authorities that the agent's certificate is by
    #[arg(long, value_name = "FILE", requires = "connect")]
    ca: Option<PathBuf>,
    /// File with the token to begin with, one word, not readable for everybody
    #[arg(long, value_name = "FILE", requires = "connect")]
    token_file: Option<PathBuf>,
    /// A certificate (PEM) to show, where the agent wants one
    #[arg(long, value_name = "FILE", requires = "connect", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name of the source that the events are from
    #[arg(short = 'n', long, value_name = "NAME")]
    source: Option<String>,
    /// Take each line as a message, stamped when it arrives
    #[arg(short, long)]
    plain: bool,
    /// Event type of plain lines
    #[arg(short = 't', long = "type", value_name = "TYPE", requires = "plain")]
    event_type: Option<String>,
    /// Severity of plain lines: emergency, alert, critical, error, warning, notice, info, debug or trace
    #[arg(short = 'l', long, value_name = "WORD", requires = "plain")]
    severity: Option<String>,
    /// Clock of this machine that numeric times are of: realtime, monotonic or boottime [default: the socket's]
    #[arg(short, long, value_name = "CLOCK", conflicts_with = "plain", value_parser = clock)]
    clock: Option<SenderClock>,
    /// Name under which the events are numbered, so that each is taken in once even if all are sent again [default: a new one]
    #[arg(long, value_name = "ID")]
    sender: Option<String>,
    /// How long to try to go on after the connection broke: what is not acknowledged is sent again
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    retry: u32,
    /// Use the compact binary framing
    #[arg(short, long)]
    binary: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

fn clock(word: &str) -> Result<SenderClock, String> {
    let allowed = || SenderClock::ALL.map(SenderClock::word).join(", ");
    SenderClock::from_word(word).ok_or_else(|| format!("use one of {}", allowed()))
}

/// Runs the subcommand.
pub(crate) fn run(args: FeedArgs) -> ExitCode {
    let inputs = match open(&args.files) {
        Ok(inputs) => inputs,
        Err((path, error)) => {
            complain!("jumpseat feed: cannot open {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let remote = match remote(&args) {
        Ok(remote) => remote,
        Err(error) => {
            complain!("jumpseat feed: {error}");
            return ExitCode::FAILURE;
        }
    };
    let options = FeedOptions {
        remote,
        socket: args.socket.unwrap_or_else(jumpseat_wire::socket::to_use),
        source: args.source,
        sender: Some(args.sender.unwrap_or_else(new_sender)),
        retry: Duration::from_secs(args.retry.into()),
        lines: if args.plain {
            LineKind::Plain { event_type: args.event_type, severity: args.severity }
        } else {
            LineKind::Json
        },
        binary: args.binary,
        clock: args.clock,
    };
    let show = !args.quiet && io::stderr().is_terminal();
    let result = feed(&options, inputs, &mut |progress| {
        if show {
            // A terminal that is gone is no reason to stop.
            let _ = write!(io::stderr(), "\r\x1b[K{}", progress_line(progress));
        }
    });
    if show {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    match result {
        Ok(report) => {
            for line in report_lines(&report) {
                complain!("{line}");
            }
            if report.rejected == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            complain!("jumpseat feed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What it takes to send to an agent elsewhere, if that is asked for.
fn remote(args: &FeedArgs) -> Result<Option<Remote>, String> {
    let (Some(address), Some(ca), Some(token)) = (&args.connect, &args.ca, &args.token_file) else {
        return Ok(None);
    };
    let mut remote = Remote::to(address).ca(ca).token_file(token);
    if let (Some(certificate), Some(key)) = (&args.cert, &args.key) {
        remote = remote.certificate(certificate, key);
    }
    remote.check().map_err(|error| error.to_string())?;
    Ok(Some(remote))
}

/// A name that no other sender of this user has or had.
fn new_sender() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("feed-{}-{}", std::process::id(), now.as_nanos())
}

fn open(files: &[PathBuf]) -> Result<Vec<Input>, (PathBuf, io::Error)> {
    let stdin =
        || Input { name: "standard input".to_owned(), size: None, reader: Box::new(io::stdin().lock()) };
    if files.is_empty() {
        return Ok(vec![stdin()]);
    }
    let one = |path: &PathBuf| {
        if path == Path::new("-") {
            return Ok(stdin());
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = opened.map_err(|error| (path.clone(), error))?;
        let size = meta.is_file().then_some(meta.len());
        Ok(Input { name: path.display().to_string(), size, reader: Box::new(file) })
    };
    files.iter().map(one).collect()
}

fn progress_line(progress: &Progress) -> String {
    let rate = progress.events as f64 / progress.elapsed.as_secs_f64().max(1e-3);
    let percent = match progress.total {
        Some(total) if total > 0 => format!(", {:.0} %", progress.bytes as f64 * 100.0 / total as f64),
        _ => String::new(),
    };
    let waiting = if progress.waiting { ", waiting for the agent" } else { "" };
    format!("{} events, {rate:.0}/s, {}{percent}{waiting}", progress.events, bytes(progress.bytes))
}

fn report_lines(report: &Report) -> Vec<String> {
    let mut first =
        format!("sent {}, accepted {}, rejected {}", report.sent, report.accepted, report.rejected);
    let more = [
        (report.truncated, "truncated"),
        (report.missed, "missed by a busy agent"),
        (report.repeated, "there already"),
        (report.reconnects, "times connected again"),
    ];
    for (count, what) in more {
        if count > 0 {
            first.push_str(&format!(", {count} {what}"));
        }
    }
    first.push_str(&format!(" ({} in {})", bytes(report.bytes), seconds(report.elapsed)));
    let rejection = report.first_rejection.as_ref().map(|first| {
        format!(
            "first rejected: {}, line {}, column {}: {} ({})",
            first.input, first.line, first.column, first.detail, first.reason
        )
    });
    std::iter::once(first).chain(rejection).collect()
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{:.1} ms", time.as_secs_f64() * 1e3);
    }
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jumpseat_source::feed::Rejection;

    #[test]
    fn progress_and_report() {
        let progress = Progress {
            events: 2000,
            bytes: 123_456,
            total: Some(246_912),
            waiting: false,
            elapsed: Duration::from_millis(500),
        };
        assert_eq!(progress_line(&progress), "2000 events, 4000/s, 123.5 kB, 50 %");
        let mut report = Report {
            sent: 3,
            accepted: 2,
            rejected: 1,
            missed: 1,
            bytes: 300,
            elapsed: Duration::from_millis(12),
            first_rejection: Some(Rejection {
                input: "a.ndjson".to_owned(),
                line: 2,
                column: 5,
                reason: "syntax".to_owned(),
                detail: "expected a value".to_owned(),
            }),
            ..Report::default()
        };
        assert_eq!(
            report_lines(&report),
            [
                "sent 3, accepted 2, rejected 1, 1 missed by a busy agent (300 B in 12.0 ms)",
                "first rejected: a.ndjson, line 2, column 5: expected a value (syntax)"
            ]
        );
        report.first_rejection = None;
        assert_eq!(report_lines(&report).len(), 1);
    }
}
