//! Functions: from their word to their closing parenthesis. What stands between is the function's own affair
//! (`functions`); here is what it reads it with.

use std::borrow::Cow;

use super::{Expected, Frame, OpenCall, OperandTaken, Parser, Result};
use crate::dialect::Level;
use crate::functions::{Call, Function};
use crate::lexer::Token;
use crate::syntax::SyntaxError;
use crate::tree::{BinaryOp, Kind, Span};
use pcp_model::Units;

/// The side of a ternary that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TernarySide {
    Yes,
    No { other_is_novalue: bool },
}

/// Whole functions.
impl Parser<'_> {
    /// Takes the function's word and parenthesis.
    pub(crate) fn open_call(&mut self, function: &'static Function, expected: Option<Expected>) {
        let start = self.span;
        self.advance();
        self.frames.push(Frame::Call(OpenCall { function, expected, call: None }, start));
        self.advance();
    }

    /// A function of the name of a metric, and of nothing else.
    pub(crate) fn call_of_metric(
        &mut self,
        function: &'static Function,
        call: Call,
    ) -> Result<Option<OperandTaken>> {
        self.open_call(function, Some(Expected::METRIC));
        let (name, at) = self.metric_name()?;
        let metric = self.tree.push(Kind::Metric(name.into()), at);
        Ok(Some(self.whole_call(Kind::Call(call, metric))))
    }

    /// A function that begins with an expression; without a call if more stands behind that.
    pub(crate) fn call_of_expression(
        &mut self,
        function: &'static Function,
        expected: Expected,
        call: Option<Call>,
    ) -> Result<Option<OperandTaken>> {
        self.open_call(function, Some(expected));
        self.set_call(call);
        Ok(None)
    }

    /// A function of an expression, which in 6.0.3 has to be the name of a metric.
    pub(crate) fn call_of_metric_at_603(
        &mut self,
        function: &'static Function,
        expected: Expected,
        call: Call,
    ) -> Result<Option<OperandTaken>> {
        match self.dialect.level {
            Level::V603 => self.call_of_metric(function, call),
            _ => self.call_of_expression(function, expected, Some(call)),
        }
    }

    /// The arguments before the expression have been taken, and nothing stands behind it.
    pub(crate) fn argument_follows(&mut self, call: Call) -> Result<Option<OperandTaken>> {
        self.set_call(Some(call));
        Ok(None)
    }

    /// Takes the parenthesis behind a function that is a node of this kind.
    pub(crate) fn whole_call(&mut self, kind: Kind) -> OperandTaken {
        debug_assert_eq!(self.token, Token::Close, "whoever calls has looked");
        let frame = self.frames.pop();
        self.advance();
        match frame {
            Some(Frame::Call(_, start)) => drop(self.push(kind, start.to(self.last))),
            _ => debug_assert!(false, "functions have a frame until they are whole"),
        }
        OperandTaken::Other
    }

    /// At `,` or `)` behind the expression of the function that is open.
    pub(super) fn end_argument(&mut self) -> Result<bool> {
        let Some(Frame::Call(open, _)) = self.frames.last_mut() else {
            debug_assert!(false, "only called with such a frame on top");
            return Err(self.error());
        };
        let function = open.function;
        let call = match (&function.behind, self.token) {
            (None, Token::Close) => open.call.take(),
            (Some(behind), Token::Comma) => {
                open.expected = Some(behind.expected);
                self.advance();
                let call = (behind.parse)(self)?;
                self.expect_close()?;
                Some(call)
            }
            // With a `)` for the comma.
            (Some(behind), _) if behind.expected_at_close => {
                open.expected = Some(behind.expected);
                return Err(self.error());
            }
            _ => return Err(self.error()),
        };
        if function.takes_pattern {
            self.lexer.leave_pattern_call();
        }
        let argument = self.pop();
        match call {
            Some(call) => drop(self.whole_call(Kind::Call(call, argument))),
            None => debug_assert!(false, "functions have made their call before the closing parenthesis"),
        }
        Ok(true)
    }

    fn set_call(&mut self, call: Option<Call>) {
        match self.frames.last_mut() {
            Some(Frame::Call(open, _)) => open.call = call,
            _ => debug_assert!(false, "the function has been opened"),
        }
    }
}

/// Pieces of arguments.
impl Parser<'_> {
    /// From now on the innermost function expects something else.
    pub(crate) fn expect(&mut self, expected: Expected) {
        match self.frames.last_mut() {
            Some(Frame::Call(open, _)) => open.expected = Some(expected),
            _ => debug_assert!(false, "the function has been opened"),
        }
    }

    /// Looks for `)`, without taking it.
    pub(crate) fn expect_close(&self) -> Result<()> {
        if self.token == Token::Close { Ok(()) } else { Err(self.error()) }
    }

    /// `,`
    pub(crate) fn comma(&mut self) -> Result<()> {
        if self.token != Token::Comma {
            return Err(self.error());
        }
        self.advance();
        Ok(())
    }

    /// `NAME )`, the parenthesis not taken: the name and where it is.
    pub(crate) fn metric_name(&mut self) -> Result<(String, Span)> {
        let Token::Name(name) = self.token else {
            return Err(self.error());
        };
        let at = self.span;
        self.advance();
        self.expect_close()?;
        Ok((name.to_owned(), at))
    }

    /// `NUMBER` or `- NUMBER`.
    pub(crate) fn signed_number(&mut self) -> Result<f64> {
        let negative = self.token == Token::Operator(BinaryOp::Minus);
        if negative {
            self.advance();
        }
        let (Token::Integer(digits) | Token::Double(digits)) = self.token else {
            return Err(self.error());
        };
        self.advance();
        Ok(if negative { -super::number(digits) } else { super::number(digits) })
    }

    /// The units that a text means, which stands at `at` as far as errors are concerned.
    pub(crate) fn units(&self, text: &str, at: Span) -> Result<Units> {
        match Units::parse(text, self.dialect.units()) {
            Ok((units, _)) => Ok(units),
            Err(error) => Err(self.error_at(at, format!("Illegal units: '{error}'"))),
        }
    }

    /// An error somewhere else than at the current token.
    pub(crate) fn error_at(&self, at: Span, text: impl Into<Cow<'static, str>>) -> Box<SyntaxError> {
        Box::new(SyntaxError::new(at.start.into(), at, Some(text.into())))
    }
}

/// The surroundings of `novalue()`, the one function that depends on them.
impl Parser<'_> {
    /// The side of a ternary that begins here, if one does.
    pub(crate) fn ternary_side(&self) -> Option<TernarySide> {
        match *self.frames.last()? {
            Frame::Quest => Some(TernarySide::Yes),
            Frame::Colon { novalue } => Some(TernarySide::No { other_is_novalue: novalue }),
            _ => None,
        }
    }

    /// Whether the outermost thing open is the right side of an operator.
    pub(crate) fn is_right_of_operator(&self) -> bool {
        matches!(self.frames.first(), Some(Frame::Binary(_)))
    }

    /// Completes the ternary whose third operand has just been taken.
    pub(crate) fn end_ternary(&mut self) {
        self.reduce_one();
    }

    /// Takes the colon behind a second operand that is `novalue()`.
    pub(crate) fn colon_behind_novalue(&mut self) -> Result<()> {
        if self.token != Token::Colon {
            return Err(self.error());
        }
        self.frames.pop();
        self.frames.push(Frame::Colon { novalue: true });
        self.advance();
        Ok(())
    }
}
