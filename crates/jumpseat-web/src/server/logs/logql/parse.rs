//! Words of LogQL become an expression.

use regex::RegexBuilder;

use super::lex::{Token, Word, words};
use super::{
    AggregateOp, BinaryOp, Compare, Expr, Filter, Format, Grouping, LogQuery, MatchOp, Matcher, Pattern,
    Quantity, RangeOp, Stage,
};
use crate::server::records::duration::duration;

/// Most bytes of a query.
pub(crate) const MAX_TEXT: usize = 16 << 10;
/// Most parts of an expression, and most of them in one another.
pub(crate) const MAX_NODES: usize = 256;
const MAX_DEPTH: usize = 32;
/// Most regular expressions, and most bytes of what one becomes.
const MAX_REGEXES: usize = 32;
const REGEX_SIZE: usize = 1 << 20;
const REGEX_DEPTH: u32 = 64;

/// Stages that Loki has and that there are not.
const ABSENT: [&str; 8] =
    ["pattern", "regexp", "unpack", "unwrap", "line_format", "label_format", "decolorize", "distinct"];

/// Why a text is no expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse error at line {line}, col {column}: {why}")]
pub(crate) struct ParseError {
    pub line: usize,
    pub column: usize,
    pub why: String,
}

/// Reads an expression.
///
/// # Errors
/// [`ParseError`].
pub(crate) fn parse(text: &str) -> Result<Expr, ParseError> {
    let located = |(at, why): (usize, String)| {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ParseError { line, column, why }
    };
    if text.len() > MAX_TEXT {
        return Err(located((0, format!("the query has more than {MAX_TEXT} bytes"))));
    }
    let tokens = words(text).map_err(located)?;
    let mut parser = Parser { tokens, next: 0, nodes: 0, depth: 0, regexes: 0 };
    parser.whole().map_err(located)
}

/// Reads a query for lines.
///
/// # Errors
/// [`ParseError`]; of a metric query at its beginning.
pub(crate) fn parse_log(text: &str) -> Result<LogQuery, ParseError> {
    match parse(text)? {
        Expr::Log(query) => Ok(query),
        _ => Err(ParseError {
            line: 1,
            column: 1,
            why: "only label matchers and line filters are supported here".to_owned(),
        }),
    }
}

type Parsed<T> = Result<T, (usize, String)>;

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    nodes: usize,
    depth: usize,
    regexes: usize,
}

impl Parser {
    fn whole(&mut self) -> Parsed<Expr> {
        let expr = match self.peek() {
            Word::Sign("{") => Expr::Log(self.log()?),
            _ => self.metric(0)?,
        };
        match self.peek() {
            Word::End => Ok(expr),
            _ => Err(self.unexpected("an operator or the end")),
        }
    }

    fn metric(&mut self, least: u8) -> Parsed<Expr> {
        self.deeper(|parser| {
            let mut left = parser.unary()?;
            while let Word::Sign(sign) = *parser.peek() {
                let Some(&(_, op, binds)) = BinaryOp::ALL.iter().find(|(known, ..)| *known == sign) else {
                    break;
                };
                if binds < least {
                    break;
                }
                let at = parser.at();
                parser.next += 1;
                let is_bool = parser.take_name("bool");
                if is_bool && !matches!(op, BinaryOp::Compare(_)) {
                    return Err((at, "bool modifier can only be used on comparison operators".to_owned()));
                }
                // Powers bind from the right, all others from the left.
                let right = parser.metric(if op == BinaryOp::Pow { binds } else { binds + 1 })?;
                parser.node()?;
                left = Expr::Binary { op, is_bool, left: Box::new(left), right: Box::new(right) };
            }
            Ok(left)
        })
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.node()?;
        match self.peek().clone() {
            Word::Sign("(") => {
                self.next += 1;
                let expr = self.metric(0)?;
                self.sign(")")?;
                Ok(expr)
            }
            Word::Sign(sign @ ("-" | "+")) => {
                self.next += 1;
                let number = self.number()?;
                Ok(Expr::Number(if sign == "-" { -number } else { number }))
            }
            Word::Number(_) => self.number().map(Expr::Number),
            Word::Name(name) => {
                let at = self.at();
                self.next += 1;
                if name == "vector" {
                    self.sign("(")?;
                    let is_negative = self.take_sign("-");
                    let number = self.number()?;
                    self.sign(")")?;
                    return Ok(Expr::Vector(if is_negative { -number } else { number }));
                }
                if let Some(&(_, op)) = RangeOp::ALL.iter().find(|(known, _)| *known == name) {
                    return self.range(op);
                }
                if let Some(&(_, op)) = AggregateOp::ALL.iter().find(|(known, _)| *known == name) {
                    return self.aggregate(op);
                }
                Err((at, format!("syntax error: unexpected {name}: there is no such function here")))
            }
            Word::Sign("{") => {
                Err((self.at(), "syntax error: unexpected {: lines are not numbers".to_owned()))
            }
            _ => Err(self.unexpected("{ or a function")),
        }
    }

    fn range(&mut self, op: RangeOp) -> Parsed<Expr> {
        self.sign("(")?;
        let matchers = self.matchers()?;
        // The time may stand on either side of the stages.
        let early = self.take_range()?;
        let stages = self.stages()?;
        let range = match early {
            Some(range) => range,
            None => self.take_range()?.ok_or_else(|| self.unexpected("["))?,
        };
        let offset = if self.take_name("offset") { self.duration()? } else { 0 };
        self.sign(")")?;
        Ok(Expr::Range { op, query: LogQuery { matchers, stages }, range, offset })
    }

    fn take_range(&mut self) -> Parsed<Option<i64>> {
        if !self.take_sign("[") {
            return Ok(None);
        }
        let at = self.at();
        let range = self.duration()?;
        self.sign("]")?;
        if range <= 0 { Err((at, "the time is not longer than nothing".to_owned())) } else { Ok(Some(range)) }
    }

    fn aggregate(&mut self, op: AggregateOp) -> Parsed<Expr> {
        let mut grouping = self.grouping()?;
        self.sign("(")?;
        let param = match op.has_param() {
            true => {
                let at = self.at();
                let param = self.number()?;
                if param < 1.0 || param.fract() != 0.0 || param > 1e6 {
                    return Err((at, "invalid parameter: a whole number above 0 is wanted".to_owned()));
                }
                self.sign(",")?;
                param
            }
            false => 0.0,
        };
        let of = Box::new(self.metric(0)?);
        self.sign(")")?;
        if grouping.is_none() {
            grouping = self.grouping()?;
        }
        Ok(Expr::Aggregate { op, param, grouping, of })
    }

    fn grouping(&mut self) -> Parsed<Option<Grouping>> {
        let without = match self.peek() {
            Word::Name(name) if name == "by" => false,
            Word::Name(name) if name == "without" => true,
            _ => return Ok(None),
        };
        self.next += 1;
        self.sign("(")?;
        let mut names = Vec::new();
        while !self.take_sign(")") {
            self.node()?;
            names.push(self.name()?);
            if !self.take_sign(",") {
                self.sign(")")?;
                break;
            }
        }
        Ok(Some(Grouping { without, names }))
    }

    fn log(&mut self) -> Parsed<LogQuery> {
        Ok(LogQuery { matchers: self.matchers()?, stages: self.stages()? })
    }

    fn matchers(&mut self) -> Parsed<Vec<Matcher>> {
        self.sign("{")?;
        let mut matchers = Vec::new();
        while !self.take_sign("}") {
            self.node()?;
            let name = self.name()?;
            let op = self.match_op().ok_or_else(|| self.unexpected("=, !=, =~ or !~"))?;
            let value = self.pattern(op, true)?;
            matchers.push(Matcher { name, op, value });
            if !self.take_sign(",") {
                self.sign("}")?;
                break;
            }
        }
        Ok(matchers)
    }

    fn match_op(&mut self) -> Option<MatchOp> {
        let Word::Sign(sign) = *self.peek() else { return None };
        let (_, op) = MatchOp::ALL.iter().find(|(known, _)| *known == sign)?;
        self.next += 1;
        Some(*op)
    }

    fn stages(&mut self) -> Parsed<Vec<Stage>> {
        let mut stages = Vec::new();
        loop {
            let op = match *self.peek() {
                Word::Sign("|=") => MatchOp::Equal,
                Word::Sign("!=") => MatchOp::NotEqual,
                Word::Sign("|~") => MatchOp::Match,
                Word::Sign("!~") => MatchOp::NotMatch,
                Word::Sign(sign @ ("|>" | "!>")) => {
                    return Err((
                        self.at(),
                        format!("syntax error: unexpected {sign}: there are no pattern filters here"),
                    ));
                }
                Word::Sign("|") => {
                    self.node()?;
                    self.next += 1;
                    stages.push(self.stage()?);
                    continue;
                }
                _ => return Ok(stages),
            };
            self.node()?;
            self.next += 1;
            let mut texts = vec![self.pattern(op, false)?];
            while self.take_name("or") {
                self.node()?;
                texts.push(self.pattern(op, false)?);
            }
            stages.push(Stage::Line { op, texts });
        }
    }

    fn stage(&mut self) -> Parsed<Stage> {
        let at = self.at();
        if let Word::Name(name) = self.peek().clone() {
            // A label may be called as a stage is.
            let is_filter = matches!(
                self.tokens.get(self.next + 1).map(|token| &token.word),
                Some(Word::Sign("=" | "!=" | "=~" | "!~" | "==" | ">" | ">=" | "<" | "<="))
            );
            let is_line = name == "json" || name == "logfmt";
            // Behind `| json` may be a line filter `!=`.
            let is_filter = is_filter
                && !(is_line
                    && matches!(
                        self.tokens.get(self.next + 1).map(|token| &token.word),
                        Some(Word::Sign("!=" | "!~"))
                    ));
            match name.as_str() {
                _ if is_filter => {}
                "json" | "logfmt" => {
                    self.next += 1;
                    return match self.peek() {
                        Word::Name(_) | Word::Sign("-") => Err((
                            self.at(),
                            format!("syntax error: {name} has no parameters here: it gives all fields"),
                        )),
                        _ => Ok(Stage::Fields(if name == "json" { Format::Json } else { Format::Logfmt })),
                    };
                }
                "drop" | "keep" => {
                    self.next += 1;
                    let mut names = vec![self.name()?];
                    while self.take_sign(",") {
                        self.node()?;
                        names.push(self.name()?);
                    }
                    if self.match_op().is_some() {
                        return Err((self.at(), format!("syntax error: {name} takes names only here")));
                    }
                    return Ok(if name == "drop" { Stage::Drop(names) } else { Stage::Keep(names) });
                }
                absent if ABSENT.contains(&absent) => {
                    return Err((
                        at,
                        format!("syntax error: unexpected {absent}: there is no such stage here"),
                    ));
                }
                _ => {}
            }
        }
        self.filter().map(Stage::Filter)
    }

    fn filter(&mut self) -> Parsed<Filter> {
        self.deeper(|parser| {
            let mut left = parser.all_of()?;
            while parser.take_name("or") {
                parser.node()?;
                left = Filter::Or(Box::new(left), Box::new(parser.all_of()?));
            }
            Ok(left)
        })
    }

    fn all_of(&mut self) -> Parsed<Filter> {
        let mut left = self.one_filter()?;
        loop {
            let is_next = match self.peek() {
                Word::Name(name) if name == "and" => {
                    self.next += 1;
                    true
                }
                Word::Sign(",") => {
                    self.next += 1;
                    true
                }
                Word::Name(name) => name != "or" && name != "offset",
                Word::Sign("(") => true,
                _ => false,
            };
            if !is_next {
                return Ok(left);
            }
            self.node()?;
            left = Filter::And(Box::new(left), Box::new(self.one_filter()?));
        }
    }

    fn one_filter(&mut self) -> Parsed<Filter> {
        self.node()?;
        if self.take_sign("(") {
            let filter = self.filter()?;
            self.sign(")")?;
            return Ok(filter);
        }
        let name = self.name()?;
        let Word::Sign(sign) = *self.peek() else { return Err(self.unexpected("an operator")) };
        let is_text = matches!(self.tokens.get(self.next + 1).map(|token| &token.word), Some(Word::Text(_)));
        if is_text && let Some(op) = self.match_op() {
            let value = self.pattern(op, true)?;
            return Ok(Filter::Text(Matcher { name, op, value }));
        }
        // Numbers may be compared by = as well.
        let sign = if sign == "=" { "==" } else { sign };
        let Some(&(_, op)) = Compare::ALL.iter().find(|(known, _)| *known == sign) else {
            return Err(self.unexpected("an operator"));
        };
        self.next += 1;
        Ok(Filter::Number { name, op, value: self.quantity()? })
    }

    fn quantity(&mut self) -> Parsed<Quantity> {
        let at = self.at();
        let is_negative = self.take_sign("-");
        let sign = if is_negative { -1.0 } else { 1.0 };
        let Word::Number(text) = self.peek().clone() else {
            return Err(self.unexpected("a number or a text"));
        };
        self.next += 1;
        if let Some(number) = plain(&text) {
            return Ok(Quantity::Number(sign * number));
        }
        if let Some(nanos) = duration(&text) {
            return Ok(Quantity::Duration(if is_negative { -nanos } else { nanos }));
        }
        match bytes(&text) {
            Some(bytes) => Ok(Quantity::Bytes(sign * bytes)),
            None => Err((at, format!("syntax error: {text} is neither number, duration nor bytes"))),
        }
    }

    fn pattern(&mut self, op: MatchOp, is_whole: bool) -> Parsed<Pattern> {
        let at = self.at();
        let Word::Text(text) = self.peek().clone() else { return Err(self.unexpected("a text")) };
        self.next += 1;
        if !op.is_regex() {
            return Ok(Pattern { text, regex: None });
        }
        self.regexes += 1;
        if self.regexes > MAX_REGEXES {
            return Err((at, format!("more than {MAX_REGEXES} regular expressions")));
        }
        let source = if is_whole { format!("^(?s:{text})$") } else { text.clone() };
        let regex = RegexBuilder::new(&source)
            .size_limit(REGEX_SIZE)
            .dfa_size_limit(REGEX_SIZE)
            .nest_limit(REGEX_DEPTH)
            .build()
            .map_err(|error| {
                let told = error.to_string();
                let last = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
                (at, format!("error parsing regexp: {last}"))
            })?;
        Ok(Pattern { text, regex: Some(regex) })
    }

    fn number(&mut self) -> Parsed<f64> {
        let Word::Number(text) = self.peek() else { return Err(self.unexpected("a number")) };
        match plain(text) {
            Some(number) => {
                self.next += 1;
                Ok(number)
            }
            None => Err(self.unexpected("a number")),
        }
    }

    fn duration(&mut self) -> Parsed<i64> {
        let Word::Number(text) = self.peek() else { return Err(self.unexpected("a duration")) };
        match duration(text) {
            Some(nanos) => {
                self.next += 1;
                Ok(nanos)
            }
            None => Err(self.unexpected("a duration")),
        }
    }

    fn name(&mut self) -> Parsed<String> {
        match self.peek().clone() {
            Word::Name(name) => {
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn sign(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(sign)) }
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Word::Sign(own) if *own == sign);
        self.next += usize::from(is);
        is
    }

    fn take_name(&mut self, name: &str) -> bool {
        let is = matches!(self.peek(), Word::Name(own) if own == name);
        self.next += usize::from(is);
        is
    }

    fn peek(&self) -> &Word {
        // The last word is the end, and nothing goes behind it.
        self.tokens.get(self.next).map_or(&Word::End, |token| &token.word)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |token| token.at)
    }

    fn unexpected(&self, expected: &str) -> (usize, String) {
        (self.at(), format!("syntax error: unexpected {}, expecting {expected}", self.peek()))
    }

    fn node(&mut self) -> Parsed<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err((self.at(), format!("more than {MAX_NODES} parts"))) } else { Ok(()) }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((self.at(), format!("more than {MAX_DEPTH} expressions in one another")));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }
}

fn plain(text: &str) -> Option<f64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

/// Bytes, as `10KB` or `1.5MiB`.
fn bytes(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    let factor = match &*text[end..].to_ascii_lowercase() {
        "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    text[..end].parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grafana_sends_is_read() {
        for (text, same) in [
            (r#"{host="web1", source=~"app.*"} |= "x" != `y` |~ "(?i)z" !~ "w""#, None),
            (
                r#"{host="web1"} | json | level="error" or status >= 500 and took > 1.5s, size<10KB | drop a, b | keep c"#,
                None,
            ),
            (
                "sum by (level, detected_level) (count_over_time({source=\"app\"} |= \"x\" | drop __error__[1m0s]))",
                Some(
                    "sum by (level, detected_level) (count_over_time({source=\"app\"} |= \"x\" | drop __error__ [1m]))",
                ),
            ),
            ("vector(1)+vector(1)", Some("(vector(1) + vector(1))")),
            ("sum(rate({a=\"b\"}[5m])) by (host) / 2 * 3 > bool 1", None),
            ("topk(3, sum without (a) (bytes_rate({a=\"b\"} [1h] offset 1d)))", None),
            ("2 ^ 3 ^ 4 - -1", Some("((2 ^ (3 ^ 4)) - -1)")),
            ("{}", Some("{}")),
            ("{a=\"b\",} | json != \"x\" |= \"a\" or \"b\"", None),
            ("count_over_time({a=\"b\"}[5m] |= \"x\")", Some("count_over_time({a=\"b\"} |= \"x\" [5m])")),
        ] {
            let expr = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let shown = expr.to_string();
            assert_eq!(parse(&shown).as_ref(), Ok(&expr), "{text}: {shown}");
            if let Some(same) = same {
                assert_eq!(shown, same);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, told) in [
            (
                "",
                "parse error at line 1, col 1: syntax error: unexpected end of the query, expecting { or a function",
            ),
            ("{a=b}", "parse error at line 1, col 4: syntax error: unexpected b, expecting a text"),
            (
                "{a=\"b\"",
                "parse error at line 1, col 7: syntax error: unexpected end of the query, expecting }",
            ),
            ("{a=~\"(\"}", "parse error at line 1, col 5: error parsing regexp: unclosed group"),
            (
                "{a=\"b\"}\n| line_format \"x\"",
                "parse error at line 2, col 3: syntax error: unexpected line_format: there is no such stage here",
            ),
            ("rate({a=\"b\"})", "parse error at line 1, col 13: syntax error: unexpected ), expecting ["),
            ("rate({a=\"b\"}[0])", "parse error at line 1, col 14: the time is not longer than nothing"),
            (
                "quantile(1)",
                "parse error at line 1, col 1: syntax error: unexpected quantile: there is no such function here",
            ),
            (
                "{a=\"b\"} + 1",
                "parse error at line 1, col 9: syntax error: unexpected +, expecting an operator or the end",
            ),
            (
                "{a=\"b\"} | json x=\"y\"",
                "parse error at line 1, col 16: syntax error: json has no parameters here: it gives all fields",
            ),
            (
                "{a=\"b\"} | x > y",
                "parse error at line 1, col 15: syntax error: unexpected y, expecting a number or a text",
            ),
            (
                "1 + bool 2",
                "parse error at line 1, col 3: bool modifier can only be used on comparison operators",
            ),
            (
                "topk(0, vector(1))",
                "parse error at line 1, col 6: invalid parameter: a whole number above 0 is wanted",
            ),
        ] {
            assert_eq!(parse(text).expect_err(text).to_string(), told, "{text}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let deep = format!("{}1{}", "(".repeat(10_000), ")".repeat(5000));
        let sums = format!("{}vector(1){}", "sum(".repeat(100), ")".repeat(100));
        let long = format!("{{a=\"{}\"}}", "x".repeat(MAX_TEXT));
        let chain = format!("1{}", "+1".repeat(1000));
        let filters = format!("{{}} | a=\"b\"{}", " and a=\"b\"".repeat(400));
        let nested = format!("{{}} | {}a=\"b\"", "(".repeat(200));
        let regexes = format!("{{}}{}", " |~ \"x\"".repeat(40));
        let huge = "{a=~\"((a{1000}){1000}){1000}\"}".to_owned();
        for (text, why) in [
            (deep, "in one another"),
            (sums, "in one another"),
            (long, "bytes"),
            (chain, "parts"),
            (filters, "parts"),
            (nested, "in one another"),
            (regexes, "regular expressions"),
            (huge, "regexp"),
        ] {
            let told = parse(&text).expect_err("too much").to_string();
            assert!(told.contains(why), "{told}");
        }
    }
}
