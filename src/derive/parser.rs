//! Tokens to a syntax tree (spec `derived-language.md` 6 and 7).
//!
//! An operator-precedence parser with its stack in a vector: what is open (`Frame`) and the operands
//! that wait for it. The stack is also what an error text is made of: PCP names the innermost open
//! construct that it has words for. Cost: one step a token, one node an operand or operator.

use std::borrow::Cow;
use std::fmt::Write;

use super::dialect::{Dialect, Level};
use super::lexer::{Function, Keyword, Lexer, Token, unescape};
use super::pattern::Pattern;
use super::syntax::SyntaxError;
use super::tree::{
    AggregateFn, BeyondFn, BinaryOp, Constant, Kind, Matcher, NodeId, Span, Tags, Tree, WindowFn,
};
use crate::model::{InDom, Semantics, Units, ValueType};

/// Constructs that may be open at the same time.
pub const MAX_DEPTH: usize = 4096;
/// Bytes of an expression.
pub const MAX_LENGTH: usize = 16 << 20;

/// Parses an expression.
///
/// # Errors
/// Where and why the text is not an expression of the dialect.
pub fn parse(text: &str, dialect: &Dialect) -> Result<Tree, SyntaxError> {
    if text.len() > MAX_LENGTH {
        return Err(SyntaxError::new(0, Span::default(), Some("Expression too long".into())));
    }
    let mut lexer = Lexer::new(text, *dialect);
    let (token, span) = lexer.next();
    let parser = Parser {
        text,
        dialect,
        lexer,
        token,
        span,
        last: Span::default(),
        tree: Tree::default(),
        frames: Vec::new(),
        operands: Vec::new(),
    };
    parser.expression()
}

/// Precedence, lowest first. All operators associate to the left, `?:` too.
const QUEST: u8 = 1;
const BOOLEAN: u8 = 2;
const NOT: u8 = 3;
const RELATIONAL: u8 = 4;
const ADDITIVE: u8 = 5;
const MULTIPLICATIVE: u8 = 6;

/// Something begun and not yet complete.
#[derive(Debug)]
enum Frame {
    /// `(`, with its position.
    Paren(Span),
    Binary(BinaryOp),
    /// `-`, with its position.
    Negate(Span),
    /// `!`, with its position.
    Not(Span),
    /// Between `?` and `:`.
    Quest,
    /// Behind the `:`; whether the second operand is `novalue()`.
    Colon {
        novalue: bool,
    },
    /// Inside the parentheses of a function, which starts at the span.
    Call(Call, Span),
}

/// A function and how far it is.
#[derive(Debug)]
enum Call {
    /// A function of a metric's name.
    Metric(&'static str),
    Defined,
    Delta,
    Rate,
    Instant,
    Scalar,
    /// First argument of `rescale`.
    Rescale,
    /// Behind the comma of `rescale`.
    RescaleUnits,
    /// Before the end of the pattern.
    Match,
    /// Behind the pattern.
    MatchComma,
    /// Second argument.
    MatchArgument(Box<Matcher>),
    /// Before the number of `mkconst`, and behind a decimal one.
    Mkconst,
    /// Behind the whole number of `mkconst`.
    MkconstTags,
    NoValue,
    /// A function beyond PCP before, in and behind its expression.
    Beyond(Function, BeyondState),
}

/// How far a function beyond PCP is.
#[derive(Debug)]
enum BeyondState {
    /// Before the expression.
    Before,
    /// In the expression; the argument before it.
    Expression(Option<f64>),
    /// Behind the expression's comma.
    After,
}

type Result<T, E = Box<SyntaxError>> = std::result::Result<T, E>;

struct Parser<'a> {
    text: &'a str,
    dialect: &'a Dialect,
    lexer: Lexer<'a>,
    /// The token to be looked at, and where it is.
    token: Token<'a>,
    span: Span,
    /// Where the token before it is.
    last: Span,
    tree: Tree,
    frames: Vec<Frame>,
    operands: Vec<NodeId>,
}

/// What has just been taken.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    /// A metric's name.
    Name,
    /// Anything else that is a whole operand.
    Other,
}

impl<'a> Parser<'a> {
    fn expression(mut self) -> std::result::Result<Tree, SyntaxError> {
        match self.run() {
            Ok(()) => Ok(self.tree),
            Err(error) => Err(*error),
        }
    }

    fn run(&mut self) -> Result<()> {
        self.refuse_initial()?;
        loop {
            // Openers and prefix operators until an operand is complete.
            let mut operand = loop {
                if self.frames.len() >= MAX_DEPTH {
                    return Err(self.error_with("Expression nested too deeply"));
                }
                if let Some(operand) = self.operand()? {
                    break operand;
                }
            };
            // What may follow an operand, until another operand is due.
            while self.after_operand(operand)? {
                if self.frames.is_empty() && self.token == Token::End {
                    return Ok(());
                }
                operand = Operand::Other;
            }
        }
    }

    /// Takes tokens that may begin an operand: a whole operand, or an opener (`None`).
    fn operand(&mut self) -> Result<Option<Operand>> {
        let span = self.span;
        match self.token {
            Token::Integer(digits) | Token::Double(digits) => {
                let decimal = matches!(self.token, Token::Double(_));
                self.push(
                    Kind::Constant(Box::new(Constant { digits: digits.into(), decimal, tags: None })),
                    span,
                );
                self.advance();
                Ok(Some(Operand::Other))
            }
            Token::Name(name) => {
                let id = self.push(Kind::Metric(name.into()), span);
                self.advance();
                if let Token::InstName(_) = self.token {
                    self.instance(id);
                    return Ok(Some(Operand::Other));
                }
                Ok(Some(Operand::Name))
            }
            Token::Open => {
                self.frames.push(Frame::Paren(span));
                self.advance();
                Ok(None)
            }
            Token::Minus => {
                self.frames.push(Frame::Negate(span));
                self.advance();
                Ok(None)
            }
            Token::Not => {
                self.frames.push(Frame::Not(span));
                self.advance();
                Ok(None)
            }
            Token::Function(function) => self.function(function),
            _ => Err(self.error()),
        }
    }

    /// Takes what follows an operand. True if the operand is complete once more (a bracket closed),
    /// or the whole expression is.
    fn after_operand(&mut self, operand: Operand) -> Result<bool> {
        if operand == Operand::Name && self.cannot_follow_name() {
            return Err(
                self.error_with("Arithmetic or relational or boolean operator expected to follow NAME")
            );
        }
        let (op, level) = match self.token {
            Token::Plus => (BinaryOp::Plus, ADDITIVE),
            Token::Minus => (BinaryOp::Minus, ADDITIVE),
            Token::Star => (BinaryOp::Star, MULTIPLICATIVE),
            Token::Slash => (BinaryOp::Slash, MULTIPLICATIVE),
            Token::Lt => (BinaryOp::Lt, RELATIONAL),
            Token::Leq => (BinaryOp::Leq, RELATIONAL),
            Token::Eq => (BinaryOp::Eq, RELATIONAL),
            Token::Geq => (BinaryOp::Geq, RELATIONAL),
            Token::Gt => (BinaryOp::Gt, RELATIONAL),
            Token::Neq => (BinaryOp::Neq, RELATIONAL),
            Token::And => (BinaryOp::And, BOOLEAN),
            Token::Or => (BinaryOp::Or, BOOLEAN),
            Token::Quest => {
                self.reduce(QUEST);
                self.frames.push(Frame::Quest);
                self.advance();
                return Ok(false);
            }
            _ => return self.close(),
        };
        self.reduce(level);
        self.frames.push(Frame::Binary(op));
        self.advance();
        Ok(false)
    }

    /// Takes a token that ends an operand of what is open.
    fn close(&mut self) -> Result<bool> {
        self.reduce(0);
        let token = self.token;
        match (self.frames.last_mut(), token) {
            (None, Token::End) => Ok(true),
            (None, Token::Open | Token::Close) => Err(self.unexpected()),
            (Some(frame @ Frame::Quest), Token::Colon) => {
                *frame = Frame::Colon { novalue: false };
                self.advance();
                Ok(false)
            }
            (Some(&mut Frame::Paren(open)), Token::Close) => {
                self.frames.pop();
                self.advance();
                if let Token::InstName(_) = self.token {
                    let id = self.pop();
                    let id = self.instance(id);
                    let end = self.tree.node(id).span;
                    self.tree.set_span(id, open.to(end));
                    self.operands.push(id);
                }
                Ok(true)
            }
            (Some(Frame::Call(call @ Call::Rescale, _)), Token::Comma) => {
                *call = Call::RescaleUnits;
                self.advance();
                self.rescale_units()?;
                Ok(true)
            }
            (Some(Frame::Call(Call::MatchArgument(_), _)), Token::Close) => {
                self.lexer.leave_matchinst();
                self.advance();
                self.finish_call();
                Ok(true)
            }
            (Some(Frame::Call(Call::Delta | Call::Rate | Call::Instant | Call::Scalar, _)), Token::Close) => {
                self.advance();
                self.finish_call();
                Ok(true)
            }
            (Some(Frame::Call(Call::Beyond(..), _)), Token::Close | Token::Comma) => self.beyond_expression(),
            _ => {
                // The operand is complete, so constructs around it that it completes are closed too.
                Err(self.error())
            }
        }
    }

    /// Completes what binds at least as strongly as an operator of this level.
    fn reduce(&mut self, level: u8) {
        while let Some(frame) = self.frames.last() {
            let binds = match frame {
                Frame::Binary(op) if op.is_boolean() => BOOLEAN,
                Frame::Binary(op) if op.is_relational() => RELATIONAL,
                Frame::Binary(BinaryOp::Star | BinaryOp::Slash) => MULTIPLICATIVE,
                Frame::Binary(_) | Frame::Negate(_) => ADDITIVE,
                Frame::Not(_) => NOT,
                Frame::Colon { .. } => QUEST,
                Frame::Paren(_) | Frame::Quest | Frame::Call(..) => return,
            };
            if binds < level {
                return;
            }
            self.reduce_one();
        }
    }

    fn reduce_one(&mut self) {
        let right = self.pop();
        let end = self.tree.node(right).span;
        let (kind, start) = match self.frames.pop() {
            Some(Frame::Binary(op)) => {
                let left = self.pop();
                (Kind::Binary { op, left, right }, self.tree.node(left).span)
            }
            Some(Frame::Negate(span)) => (Kind::Negate(right), span),
            Some(Frame::Not(span)) => (Kind::Not(right), span),
            Some(Frame::Colon { .. }) => {
                let yes = self.pop();
                let guard = self.pop();
                (Kind::Ternary { guard, yes, no: right }, self.tree.node(guard).span)
            }
            // Only `reduce` calls this, with one of the frames above on top; and a ternary with novalue().
            _ => return self.operands.push(right),
        };
        self.push(kind, start.to(end));
    }

    /// A function's name, with `(` as the next token.
    fn function(&mut self, function: Function) -> Result<Option<Operand>> {
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
    fn finish_call(&mut self) {
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
    fn rescale_units(&mut self) -> Result<()> {
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
    fn beyond_expression(&mut self) -> Result<bool> {
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

    // The machinery.

    fn advance(&mut self) {
        self.last = self.span;
        (self.token, self.span) = self.lexer.next();
    }

    fn push(&mut self, kind: Kind, span: Span) -> NodeId {
        let id = self.tree.push(kind, span);
        self.operands.push(id);
        id
    }

    fn pop(&mut self) -> NodeId {
        // Every frame is pushed behind the operands it needs, and reduced with one more on top.
        self.operands.pop().unwrap_or(NodeId(0))
    }

    /// Puts `[name]` on a node; the name is the token to be looked at. The result is not an operand yet
    /// if `id` was not.
    fn instance(&mut self, id: NodeId) -> NodeId {
        let Token::InstName(name) = self.token else {
            return id;
        };
        let span = self.tree.node(id).span.to(self.span);
        self.advance();
        let filter = self.tree.push(Kind::Instance(unescape(name).into(), id), span);
        if self.operands.last() == Some(&id) {
            self.operands.pop();
            self.operands.push(filter);
        }
        filter
    }

    fn set_call(&mut self, call: Call) {
        if let Some(Frame::Call(top, _)) = self.frames.last_mut() {
            *top = call;
        }
    }

    // Errors.

    /// Tokens that cannot begin an expression but that PCP takes all the same, to say so.
    fn refuse_initial(&mut self) -> Result<()> {
        match self.token {
            Token::Plus
            | Token::Star
            | Token::Slash
            | Token::Close
            | Token::Lt
            | Token::Leq
            | Token::Eq
            | Token::Geq
            | Token::Gt
            | Token::Neq
            | Token::And
            | Token::Or
            | Token::Quest
            | Token::Colon => {
                let text = format!("Unexpected initial '{}'", self.span.of(self.text));
                self.advance();
                Err(self.error_with(text))
            }
            _ => Ok(()),
        }
    }

    /// A parenthesis behind a complete expression: PCP takes it and points behind it.
    fn unexpected(&mut self) -> Box<SyntaxError> {
        let text = format!("Unexpected '{}'", self.span.of(self.text));
        self.advance();
        self.error_with(text)
    }

    fn cannot_follow_name(&self) -> bool {
        matches!(
            self.token,
            Token::Integer(_)
                | Token::Double(_)
                | Token::Name(_)
                | Token::String(_)
                | Token::Pattern(_)
                | Token::Not
                | Token::Assign
                | Token::Function(_)
                | Token::Keyword(_)
        )
    }

    /// An error at the current token, with these words unless the token itself is wrong.
    fn error_with(&self, text: impl Into<Cow<'static, str>>) -> Box<SyntaxError> {
        self.make_error(Some(text.into()))
    }

    /// An error at the current token where it cannot continue what is open.
    fn error(&self) -> Box<SyntaxError> {
        self.make_error(self.expected())
    }

    fn make_error(&self, text: Option<Cow<'static, str>>) -> Box<SyntaxError> {
        let position = match self.token {
            Token::End => self.text.len() as i64 - 1,
            _ => i64::from(self.span.start),
        };
        let text = match self.token {
            Token::Bad(text) => Some(text.into()),
            _ => text,
        };
        Box::new(SyntaxError::new(position, self.span, text))
    }

    /// What PCP expected, of the innermost open construct that it has words for.
    fn expected(&self) -> Option<Cow<'static, str>> {
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

fn is_floating(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Float | ValueType::Double)
}

/// The number that digits with at most one point stand for; a lone point is zero.
pub(super) fn number(digits: &str) -> f64 {
    digits.parse().unwrap_or(0.0)
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
    let length = unit / multiplier;
    let time = (units.dim_space, units.dim_time, units.dim_count) == (0, 1, 0);
    (time && (1.0..=1e18).contains(&length)).then_some(length as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(text, &Dialect::default()) {
            Ok(tree) => tree.to_string(),
            Err(error) => format!("@{} {}", error.position, error.text.as_deref().unwrap_or("-")),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn precedence() {
        check("a*-b*c", "(STAR a (NEG (STAR b c)))");
        check("a*!b+c", "(STAR a (NOT (PLUS b c)))");
        check("a?b:c?d:e", "(QUEST (QUEST a (COLON b c)) (COLON d e))");
        check("a?b:novalue()+1", "(PLUS (QUEST a (COLON b NOVALUE)) 1)");
        check("(a+b)[x]", "(FILTERINST [x] (PLUS a b))");
    }

    #[test]
    fn errors() {
        check("", "@-1 -");
        check("a+(1 b)", "@5 Arithmetic expression expected to follow PLUS");
        check("1 + 2 c", "@6 -");
        check("a(b", "@2 Unexpected '('");
    }

    #[test]
    fn beyond_pcp() {
        check("topk(3, a + b)", "(TOPK (PLUS a b))");
        check("avg_over(a, \"30sec\") > 1", "(GT (AVG_OVER a) 1)");
        check("clamp(a, -1, 1.5)", "(CLAMP a)");
        check("topk(a)", "@5 <number>, <expr>) expected to follow topk(");
        check("quantile(1.5, a)", "@9 quantile must be between 0 and 1");
        check("max_over(a, \"byte\")", "@12 'byte' is not a length of time (\"30sec\", \"5 min\")");
    }

    #[test]
    fn depth_is_limited_and_length_is_not() {
        let deep = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
        check(&deep, "@4096 Expression nested too deeply");
        let long = format!("1{}", "+1".repeat(100_000));
        assert!(parse(&long, &Dialect::default()).is_ok());
    }
}
