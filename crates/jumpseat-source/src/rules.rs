//! The configuration's word on single sources: tables `[[source]]`, each for the sources whose names match.
//!
//! All tables that match a source's name apply, in the order of the file: a later one overrides an earlier one,
//! key by key.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::gate::{IngestFilter, MAX_ORDER_WINDOW, SampleBy, Settings};
use super::setting::InvalidKey;
use super::size::ByteSize;
use pcp_net::Who;

/// What a table `[[source]]` says. Keys that are not there leave what tables before it say, or the defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceRule {
    /// The names of the sources it is about; `*` stands for any text, `?` for any character.
    pub name: Pattern,
    /// Switched on; records of other sources are dropped.
    pub enabled: Option<bool>,
    /// Records that do not pass this filter are dropped.
    pub filter: Option<String>,
    /// Keep one of so many records.
    pub sample: Option<u32>,
    /// Which one.
    pub sample_by: Option<SampleBy>,
    /// Memory for the records; 0: no limit of its own.
    pub budget: Option<ByteSize>,
    /// How long records wait for earlier ones.
    #[serde(
        deserialize_with = "crate::interval::duration",
        serialize_with = "crate::interval::write_duration"
    )]
    pub order_window: Option<Duration>,
    /// Times further ahead of the clock than this are suspect.
    #[serde(
        deserialize_with = "crate::interval::duration",
        serialize_with = "crate::interval::write_duration"
    )]
    pub max_ahead: Option<Duration>,
    /// Times further behind the clock than this are suspect.
    #[serde(
        deserialize_with = "crate::interval::duration",
        serialize_with = "crate::interval::write_duration"
    )]
    pub max_behind: Option<Duration>,
    /// Have records with a suspect time say so.
    pub flag_clock: Option<bool>,
    /// Who may read the records: entries of [`pcp_net::Who`].
    pub readers: Option<Vec<String>>,
    /// Who may send in the name of these sources: entries of [`pcp_net::Who`], and `self` for what the configuration itself
    /// feeds, which may always.
    pub senders: Option<Vec<String>>,
}

/// The sender that the configuration's own tables are.
const SELF: &str = "self";

impl SourceRule {
    /// Checks what the form of the values does not tell. `min_budget`: the least [`SourceRule::budget`] but 0, in bytes.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self, min_budget: u64) -> Result<(), InvalidKey> {
        if self.name.0.is_empty() {
            return Err(InvalidKey::other("name", "must not be empty; \"*\" means every source"));
        }
        if let Some(Err(error)) = self.filter.as_deref().map(IngestFilter::parse) {
            return Err(InvalidKey { key: "filter", problem: error.into() });
        }
        if let Some(ByteSize(bytes)) = self.budget
            && (1..min_budget).contains(&bytes)
        {
            let words = format!("{bytes} is below {min_budget} bytes (0 means no limit of its own)");
            return Err(InvalidKey::other("budget", words));
        }
        for entry in self.readers.iter().flatten() {
            Who::default().add(entry).map_err(|error| InvalidKey::other("readers", error.to_string()))?;
        }
        for entry in self.senders.iter().flatten().filter(|entry| *entry != SELF) {
            Who::default().add(entry).map_err(|error| InvalidKey::other("senders", error.to_string()))?;
        }
        if self.order_window.is_some_and(|window| window > MAX_ORDER_WINDOW) {
            let words = format!("more than {} s", MAX_ORDER_WINDOW.as_secs());
            return Err(InvalidKey::other("order_window", words));
        }
        Ok(())
    }

    /// Puts what the table says in the place of what there is.
    pub fn apply(&self, settings: &mut Settings, budget: &mut u64) {
        let set = |value: Option<Duration>, to: &mut Duration| *to = value.unwrap_or(*to);
        set(self.order_window, &mut settings.order_window);
        set(self.max_ahead, &mut settings.max_ahead);
        set(self.max_behind, &mut settings.max_behind);
        settings.enabled = self.enabled.unwrap_or(settings.enabled);
        settings.sample = self.sample.unwrap_or(settings.sample).max(1);
        settings.sample_by = self.sample_by.unwrap_or(settings.sample_by);
        settings.flag_clock = self.flag_clock.unwrap_or(settings.flag_clock);
        *budget = self.budget.map_or(*budget, |bytes| bytes.0);
        // One that is no filter was refused by `validate`.
        if let Some(Ok(filter)) = self.filter.as_deref().map(IngestFilter::parse) {
            settings.filter = filter;
        }
    }
}

/// All tables, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Vec<SourceRule>);

impl Rules {
    /// What holds for a source, and the limit of its memory (0: none of its own).
    pub fn of(&self, source: &str) -> (Settings, u64) {
        let (mut settings, mut budget) = (Settings::default(), 0);
        for rule in self.0.iter().filter(|rule| rule.name.matches(source)) {
            rule.apply(&mut settings, &mut budget);
        }
        (settings, budget)
    }

    /// Who may read the records of a source; `None`: whoever may read anything.
    pub fn readers_of(&self, source: &str) -> Option<&[String]> {
        let rules = self.0.iter().rev().filter(|rule| rule.name.matches(source));
        rules.into_iter().find_map(|rule| rule.readers.as_deref())
    }

    /// Who may send in the name of a source, besides root and the configuration; `None`: whoever may send at all.
    pub fn senders_of(&self, source: &str) -> Option<Who> {
        let rules = self.0.iter().rev().filter(|rule| rule.name.matches(source));
        let entries = rules.into_iter().find_map(|rule| rule.senders.as_deref())?;
        let others = entries.iter().map(String::as_str).filter(|entry| *entry != SELF);
        Some(Who::of(others, |error| tracing::warn!("senders of {source}: {error}")))
    }
}

/// A name in which `*` stands for any text and `?` for any character.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Pattern(pub String);

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern("*".to_owned())
    }
}

impl Pattern {
    /// The one name that matches, if there is but one.
    pub(crate) fn plain(&self) -> Option<&str> {
        (!self.0.contains(['*', '?'])).then_some(&self.0)
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        let (mut p, mut n) = (0, 0);
        // Where the last star is, and how much of the name it stands for so far.
        let mut star = None;
        while n < name.len() {
            if pattern.get(p) == Some(&'*') {
                star = Some((p, n));
                p += 1;
            } else if pattern.get(p).is_some_and(|c| *c == '?' || *c == name[n]) {
                (p, n) = (p + 1, n + 1);
            } else if let Some((at, taken)) = star {
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (pattern, name, matches) in [
            ("*", "", true),
            ("app", "app", true),
            ("app", "apps", false),
            ("app*", "apps", true),
            ("*p*s", "apps", true),
            ("a?p", "app", true),
            ("a?p", "ap", false),
            ("*a*b", "aabab", true),
            ("*a*b", "aaba", false),
            ("ä*", "äpp", true),
        ] {
            assert_eq!(Pattern(pattern.to_owned()).matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn later_tables_override_earlier_ones_key_by_key() {
        let rule = |json: &str| serde_json::from_str::<SourceRule>(json).expect("a table");
        let rules = Rules(vec![
            rule(r#"{"sample":10,"filter":"a == 1","order_window":"2s"}"#),
            rule(r#"{"name":"db*","sample":3,"sample_by":"trace","budget":"1MiB"}"#),
            rule(r#"{"name":"db1","enabled":false,"filter":""}"#),
        ]);
        let (settings, budget) = rules.of("app");
        assert_eq!((settings.sample, settings.filter.text(), budget), (10, "a == 1", 0));
        let (settings, budget) = rules.of("db1");
        assert_eq!((settings.sample, settings.sample_by, budget), (3, SampleBy::Trace, 1 << 20));
        assert_eq!((settings.enabled, settings.filter.text()), (false, ""));
        assert_eq!(settings.order_window, Duration::from_secs(2));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        let refused = |json: &str| {
            let rule: Result<SourceRule, _> = serde_json::from_str(json);
            let checked = |rule: SourceRule| rule.validate(65_536).map_err(|invalid| invalid.to_string());
            rule.map_err(|error| error.to_string()).and_then(checked).expect_err(json)
        };
        assert!(refused(r#"{"filter":"a =="}"#).starts_with("filter: column 5: "));
        assert!(refused(r#"{"budget":5}"#).starts_with("budget: 5 is below 65536"));
        assert!(refused(r#"{"order_window":"61s"}"#).starts_with("order_window: more than 60 s"));
        assert!(refused(r#"{"order_window":"5"}"#).contains("with a unit"));
        assert!(refused(r#"{"name":""}"#).starts_with("name: "));
        assert!(refused(r#"{"sample_by":"luck"}"#).contains("luck"));
    }
}
