//! The configuration's word on single sources: tables `[[source]]`, each for the sources whose names match.
//!
//! All tables that match a source's name apply, in the order of the file: a later one overrides an earlier one,
//! key by key.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::gate::{IngestFilter, MAX_ORDER_WINDOW, SampleBy, Settings};
use super::size::ByteSize;

/// What a table `[[source]]` says. Keys that are not there leave what tables before it say, or the defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
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
    #[serde(deserialize_with = "span")]
    pub order_window: Option<Duration>,
    /// Times further ahead of the clock than this are suspect.
    #[serde(deserialize_with = "span")]
    pub max_ahead: Option<Duration>,
    /// Times further behind the clock than this are suspect.
    #[serde(deserialize_with = "span")]
    pub max_behind: Option<Duration>,
    /// Have records with a suspect time say so.
    pub flag_clock: Option<bool>,
}

impl SourceRule {
    /// Checks what the form of the values does not tell. The error begins with the key.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn validate(&self, min_budget: u64) -> Result<(), String> {
        if self.name.0.is_empty() {
            return Err("name: must not be empty; \"*\" means every source".to_owned());
        }
        if let Some(Err(error)) = self.filter.as_deref().map(IngestFilter::parse) {
            return Err(format!("filter: {error}"));
        }
        if let Some(bytes) = self.budget
            && bytes.0 != 0
            && bytes.0 < min_budget
        {
            return Err(format!(
                "budget: {} is below {min_budget} bytes (0 means no limit of its own)",
                bytes.0
            ));
        }
        if self.order_window.is_some_and(|window| window > MAX_ORDER_WINDOW) {
            return Err(format!("order_window: more than {} s", MAX_ORDER_WINDOW.as_secs()));
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
}

/// A name in which `*` stands for any text and `?` for any character.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pattern(pub String);

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern("*".to_owned())
    }
}

impl Pattern {
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

/// A span of time with a unit, as everywhere in the configuration.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_span(&text).map(Some).ok_or_else(|| {
        let form = "a time with a unit, such as \"500ms\", \"1s\" or \"2min\"";
        serde::de::Error::invalid_value(serde::de::Unexpected::Str(&text), &form)
    })
}

/// Reads a number with a unit: `ms`, `s`, `min`, `h`.
pub fn parse_span(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim_start() {
        "ms" => 1,
        "s" | "sec" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(unit).map(Duration::from_millis)
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
            rule.map_err(|error| error.to_string()).and_then(|rule| rule.validate(65_536)).expect_err(json)
        };
        assert!(refused(r#"{"filter":"a =="}"#).starts_with("filter: column 5: "));
        assert!(refused(r#"{"budget":5}"#).starts_with("budget: 5 is below 65536"));
        assert!(refused(r#"{"order_window":"61s"}"#).starts_with("order_window: more than 60 s"));
        assert!(refused(r#"{"order_window":"5"}"#).contains("with a unit"));
        assert!(refused(r#"{"name":""}"#).starts_with("name: "));
        assert!(refused(r#"{"sample_by":"luck"}"#).contains("luck"));
    }
}
