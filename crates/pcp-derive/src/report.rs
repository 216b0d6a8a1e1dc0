//! What is wrong with a definition, for people: the place underlined, the operands' metadata named, and
//! what would make it legal.

use std::fmt::Write;

use super::diagnostic::{BindError, BindErrorKind};
use super::meta::{Meta, units_text};
use super::registry::RegisterError;
use super::tree::Span;
use pcp_model::Semantics;

/// A report about a definition that is refused.
pub fn report_refusal(name: &str, expression: &str, error: &RegisterError) -> String {
    let mut report = Report::default();
    match error {
        RegisterError::Syntax(error) => {
            report.headline(&error.message(expression));
            // At the end of the text there is nothing to point at but the place behind it.
            let start = (error.found.start as usize).min(expression.len());
            report.source(name, expression, &[], Some((start, error.found.of(expression).len().max(1))));
        }
        other => {
            report.headline(&other.to_string());
            report.source(name, expression, &[], None);
        }
    }
    report.text
}

/// A report about a definition that does not bind.
pub fn report_binding(name: &str, expression: &str, error: &BindError) -> String {
    let mut report = Report::default();
    report.headline(&match &error.kind {
        BindErrorKind::Semantic { text, .. } => (*text).to_owned(),
        BindErrorKind::NoMetadata { name, code } => format!("{}: {name}: {code}", error.text()),
        BindErrorKind::Cycle(path) => format!("{}: {}", error.text(), path.join(" -> ")),
        _ => format!("{}: {}", error.text(), error.span.of(expression)),
    });
    let operands: Vec<Span> = error.operands.iter().map(|(span, _)| *span).collect();
    report.source(name, expression, &operands, Some(mark(expression, error, &operands)));
    for (span, meta) in &error.operands {
        report.note(&format!("{}: {}", one_line(span.of(expression)), describe(*meta)));
    }
    if let Some(help) = help(error) {
        report.note(&format!("help: {help}"));
    }
    report.text
}

/// Metadata in words.
pub fn describe(meta: Meta) -> String {
    let mut text = format!("{} {}", meta.value_type.name(), meta.semantics.map_or("???", Semantics::name));
    let units = units_text(meta.units);
    // Writing to a String does not fail.
    let _ = match units.as_str() {
        "" => write!(text, ", no units"),
        units => write!(text, ", {units}"),
    };
    let _ = match meta.is_set() {
        true => write!(text, ", instances {}", meta.indom),
        false => write!(text, ", singular"),
    };
    text
}

/// What to point at: the operator between two operands, or the start of the construct.
fn mark(expression: &str, error: &BindError, operands: &[Span]) -> (usize, usize) {
    let (start, end) = (error.span.start as usize, error.span.end as usize);
    if let [left, right, ..] = operands {
        let between = (left.end as usize, right.start as usize);
        let gap = expression.get(between.0..between.1).unwrap_or_default();
        let operator = |c: char| "+-*/<>=!&|?:".contains(c);
        if let Some(at) = gap.find(operator) {
            let length = gap[at..].chars().take_while(|&c| operator(c)).count();
            return (between.0 + at, length);
        }
    }
    let until = operands.first().map_or(end, |operand| operand.start as usize);
    let length = until.saturating_sub(start).max(1);
    (start, length)
}

#[derive(Default)]
struct Report {
    text: String,
}

impl Report {
    fn headline(&mut self, text: &str) {
        let _ = writeln!(self.text, "error: {text}");
    }

    /// The definition, with `~` under operands and `^` under what is wrong.
    fn source(&mut self, name: &str, expression: &str, operands: &[Span], mark: Option<(usize, usize)>) {
        let _ = writeln!(self.text, "  {name} = {}", one_line(expression));
        let Some((start, length)) = mark else {
            return;
        };
        let is_in = |at: usize, start: usize, length: usize| (start..start + length).contains(&at);
        // One column a character, and one behind the end for what is missing there.
        let columns = expression.char_indices().map(|(at, _)| at).chain([expression.len()]);
        let line: String = columns
            .map(|at| {
                let operand = |span: &Span| is_in(at, span.start as usize, (span.end - span.start) as usize);
                match at {
                    at if is_in(at, start, length) => '^',
                    _ if operands.iter().any(operand) => '~',
                    _ => ' ',
                }
            })
            .collect();
        let pad = " ".repeat(name.chars().count() + 5);
        let _ = writeln!(self.text, "{pad}{}", line.trim_end());
    }

    fn note(&mut self, text: &str) {
        let _ = writeln!(self.text, "  {text}");
    }
}

/// White space of any kind as blanks, so that marks stay below what they mark.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c }).collect()
}

/// What would make a definition legal.
fn help(error: &BindError) -> Option<String> {
    let help = match &error.kind {
        BindErrorKind::UnknownOperand(name) | BindErrorKind::UnknownInTernary(name) => {
            return Some(format!(
                "check the name; where the metric may be missing, defined({name}) ? {name} : novalue() \
                 has no value then"
            ));
        }
        BindErrorKind::NoMetadata { .. } => "the metric's agent may be down; try again when it answers",
        BindErrorKind::Nested(name) => {
            return Some(format!("put the expression of {name} here in place of its name"));
        }
        BindErrorKind::BrokenOperand(name) => return Some(format!("correct the definition of {name} first")),
        BindErrorKind::Cycle(_) => "one of these definitions has to do without the others",
        BindErrorKind::NestedTooDeeply(_) => "use fewer definitions within definitions",
        BindErrorKind::Semantic { text, .. } => return rule_help(text, &error.operands),
    };
    Some(help.to_owned())
}

fn rule_help(text: &str, operands: &[(Span, Meta)]) -> Option<String> {
    let help = match text {
        "Illegal operator for counters" => {
            "counters can be added to and subtracted from each other; for anything else take rate() or \
             delta() of both first"
        }
        "Illegal operator for counter and non-counter" | "Illegal operator for non-counter and counter" => {
            "a counter can be multiplied with or divided by a plain number; else make it a reading with \
             rate(), delta() or instant()"
        }
        "Non-arithmetic type for left operand"
        | "Non-arithmetic type for right operand"
        | "Non-arithmetic operand for unary negation"
        | "Non-arithmetic operand for function"
        | "Non-arithmetic operand for ternary guard" => {
            "only numbers can be computed with; count() takes any type"
        }
        "Dimensions are not the same" => {
            "operands need the same dimensions (scales may differ); mkconst(1, units=\"...\") gives a number \
             units, and booleans take numbers without units only"
        }
        "Non-counter and not dimensionless for left operand"
        | "Non-counter and not dimensionless for right operand" => {
            "next to a counter only a number without units can stand"
        }
        "Operands should have the same instance domain" => {
            "instances pair within one domain only; scalar(x[instance]), sum(x) or avg(x) make a single \
             value that goes with any"
        }
        "Incorrect time dimension for operand" => {
            "rate() divides by time: its operand's power of time must be 0 or 1"
        }
        "Incompatible dimensions" => "rescale() changes scales, never dimensions",
        "Non-scalar ternary guard with scalar expressions" => {
            "a guard with instances needs an operand with instances; or make the guard a single value with \
             sum(), max() or scalar()"
        }
        text if text.ends_with("for ternary operands") => {
            // The guard comes first, unless the rule is about the operands alone.
            let ([(_, a), _] | [_, (_, a), _]) = operands else {
                return None;
            };
            let semantics = a.semantics.map_or("instant", Semantics::name);
            return Some(format!(
                "both operands must agree in everything; a number does with mkconst(n, type={}, \
                 semantics={semantics}, units=\"{}\")",
                a.value_type.name(),
                a.units
            ));
        }
        _ => return None,
    };
    Some(help.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use crate::{BindErrorKind, Dialect, NodeId};
    use pcp_model::{Units, ValueType};

    #[test]
    fn syntax_errors_point_at_the_token() {
        let error = parse("disk.read +* 2", &Dialect::default()).unwrap_err();
        assert_eq!(
            report_refusal("d.x", "disk.read +* 2", &error.into()),
            "error: Arithmetic expression expected to follow PLUS\n  d.x = disk.read +* 2\n                   ^\n"
        );
        let error = parse("1 +", &Dialect::default()).unwrap_err();
        assert_eq!(
            report_refusal("d.x", "1 +", &error.into()),
            "error: Arithmetic expression expected to follow PLUS\n  d.x = 1 +\n           ^\n"
        );
    }

    #[test]
    fn broken_rules_name_the_operands() {
        let expression = "disk.bytes + uptime";
        let meta = |units| Meta { units, ..Meta::scalar(ValueType::U32) };
        let error = BindError {
            node: NodeId(2),
            span: Span::new(0, 19),
            kind: BindErrorKind::Semantic { context: String::new(), text: "Dimensions are not the same" },
            operands: vec![(Span::new(0, 10), meta(Units::BYTE)), (Span::new(13, 19), meta(Units::SECOND))],
        };
        let report = report_binding("d.x", expression, &error);
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines[1], "  d.x = disk.bytes + uptime");
        assert_eq!(lines[2], "        ~~~~~~~~~~ ^ ~~~~~~");
        assert_eq!(lines[3], "  disk.bytes: U32 discrete, byte, singular");
        assert!(lines[5].starts_with("  help: operands need the same dimensions"));
    }
}
