//! Lines by a regular expression whose named groups are the parts of the event.
//!
//! Groups are found by a [`Walk`], if the expression is one; else, and in lines in which that finds nothing, by the expression itself.

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::assign::Assign;
use super::names::Names;
use super::walk::Walk;
use crate::delivery::Reason;
use crate::event::{Event, Refusal, Text};
use crate::meaning::Meaning;

/// Largest compiled expression, in bytes; searching takes about as much again.
const MAX_COMPILED: usize = 2 << 20;

/// A regular expression and its named groups. Searching takes time linear in the line, whatever the expression.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    locations: CaptureLocations,
    walk: Option<Walk>,
    groups: Vec<Group>,
    /// The names of all groups, which are put into each event's arena.
    names: Box<[u8]>,
}

/// A group with a name.
#[derive(Debug)]
struct Group {
    number: usize,
    /// Its name, in those of all.
    name: (usize, usize),
    meaning: Meaning,
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, on one line.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        Pattern::with_names(pattern, &Names::default())
    }

    /// The same where names mean what a table says.
    pub(super) fn with_names(pattern: &str, meanings: &Names) -> Result<Pattern, String> {
        let regex = compile(pattern)?;
        let (mut groups, mut names) = (Vec::new(), Vec::new());
        for (number, name) in regex.capture_names().enumerate() {
            let Some(name) = name else { continue };
            let begin = names.len();
            names.extend_from_slice(name.as_bytes());
            let meaning = meanings.meaning(name.as_bytes());
            groups.push(Group { number, name: (begin, names.len()), meaning });
        }
        if groups.is_empty() {
            return Err("there is no named group: write (?<name>...) around what is to be a field".into());
        }
        let (locations, walk) = (regex.capture_locations(), Walk::new(pattern));
        Ok(Pattern { regex, locations, walk, groups, names: names.into() })
    }

    /// Finds the named groups in a line, which is UTF-8, and calls `found` with the number, the name and the place of each that took
    /// part in the match. Gives whether there was one.
    ///
    /// # Errors
    /// Those of `found`, which ends it.
    fn find<E>(
        &mut self,
        line: &[u8],
        mut found: impl FnMut(&Group, (usize, usize)) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Pattern { regex, locations, walk, groups, .. } = self;
        let walked = walk.as_mut().and_then(|walk| walk.matches(line).then_some(&*walk));
        if walked.is_none() && regex.captures_read(locations, line).is_none() {
            return Ok(false);
        }
        for group in &*groups {
            let place = match walked {
                Some(walk) => walk.group(group.number),
                None => locations.get(group.number),
            };
            if let Some(place) = place {
                found(group, place)?;
            }
        }
        Ok(true)
    }

    /// Fills the event with the groups that took part in the match.
    ///
    /// # Errors
    /// The line does not match, or a group holds what it must not.
    pub(super) fn parse(&mut self, assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
        let begin = event.arena.len();
        event.arena.extend_from_slice(&self.names);
        let is_match = self.find(assign.line, |group, (start, end)| {
            let name = Text::of_arena(begin + group.name.0, begin + group.name.1);
            let value = Text::of_input(start, end);
            assign.take(group.meaning, event, name, (value, start, true))
        })?;
        match is_match {
            true => Ok(()),
            false => Err(Refusal::at(0, Reason::Unmatched, "a line that the pattern does not match")),
        }
    }

    /// The places of the named groups in a line, which is UTF-8, one behind the other; whether it matches. What a benchmark
    /// compares with other engines.
    pub fn places(&mut self, line: &[u8], places: &mut Vec<(usize, usize)>) -> bool {
        let found = self.find::<std::convert::Infallible>(line, |_, place| {
            places.push(place);
            Ok(())
        });
        matches!(found, Ok(true))
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
