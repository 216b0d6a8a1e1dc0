//! Functions and constructors of constants: what stands in their parentheses.

use super::{Call, Frame, Operand, Parser, Result, number};
use crate::dialect::Level;
use crate::lexer::{Function, Keyword, Token, unescape};
use crate::pattern::Pattern;
use crate::syntax::SyntaxError;
use crate::tree::{BeyondFn, Constant, Kind, Matcher, Span, Tags, WindowFn};
use pcp_model::{InDom, Semantics, Units, ValueType};

use super::BeyondState;

impl Parser<'_> {
    /// A function's name, with `(` as the next token.
    pub(super) fn function(&mut self, function: Function) -> Result<Option<Operand>> {
        let start = self.span;
        if function == Function::NoValue {
            return self.novalue(start);
        }
        let call = match function {
            Function::Aggregate(f) => Call::Metric(f.word()),
            Function::Anon => Call::Metric("anon"),
            Function::Delta if self.dialect.level == Level::V603 => Call::Metric("delta"),
            Function::Rate if self.dialect.level == Level::V603 => Call::Metric("rate"),
            Function::Instant if self.dialect.level == Level::V603 => Call::Metric("instant"),
            Function::Delta => Call::Delta,
            Function::Rate => Call::Rate,
            Function::Instant => Call::Instant,
            Function::Scalar => Call::Scalar,
            Function::Rescale => Call::Rescale,
            Function::Defined => Call::Defined,
            Function::Mkconst => Call::Mkconst,
            Function::Matchinst => Call::Match,
            _ => Call::Beyond(function, BeyondState::Before),
        };
        self.advance();
        self.frames.push(Frame::Call(call, start));
        self.advance();
        match function {
            Function::Delta | Function::Rate | Function::Instant if self.dialect.level == Level::V603 => {
                self.metric_function(function, start).map(Some)
            }
            Function::Delta | Function::Rate | Function::Instant | Function::Scalar | Function::Rescale => {
                Ok(None)
            }
            Function::Aggregate(_) | Function::Anon | Function::Defined => {
                self.metric_function(function, start).map(Some)
            }
            Function::Mkconst => self.mkconst(start).map(Some),
            Function::Matchinst => self.matchinst().map(|()| None),
            _ => self.beyond_begin(function).map(|()| None),
        }
    }

    /// `NAME )` of a function that takes a metric's name.
    fn metric_function(&mut self, function: Function, start: Span) -> Result<Operand> {
        let Token::Name(name) = self.token else {
            return Err(self.error());
        };
        let span = self.span;
        let anon = match name {
            _ if function != Function::Anon => ValueType::Unknown,
            "PM_TYPE_32" => ValueType::I32,
            "PM_TYPE_U32" => ValueType::U32,
            "PM_TYPE_64" => ValueType::I64,
            "PM_TYPE_U64" => ValueType::U64,
            "PM_TYPE_FLOAT" => ValueType::Float,
            "PM_TYPE_DOUBLE" => ValueType::Double,
            _ => ValueType::NoSupport,
        };
        self.advance();
        if self.token != Token::Close {
            return Err(self.error());
        }
        if anon == ValueType::NoSupport {
            let text = format!("type={name} not allowed for anon()");
            return Err(Box::new(SyntaxError::new(span.start.into(), span, Some(text.into()))));
        }
        self.frames.pop();
        self.advance();
        let kind = match function {
            Function::Anon => Kind::Anon(anon),
            Function::Defined => Kind::Defined(name.into()),
            _ => {
                let metric = self.tree.push(Kind::Metric(name.into()), span);
                match function {
                    Function::Aggregate(f) => Kind::Aggregate(f, metric),
                    Function::Delta => Kind::Delta(metric),
                    Function::Rate => Kind::Rate(metric),
                    _ => Kind::Instant(metric),
                }
            }
        };
        self.push(kind, start.to(self.last));
        Ok(Operand::Other)
    }

    /// The function on top of the stack is complete, its `)` taken.
    pub(super) fn finish_call(&mut self) {
        let argument = self.pop();
        if let Some(Frame::Call(call, start)) = self.frames.pop() {
            let kind = match call {
                Call::Delta => Kind::Delta(argument),
                Call::Rate => Kind::Rate(argument),
                Call::Instant => Kind::Instant(argument),
                Call::MatchArgument(matcher) => Kind::Match(matcher, argument),
                _ => Kind::Scalar(argument),
            };
            self.push(kind, start.to(self.last));
        }
    }

    /// `STRING )` behind the comma of `rescale`.
    pub(super) fn rescale_units(&mut self) -> Result<()> {
        let Token::String(text) = self.token else {
            return Err(self.error());
        };
        self.advance();
        if self.token != Token::Close {
            return Err(self.error());
        }
        let units = self.units(text, self.span)?;
        self.advance();
        let argument = self.pop();
        if let Some(Frame::Call(_, start)) = self.frames.pop() {
            self.push(Kind::Rescale(units, argument), start.to(self.last));
        }
        Ok(())
    }

    /// `[!] PATTERN ,` of `matchinst`.
    fn matchinst(&mut self) -> Result<()> {
        let invert = self.token == Token::Not;
        if invert {
            self.advance();
        }
        let Token::Pattern(source) = self.token else {
            return Err(self.error());
        };
        let pattern = Pattern::new(&unescape(source))
            .map_err(|error| self.error_with(format!("bad regular expression: '{error}'")))?;
        self.set_call(Call::MatchComma);
        self.advance();
        if self.token != Token::Comma {
            return Err(self.error());
        }
        self.set_call(Call::MatchArgument(Box::new(Matcher { invert, pattern })));
        self.advance();
        Ok(())
    }

    /// Behind `mkconst(`.
    fn mkconst(&mut self, start: Span) -> Result<Operand> {
        let (digits, decimal) = match self.token {
            Token::Integer(digits) => (digits, false),
            Token::Double(digits) => (digits, true),
            _ => return Err(self.error()),
        };
        if !decimal {
            self.set_call(Call::MkconstTags);
        }
        self.advance();
        let mut tags = Tags::default();
        // At least one tag.
        if self.token != Token::Comma {
            return Err(self.error());
        }
        self.advance();
        self.tags(&mut tags)?;
        if decimal && let Some(value_type) = tags.value_type.filter(|t| !is_floating(*t)) {
            let name = value_type.name();
            return Err(self.error_with(format!("Incompatible floating point constant and type '{name}'")));
        }
        self.frames.pop();
        self.advance();
        let constant = Constant { digits: digits.into(), decimal, tags: Some(tags) };
        self.push(Kind::Constant(Box::new(constant)), start.to(self.last));
        Ok(Operand::Other)
    }

    /// `novalue(...)`, which may only be a whole operand of a ternary.
    fn novalue(&mut self, start: Span) -> Result<Option<Operand>> {
        let third = match self.frames.last() {
            Some(Frame::Quest) => None,
            Some(Frame::Colon { novalue }) => Some(*novalue),
            _ => return Err(self.error()),
        };
        self.advance();
        self.frames.push(Frame::Call(Call::NoValue, start));
        self.advance();
        let mut tags = Tags::default();
        if self.token != Token::Close {
            self.tags(&mut tags)?;
        }
        if third == Some(true) {
            // PCP finds this out one token later if the outermost thing open is an operator's right side.
            if matches!(self.frames.first(), Some(Frame::Binary(_))) {
                self.advance();
            }
            return Err(self.error_with("novalue() may appear at most once in a ternary expression"));
        }
        self.frames.pop();
        self.advance();
        self.push(Kind::NoValue(Box::new(tags)), start.to(self.last));
        if third.is_some() {
            // As third operand it ends the ternary at once.
            self.reduce_one();
            return Ok(Some(Operand::Other));
        }
        if self.token != Token::Colon {
            return Err(self.error());
        }
        self.frames.pop();
        self.frames.push(Frame::Colon { novalue: true });
        self.advance();
        Ok(None)
    }

    /// `spec { , spec }` up to, not including, the closing parenthesis.
    fn tags(&mut self, tags: &mut Tags) -> Result<()> {
        loop {
            let keyword = match self.token {
                Token::Keyword(keyword) => keyword,
                Token::Name("indom") if self.dialect.has_indom_tag() => Keyword::Indom,
                _ => return Err(self.error()),
            };
            self.advance();
            if self.token != Token::Assign {
                return Err(self.error());
            }
            self.advance();
            self.tag(keyword, tags)?;
            self.advance();
            match self.token {
                Token::Comma => self.advance(),
                Token::Close => return Ok(()),
                _ => return Err(self.error()),
            }
        }
    }

    /// A tag's value, which stays the token to be looked at.
    fn tag(&mut self, keyword: Keyword, tags: &mut Tags) -> Result<()> {
        let text = match self.token {
            Token::Name(text) if keyword == Keyword::Meta => {
                tags.meta = Some(text.into());
                return Ok(());
            }
            _ if keyword == Keyword::Meta => return Err(self.error()),
            Token::Name(text) | Token::String(text) | Token::Integer(text) => text,
            Token::Double(text) if self.dialect.has_indom_tag() => text,
            _ => return Err(self.error()),
        };
        match keyword {
            Keyword::Type => {
                const TYPES: [ValueType; 6] = [
                    ValueType::I32,
                    ValueType::U32,
                    ValueType::I64,
                    ValueType::U64,
                    ValueType::Float,
                    ValueType::Double,
                ];
                let value_type = TYPES.into_iter().find(|t| t.name().eq_ignore_ascii_case(text));
                tags.value_type = Some(value_type.ok_or_else(|| self.unrecognized("type", text))?);
            }
            Keyword::Semantics => {
                const SEMANTICS: [Semantics; 3] =
                    [Semantics::Counter, Semantics::Instant, Semantics::Discrete];
                let semantics = SEMANTICS.into_iter().find(|s| s.name().eq_ignore_ascii_case(text));
                tags.semantics = Some(semantics.ok_or_else(|| self.unrecognized("semantics", text))?);
            }
            Keyword::Units => tags.units = Some(self.units(text, self.span)?),
            Keyword::Indom => {
                let indom =
                    parse_indom(text).ok_or_else(|| self.error_with(format!("Illegal indom: '{text}'")))?;
                tags.indom = Some(indom);
            }
            Keyword::Meta => {}
        }
        Ok(())
    }

    fn unrecognized(&self, tag: &str, text: &str) -> Box<SyntaxError> {
        self.error_with(format!("Unrecognized value for {tag} '{text}'"))
    }

    fn units(&self, text: &str, at: Span) -> Result<Units> {
        match Units::parse(text, self.dialect.units()) {
            Ok((units, _)) => Ok(units),
            Err(error) => {
                let text = format!("Illegal units: '{error}'");
                Err(Box::new(SyntaxError::new(at.start.into(), at, Some(text.into()))))
            }
        }
    }

    /// Behind the `(` of a function beyond PCP: the argument before the expression, if it has one.
    fn beyond_begin(&mut self, function: Function) -> Result<()> {
        let mut argument = None;
        if matches!(function, Function::TopK | Function::BottomK | Function::Quantile) {
            argument = Some(match self.token {
                Token::Integer(digits) => number(digits),
                Token::Double(digits) if function == Function::Quantile => number(digits),
                _ => return Err(self.error()),
            });
            if function == Function::Quantile && argument > Some(1.0) {
                return Err(self.error_with("quantile must be between 0 and 1"));
            }
            self.advance();
            if self.token != Token::Comma {
                return Err(self.error());
            }
            self.advance();
        }
        self.set_call(Call::Beyond(function, BeyondState::Expression(argument)));
        Ok(())
    }

    /// Behind the expression of a function beyond PCP, at `,` or `)`.
    pub(super) fn beyond_expression(&mut self) -> Result<bool> {
        let (function, argument, start) = match self.frames.last_mut() {
            Some(Frame::Call(Call::Beyond(function, state), start)) => {
                let argument = match std::mem::replace(state, BeyondState::After) {
                    BeyondState::Expression(argument) => argument.unwrap_or(0.0),
                    BeyondState::Before | BeyondState::After => 0.0,
                };
                (*function, argument, *start)
            }
            // Only called with such a frame on top.
            _ => return Err(self.error()),
        };
        let wants_more = matches!(function, Function::Clamp | Function::Window(_));
        if wants_more != (self.token == Token::Comma) {
            return Err(self.error());
        }
        let function = match function {
            Function::TopK => BeyondFn::Extreme { n: argument as u32, top: true },
            Function::BottomK => BeyondFn::Extreme { n: argument as u32, top: false },
            Function::Quantile => BeyondFn::Quantile(argument),
            Function::Stddev => BeyondFn::Stddev,
            Function::Window(function) => self.window(function)?,
            Function::Clamp => {
                self.advance();
                let low = self.signed_number()?;
                if self.token != Token::Comma {
                    return Err(self.error());
                }
                self.advance();
                let high_at = self.span;
                let high = self.signed_number()?;
                if low > high {
                    let text = Some("upper limit of clamp is below the lower one".into());
                    return Err(Box::new(SyntaxError::new(high_at.start.into(), high_at, text)));
                }
                BeyondFn::Clamp { low, high }
            }
            _ => BeyondFn::Abs,
        };
        if self.token != Token::Close {
            return Err(self.error());
        }
        self.advance();
        let argument = self.pop();
        self.frames.pop();
        self.push(Kind::Beyond(function, argument), start.to(self.last));
        Ok(true)
    }

    fn signed_number(&mut self) -> Result<f64> {
        let negative = self.token == Token::Minus;
        if negative {
            self.advance();
        }
        let (Token::Integer(digits) | Token::Double(digits)) = self.token else {
            return Err(self.error());
        };
        self.advance();
        Ok(if negative { -number(digits) } else { number(digits) })
    }

    /// `, "length"` of a window, up to the closing parenthesis.
    fn window(&mut self, function: WindowFn) -> Result<BeyondFn> {
        self.advance();
        let Token::String(text) = self.token else {
            return Err(self.error());
        };
        let length = window_length(text).ok_or_else(|| {
            self.error_with(format!("'{text}' is not a length of time (\"30sec\", \"5 min\")"))
        })?;
        self.advance();
        Ok(BeyondFn::Window { function, length })
    }
}

fn is_floating(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Float | ValueType::Double)
}

/// `DOMAIN.SERIAL` as 7.2 reads it, or `null` in any case.
fn parse_indom(text: &str) -> Option<InDom> {
    if text.eq_ignore_ascii_case("null") {
        return Some(InDom::NULL);
    }
    let (domain, serial) =
        text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(domain) || !digits(serial) {
        return None;
    }
    let domain = domain.parse::<u16>().ok().filter(|&domain| domain <= 510)?;
    let serial = serial.parse::<u32>().ok().filter(|&serial| serial <= 4_194_303)?;
    Some(InDom::new(domain, serial))
}

/// Nanoseconds of a text such as `30sec` or `2 min`.
fn window_length(text: &str) -> Option<u64> {
    let (units, multiplier) = Units::parse(text, Default::default()).ok()?;
    const NANOSECONDS: [f64; 6] = [1.0, 1e3, 1e6, 1e9, 60e9, 3600e9];
    let unit = NANOSECONDS.get(usize::from(units.scale_time))?;
    let length = (unit / multiplier).round();
    let time = (units.dim_space, units.dim_time, units.dim_count) == (0, 1, 0);
    (time && (1.0..=1e18).contains(&length)).then_some(length as u64)
}
