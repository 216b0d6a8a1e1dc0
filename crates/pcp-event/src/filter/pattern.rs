//! Regular expressions of filters, as automata without surprises.
//!
//! An expression is turned into a deterministic automaton when it is stored, and refused if that is too large. From then
//! on a byte of text is one look into a table, whatever the expression and whatever the text: nobody who may store a
//! filter can make one that takes its time later. Engines that put this off match faster on average and a thousand times
//! slower at worst.
//!
//! **Cost:** one to two nanoseconds for each byte of text. Making it is some ten nanoseconds for each byte of the
//! automaton.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use super::MAX_DEPTH;

/// A compiled regular expression; equal when written the same.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    automaton: dense::DFA<Vec<u32>>,
}

/// Why an expression was not taken.
pub(super) enum PatternError {
    /// Its automaton would be larger than allowed.
    TooLarge,
    /// What is wrong with it.
    Syntax(String),
}

impl Pattern {
    /// Compiles an expression into at most `room` bytes.
    pub(super) fn new(text: &str, room: usize) -> Result<Pattern, PatternError> {
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(room))
            // What is needed on the way is given back, and is a small multiple of what remains.
            .determinize_size_limit(Some(2 * room));
        // Classes are those of ASCII: the automata of Unicode's have thousands of states.
        let syntax = syntax::Config::new().unicode(false).utf8(false).nest_limit(MAX_DEPTH as u32);
        let nfa = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(room));
        match dense::Builder::new().configure(config).syntax(syntax).thompson(nfa).build(text) {
            Ok(automaton) => Ok(Pattern { text: text.to_owned(), automaton }),
            Err(_) => Err(reason(text)),
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.automaton.memory_usage() + self.text.len()
    }

    /// The expression.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches somewhere in `text`.
    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        // It gives up on no byte: it has not been told to.
        self.automaton.try_search_fwd(&Input::new(text).earliest(true)).is_ok_and(|found| found.is_some())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

/// The builder does not tell kinds of errors apart; the parser does. What it accepts can only be too large.
fn reason(text: &str) -> PatternError {
    let mut parser = regex_syntax::ParserBuilder::new();
    match parser.unicode(false).utf8(false).nest_limit(MAX_DEPTH as u32).build().parse(text) {
        Err(error) => PatternError::Syntax(last_line(&error.to_string())),
        Ok(_) => PatternError::TooLarge,
    }
}

/// The reason in messages of several lines.
fn last_line(message: &str) -> String {
    let line = message.lines().last().unwrap_or(message);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 256 * 1024;

    fn matches(pattern: &str, text: &str) -> bool {
        match Pattern::new(pattern, ROOM) {
            Ok(pattern) => pattern.is_match(text.as_bytes()),
            Err(PatternError::TooLarge) => panic!("{pattern}: too large"),
            Err(PatternError::Syntax(error)) => panic!("{pattern}: {error}"),
        }
    }

    #[test]
    fn what_people_look_for_is_found() {
        for (pattern, text) in [
            ("time.?out", "a timeout"),
            (r"^GET /api/v\d+/", "GET /api/v12/users"),
            (r"(?i)\berror\b", "an ERROR happened"),
            (r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$", "id 123e4567-e89b-12d3-a456-426614174000"),
            ("größe=[0-9]+", "die größe=12"),
            (r"(\w{1,20}\s){5}end", "one two three four five end"),
        ] {
            assert!(matches(pattern, text), "{pattern}");
            assert!(!matches(pattern, "something else"), "{pattern}");
        }
    }

    #[test]
    fn what_would_take_long_is_refused_at_once() {
        for pattern in
            ["a[ab]{1000}[^ab]", "a.{12}b.{12}c", "(a|b)*a(a|b){20}", "(((a{100}){100}){100}){100}"]
        {
            assert!(matches!(Pattern::new(pattern, ROOM), Err(PatternError::TooLarge)), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        for (pattern, expected) in [("(", "unclosed group"), (r"\p{Greek}", "Unicode not allowed here")] {
            match Pattern::new(pattern, ROOM) {
                Err(PatternError::Syntax(error)) => assert_eq!(error, expected),
                _ => panic!("{pattern}"),
            }
        }
    }
}
