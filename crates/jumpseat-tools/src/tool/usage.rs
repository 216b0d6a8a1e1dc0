//! Usage texts.

use super::call::Call;
use super::table::{Opt, Row, Takes, Tool};

/// The column at which descriptions start.
const COLUMN: usize = 24;

/// The usage text, in PCP's layout.
pub(super) fn usage<O: Copy>(tool: &Tool<O>, call: &Call) -> String {
    let mut text = format!("Usage: {} [options] {}\n", call.name, tool.operands);
    for row in tool.rows(call) {
        if let Row::Heading(heading) = row {
            text.push_str(&format!("\n{heading}:\n"));
        }
        match row.option() {
            None => {}
            Some((option, _)) if option.help(call.level).is_empty() => {}
            Some((option, _)) => {
                let forms = forms(option);
                let gap = match forms.len() < COLUMN {
                    true => " ".repeat(COLUMN - forms.len()),
                    false => format!("\n{}", " ".repeat(COLUMN)),
                };
                text.push_str(&format!("{forms}{gap}{}\n", option.help(call.level)));
            }
        }
    }
    text
}

fn forms(option: &Opt) -> String {
    let argument = match option.takes {
        Takes::Argument => option.argument,
        // PCP's text does not show that the long form takes one.
        Takes::Nothing | Takes::ArgumentIfLong => "",
    };
    let (blank, equals) = if argument.is_empty() { ("", "") } else { (" ", "=") };
    match option.short {
        Some(short) => format!("  -{short}{blank}{argument}, --{}{equals}{argument}", option.long),
        None => format!("  --{}{equals}{argument}", option.long),
    }
}
