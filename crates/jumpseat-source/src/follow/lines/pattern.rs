//! Lines by a regular expression whose named groups are the parts of the event.

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::assign::Assign;
use crate::delivery::Reason;
use crate::event::{Event, Refusal, Text};

/// Largest compiled expression, in bytes; searching takes about as much again.
const MAX_COMPILED: usize = 2 << 20;

/// A regular expression and its named groups. Searching takes time linear in the line, whatever the expression.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    locations: CaptureLocations,
    /// Number and name of each named group. The names are put into each event's arena.
    groups: Vec<(usize, Box<str>)>,
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, on one line.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let regex = compile(pattern)?;
        let names = regex.capture_names().enumerate();
        let groups: Vec<_> = names.filter_map(|(at, name)| Some((at, name?.into()))).collect();
        if groups.is_empty() {
            return Err("there is no named group: write (?<name>...) around what is to be a field".into());
        }
        Ok(Pattern { locations: regex.capture_locations(), regex, groups })
    }

    /// Fills the event with the groups that took part in the match.
    ///
    /// # Errors
    /// The line does not match, or a group holds what it must not.
    pub fn parse(&mut self, assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
        let Pattern { regex, locations, groups } = self;
        if regex.captures_read(locations, assign.line).is_none() {
            return Err(Refusal::at(0, Reason::Unmatched, "a line that the pattern does not match"));
        }
        for (group, name) in groups {
            let Some((start, end)) = locations.get(*group) else { continue };
            let begin = event.arena.len();
            event.arena.extend_from_slice(name.as_bytes());
            let name = Text::of_arena(begin, event.arena.len());
            assign.member(event, name, Text::of_input(start, end), start, true)?;
        }
        Ok(())
    }
}

/// Compiles an expression whose size is bounded.
///
/// # Errors
/// What is wrong with it, on one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build().map_err(|error| {
        // The parser's messages show the place on lines of their own.
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim();
        format!("{pattern}: {}", last.strip_prefix("error: ").unwrap_or(last))
    })
}
