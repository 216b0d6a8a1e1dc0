//! The time window that a command line selects (`pmGetContextOptions(3)`, `docs/pcp/tools.md` 2.3).

use std::process::ExitCode;
use std::time::SystemTime;

use pcp_client::{Context, ContextKind};
use pcp_model::Timestamp;
use pcp_model::time::{Reference, Switches, Window, Zone, parse_window};

use super::clock::Clock;
use super::command_line::Ready;
use super::out::Out;
use super::source::tell_mended;
use tracing::trace;

/// What is said about an archive whose end cannot be found.
const DAMAGED: &str = "WARNING: This archive is sufficiently damaged that it may not be possible to
         produce complete information.  Continuing and hoping for the best.";

/// The window within the archive, or from now on.
///
/// # Errors
/// The exit code, after a message.
pub(crate) fn window(ready: &Ready, context: &mut Context, zone: &Zone) -> Result<Window, ExitCode> {
    let failed = |what: String| {
        complain!("{}: {what}", ready.call.name);
        ExitCode::FAILURE
    };
    let now = Timestamp::from(SystemTime::now());
    let reference = match context.kind() {
        ContextKind::Archive => match context.span() {
            // Times on the command line are relative to the ends of what was recorded.
            Ok((start, end)) => Reference { start, end, now },
            Err(error) => {
                let archives = ready.common.archives.join(",");
                complain!(
                    "{}: Cannot locate end of archive {archives}: {}",
                    ready.call.name,
                    error.code().at(ready.call.level)
                );
                complain!("\n{DAMAGED}\n");
                Reference { start: context.mode().1, end: Reference::FOREVER, now }
            }
        },
        _ => Reference::live(now),
    };
    tell_mended(&ready.call, context);
    let common = &ready.common;
    let switches = Switches {
        start: common.start.as_deref(),
        finish: common.finish.as_deref(),
        align: common.align.as_deref(),
        origin: common.origin.as_deref(),
    };
    trace!(
        target: "pcp::timecontrol",
        "asked for: -S {:?}, -T {:?}, -A {:?}, -O {:?}; the source is of {} to {}",
        switches.start,
        switches.finish,
        switches.align,
        switches.origin,
        reference.start,
        end_text(reference.end),
    );
    let window = parse_window(&switches, &reference, zone);
    if let Ok(Window { start, end, origin, aligned }) = window {
        trace!(
            target: "pcp::timecontrol",
            "window: {start} to {}, first sample {origin}{}",
            end_text(end),
            if aligned { "" } else { ", not aligned as asked" },
        );
    }
    window.map_err(|error| failed(format!("invalid time window.\n{error}")))
}

/// An end in words.
fn end_text(end: Timestamp) -> String {
    if end.sec == Reference::FOREVER.sec { "no end".to_owned() } else { end.to_string() }
}

/// For tools that show each metric once: the zone they print times in, told where it is not the local one, and, in an
/// archive, from where on to look for a metric.
///
/// # Errors
/// The exit code, after a message.
pub(super) fn replay_from(
    ready: &Ready,
    context: &mut Context,
    out: &mut Out,
) -> Result<(Clock, Option<Timestamp>), ExitCode> {
    if context.kind() != ContextKind::Archive {
        return Ok((Clock::local(), None));
    }
    let clock = Clock::reporting(&ready.common, context, out).map_err(|error| {
        complain!("{}: Cannot set context timezone: {}", ready.call.name, error.code().at(ready.call.level));
        ExitCode::FAILURE
    })?;
    let origin = match ready.common.origin {
        Some(_) => window(ready, context, &clock.zone)?.origin,
        None => context.mode().1,
    };
    Ok((clock, Some(origin)))
}
