//! PCP's words for what it expected.

use std::borrow::Cow;
use std::fmt::Write;

use super::{BeyondState, Call, Frame, Parser};
use crate::dialect::Level;
use crate::lexer::Function;

impl Parser<'_> {
    /// What PCP expected, of the innermost open construct that it has words for.
    pub(super) fn expected(&self) -> Option<Cow<'static, str>> {
        self.frames.iter().enumerate().rev().find_map(|(at, frame)| self.words(at, frame))
    }

    fn words(&self, at: usize, frame: &Frame) -> Option<Cow<'static, str>> {
        let v603 = self.dialect.level == Level::V603;
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
            Frame::Call(call, _) => match call {
                Call::Metric(word) => format!("Metric name expected to follow {word}(").into(),
                Call::Instant => "Metric name expected to follow instant(".into(),
                Call::Delta => "<expr> expected to follow delta(".into(),
                Call::Rate => "<expr> expected to follow rate(".into(),
                Call::Scalar => "<expr> expected to follow scalar(".into(),
                Call::Rescale => {
                    "Arithmetic or relational or boolean operator expected to follow rescale(".into()
                }
                Call::RescaleUnits => "Units string expected to follow rescale(<expr>,".into(),
                Call::Match => "<filter>, <expr>) expected to follow matchinst(".into(),
                Call::MatchComma => ", <expr>) expected to follow matchinst(<filter>".into(),
                Call::MatchArgument(_) => "<expr>) expected to follow matchinst(<filter>,".into(),
                Call::MkconstTags if !v603 => "metadata keyword expected to follow mkconst(type".into(),
                Call::NoValue => "metadata keyword expected to follow novalue(".into(),
                Call::Defined | Call::Mkconst | Call::MkconstTags => return None,
                Call::Beyond(function, state) => beyond_words(*function, state).into(),
            },
        })
    }
}

fn beyond_words(function: Function, state: &BeyondState) -> String {
    let (word, before, after) = match function {
        Function::TopK => ("topk", "<number>, <expr>)", ""),
        Function::BottomK => ("bottomk", "<number>, <expr>)", ""),
        Function::Quantile => ("quantile", "<number>, <expr>)", ""),
        Function::Stddev => ("stddev", "<expr>)", ""),
        Function::Clamp => ("clamp", "<expr>, <low>, <high>)", "<low>, <high>)"),
        Function::Window(f) => (f.word(), "<expr>, \"<time>\")", "\"<time>\")"),
        _ => ("abs", "<expr>)", ""),
    };
    let mut words = String::new();
    // Writing to a String does not fail.
    let _ = match state {
        BeyondState::After if !after.is_empty() => write!(words, "{after} expected to follow {word}(<expr>,"),
        _ => write!(words, "{before} expected to follow {word}("),
    };
    words
}
