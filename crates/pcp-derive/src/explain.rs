//! How a definition is understood: a table of its nodes with type, semantics, units, instances and scale
//! factors, operands before operators, as `pmRegisterDerived(3)` shows it for its example.

use super::bind::{Bound, Fact};
use super::functions::Availability;
use super::meta::units_text;
use super::nodes::binary::{ScaleFactor, Scaling};
use super::nodes::ternary::Selection;
use super::tree::{Kind, NodeId, Tree};
use pcp_model::Semantics;

/// The table. Operands stand above their operator, one step further in.
pub fn explain(bound: &Bound) -> String {
    let tree = &bound.tree;
    let depths = depths(tree);
    let mut rows = vec![
        ["Expression", "Type", "Semantics", "Dimension & Scale", "Instances", "Notes"].map(String::from),
    ];
    for (id, _) in tree.iter() {
        let node = bound.node(id);
        let meta = node.meta;
        let units = units_text(meta.units);
        let expression = format!("{}{}", "  ".repeat(depths[id.index()].min(MAX_INDENT)), outline(tree, id));
        // The metadata of a side that never counts is whatever was known before its type rule would have run.
        rows.push(if node.active {
            [
                expression,
                meta.value_type.name().to_owned(),
                meta.semantics.map_or("???", Semantics::name).to_owned(),
                if units.is_empty() { "none".to_owned() } else { units },
                if meta.is_set() { meta.indom.to_string() } else { "-".to_owned() },
                notes(node.fact),
            ]
        } else {
            let unused = || "-".to_owned();
            [expression, unused(), unused(), unused(), unused(), "never selected".to_owned()]
        });
    }
    layout(&rows)
}

/// Steps further in than this look all the same.
const MAX_INDENT: usize = 30;

/// How many operators a node is below.
fn depths(tree: &Tree) -> Vec<usize> {
    let mut depths = vec![0; tree.nodes().len()];
    for (at, node) in tree.nodes().iter().enumerate().rev() {
        for operand in node.kind.operands() {
            depths[operand.index()] = depths[at] + 1;
        }
    }
    depths
}

/// A node with its operands left out, unless they are names or numbers.
fn outline(tree: &Tree, id: NodeId) -> String {
    let short = |id: NodeId| match tree.kind(id) {
        Kind::Metric(name) => name.to_string(),
        Kind::Constant(constant) if constant.tags.is_none() => constant.digits.to_string(),
        Kind::Constant(_) => "mkconst(...)".to_owned(),
        Kind::NoValue(_) => "novalue(...)".to_owned(),
        Kind::Anon(value_type) => format!("anon(PM_TYPE_{})", value_type.name()),
        Kind::Defined(name) => format!("defined({name})"),
        Kind::Call(call, _) => format!("{}(...)", call.word()),
        Kind::Instance(..) | Kind::Negate(_) | Kind::Not(_) | Kind::Binary { .. } | Kind::Ternary { .. } => {
            "(...)".to_owned()
        }
    };
    match tree.kind(id) {
        &Kind::Negate(x) => format!("-{}", short(x)),
        &Kind::Not(x) => format!("!{}", short(x)),
        &Kind::Binary { op, left, right } => format!("{} {} {}", short(left), op.symbol(), short(right)),
        &Kind::Ternary { guard, yes, no } => format!("{} ? {} : {}", short(guard), short(yes), short(no)),
        Kind::Instance(name, x) => format!("{}[{name}]", short(*x)),
        Kind::Call(call, x) => {
            let rules = call.rules();
            let alone = rules.before().is_empty() && rules.behind().is_empty();
            // There is room for the operand only where nothing else is in the parentheses.
            match alone && rules.function().availability != Availability::BeyondPcp {
                true => format!("{}({})", call.word(), short(*x)),
                false => short(id),
            }
        }
        _ => short(id),
    }
}

fn notes(fact: Fact) -> String {
    match fact {
        Fact::Scaled(scaling) if scaling != Scaling::NONE => {
            let sides = [("left", scaling.left), ("right", scaling.right)];
            let texts = sides.into_iter().filter(|(_, factor)| !factor.is_one());
            let texts: Vec<String> =
                texts.map(|(side, factor)| format!("{side} {}", factor_text(factor))).collect();
            texts.join(", ")
        }
        Fact::Guard(Some(Selection::Yes)) => "guard known: second operand".to_owned(),
        Fact::Guard(Some(Selection::No)) => "guard known: third operand".to_owned(),
        Fact::Defined(true) => "exists".to_owned(),
        Fact::Defined(false) => "does not exist".to_owned(),
        Fact::NoValue => "does not exist: no values".to_owned(),
        _ => String::new(),
    }
}

/// A factor as the manual shows it: `/1048576 and *1000`.
fn factor_text(factor: ScaleFactor) -> String {
    match (factor.divisor, factor.multiplier) {
        (divisor, 1) => format!("/{divisor}"),
        (1, multiplier) => format!("*{multiplier}"),
        (divisor, multiplier) => format!("/{divisor} and *{multiplier}"),
    }
}

/// Columns, each as wide as its widest cell.
fn layout(rows: &[[String; 6]]) -> String {
    let mut widths = [0; 6];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_read_as_in_the_manual() {
        let both = ScaleFactor { divisor: 1_048_576, multiplier: 1000 };
        assert_eq!(factor_text(both), "/1048576 and *1000");
        let scaling = Scaling { left: both, ..Scaling::NONE };
        assert_eq!(notes(Fact::Scaled(scaling)), "left /1048576 and *1000");
    }
}
