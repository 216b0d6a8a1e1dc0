//! PCP's words for what it expected.

use std::borrow::Cow;

use super::{Frame, Parser};

/// What a function expects: PCP says `WHAT expected to follow WORD(BEHIND`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    what: &'static str,
    behind: &'static str,
}

impl Expected {
    pub(crate) const METRIC: Expected = Expected::new("Metric name", "");
    pub(crate) const EXPRESSION: Expected = Expected::new("<expr>", "");

    pub(crate) const fn new(what: &'static str, behind: &'static str) -> Expected {
        Expected { what, behind }
    }
}

impl Parser<'_> {
    /// What PCP expected, of the innermost open construct that it has words for.
    pub(super) fn expected(&self) -> Option<Cow<'static, str>> {
        self.frames.iter().enumerate().rev().find_map(|(at, frame)| words(at, frame))
    }
}

fn words(at: usize, frame: &Frame) -> Option<Cow<'static, str>> {
    Some(match frame {
        Frame::Binary(op) if op.is_boolean() => {
            format!("Boolean expression expected to follow {}", op.name()).into()
        }
        Frame::Binary(op) => format!("Arithmetic expression expected to follow {}", op.name()).into(),
        Frame::Negate(_) => "Arithmetic expression expected to follow NEG".into(),
        Frame::Not(_) => "Boolean expression expected to follow NOT".into(),
        Frame::Quest | Frame::Colon { novalue: true } => {
            "Arithmetic expression expected to follow QUEST".into()
        }
        Frame::Colon { .. } => "Arithmetic expression expected to follow COLON".into(),
        Frame::Paren(_) if at == 0 => "Unexpected initial '('".into(),
        Frame::Paren(_) => return None,
        Frame::Call(open, _) => {
            let Expected { what, behind } = open.expected?;
            format!("{what} expected to follow {}({behind}", open.function.word).into()
        }
    })
}
