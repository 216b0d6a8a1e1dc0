//! Records of spans as trees: what a customer waited for, and which service took the time.

use std::collections::HashMap;

use pcp_event::EventFlags;
use pcp_model::Timestamp;

/// Requests that are waited for; a demo has a handful.
const MOST: usize = 1_000;

/// A record of a span.
#[derive(Clone, Debug, Default)]
pub(super) struct Traced {
    pub source: String,
    pub kind: String,
    pub trace: String,
    pub span: String,
    pub parent: Option<String>,
    pub message: String,
    pub failed: bool,
}

/// Requests that have not ended yet.
#[derive(Debug, Default)]
pub(super) struct Forest {
    /// By the trace's id, in the order in which they began.
    open: Vec<(String, Vec<Piece>)>,
}

/// A span.
#[derive(Debug)]
struct Piece {
    of: Traced,
    begun: Timestamp,
    ended: Option<Timestamp>,
}

impl Forest {
    /// Takes a record. An end without its start was begun before anybody looked.
    pub(super) fn take(&mut self, time: Timestamp, flags: EventFlags, record: Traced) {
        if flags.contains(EventFlags::START) {
            let piece = Piece { of: record, begun: time, ended: None };
            let room = self.open.len() < MOST;
            match self.open.iter_mut().find(|(trace, _)| *trace == piece.of.trace) {
                Some((_, pieces)) => pieces.push(piece),
                None if piece.of.parent.is_none() && room => {
                    self.open.push((piece.of.trace.clone(), vec![piece]));
                }
                None => {}
            }
        } else if flags.contains(EventFlags::END) {
            let pieces =
                self.open.iter_mut().filter(|(trace, _)| *trace == record.trace).flat_map(|(_, all)| all);
            for piece in pieces.filter(|piece| piece.of.span == record.span) {
                piece.ended = Some(time);
                piece.of.failed |= record.failed;
                piece.of.message.clone_from(&record.message);
            }
        }
    }

    /// The requests that are over: when each began, and its lines.
    pub(super) fn finished(&mut self) -> Vec<(Timestamp, Vec<(bool, String)>)> {
        let over = |(_, pieces): &mut (String, Vec<Piece>)| pieces.iter().all(|piece| piece.ended.is_some());
        self.open
            .extract_if(.., over)
            .filter_map(|(_, pieces)| Some((pieces.first()?.begun, lines(&pieces))))
            .collect()
    }
}

/// A line for each span, below its parent.
fn lines(pieces: &[Piece]) -> Vec<(bool, String)> {
    let mut depths: HashMap<&str, usize> = HashMap::new();
    let mut lines = Vec::new();
    // Parents begin before their children.
    for Piece { of, begun, ended } in pieces {
        let depth = of.parent.as_deref().and_then(|parent| depths.get(parent)).map_or(0, |depth| depth + 1);
        depths.insert(&of.span, depth);
        let nanos = ended.map_or(0, |ended| ended.as_nanos() - begun.as_nanos());
        let millis = nanos as f64 * 1e-6;
        let name = format!("{}{} {}", "  ".repeat(depth), of.source, of.kind);
        let mark = if of.failed { "  FAILED: " } else { "" };
        lines.push((of.failed, format!("{name:<24} {millis:>8.1} ms{mark}{}", of.message)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(source: &str, span: &str, parent: Option<&str>) -> Traced {
        let [source, span, trace] = [source, span, "t"].map(str::to_owned);
        Traced {
            source,
            kind: "x".into(),
            trace,
            span,
            parent: parent.map(str::to_owned),
            ..Traced::default()
        }
    }

    #[test]
    fn a_request_is_shown_when_all_of_it_is_over() {
        let mut forest = Forest::default();
        let at = |ms: i128| Timestamp::from_nanos(ms * 1_000_000);
        forest.take(at(1), EventFlags::END, record("web", "0", None));
        forest.take(at(2), EventFlags::START, record("web", "1", None));
        forest.take(at(3), EventFlags::START, record("orders", "2", Some("1")));
        forest.take(at(9), EventFlags::END, record("web", "1", None));
        assert!(forest.finished().is_empty());
        forest.take(
            at(8),
            EventFlags::END,
            Traced { failed: true, message: "no".into(), ..record("orders", "2", Some("1")) },
        );
        let [(begun, lines)] = &forest.finished()[..] else { panic!("one request") };
        assert_eq!(*begun, at(2));
        assert_eq!(lines[0], (false, format!("{:<24}      7.0 ms", "web x")));
        assert_eq!(lines[1], (true, format!("{:<24}      5.0 ms  FAILED: no", "  orders x")));
        assert!(forest.finished().is_empty());
    }
}
