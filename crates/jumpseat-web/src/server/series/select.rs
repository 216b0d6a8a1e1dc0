//! Which series a selector means.
//!
//! **Cost:** each condition looks at each name, label or instance once, whatever number of series has it.

use hashbrown::HashMap;
use pcp_derive::Pattern;
use pcp_model::InDom;
use regex::Regex;

use super::index::Index;
use super::language::{Condition, Join, Key, Metric, Op, QueryError, Selector, Value};
use crate::server::pattern;

/// The numbers of the series that a selector means, and the name that the first of them has; by identifier. Derived metrics are
/// none of them.
///
/// # Errors
/// A pattern that is none.
pub(super) fn series_of(index: &Index, selector: &Selector) -> Result<Vec<u32>, QueryError> {
    let mut conditions = Vec::with_capacity(selector.conditions.len());
    for (join, condition) in &selector.conditions {
        conditions.push((*join, Test::new(condition)?));
    }
    let mut rows: Vec<u32> = match &selector.metric {
        None => index.all_series().collect(),
        Some(Metric::Name(name)) => index.series_named(name).collect(),
        Some(Metric::Glob(glob)) => {
            let glob = glob_of(glob)?;
            index.metric_names().filter(|(name, _)| glob.is_match(name)).flat_map(|(_, rows)| rows).collect()
        }
        Some(Metric::Derived(_)) => Vec::new(),
    };
    if !conditions.is_empty() {
        rows.retain(|&row| {
            let mut holds = true;
            for (number, (join, test)) in conditions.iter_mut().enumerate() {
                let decided = match join {
                    Join::And => !holds,
                    Join::Or => number > 0 && holds,
                };
                if !decided {
                    holds = test.holds(index, row);
                }
            }
            holds
        });
    }
    rows.sort_unstable_by_key(|&row| index.series(row).id);
    Ok(rows)
}

/// Whether conditions hold for something that has these labels and names; those about instances do.
///
/// # Errors
/// A pattern that is none.
pub(super) fn is_selected(
    conditions: &[(Join, Condition)],
    metric: &str,
    labels: &[(Box<str>, Box<str>)],
    sources: &[String],
) -> Result<bool, QueryError> {
    let mut holds = true;
    for (number, (join, condition)) in conditions.iter().enumerate() {
        let test = Test::new(condition)?;
        let is = match &condition.key {
            Key::MetricName => test.matches(metric, false),
            Key::SourceName => sources.iter().any(|name| test.matches(name, false)),
            Key::InstanceName => true,
            Key::Label(key) => {
                labels.iter().any(|(name, value)| **name == **key && test.matches(value, true))
            }
        };
        holds = match join {
            Join::And => holds && is,
            Join::Or => number > 0 && holds || is,
        };
    }
    Ok(holds)
}

/// A condition, ready to be applied, and what came of it so far.
struct Test<'a> {
    key: &'a Key,
    op: Op,
    text: &'a str,
    is_bare: bool,
    pattern: Option<Texts>,
    number: Option<f64>,
    /// By number of a name, a row of labels, or a source.
    known: HashMap<u32, bool>,
    /// By source and instance domain.
    known_of_indom: HashMap<(u32, InDom), bool>,
}

/// Which texts are meant.
enum Texts {
    Glob(Regex),
    Extended(Pattern),
}

impl Texts {
    fn is_match(&self, text: &str) -> bool {
        match self {
            Texts::Glob(glob) => glob.is_match(text),
            Texts::Extended(pattern) => pattern.is_match(text),
        }
    }
}

impl<'a> Test<'a> {
    fn new(condition: &'a Condition) -> Result<Test<'a>, QueryError> {
        let (text, is_bare) = match &condition.value {
            Value::Text(text) => (text.as_str(), false),
            Value::Bare(text) => (text.as_str(), true),
        };
        let pattern = match condition.op {
            Op::Like => Some(Texts::Glob(glob_of(text)?)),
            Op::Match | Op::NoMatch => Some(Texts::Extended(
                Pattern::new(text)
                    .map_err(|_| QueryError(format!("invalid regular expression \"{text}\"")))?,
            )),
            _ => None,
        };
        Ok(Test {
            key: &condition.key,
            op: condition.op,
            text,
            is_bare,
            pattern,
            number: text.parse().ok(),
            known: HashMap::default(),
            known_of_indom: HashMap::new(),
        })
    }

    fn holds(&mut self, index: &Index, row: u32) -> bool {
        let series = index.series(row);
        match self.key {
            Key::MetricName => {
                self.remember(series.name, |test| test.matches(index.name(series.name), false))
            }
            Key::SourceName => self.remember(series.source, |test| {
                let names = index.source_names(index.source_at(series.source));
                names.iter().any(|name| test.matches(name, false))
            }),
            Key::InstanceName => self.remember_of_indom((series.source, series.desc.indom), |test| {
                let mut instances = index.instances_of(row).into_iter();
                instances.any(|instance| {
                    let name = index.instance(instance.row).name;
                    test.remember(name, |test| test.matches(index.name(name), false))
                })
            }),
            Key::Label(key) => {
                let mut has = |labels: u32| self.remember(labels, |test| test.has_label(index, labels, key));
                let later = &index.source_at(series.source).later;
                if later.iter().any(|labels| has(*labels)) {
                    return true;
                }
                if series.desc.indom == InDom::NULL {
                    return has(series.labels);
                }
                self.remember_of_indom((series.source, series.desc.indom), |test| {
                    let mut rows = index.labels_of(row).into_iter();
                    rows.any(|labels| test.remember(labels, |test| test.has_label(index, labels, key)))
                })
            }
        }
    }

    fn remember(&mut self, number: u32, find: impl FnOnce(&mut Self) -> bool) -> bool {
        if let Some(known) = self.known.get(&number) {
            return *known;
        }
        let found = find(self);
        self.known.insert(number, found);
        found
    }

    fn remember_of_indom(&mut self, key: (u32, InDom), find: impl FnOnce(&mut Self) -> bool) -> bool {
        if let Some(known) = self.known_of_indom.get(&key) {
            return *known;
        }
        let found = find(self);
        self.known_of_indom.insert(key, found);
        found
    }

    fn has_label(&self, index: &Index, labels: u32, key: &str) -> bool {
        let mut pairs = index.labels(labels).pairs.iter();
        pairs.any(|(name, value)| **name == *key && self.matches(value, true))
    }

    /// Whether a name, or the JSON text of a label, is what is asked for.
    fn matches(&self, value: &str, is_json: bool) -> bool {
        let quoted =
            if is_json { value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) } else { None };
        let bare = quoted.unwrap_or(value);
        let is_equal = || match is_json {
            // A name is never equal to a string, nor a string to a number.
            true if self.is_bare => value == self.text,
            true => quoted == Some(self.text),
            false => value == self.text,
        };
        let is_like = || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(bare));
        let compare = || bare.parse::<f64>().ok().zip(self.number);
        match self.op {
            Op::Equal => is_equal(),
            Op::NotEqual => !is_equal(),
            Op::Like | Op::Match => is_like(),
            Op::NoMatch => !is_like(),
            Op::Less => compare().is_some_and(|(one, other)| one < other),
            Op::LessOrEqual => compare().is_some_and(|(one, other)| one <= other),
            Op::Greater => compare().is_some_and(|(one, other)| one > other),
            Op::GreaterOrEqual => compare().is_some_and(|(one, other)| one >= other),
        }
    }
}

fn glob_of(text: &str) -> Result<Regex, QueryError> {
    pattern::glob(text).map_err(|_| QueryError(format!("invalid pattern \"{text}\"")))
}
