//! Which instances are meant, or which names: `iname` or `instance`, with `match` as `exact`, `glob` or `regex`.
//!
//! **Cost:** patterns take linear time, a glob that of its length times the name's; [`MAX_ITEMS`] of them.

use std::collections::HashSet;

use pcp_derive::Pattern;
use pcp_model::{Inst, Instance};

use super::call::items;
use crate::server::answer::Refusal;
use crate::server::query::Query;

/// Most names, patterns or numbers of a list.
const MAX_ITEMS: usize = 4096;
/// Most of them that are patterns, and the longest.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN: usize = 1024;

/// Names, as texts or patterns.
#[derive(Clone, Debug)]
pub(super) enum Names {
    Exact(HashSet<String>),
    Glob(Vec<Vec<char>>),
    Regex(Vec<Pattern>),
}

/// Instances that are meant.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    All,
    Names(Names),
    Numbers(HashSet<Inst>),
}

impl Names {
    /// Reads a list, with the kind of match that the parameters say.
    ///
    /// # Errors
    /// A kind that is none, a pattern that is none, too many.
    pub(super) fn read(list: &str, query: &Query) -> Result<Names, Refusal> {
        let count = items(list).count();
        let kind = kind(query, "exact")?;
        Names::of(list, kind, count)
    }

    /// As [`Names::read`], but patterns are globs if nothing is said.
    pub(super) fn globs(list: &str, query: &Query) -> Result<Names, Refusal> {
        Names::of(list, kind(query, "glob")?, items(list).count())
    }

    fn of(list: &str, kind: &str, count: usize) -> Result<Names, Refusal> {
        let most = if kind == "exact" { MAX_ITEMS } else { MAX_PATTERNS };
        if count > most {
            return Err(Refusal::bad(format!("more than {most} names or patterns")));
        }
        if kind != "exact" && items(list).any(|item| item.len() > MAX_PATTERN) {
            return Err(Refusal::bad(format!("a pattern of more than {MAX_PATTERN} bytes")));
        }
        match kind {
            "glob" => Ok(Names::Glob(items(list).map(|item| item.chars().collect()).collect())),
            "regex" => {
                let pattern =
                    |item| Pattern::new(item).map_err(|error| Refusal::bad(format!("{item} - {error}")));
                Ok(Names::Regex(items(list).map(pattern).collect::<Result<_, _>>()?))
            }
            _ => Ok(Names::Exact(items(list).map(str::to_owned).collect())),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Names::Exact(names) => names.contains(name),
            Names::Glob(patterns) => {
                let name: Vec<char> = name.chars().collect();
                patterns.iter().any(|pattern| glob(pattern, &name))
            }
            Names::Regex(patterns) => patterns.iter().any(|pattern| pattern.is_match(name)),
        }
    }
}

impl Choice {
    /// # Errors
    /// As [`Names::read`]; a number that is none.
    pub(super) fn read(query: &Query) -> Result<Choice, Refusal> {
        kind(query, "exact")?;
        if let Some(list) = query.get("iname") {
            return Names::read(list, query).map(Choice::Names);
        }
        let Some(list) = query.get("instance") else { return Ok(Choice::All) };
        if items(list).count() > MAX_ITEMS {
            return Err(Refusal::bad(format!("more than {MAX_ITEMS} instances")));
        }
        let number = |item: &str| {
            // As they are printed, or as C has them.
            let number = item.parse::<u32>().map(u32::cast_signed).or_else(|_| item.parse::<Inst>());
            number.map_err(|_| Refusal::bad(format!("{item} - invalid 'instance' parameter value")))
        };
        Ok(Choice::Numbers(items(list).map(number).collect::<Result<_, _>>()?))
    }

    pub(super) fn has(&self, instance: &Instance) -> bool {
        match self {
            Choice::All => true,
            Choice::Names(names) => names.has(&instance.name),
            Choice::Numbers(numbers) => numbers.contains(&instance.id),
        }
    }
}

fn kind<'a>(query: &'a Query, default: &'a str) -> Result<&'a str, Refusal> {
    match query.get("match") {
        None => Ok(default),
        Some(kind @ ("exact" | "glob" | "regex")) => Ok(kind),
        Some(kind) => Err(Refusal::bad(format!("{kind} - invalid 'match' parameter value"))),
    }
}

/// Whether a name is of a pattern, as `fnmatch(3)` without flags says.
fn glob(pattern: &[char], name: &[char]) -> bool {
    // Where to go on if what follows the last star does not fit.
    let mut retry = None;
    let (mut at, mut seen) = (0, 0);
    loop {
        if pattern.get(at) == Some(&'*') {
            retry = Some((at + 1, seen));
            at += 1;
            continue;
        }
        let fits = match (pattern.get(at), name.get(seen)) {
            (None, None) => return true,
            (Some(_), Some(&c)) => one(&pattern[at..], c),
            _ => None,
        };
        match (fits, retry) {
            (Some(len), _) => (at, seen) = (at + len, seen + 1),
            (None, Some((behind, from))) if from < name.len() => {
                retry = Some((behind, from + 1));
                (at, seen) = (behind, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How much of a pattern, which is not at its end, stands for a character, if it does.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern[0] {
        '?' => Some(1),
        '\\' => match pattern.get(1) {
            Some(&literal) => (literal == c).then_some(2),
            None => None,
        },
        '[' => match bracket(pattern, c) {
            Some((len, is_in)) => is_in.then_some(len),
            // Without its end it is itself.
            None => (c == '[').then_some(1),
        },
        literal => (literal == c).then_some(1),
    }
}

/// The length of a set in brackets, and whether a character is in it.
fn bracket(pattern: &[char], c: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    let (mut at, mut is_in) = (first, false);
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((at + 1, is_in != negated));
        }
        let (low, next) = if low == '\\' { (*pattern.get(at + 1)?, at + 2) } else { (low, at + 1) };
        match (pattern.get(next), pattern.get(next + 1)) {
            (Some('-'), Some(&high)) if high != ']' => {
                is_in |= (low..=high).contains(&c);
                at = next + 2;
            }
            _ => {
                is_in |= low == c;
                at = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_those_of_fnmatch() {
        let check = |pattern: &str, name: &str, is: bool| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(glob(&chars(pattern), &chars(name)), is, "{pattern} {name}");
        };
        for (pattern, name, is) in [
            ("r*", "red", true),
            ("*e*", "green", true),
            ("*e*", "blau", false),
            ("bin-[13]00", "bin-300", true),
            ("bin-[!13]00", "bin-300", false),
            ("bin-[5-9]*", "bin-700", true),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a?c", "abc", true),
            ("", "", true),
            ("*", "", true),
            ("**a*b", "xaxbxb", true),
            ("a/*", "a/b", true),
            ("\\", "\\", false),
        ] {
            check(pattern, name, is);
        }
    }

    #[test]
    fn a_bad_choice_is_refused() {
        let read = |text: &str| {
            Choice::read(&Query::parse(text).expect("good")).map(|_| ()).map_err(|bad| bad.message)
        };
        assert_eq!(read("match=foo"), Err("foo - invalid 'match' parameter value".to_owned()));
        assert_eq!(read("instance=abc"), Err("abc - invalid 'instance' parameter value".to_owned()));
        assert!(read("iname=(&match=regex").is_err());
        assert!(read(&format!("match=glob&iname={}", "*,".repeat(65))).is_err());
        assert!(read("instance=4294967295,7,-1").is_ok());
    }
}
