//! A tree as an expression again, every operator in parentheses.

use std::borrow::Cow;
use std::fmt::Write;

use super::tree::{BeyondFn, Kind, NodeId, Tags, Tree};

enum Item {
    Node(NodeId),
    Text(Cow<'static, str>),
}

impl Tree {
    /// The expression, with every operator in parentheses: parsing it gives the same tree.
    pub fn to_expression(&self) -> String {
        let mut out = String::new();
        let mut todo = Vec::new();
        if !self.nodes().is_empty() {
            todo.push(Item::Node(self.root()));
        }
        while let Some(item) = todo.pop() {
            match item {
                Item::Text(text) => out.push_str(&text),
                // Pushed last part first.
                Item::Node(id) => todo.extend(parts(self.kind(id)).into_iter().rev()),
            }
        }
        out
    }
}

fn parts(kind: &Kind) -> Vec<Item> {
    let text = |text: &'static str| Item::Text(Cow::Borrowed(text));
    let owned = |text: String| Item::Text(Cow::Owned(text));
    let call = |word: &'static str, x: NodeId| vec![text(word), text("("), Item::Node(x), text(")")];
    match kind {
        Kind::Metric(name) => vec![owned(name.to_string())],
        Kind::Constant(constant) => vec![owned(match &constant.tags {
            None => constant.digits.to_string(),
            Some(tags) => format!("mkconst({},{})", constant.digits, tags_text(tags)),
        })],
        Kind::NoValue(tags) => vec![owned(format!("novalue({})", tags_text(tags)))],
        Kind::Anon(value_type) => vec![owned(format!("anon(PM_TYPE_{})", value_type.name()))],
        Kind::Defined(name) => vec![owned(format!("defined({name})"))],
        &Kind::Negate(x) => vec![text("(-"), Item::Node(x), text(")")],
        &Kind::Not(x) => vec![text("(!"), Item::Node(x), text(")")],
        &Kind::Binary { op, left, right } => {
            vec![
                text("("),
                Item::Node(left),
                owned(format!(" {} ", op.symbol())),
                Item::Node(right),
                text(")"),
            ]
        }
        &Kind::Ternary { guard, yes, no } => vec![
            text("("),
            Item::Node(guard),
            text(" ? "),
            Item::Node(yes),
            text(" : "),
            Item::Node(no),
            text(")"),
        ],
        &Kind::Aggregate(function, x) => call(function.word(), x),
        &Kind::Delta(x) => call("delta", x),
        &Kind::Rate(x) => call("rate", x),
        &Kind::Instant(x) => call("instant", x),
        &Kind::Scalar(x) => call("scalar", x),
        Kind::Instance(name, x) => {
            vec![text("("), Item::Node(*x), owned(format!(")[{}]", escape(name, ']')))]
        }
        Kind::Match(matcher, x) => {
            let invert = if matcher.invert { "!" } else { "" };
            let pattern = escape(matcher.pattern.source(), '/');
            vec![owned(format!("matchinst({invert}/{pattern}/, ")), Item::Node(*x), text(")")]
        }
        Kind::Rescale(units, x) => {
            let units = match units.extra {
                0 => units.to_string(),
                _ => units.with_extra().to_string(),
            };
            vec![text("rescale("), Item::Node(*x), owned(format!(", \"{units}\")"))]
        }
        Kind::Beyond(function, x) => {
            let (before, after) = match *function {
                BeyondFn::Extreme { n, .. } => (format!("{n}, "), String::new()),
                BeyondFn::Quantile(q) => (format!("{q}, "), String::new()),
                BeyondFn::Stddev | BeyondFn::Abs => (String::new(), String::new()),
                BeyondFn::Clamp { low, high } => (String::new(), format!(", {low}, {high}")),
                BeyondFn::Window { length, .. } => (String::new(), format!(", \"{length} nanosec\"")),
            };
            let word = function.word();
            vec![owned(format!("{word}({before}")), Item::Node(*x), owned(format!("{after})"))]
        }
    }
}

fn tags_text(tags: &Tags) -> String {
    let mut list = Vec::new();
    let mut tag =
        |name: &str, value: Option<String>| list.extend(value.map(|value| format!("{name}={value}")));
    tag("type", tags.value_type.map(|t| t.name().to_owned()));
    tag("semantics", tags.semantics.map(|s| s.name().to_owned()));
    tag(
        "units",
        tags.units.map(|units| match units.extra {
            0 => format!("\"{units}\""),
            _ => format!("\"{}\"", units.with_extra()),
        }),
    );
    tag(
        "indom",
        tags.indom.map(|indom| match indom {
            pcp_model::InDom::NULL => "null".to_owned(),
            indom => format!("\"{indom}\""),
        }),
    );
    tag("meta", tags.meta.as_ref().map(|name| name.to_string()));
    list.join(",")
}

/// Backslashes before backslashes and the closing character.
fn escape(text: &str, end: char) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\\' || c == end {
            // Writing to a String does not fail.
            let _ = write!(escaped, "\\{c}");
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use crate::{Dialect, parse};

    fn check(text: &str, expected: &str) {
        let tree = parse(text, &Dialect::default()).unwrap();
        let printed = tree.to_expression();
        assert_eq!(printed, expected);
        assert_eq!(parse(&printed, &Dialect::default()).unwrap().to_string(), tree.to_string());
    }

    #[test]
    fn what_is_printed_parses_to_the_same() {
        check("a+b*c", "(a + (b * c))");
        check("a[x\\]\\\\]", "(a)[x\\]\\\\]");
        check(
            "g?novalue(type=u64):matchinst(!/a\\/b/,-x)",
            "(g ? novalue(type=U64) : matchinst(!/a\\/b/, (-x)))",
        );
        check(
            "rescale(mkconst(1,units=kb,indom=1.2),\"byte\")",
            "rescale(mkconst(1,units=\"Kbyte\",indom=\"1.2\"), \"byte\")",
        );
        check("avg_over(clamp(a,-1,.5),\"1.5 min\")", "avg_over(clamp(a, -1, 0.5), \"90000000000 nanosec\")");
        check("quantile(.5,topk(3,a))", "quantile(0.5, topk(3, a))");
    }
}
