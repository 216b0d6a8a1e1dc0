//! Which instances are meant, or which names: `iname` or `instance`, with `match` as `exact`, `glob` or `regex`.
//!
//! **Cost:** patterns take linear time; [`MAX_ITEMS`] of them.

use std::collections::HashSet;

use pcp_derive::Pattern;
use pcp_model::{Inst, Instance};
use regex::Regex;

use super::call::items;
use crate::server::answer::Refusal;
use crate::server::pattern;
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
    Glob(Vec<Regex>),
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
            "glob" => {
                let glob = |item| {
                    pattern::glob(item).map_err(|_| Refusal::bad(format!("{item} - too large a pattern")))
                };
                Ok(Names::Glob(items(list).map(glob).collect::<Result<_, _>>()?))
            }
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
            Names::Glob(globs) => globs.iter().any(|glob| glob.is_match(name)),
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

#[cfg(test)]
mod tests {
    use super::*;

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
