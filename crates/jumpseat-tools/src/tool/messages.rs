//! Messages that are put out together (`pmprintf(3)`).

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use pcp_model::time::Zone;

use super::call::Call;
use super::conf;

/// Messages to the user: collected, then put out where `PCP_STDERR` says, on standard error else.
#[derive(Debug, Default)]
pub(super) struct Messages {
    text: String,
}

impl Messages {
    /// Adds text, with its line ends.
    pub(super) fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Puts out what has been collected: to standard error, appended to the file that `PCP_STDERR` names, or, where
    /// that is `DISPLAY`, in a window of `PCP_XCONFIRM_PROG`.
    pub(super) fn flush(&mut self, call: &Call) {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return;
        }
        // Tools started from a desktop have nobody looking at their standard error.
        let failed = match std::env::var("PCP_STDERR").as_deref() {
            Err(_) | Ok("") => Err(None),
            Ok("DISPLAY") => {
                in_window(&text).map_err(|why| Some(format!("{}: using stderr - {why}", call.name)))
            }
            Ok(file) => append(Path::new(file), &text).map_err(|why| {
                let why = error_text(&why);
                Some(format!("pmflush: cannot append to file '{file}' (from $PCP_STDERR): {why}"))
            }),
        };
        if let Err(why) = failed {
            if let Some(why) = why {
                complain!("{why}");
            }
            // Nobody is left to tell that standard error is gone.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// A line about what the user has not asked for, with time and process, as `pmNotifyErr(3)` has it.
pub(super) fn notification(program: &str, what: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
    let when = Zone::local().ctime(now);
    // Without the year.
    let when = when.rsplit_once(' ').map_or(when.as_str(), |(when, _)| when);
    format!("[{when}] {program}({}) {what}", std::process::id())
}

/// The system's own words, without the number.
pub(super) fn error_text(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => pcp_model::PmError::from_errno(errno).to_string(),
        None => error.to_string(),
    }
}

fn append(file: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).create(true).open(file)?.write_all(text.as_bytes())
}

fn in_window(text: &str) -> Result<(), String> {
    let program = conf::setting("PCP_XCONFIRM_PROG").unwrap_or_else(|| "/usr/bin/pmconfirm".to_owned());
    let lines = text.lines().flat_map(|line| ["-t", line]);
    let mut command = Command::new(&program);
    command.args(lines).args(["-noslider", "-noframe", "-B", "OK", "-icon", "info"]).stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("cannot access {program}: {}", error_text(&error))),
    }
}
