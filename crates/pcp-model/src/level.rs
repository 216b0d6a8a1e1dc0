//! Which PCP release is followed where releases differ.

use std::fmt;
use std::str::FromStr;

/// A PCP release whose behaviour, output and messages are followed, where releases differ. A program chooses one, and hands it down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// PCP 6.0.3 (Debian 12).
    V603,
    /// PCP 6.3.8 (Debian 13).
    V638,
    /// PCP 7.2.1.
    #[default]
    V721,
}

impl Level {
    /// All of them, from the oldest to the newest.
    pub const ALL: [Level; 3] = [Level::V603, Level::V638, Level::V721];

    /// The number of the release.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::V603 => "6.0.3",
            Level::V638 => "6.3.8",
            Level::V721 => "7.2.1",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        Level::ALL.into_iter().find(|level| level.as_str() == text).ok_or(UnknownLevel)
    }
}

/// A text that is not one of the known PCP releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a known release of PCP (6.0.3, 6.3.8 or 7.2.1)")]
pub struct UnknownLevel;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_they_are_written() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!("6.3".parse::<Level>(), Err(UnknownLevel));
        assert_eq!(Some(&Level::default()), Level::ALL.last(), "the newest");
    }
}
