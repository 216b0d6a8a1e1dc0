//! Trees as text: as an expression again, every operator in parentheses, and as PCP shows them.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::meta::units_text;
use super::tree::{Kind, NodeId, Tags, Tree};
use pcp_model::InDom;

/// What a node is written as.
enum Part {
    Node(NodeId),
    Text(Cow<'static, str>),
}

impl From<&'static str> for Part {
    fn from(text: &'static str) -> Part {
        Part::Text(text.into())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Part {
        Part::Text(text.into())
    }
}

impl From<NodeId> for Part {
    fn from(id: NodeId) -> Part {
        Part::Node(id)
    }
}

macro_rules! parts {
    ($($part:expr),* $(,)?) => {
        vec![$(Part::from($part)),*]
    };
}

impl Tree {
    /// The expression, with every operator in parentheses: parsing it gives the same tree.
    pub fn to_expression(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut out, as_expression);
        out
    }

    /// Writes the tree as the parts of its nodes. A loop, as trees may be deeper than the stack.
    fn write(&self, out: &mut dyn Write, parts: fn(&Kind) -> Vec<Part>) -> fmt::Result {
        let mut todo = Vec::new();
        if !self.nodes().is_empty() {
            todo.push(Part::Node(self.root()));
        }
        while let Some(part) = todo.pop() {
            match part {
                Part::Text(text) => out.write_str(&text)?,
                // Pushed last part first.
                Part::Node(id) => todo.extend(parts(self.kind(id)).into_iter().rev()),
            }
        }
        Ok(())
    }
}

impl fmt::Display for Tree {
    /// The tree in brackets with PCP's names for the nodes: `(PLUS a (STAR b c))`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, as_tree)
    }
}

fn as_expression(kind: &Kind) -> Vec<Part> {
    match kind {
        Kind::Metric(name) => parts![name.to_string()],
        Kind::Constant(constant) => parts![match &constant.tags {
            None => constant.digits.to_string(),
            Some(tags) => format!("mkconst({},{})", constant.digits, tags_text(tags)),
        }],
        Kind::NoValue(tags) => parts![format!("novalue({})", tags_text(tags))],
        Kind::Anon(value_type) => parts![format!("anon(PM_TYPE_{})", value_type.name())],
        Kind::Defined(name) => parts![format!("defined({name})")],
        &Kind::Negate(x) => parts!["(-", x, ")"],
        &Kind::Not(x) => parts!["(!", x, ")"],
        &Kind::Binary { op, left, right } => parts!["(", left, " ", op.symbol(), " ", right, ")"],
        &Kind::Ternary { guard, yes, no } => parts!["(", guard, " ? ", yes, " : ", no, ")"],
        Kind::Instance(name, x) => parts!["(", *x, format!(")[{}]", escape(name, ']'))],
        Kind::Call(call, x) => {
            let rules = call.rules();
            parts![call.word(), "(", rules.before(), *x, rules.behind(), ")"]
        }
    }
}

fn as_tree(kind: &Kind) -> Vec<Part> {
    match kind {
        Kind::Metric(name) => parts![name.to_string()],
        Kind::Constant(constant) => parts![constant.digits.to_string(), meta_text(constant.tags.as_ref())],
        Kind::NoValue(tags) => parts!["NOVALUE", meta_text(Some(tags))],
        Kind::Anon(value_type) => parts![format!("(ANON PM_TYPE_{})", value_type.name())],
        Kind::Defined(name) => parts![format!("(DEFINED {name})")],
        &Kind::Negate(x) => parts!["(NEG ", x, ")"],
        &Kind::Not(x) => parts!["(NOT ", x, ")"],
        &Kind::Binary { op, left, right } => parts!["(", op.name(), " ", left, " ", right, ")"],
        &Kind::Ternary { guard, yes, no } => parts!["(QUEST ", guard, " (COLON ", yes, " ", no, "))"],
        Kind::Instance(name, x) => parts![format!("(FILTERINST [{name}] "), *x, ")"],
        Kind::Call(call, x) => {
            let (before, behind) = call.rules().in_tree();
            parts!["(", before, *x, behind, ")"]
        }
    }
}

/// The tags of `mkconst` and `novalue` as they are written.
fn tags_text(tags: &Tags) -> String {
    let indom = |indom| match indom {
        InDom::NULL => "null".to_owned(),
        indom => format!("\"{indom}\""),
    };
    let tags = [
        ("type", tags.value_type.map(|value_type| value_type.name().to_owned())),
        ("semantics", tags.semantics.map(|semantics| semantics.name().to_owned())),
        ("units", tags.units.map(|units| format!("\"{}\"", units_text(units)))),
        ("indom", tags.indom.map(indom)),
        ("meta", tags.meta.as_ref().map(|name| name.to_string())),
    ];
    let present = tags.into_iter().filter_map(|(tag, value)| Some(format!("{tag}={}", value?)));
    present.collect::<Vec<_>>().join(",")
}

/// The one tag that PCP shows in a tree.
fn meta_text(tags: Option<&Tags>) -> String {
    let meta = tags.and_then(|tags| tags.meta.as_deref());
    meta.map_or_else(String::new, |meta| format!("{{meta={meta}}}"))
}

/// Backslashes before backslashes and the closing character.
pub(super) fn escape(text: &str, end: char) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\\' || c == end {
            escaped.push('\\');
        }
        escaped.push(c);
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
