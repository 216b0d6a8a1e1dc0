//! Which lines belong to the record of the lines before them, and how much one may have.
//!
//! **Bounds:** each line is judged once, in time linear in it; a record has at most so many lines and bytes.

use std::time::Duration;

use regex::bytes::Regex;

use super::pattern::compile;
use super::stack::{self, State};
use crate::follow::multiline::{Multiline, Stack};

/// How the lines of a table become records of several lines.
#[derive(Debug)]
pub struct Join {
    rule: Rule,
    /// Most lines of a record.
    pub(crate) max_lines: u32,
    /// Most bytes of a record, newlines included.
    pub(crate) max_bytes: usize,
    /// How long a record waits for a further line.
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
enum Rule {
    /// What begins a record.
    Start(Box<Regex>),
    /// What goes on with a stack trace.
    Stack(Stack),
}

impl Join {
    /// What a table says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(config: &Multiline) -> Result<Join, String> {
        let rule = match (&config.start, config.preset) {
            (Some(start), None) => {
                Rule::Start(Box::new(compile(start).map_err(|why| format!("start: {why}"))?))
            }
            (None, Some(preset)) => Rule::Stack(preset),
            (None, None) => {
                return Err(
                    "needs a preset, or start: a regular expression for first lines of records".into()
                );
            }
            (Some(_), Some(_)) => return Err("has both a preset and start: one of them says it".into()),
        };
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Join { rule, max_lines: config.max_lines, max_bytes: config.max_bytes, timeout })
    }

    /// What is known of a record after its first line.
    pub(super) fn begin(&self, line: &[u8]) -> State {
        match &self.rule {
            Rule::Start(_) => State::default(),
            Rule::Stack(stack) => stack::begin(*stack, line),
        }
    }

    /// Whether a line belongs to a record of which this is known, and what is known of it then.
    pub(super) fn goes_on(&self, state: State, line: &[u8]) -> Option<State> {
        match &self.rule {
            Rule::Start(regex) => (!regex.is_match(line)).then_some(state),
            // Between the parts of a trace; at a record's end they are left out.
            Rule::Stack(_) if line.trim_ascii().is_empty() => Some(state),
            Rule::Stack(stack) => stack::goes_on(*stack, state, line),
        }
    }
}
