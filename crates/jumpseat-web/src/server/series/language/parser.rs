//! From tokens to what a query is. Errors are those of pmseries: the query, and a mark below the token where it goes wrong.

use pcp_model::{Timestamp, Units, UnitsVocabulary};

use super::QueryError;
use super::lexer::{Token, tokens};
use super::syntax::{
    Condition, Expr, Function, Join, Key, Metric, Op, Operator, Over, Query, Selector, Value,
};
use super::window::{Items, Parameter, Window};

/// Longest query, deepest expression, and most conditions.
const MAX_TEXT: usize = 64 << 10;
const MAX_DEPTH: usize = 32;
const MAX_TERMS: usize = 64;
const MAX_CONDITIONS: usize = 128;

/// Words that are no names.
const RESERVED: [&str; 18] = [
    "type",
    "semantics",
    "units",
    "interval",
    "delta",
    "timezone",
    "tz",
    "start",
    "begin",
    "finish",
    "end",
    "samples",
    "count",
    "offset",
    "from",
    "align",
    "alignment",
    "range",
];

/// Reads a query; `now` is what times in it are from.
///
/// # Errors
/// What is wrong, and where.
pub(in super::super) fn parse(text: &str, now: Timestamp) -> Result<Query> {
    if text.len() > MAX_TEXT {
        return Err(QueryError(format!("a query has at most {MAX_TEXT} bytes")));
    }
    let tokens = tokens(text);
    let mut parser = Parser { text, tokens, at: 0, depth: 0, terms: 0, items: Items::default(), windows: 0 };
    // An assignment has no effect.
    if parser.kind(0) == Some(Token::Name) && parser.kind(1) == Some(Token::Assign) {
        parser.name()?;
        parser.at += 1;
    }
    let expr = match parser.sum()? {
        Part::Expr(expr) if parser.at == parser.tokens.len() => expr,
        _ => return Err(parser.error()),
    };
    let selectors = expr.selectors();
    let is_nothing = |selector: &&Selector| selector.metric.is_none() && selector.conditions.is_empty();
    // All of an expression has one window, or nothing has one.
    let is_mixed = parser.windows != 0 && parser.windows != selectors.len();
    if selectors.iter().any(is_nothing) || is_mixed {
        return Err(QueryError("Invalid series query specification".to_owned()));
    }
    let window = (parser.windows > 0).then(|| Window::of_query(&parser.items, now)).transpose()?;
    Ok(Query { expr, window })
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, logos::Span)>,
    at: usize,
    depth: usize,
    terms: usize,
    items: Items,
    /// How many selectors have a window.
    windows: usize,
}

/// An operand.
enum Part {
    Expr(Expr),
    Number(String),
}

type Result<T> = std::result::Result<T, QueryError>;

/// Expressions.
impl Parser<'_> {
    fn sum(&mut self) -> Result<Part> {
        let mut left = self.product()?;
        while let Some(operator) =
            self.operator(&[(Token::Plus, Operator::Add), (Token::Minus, Operator::Subtract)])
        {
            left = self.combined(left, operator, Self::product)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Part> {
        let mut left = self.operand()?;
        while let Some(operator) =
            self.operator(&[(Token::Times, Operator::Multiply), (Token::Slash, Operator::Divide)])
        {
            left = self.combined(left, operator, Self::operand)?;
        }
        Ok(left)
    }

    fn combined(
        &mut self,
        left: Part,
        operator: Operator,
        next: fn(&mut Self) -> Result<Part>,
    ) -> Result<Part> {
        // A number only multiplies.
        if matches!(left, Part::Number(_)) && operator != Operator::Multiply {
            self.at -= 1;
            return Err(self.error());
        }
        let at = self.at;
        Ok(Part::Expr(match (left, next(self)?) {
            (Part::Expr(left), Part::Expr(right)) => Expr::Combine(operator, Box::new(left), Box::new(right)),
            (Part::Number(by), Part::Expr(of)) => Expr::Scale { by, in_front: true, of: Box::new(of) },
            (Part::Expr(of), Part::Number(by)) if operator == Operator::Multiply => {
                Expr::Scale { by, in_front: false, of: Box::new(of) }
            }
            _ => {
                self.at = at;
                return Err(self.error());
            }
        }))
    }

    fn operator(&mut self, operators: &[(Token, Operator)]) -> Option<Operator> {
        let token = self.kind(0)?;
        let (_, operator) = operators.iter().find(|(known, _)| *known == token)?;
        self.at += 1;
        Some(*operator)
    }

    fn operand(&mut self) -> Result<Part> {
        self.terms += 1;
        if self.depth == MAX_DEPTH || self.terms > MAX_TERMS {
            return Err(QueryError(format!(
                "a query has at most {MAX_DEPTH} functions in one another and {MAX_TERMS} operands"
            )));
        }
        self.depth += 1;
        let part = match self.kind(0) {
            Some(Token::Number) => {
                let number = self.word(0).to_owned();
                self.at += 1;
                Ok(Part::Number(number))
            }
            Some(Token::Name) if self.kind(1) == Some(Token::OpenParen) => match self.word(0) {
                "derived" => self.derived().map(Part::Expr),
                name if is_function(name) => self.call().map(Part::Expr),
                _ => self.vector().map(Part::Expr),
            },
            Some(Token::Name | Token::OpenBrace | Token::OpenBracket) => self.vector().map(Part::Expr),
            _ => Err(self.error()),
        };
        self.depth -= 1;
        part
    }

    /// A function, whose name and parenthesis are next.
    fn call(&mut self) -> Result<Expr> {
        let name = self.word(0).to_owned();
        self.at += 2;
        let Part::Expr(of) = self.sum()? else { return Err(self.error()) };
        let takes_more = matches!(name.as_str(), "topk_inst" | "topk_sample" | "rescale" | "log")
            || name.starts_with("nth_percentile");
        let argument = if takes_more && (name != "log" || self.kind(0) == Some(Token::Comma)) {
            self.expect(Token::Comma)?;
            let wanted = if name == "rescale" { Token::Text } else { Token::Number };
            if self.kind(0) != Some(wanted) {
                return Err(self.error());
            }
            let argument = self.word(0).trim_matches('"').to_owned();
            self.at += 1;
            Some(argument)
        } else {
            None
        };
        if self.kind(0) != Some(Token::CloseParen) {
            return Err(self.error());
        }
        // Arguments are judged when the parenthesis has been read: the mark is there.
        let function = function(&name, argument).ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(Expr::Call(function, Box::new(of)))
    }

    /// `derived("EXPRESSION")`, then as a vector.
    fn derived(&mut self) -> Result<Expr> {
        self.at += 2;
        if self.kind(0) != Some(Token::Text) {
            return Err(self.error());
        }
        let expression = self.word(0).trim_matches('"').to_owned();
        self.at += 1;
        self.expect(Token::CloseParen)?;
        self.rest_of_vector(Some(Metric::Derived(expression)))
    }

    fn vector(&mut self) -> Result<Expr> {
        let metric = if self.kind(0) == Some(Token::Name) {
            let name = self.name()?;
            Some(if has_star(&name) { Metric::Glob(name) } else { Metric::Name(unescaped(&name)) })
        } else {
            None
        };
        self.rest_of_vector(metric)
    }

    fn rest_of_vector(&mut self, metric: Option<Metric>) -> Result<Expr> {
        let conditions = match self.kind(0) {
            Some(Token::OpenBrace) => self.conditions()?,
            _ => Vec::new(),
        };
        if self.kind(0) == Some(Token::OpenBracket) {
            self.window()?;
            self.windows += 1;
        }
        Ok(Expr::Select(Selector { metric, conditions }))
    }
}

/// Conditions and windows.
impl Parser<'_> {
    fn conditions(&mut self) -> Result<Vec<(Join, Condition)>> {
        self.at += 1;
        let mut all = Vec::new();
        let mut join = Join::And;
        loop {
            if all.len() == MAX_CONDITIONS {
                return Err(QueryError(format!("a query has at most {MAX_CONDITIONS} conditions in braces")));
            }
            all.push((join, self.condition()?));
            join = match self.kind(0) {
                Some(Token::Comma | Token::And) => Join::And,
                Some(Token::Or) => Join::Or,
                Some(Token::CloseBrace) => {
                    self.at += 1;
                    return Ok(all);
                }
                _ => return Err(self.error()),
            };
            self.at += 1;
        }
    }

    fn condition(&mut self) -> Result<Condition> {
        let word = match self.kind(0) {
            Some(Token::Name) => self.name()?,
            Some(Token::Text) => {
                self.at += 1;
                self.word_at(self.at - 1).trim_matches('"').to_owned()
            }
            _ => return Err(self.error()),
        };
        let op = match self.kind(0) {
            Some(Token::Equal) => Op::Equal,
            Some(Token::NotEqual) => Op::NotEqual,
            Some(Token::Like) => Op::Like,
            Some(Token::Match) => Op::Match,
            Some(Token::NoMatch) => Op::NoMatch,
            Some(Token::Less) => Op::Less,
            Some(Token::LessOrEqual) => Op::LessOrEqual,
            Some(Token::Greater) => Op::Greater,
            Some(Token::GreaterOrEqual) => Op::GreaterOrEqual,
            _ => return Err(self.error()),
        };
        self.at += 1;
        let is_comparison = matches!(op, Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual);
        let is_pattern = matches!(op, Op::Match | Op::NoMatch);
        let value = match self.kind(0) {
            Some(Token::Text) if !is_comparison => Value::Text(self.word(0).trim_matches('"').to_owned()),
            Some(Token::Name) if !is_comparison => Value::Bare(self.word(0).to_owned()),
            Some(Token::Number) if !is_pattern => Value::Bare(self.word(0).to_owned()),
            _ => return Err(self.error()),
        };
        self.at += 1;
        Ok(Condition { key: key(&word), op, value, word })
    }

    fn window(&mut self) -> Result<()> {
        self.at += 1;
        loop {
            self.item()?;
            match self.kind(0) {
                Some(Token::Comma) => self.at += 1,
                Some(Token::CloseBracket) => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.error()),
            }
        }
    }

    fn item(&mut self) -> Result<()> {
        let parameter = match self.kind(0) {
            Some(Token::Name) => {
                let parameter = Parameter::of_word(self.word(0)).ok_or_else(|| self.error())?;
                self.at += 1;
                if self.kind(0) != Some(Token::Like) {
                    return Err(self.error());
                }
                self.at += 1;
                parameter
            }
            // A bare length.
            _ => Parameter::Range,
        };
        let is_number = |text: &str| text.len() <= 10 && text.parse::<i32>().is_ok();
        let is_count = matches!(parameter, Parameter::Count | Parameter::Offset);
        match self.kind(0) {
            Some(Token::Text | Token::Number) if is_count && !is_number(self.word(0).trim_matches('"')) => {
                Err(self.error())
            }
            Some(Token::Text) => {
                let text = self.word(0).trim_matches('"').to_owned();
                self.at += 1;
                self.items.set(parameter, &text)
            }
            Some(Token::Number) => {
                let begin = self.tokens[self.at].1.start;
                let mut end = self.tokens[self.at].1.end;
                self.at += 1;
                // A number with its unit, or several of them.
                while !is_count && matches!(self.kind(0), Some(Token::Name | Token::Number)) {
                    end = self.tokens[self.at].1.end;
                    self.at += 1;
                }
                let text = self.text[begin..end].to_owned();
                self.items.set(parameter, &text)
            }
            _ => Err(self.error()),
        }
    }
}

/// Tokens.
impl Parser<'_> {
    fn kind(&self, ahead: usize) -> Option<Token> {
        self.tokens.get(self.at + ahead).map(|(token, _)| *token)
    }

    fn word(&self, ahead: usize) -> &str {
        self.word_at(self.at + ahead)
    }

    fn word_at(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |(_, span)| &self.text[span.clone()])
    }

    /// A name that is not reserved, which is next.
    fn name(&mut self) -> Result<String> {
        let name = self.word(0).to_owned();
        if RESERVED.contains(&name.as_str()) {
            return Err(self.error());
        }
        self.at += 1;
        Ok(name)
    }

    fn expect(&mut self, token: Token) -> Result<()> {
        if self.kind(0) != Some(token) {
            return Err(self.error());
        }
        self.at += 1;
        Ok(())
    }

    /// The token that is next is wrong; or the end is.
    fn error(&self) -> QueryError {
        let at = match self.tokens.get(self.at) {
            Some((_, span)) => span.start,
            None => self.tokens.last().map_or(0, |(_, span)| span.end.saturating_sub(1)),
        };
        let blanks = " ".repeat(self.text.get(..at).map_or(at, |front| front.chars().count()));
        QueryError(format!("cannot parse given string\n\n{}\n{blanks}^ -- syntax error\n", self.text))
    }
}

fn is_function(name: &str) -> bool {
    let argument = match name {
        "rescale" => Some("sec".to_owned()),
        "topk_inst" | "topk_sample" | "nth_percentile_inst" | "nth_percentile_sample" => Some("1".to_owned()),
        _ => None,
    };
    function(name, argument).is_some()
}

/// A function by its name and what stands behind the expression in it; `None` if there is none, or if that is wrong.
fn function(name: &str, argument: Option<String>) -> Option<Function> {
    let number = |most: u32| argument.as_ref()?.parse().ok().filter(|number| *number <= most);
    Some(match name {
        "rate" => Function::Rate,
        "max" => Function::Max(Over::Samples),
        "max_inst" => Function::Max(Over::Instance),
        "max_sample" => Function::Max(Over::Sample),
        "min" => Function::Min(Over::Samples),
        "min_inst" => Function::Min(Over::Instance),
        "min_sample" => Function::Min(Over::Sample),
        "sum" => Function::Sum(Over::Samples),
        "sum_inst" => Function::Sum(Over::Instance),
        "sum_sample" => Function::Sum(Over::Sample),
        "avg" => Function::Avg(Over::Samples),
        "avg_inst" => Function::Avg(Over::Instance),
        "avg_sample" => Function::Avg(Over::Sample),
        "stdev_inst" => Function::Stdev(Over::Instance),
        "stdev_sample" => Function::Stdev(Over::Sample),
        "topk_inst" => Function::TopK(Over::Instance, number(u32::MAX)?),
        "topk_sample" => Function::TopK(Over::Sample, number(u32::MAX)?),
        "nth_percentile_inst" => Function::Percentile(Over::Instance, number(100)?),
        "nth_percentile_sample" => Function::Percentile(Over::Sample, number(100)?),
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "round" => Function::Round,
        "sqrt" => Function::Sqrt,
        "log" => Function::Log(argument),
        "rescale" => {
            let text = argument?;
            let (units, factor) = Units::parse(&text, UnitsVocabulary::Classic).ok()?;
            (factor == 1.0).then_some(Function::Rescale(units, text))?
        }
        _ => return None,
    })
}

fn key(word: &str) -> Key {
    match word {
        "metric.name" | "m.name" => Key::MetricName,
        "instance.name" | "inst.name" | "i.name" => Key::InstanceName,
        "context.name" | "source.name" | "c.name" | "s.name" => Key::SourceName,
        _ => {
            let label = word.strip_prefix("label.").or_else(|| word.strip_prefix("l.")).unwrap_or(word);
            Key::Label(label.to_owned())
        }
    }
}

/// Whether there is a `*` without a backslash in front.
fn has_star(name: &str) -> bool {
    let mut escaped = false;
    name.chars().any(|c| {
        let is_star = c == '*' && !escaped;
        escaped = c == '\\' && !escaped;
        is_star
    })
}

fn unescaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp { sec: 1_700_000_000, nsec: 0 };

    fn canonical(text: &str) -> String {
        let query = parse(text, NOW).unwrap_or_else(|error| panic!("{error}"));
        query.expr.canonical(&|_| Some("found".to_owned()))
    }

    #[test]
    fn canonical_texts_are_pmseries() {
        for (text, expected) in [
            (
                " rate( disk.dev.read { hostname == \"bozo\" } [samples:3]) ",
                "rate(disk.dev.read{hostname==\"bozo\"})",
            ),
            ("topk_inst(a.b,2)", "topk_inst(a.b, 2)"),
            ("log(a.b,10)", "log(a.b,10)"),
            ("rescale(a.b,\"Kbyte/sec\")", "rescale(a.b,\"Kbyte/sec\")"),
            ("a[samples:1]+b[samples:1]*2", "a+b*2"),
            ("2*a.b", "2*a.b"),
            ("sum(rate(a.*{x:\"y\" || m.name=~\"z\", n<5}))", "sum(rate(found{x~~\"y\"||m.name=~z&&n<5}))"),
            ("x = a.b", "a.b"),
            ("derived(\"a.b + a.c\"){hostname==\"h\"}", "derived(a.b + a.c){hostname==\"h\"}"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_a_mark_at_the_token() {
        for (text, at) in [
            ("disk dev", 5),
            ("disk.dev.read[", 13),
            ("{units==\"m\"}", 1),
            ("rate()", 5),
            ("rate(disk.dev.read", 17),
            ("nosuchfunc(a)", 10),
            ("a && b", 2),
            ("1", 0),
            ("1+a", 1),
            ("a[samples:1]*", 12),
            ("a[samples:99999999999]", 10),
            ("nth_percentile_inst(a,101)", 25),
            ("", 0),
            ("é", 0),
        ] {
            let error = parse(text, NOW).expect_err(text).to_string();
            let blanks = " ".repeat(at);
            assert_eq!(error, format!("cannot parse given string\n\n{text}\n{blanks}^ -- syntax error\n"));
        }
        for text in ["[samples:1]", "a[samples:1]+b"] {
            let error = parse(text, NOW).expect_err(text).to_string();
            assert_eq!(error, "Invalid series query specification", "{text}");
        }
    }

    #[test]
    fn depth_and_length_are_limited() {
        for text in ["abs(".repeat(10_000), format!("a{}", "+a".repeat(10_000)), "a".repeat(MAX_TEXT + 1)] {
            assert!(parse(&text, NOW).is_err());
        }
        let many = format!("a{{{}x==1}}", "x==1,".repeat(MAX_CONDITIONS));
        assert!(parse(&many, NOW).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_or_an_error(text in r#"[a-z.*0-9"{}\[\]()=~!<>,:&|+/ \\é-]{0,60}"#) {
            let _ = parse(&text, NOW);
        }

        /// The canonical text of a query is a query, with the same canonical text.
        #[test]
        fn canonical_texts_mean_the_same(
            names in prop::collection::vec("[a-d]{1,3}(\\.[a-d]{1,3})?", 1..4),
            functions in prop::collection::vec(prop::sample::select(vec!["rate", "max_inst", "abs", "sum"]), 0..4),
            value in "[a-z ]{0,5}",
            op in prop::sample::select(vec!["==", "~~"]),
        ) {
            let mut text = names
                .iter()
                .map(|name| format!("{name}{{l{op}\"{value}\"}}"))
                .collect::<Vec<_>>()
                .join("+");
            for function in functions {
                text = format!("{function}({text})");
            }
            prop_assert_eq!(&canonical(&text), &text);
        }
    }
}
