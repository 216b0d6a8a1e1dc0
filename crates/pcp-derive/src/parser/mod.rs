//! Tokens to a syntax tree (spec `derived-language.md` 6 and 7).
//!
//! An operator-precedence parser with its stack in a vector: what is open (`Frame`) and the operands
//! that wait for it. The stack is also what an error text is made of: PCP names the innermost open
//! construct that it has words for. Cost: one step a token, one node an operand or operator.

mod call;
mod expected;
mod tags;

use std::borrow::Cow;

pub(crate) use call::TernarySide;
pub(crate) use expected::Expected;

use super::debug;
use super::dialect::Dialect;
use super::functions::{Call, Function};
use super::lexer::{Lexer, Token, unescape};
use super::syntax::SyntaxError;
use super::tree::{BinaryOp, Constant, Kind, NodeId, Span, Tree};

/// Constructs that may be open at the same time.
pub const MAX_DEPTH: usize = 4096;
/// Bytes of an expression: its tree takes some hundred times that.
pub const MAX_LENGTH: usize = 1 << 20;

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
    debug::token(&token, span, text);
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

fn precedence(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::And | BinaryOp::Or => BOOLEAN,
        BinaryOp::Star | BinaryOp::Slash => MULTIPLICATIVE,
        BinaryOp::Plus | BinaryOp::Minus => ADDITIVE,
        _ => RELATIONAL,
    }
}

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
    Call(OpenCall, Span),
}

/// A function that is not complete.
#[derive(Debug)]
struct OpenCall {
    function: &'static Function,
    /// What PCP has words for here.
    expected: Option<Expected>,
    /// What its expression, when it is there, makes a node with; made behind the expression if more stands there.
    call: Option<Call>,
}

pub(crate) type Result<T, E = Box<SyntaxError>> = std::result::Result<T, E>;

/// A parser in the middle of a text. Functions read their arguments with it.
pub(crate) struct Parser<'a> {
    text: &'a str,
    pub(crate) dialect: &'a Dialect,
    lexer: Lexer<'a>,
    /// The token to be looked at, and where it is.
    pub(crate) token: Token<'a>,
    pub(crate) span: Span,
    /// Where the token before it is.
    last: Span,
    tree: Tree,
    frames: Vec<Frame>,
    operands: Vec<NodeId>,
}

/// What has just been taken.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OperandTaken {
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
                // Nothing here recurses, but frames take memory, and so do the trees of later passes.
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
                operand = OperandTaken::Other;
            }
        }
    }

    /// Takes tokens that may begin an operand: a whole operand, or an opener (`None`).
    fn operand(&mut self) -> Result<Option<OperandTaken>> {
        let span = self.span;
        match self.token {
            Token::Integer(digits) | Token::Double(digits) => {
                let decimal = matches!(self.token, Token::Double(_));
                self.push(
                    Kind::Constant(Box::new(Constant { digits: digits.into(), decimal, tags: None })),
                    span,
                );
                self.advance();
                Ok(Some(OperandTaken::Other))
            }
            Token::Name(name) => {
                let id = self.push(Kind::Metric(name.into()), span);
                self.advance();
                if let Token::InstName(_) = self.token {
                    self.instance(id);
                    return Ok(Some(OperandTaken::Other));
                }
                Ok(Some(OperandTaken::Name))
            }
            Token::Open => {
                self.frames.push(Frame::Paren(span));
                self.advance();
                Ok(None)
            }
            Token::Operator(BinaryOp::Minus) => {
                self.frames.push(Frame::Negate(span));
                self.advance();
                Ok(None)
            }
            Token::Not => {
                self.frames.push(Frame::Not(span));
                self.advance();
                Ok(None)
            }
            Token::Function(function) => (function.parse)(self, function),
            _ => Err(self.error()),
        }
    }

    /// Takes what follows an operand. True if the operand is complete once more (a bracket closed),
    /// or the whole expression is.
    fn after_operand(&mut self, operand: OperandTaken) -> Result<bool> {
        if operand == OperandTaken::Name && self.cannot_follow_name() {
            return Err(
                self.error_with("Arithmetic or relational or boolean operator expected to follow NAME")
            );
        }
        match self.token {
            Token::Operator(op) => {
                self.reduce(precedence(op));
                self.frames.push(Frame::Binary(op));
                self.advance();
                Ok(false)
            }
            Token::Quest => {
                self.reduce(QUEST);
                self.frames.push(Frame::Quest);
                self.advance();
                Ok(false)
            }
            _ => self.close(),
        }
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
                // Besides names only what is in parentheses takes an instance: no function, no number.
                if let Token::InstName(_) = self.token {
                    let id = self.pop();
                    let id = self.instance(id);
                    let end = self.tree.node(id).span;
                    self.tree.set_span(id, open.to(end));
                    self.operands.push(id);
                }
                Ok(true)
            }
            (Some(Frame::Call(..)), Token::Close | Token::Comma) => self.end_argument(),
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
                Frame::Binary(op) => precedence(*op),
                // PCP's grammar: `-a*b` is `-(a*b)`, and `!a+b` is `!(a+b)`.
                Frame::Negate(_) => ADDITIVE,
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
            _ => {
                debug_assert!(false, "called with one of the frames above on top");
                return self.operands.push(right);
            }
        };
        self.push(kind, start.to(end));
    }

    // The machinery.

    pub(crate) fn advance(&mut self) {
        self.last = self.span;
        (self.token, self.span) = self.lexer.next();
        debug::token(&self.token, self.span, self.text);
    }

    fn push(&mut self, kind: Kind, span: Span) -> NodeId {
        let id = self.tree.push(kind, span);
        self.operands.push(id);
        id
    }

    fn pop(&mut self) -> NodeId {
        // Every frame is pushed behind the operands it needs, and reduced with one more on top.
        let operand = self.operands.pop();
        debug_assert!(operand.is_some(), "operators and functions come with their operands");
        operand.unwrap_or(NodeId(0))
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

    // Errors.

    /// Tokens that cannot begin an expression but that PCP takes all the same, to say so.
    fn refuse_initial(&mut self) -> Result<()> {
        match self.token {
            // A `-` may.
            Token::Operator(BinaryOp::Minus) => Ok(()),
            Token::Operator(_) | Token::Close | Token::Quest | Token::Colon => {
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
    pub(crate) fn error_with(&self, text: impl Into<Cow<'static, str>>) -> Box<SyntaxError> {
        self.make_error(Some(text.into()))
    }

    /// An error at the current token where it cannot continue what is open.
    pub(crate) fn error(&self) -> Box<SyntaxError> {
        self.make_error(self.expected())
    }

    fn make_error(&self, text: Option<Cow<'static, str>>) -> Box<SyntaxError> {
        let position = match self.token {
            // PCP points at the last character, in an empty text before it.
            Token::End => self.text.len() as i64 - 1,
            _ => i64::from(self.span.start),
        };
        let text = match self.token {
            // What the lexer has found comes first: PCP never gets to what it expected.
            Token::Bad(text) => Some(text.into()),
            _ => text,
        };
        Box::new(SyntaxError::new(position, self.span, text))
    }
}

/// The number that digits with at most one point stand for; a lone point is zero.
pub(crate) fn number(digits: &str) -> f64 {
    digits.parse().unwrap_or(0.0)
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
