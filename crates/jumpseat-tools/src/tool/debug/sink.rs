//! What debug options show, on standard error: `SECONDS OPTION: TEXT`, further lines of a text indented.
//!
//! Texts hold names and values of collectors and archives, which may be anything: what could steer a terminal is written
//! as an escape, and a text ends after [`MOST`] bytes.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata, span};

use super::shows;
use crate::tool::harmless::Harmless;
use pcp_model::text::cut;

/// What the targets of debug options begin with.
const PREFIX: &str = "pcp::";
/// Bytes of a text that are shown.
const MOST: usize = 16 << 10;

/// Shows from now on what is set now. Without effect where the program has a subscriber of its own, which gets the
/// events then.
pub(super) fn listen() {
    START.get_or_init(Instant::now);
    let _ = tracing::subscriber::set_global_default(Sink);
    // Of the places that have been passed before it was known.
    tracing::callsite::rebuild_interest_cache();
}

/// What times are counted from.
static START: OnceLock<Instant> = OnceLock::new();

struct Sink;

impl Subscriber for Sink {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().strip_prefix(PREFIX).is_some_and(shows)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let target = event.metadata().target();
        let option = target.strip_prefix(PREFIX).unwrap_or(target).split("::").next().unwrap_or_default();
        let since = START.get().map(Instant::elapsed).unwrap_or_default();
        let line = line(since.as_secs_f64(), option, &text.0);
        // In one call, as several threads may have something to say. Nobody is left to tell if it cannot be said.
        let _ = std::io::stderr().write_all(&line);
    }

    // There are no spans among what debug options show.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The text of an event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // All that is said here is a text.
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// A line of bounded length, without what a terminal takes for commands, and further lines indented.
fn line(since: f64, option: &str, text: &str) -> Vec<u8> {
    let whole = text.trim_end();
    let shown = cut(whole, MOST);
    let rest = if shown.len() < whole.len() { " ..." } else { "" };
    let mut line = Vec::new();
    // Writing to a Vec does not fail.
    let _ = writeln!(Harmless(&mut line), "{since:.6} {option}: {}{rest}", shown.replace('\n', "\n    "));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_steer_a_terminal() {
        let text = |text: &str| String::from_utf8(line(1.5, "pmns", text)).unwrap();
        assert_eq!(text("a\u{1b}[2J\nb\n"), "1.500000 pmns: a\\x1b[2J\n    b\n");
        let long = text(&"x".repeat(MOST + 1));
        assert!(long.ends_with("x ...\n"));
        assert_eq!(long.len(), "1.500000 pmns: ".len() + MOST + " ...\n".len());
    }
}
