//! Which differences are let off. Our own answer never decides that: what libpcps with different memory contents
//! disagree about is undefined, and else a rule says what we must answer instead ([`known::ruled`]).

use std::collections::BTreeMap;

use super::generate::Batch;
use super::known::{self, Excuse, NOT_OF_64, NOVALUE_FIRST, RULE, UNDEFINED};
use super::oracle::ZERO;

/// What came of a definition.
#[derive(Default)]
pub(super) struct Verdict {
    /// Lines that differ as they may: why, how, and how many.
    pub excused: BTreeMap<(&'static str, &'static str), usize>,
    /// Those that must not, told.
    pub different: Vec<String>,
    /// Sets of values that were compared whole.
    pub same: usize,
}

/// Judges every line that the libpcps (`theirs`) and we have for each definition.
pub(super) fn judge(
    batch: &Batch,
    theirs: &[Vec<String>],
    ours: &[String],
    excuses: &[Vec<Excuse>],
) -> Vec<Verdict> {
    (0..batch.definitions.len()).map(|k| verdict(batch, k, theirs, ours, &excuses[k])).collect()
}

fn verdict(batch: &Batch, k: usize, theirs: &[Vec<String>], ours: &[String], excuses: &[Excuse]) -> Verdict {
    let theirs: Vec<Vec<&str>> = theirs.iter().map(|lines| about(k, lines)).collect();
    let ours = about(k, ours);
    let mut verdict = Verdict::default();
    let last = theirs.iter().map(Vec::len).chain([ours.len()]).max().unwrap_or(0);
    for at in 0..last {
        let theirs: Vec<&str> = theirs.iter().map(|lines| lines.get(at).copied().unwrap_or("")).collect();
        let ours = ours.get(at).copied().unwrap_or("");
        if theirs.iter().all(|line| *line == ours) {
            verdict.same += usize::from(ours.starts_with("val"));
            continue;
        }
        match let_off(batch, k, &theirs, ours, excuses) {
            Some(why) => *verdict.excused.entry(why).or_default() += 1,
            None => verdict.different.push(told(batch, k, &theirs, ours)),
        }
    }
    verdict
}

/// The lines about a definition.
fn about(k: usize, lines: &[String]) -> Vec<&str> {
    let subject = |line: &str| line.split(' ').nth(1)?.parse().ok();
    lines.iter().map(String::as_str).filter(|line| subject(line) == Some(k)).collect()
}

/// Why, and how, a line may differ.
fn let_off(
    batch: &Batch,
    k: usize,
    theirs: &[&str],
    ours: &str,
    excuses: &[Excuse],
) -> Option<(&'static str, &'static str)> {
    let sets: Vec<Set> = theirs.iter().map(|line| Set::of(line)).collect::<Option<_>>()?;
    let ours = Set::of(ours)?;
    if sets.iter().any(|set| *set != sets[0]) {
        if excuses.iter().any(|excuse| excuse.why == NOT_OF_64) && sets.get(ZERO) == Some(&ours) {
            return Some((NOT_OF_64, RULE));
        }
        let same = |excuse: &&Excuse| match excuse.why {
            NOT_OF_64 => false,
            NOVALUE_FIRST => selected_part_is_same(&sets, &ours),
            _ => defined_part_is_same(&sets, &ours),
        };
        return excuses.iter().find(same).map(|excuse| (excuse.why, UNDEFINED));
    }
    let ruled = excuses.iter().find(|excuse| known::ruled(batch, k, &sets[0], excuse).contains(&ours));
    ruled.map(|excuse| (excuse.why, RULE))
}

/// A set of values in an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Which fetch it is of.
    pub fetch: usize,
    /// The number of values, or an error.
    pub count: i32,
    pub values: Vec<(String, String)>,
}

impl Set {
    fn of(line: &str) -> Option<Set> {
        let mut words = line.strip_prefix("val ")?.split(' ');
        let (fetch, count) = (words.nth(1)?.parse().ok()?, words.nth(1)?.parse().ok()?);
        let value = |word: &str| word.split_once('=').map(|(id, value)| (id.to_owned(), value.to_owned()));
        Some(Set { fetch, count, values: words.map(value).collect::<Option<_>>()? })
    }
}

/// Whether we have all that the libpcps agree about, in its order; what they do not agree about we may leave out or
/// have anything for.
fn defined_part_is_same(theirs: &[Set], ours: &Set) -> bool {
    let first = &theirs[0];
    if theirs
        .iter()
        .any(|set| set.values.len() != first.values.len() || set.count.signum() != first.count.signum())
    {
        return true;
    }
    let agreed = |at: usize| theirs.iter().all(|set| set.values[at] == first.values[at]);
    // How many of ours can stand for the values so far: a set of numbers, as one may be left out or not.
    let mut reached = vec![0];
    for at in 0..first.values.len() {
        let mut next = Vec::new();
        for n in reached {
            if agreed(at) {
                if ours.values.get(n) == Some(&first.values[at]) {
                    next.push(n + 1);
                }
            } else {
                next.push(n);
                if n < ours.values.len() {
                    next.push(n + 1);
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        reached = next;
    }
    reached.contains(&ours.values.len())
}

/// Of a ternary with `novalue()` libpcp leaves the positions unset that this is selected for, and cuts the list by their
/// number: we have as many values, in its order those that it has, and those that it cut off.
fn selected_part_is_same(theirs: &[Set], ours: &Set) -> bool {
    let first = &theirs[0];
    if theirs.iter().any(|set| set.values.len() != first.values.len()) {
        return false;
    }
    let agreed =
        (0..first.values.len()).filter(|&at| theirs.iter().all(|set| set.values[at] == first.values[at]));
    let mut rest = ours.values.iter();
    ours.count == first.count
        && agreed.map(|at| &first.values[at]).all(|value| rest.any(|other| other == value))
}

fn told(batch: &Batch, k: usize, theirs: &[&str], ours: &str) -> String {
    let mut text = super::describe(batch, k);
    for line in theirs {
        text.push_str(&format!("\n  libpcp    {line}"));
    }
    text.push_str(&format!("\n  jumpseat  {ours}"));
    text
}
