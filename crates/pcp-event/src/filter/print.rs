//! The canonical text of a filter: parsing it gives the same filter.

use std::fmt::{self, Display, Formatter, Write};

use super::lexer::is_plain_name;
use super::{Expr, Filter, Literal, Op};
use crate::EventFlags;

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print(f, &self.root, &self.fields, false)
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Eq => "==",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Int(value) => value.fmt(f),
            // The debug form of a float always has a point or an exponent.
            Literal::Float(value) => write!(f, "{value:?}"),
            Literal::Text(text) => quote(f, text, '"'),
            Literal::Bool(value) => value.fmt(f),
            Literal::Severity(severity) => f.write_str(severity.word()),
        }
    }
}

/// Only an `||` within an `&&` needs parentheses: chains of the same kind are flat.
fn print(f: &mut Formatter<'_>, expr: &Expr, fields: &[String], within_and: bool) -> fmt::Result {
    match expr {
        Expr::Or(parts) if within_and => {
            f.write_char('(')?;
            join(f, parts, fields, " || ", false)?;
            f.write_char(')')
        }
        Expr::Or(parts) => join(f, parts, fields, " || ", false),
        Expr::And(parts) => join(f, parts, fields, " && ", true),
        Expr::Not(inner) => {
            f.write_char('!')?;
            // `!x == 1` would read oddly, though it means the same.
            let bare = matches!(**inner, Expr::Flag(_) | Expr::Exists(_) | Expr::Not(_));
            if bare {
                return print(f, inner, fields, false);
            }
            f.write_char('(')?;
            print(f, inner, fields, false)?;
            f.write_char(')')
        }
        Expr::Flag(flag) => f.write_str(match *flag {
            EventFlags::START => "start",
            EventFlags::END => "end",
            _ => "point",
        }),
        Expr::Exists(field) => {
            f.write_str("exists(")?;
            name(f, &fields[*field])?;
            f.write_char(')')
        }
        Expr::Compare { field, op, to } => {
            name(f, &fields[*field])?;
            write!(f, " {op} {to}")
        }
        Expr::In { field, negated, any } => {
            name(f, &fields[*field])?;
            f.write_str(if *negated { " not in [" } else { " in [" })?;
            for (i, literal) in any.iter().enumerate() {
                write!(f, "{}{literal}", if i == 0 { "" } else { ", " })?;
            }
            f.write_char(']')
        }
        Expr::Match { field, negated, pattern } => {
            name(f, &fields[*field])?;
            f.write_str(if *negated { " !~ " } else { " =~ " })?;
            quote(f, pattern.as_str(), '"')
        }
    }
}

fn join(
    f: &mut Formatter<'_>,
    parts: &[Expr],
    fields: &[String],
    between: &str,
    within_and: bool,
) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { between })?;
        print(f, part, fields, within_and)?;
    }
    Ok(())
}

fn name(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    if is_plain_name(name) { f.write_str(name) } else { quote(f, name, '`') }
}

fn quote(f: &mut Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote || c == '\\' => write!(f, "\\{c}")?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}
