//! The tables `[[objective]]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jumpseat_source::Interval;
use jumpseat_source::rules::Pattern;
use jumpseat_source::setting::InvalidKey;

/// Most objectives, which take about 18 KiB each.
pub const MAX_OBJECTIVES: usize = 100;
/// Range of the time over which an objective is to hold.
pub const OBJECTIVE_WINDOW: RangeInclusive<Duration> =
    Duration::from_secs(3600)..=Duration::from_secs(366 * 24 * 3600);

/// What is expected of spans: which part of them is to be good.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveConfig {
    /// Its name, which is that of its instance.
    pub name: String,
    /// The instances of spans (`SOURCE/SPAN`) it is about; `*` stands for any text, `?` for any character.
    pub spans: Pattern,
    /// A span that takes longer is not good; without it only one that failed is not.
    #[serde(default)]
    pub threshold: Option<Interval>,
    /// The part of spans that is to be good, below 1.
    pub target: f64,
    /// The time over which that is to hold.
    #[serde(default = "month")]
    pub window: Interval,
}

fn month() -> Interval {
    Interval(Duration::from_secs(30 * 24 * 3600))
}

impl ObjectiveConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidKey> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(plain) {
            let words = format!("{:?}: 1 to 64 letters, digits and any of ._-/", self.name);
            return Err(InvalidKey::other("name", words));
        }
        if self.spans.0.is_empty() {
            return Err(InvalidKey::other("spans", "must not be empty; \"*\" means all spans"));
        }
        if !(self.target > 0.0 && self.target < 1.0) {
            return Err(InvalidKey::other("target", format!("{} is not between 0 and 1", self.target)));
        }
        if !OBJECTIVE_WINDOW.contains(&self.window.0) {
            let [least, most] = [OBJECTIVE_WINDOW.start(), OBJECTIVE_WINDOW.end()].map(|end| Interval(*end));
            let words = format!("{} is not between {least} and {most}", self.window);
            return Err(InvalidKey::other("window", words));
        }
        Ok(())
    }
}

/// Checks all tables; which of them is wrong.
pub(crate) fn check_all(objectives: &[ObjectiveConfig]) -> Result<(), (usize, InvalidKey)> {
    for (nth, objective) in objectives.iter().enumerate() {
        objective.check().map_err(|invalid| (nth, invalid))?;
        if objectives[..nth].iter().any(|other| other.name == objective.name) {
            return Err((nth, InvalidKey::duplicate("name", "an objective with this name is there already")));
        }
        if nth >= MAX_OBJECTIVES {
            let words = format!("more than {MAX_OBJECTIVES} objectives");
            return Err((nth, InvalidKey::other("name", words)));
        }
    }
    Ok(())
}
