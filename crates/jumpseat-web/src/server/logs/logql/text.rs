//! Expressions as text. What is written is read as the same expression.

use std::fmt::{self, Display, Formatter, Write as _};

use super::{
    AggregateOp, BinaryOp, Compare, Expr, Filter, Format, Grouping, LogQuery, MatchOp, Matcher, Quantity,
    RangeOp, Stage, sign,
};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Log(query) => query.fmt(f),
            Expr::Range { op, query, range, offset } => {
                write!(f, "{}({query} [{}]", sign(&RangeOp::ALL, *op), Nanos(*range))?;
                if *offset > 0 {
                    write!(f, " offset {}", Nanos(*offset))?;
                }
                f.write_char(')')
            }
            Expr::Aggregate { op, param, grouping, of } => {
                f.write_str(sign(&AggregateOp::ALL, *op))?;
                if let Some(Grouping { without, names }) = grouping {
                    write!(f, " {} ({}) ", if *without { "without" } else { "by" }, names.join(", "))?;
                }
                match op.has_param() {
                    true => write!(f, "({param}, {of})"),
                    false => write!(f, "({of})"),
                }
            }
            Expr::Number(number) => number.fmt(f),
            Expr::Vector(number) => write!(f, "vector({number})"),
            Expr::Binary { op, is_bool, left, right } => {
                let known = BinaryOp::ALL.iter().find(|(_, known, _)| known == op);
                let sign = known.map_or("", |(sign, ..)| sign);
                write!(f, "({left} {sign} {}{right})", if *is_bool { "bool " } else { "" })
            }
        }
    }
}

impl Display for LogQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (at, matcher) in self.matchers.iter().enumerate() {
            write!(f, "{}{matcher}", if at > 0 { ", " } else { "" })?;
        }
        f.write_char('}')?;
        self.stages.iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}

impl Display for Matcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, sign(&MatchOp::ALL, self.op), Quoted(&self.value.text))
    }
}

impl Display for Stage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Line { op, texts } => {
                f.write_str(match op {
                    MatchOp::Equal => "|=",
                    MatchOp::NotEqual => "!=",
                    MatchOp::Match => "|~",
                    MatchOp::NotMatch => "!~",
                })?;
                texts.iter().enumerate().try_for_each(|(at, text)| {
                    write!(f, "{}{}", if at > 0 { " or " } else { " " }, Quoted(&text.text))
                })
            }
            Stage::Fields(Format::Json) => f.write_str("| json"),
            Stage::Fields(Format::Logfmt) => f.write_str("| logfmt"),
            // Alone, a label of this name would be a stage.
            Stage::Filter(filter @ (Filter::Text(Matcher { name, .. }) | Filter::Number { name, .. }))
                if name == "json" || name == "logfmt" =>
            {
                write!(f, "| ({filter})")
            }
            Stage::Filter(filter) => write!(f, "| {filter}"),
            Stage::Drop(names) => write!(f, "| drop {}", names.join(", ")),
            Stage::Keep(names) => write!(f, "| keep {}", names.join(", ")),
        }
    }
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Text(matcher) => matcher.fmt(f),
            Filter::Number { name, op, value } => write!(f, "{name} {} {value}", sign(&Compare::ALL, *op)),
            Filter::And(left, right) => write!(f, "({left} and {right})"),
            Filter::Or(left, right) => write!(f, "({left} or {right})"),
        }
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Number(number) => number.fmt(f),
            Quantity::Duration(nanos) if *nanos < 0 => write!(f, "-{}", Nanos(nanos.saturating_neg())),
            Quantity::Duration(nanos) => Nanos(*nanos).fmt(f),
            Quantity::Bytes(bytes) => write!(f, "{bytes}B"),
        }
    }
}

/// A duration with the largest unit that it is a whole number of.
struct Nanos(i64);

impl Display for Nanos {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let units = [
            ("d", 86_400_000_000_000),
            ("h", 3_600_000_000_000),
            ("m", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
        ];
        let unit = units.iter().find(|(_, factor)| self.0 != 0 && self.0 % factor == 0);
        match unit {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}ns", self.0),
        }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Pattern, parse};
    use super::*;

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "host", "source", "level", "a_b", "json", "logfmt", "drop", "_x9", "or", "by", "vector",
        ])
        .prop_map(str::to_owned)
    }

    fn pattern(op: MatchOp) -> impl Strategy<Value = Pattern> {
        let text = if op.is_regex() { "[a-z.*|0-9]{0,8}" } else { ".{0,12}" };
        // Each of these is a regular expression, but for repetitions of nothing.
        let text = text.prop_map(
            move |text: String| if op.is_regex() { format!("x{}", text.replace('*', "y*")) } else { text },
        );
        text.prop_map(move |text| {
            let regex = op.is_regex().then(|| regex::Regex::new("x").expect("good"));
            Pattern { text, regex }
        })
    }

    fn matcher() -> impl Strategy<Value = Matcher> {
        let op = prop::sample::select(MatchOp::ALL.map(|(_, op)| op).to_vec());
        (name(), op).prop_flat_map(|(name, op)| {
            pattern(op).prop_map(move |value| Matcher { name: name.clone(), op, value })
        })
    }

    fn filter() -> impl Strategy<Value = Filter> {
        let quantity = prop_oneof![
            (-1000..1000_i32).prop_map(|number| Quantity::Number(f64::from(number) / 8.0)),
            (1..i64::MAX / 1024).prop_map(|nanos| Quantity::Duration(nanos >> 12)),
            (0..1_000_000_u32).prop_map(|bytes| Quantity::Bytes(bytes.into())),
        ];
        let op = prop::sample::select(Compare::ALL.map(|(_, op)| op).to_vec());
        let leaf = prop_oneof![
            matcher().prop_map(Filter::Text),
            (name(), op, quantity).prop_map(|(name, op, value)| Filter::Number { name, op, value }),
        ];
        leaf.prop_recursive(3, 8, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| Filter::And(Box::new(a), Box::new(b))),
                (inner.clone(), inner).prop_map(|(a, b)| Filter::Or(Box::new(a), Box::new(b))),
            ]
        })
    }

    fn log() -> impl Strategy<Value = LogQuery> {
        let op = prop::sample::select(MatchOp::ALL.map(|(_, op)| op).to_vec());
        let line = op.prop_flat_map(|op| {
            prop::collection::vec(pattern(op), 1..3).prop_map(move |texts| Stage::Line { op, texts })
        });
        let names = || prop::collection::vec(name(), 1..3);
        let stage = prop_oneof![
            line,
            Just(Stage::Fields(Format::Json)),
            Just(Stage::Fields(Format::Logfmt)),
            filter().prop_map(Stage::Filter),
            names().prop_map(Stage::Drop),
            names().prop_map(Stage::Keep),
        ];
        (prop::collection::vec(matcher(), 0..3), prop::collection::vec(stage, 0..4)).prop_map(
            |(matchers, mut stages)| {
                // Behind names `!=` would be a condition on the last of them.
                let mut named = false;
                stages.retain(|stage| {
                    let stays = !(named
                        && matches!(stage, Stage::Line { op: MatchOp::NotEqual | MatchOp::NotMatch, .. }));
                    named = if stays { matches!(stage, Stage::Drop(_) | Stage::Keep(_)) } else { named };
                    stays
                });
                LogQuery { matchers, stages }
            },
        )
    }

    fn metric() -> impl Strategy<Value = Expr> {
        let number = || (-1000..1000_i32).prop_map(|number| f64::from(number) / 4.0);
        let range = prop::sample::select(RangeOp::ALL.map(|(_, op)| op).to_vec());
        let leaf = prop_oneof![
            number().prop_map(Expr::Number),
            number().prop_map(Expr::Vector),
            (range, log(), 1..1_000_000_i64, 0..1000_i64).prop_map(|(op, query, range, offset)| {
                Expr::Range { op, query, range: range * 1_000_000, offset: offset * 1_000_000_000 }
            }),
        ];
        leaf.prop_recursive(4, 16, 2, |inner| {
            let grouping = (any::<bool>(), prop::collection::vec(name(), 0..3))
                .prop_map(|(without, names)| Grouping { without, names });
            let op = prop::sample::select(AggregateOp::ALL.map(|(_, op)| op).to_vec());
            let binary = prop::sample::select(BinaryOp::ALL.map(|(_, op, _)| op).to_vec());
            prop_oneof![
                (op, 1..100_u8, prop::option::of(grouping), inner.clone()).prop_map(
                    |(op, param, grouping, of)| {
                        let param = if op.has_param() { param.into() } else { 0.0 };
                        Expr::Aggregate { op, param, grouping, of: Box::new(of) }
                    }
                ),
                (binary, any::<bool>(), inner.clone(), inner).prop_map(|(op, is_bool, left, right)| {
                    Expr::Binary {
                        op,
                        is_bool: is_bool && matches!(op, BinaryOp::Compare(_)),
                        left: Box::new(left),
                        right: Box::new(right),
                    }
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(expr in prop_oneof![log().prop_map(Expr::Log), metric()]) {
            let text = expr.to_string();
            prop_assert_eq!(parse(&text).map_err(|error| format!("{text}: {error}")), Ok(expr));
        }

        #[test]
        fn any_text_is_an_expression_or_refused(text in "[{}()\\[\\]|=~!<>,\"`a-z0-9 .+*/^%#\\\\é-]{0,60}") {
            if let Ok(expr) = parse(&text) {
                prop_assert_eq!(parse(&expr.to_string()), Ok(expr));
            }
        }
    }
}
