//! How full something is that has a limit.

/// Tells when something with a limit is four fifths full, and when it is full: once each, and again only after it was less than
/// half full in between.
#[derive(Debug, Default)]
pub struct Fill {
    told: Option<Level>,
}

/// How full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Four fifths of it are used.
    High,
    /// There is no room.
    Full,
}

impl Fill {
    /// What is to be told, if anything is, when so much of `limit` is used. `refused`: somebody was just turned away.
    pub fn news(&mut self, used: usize, limit: usize, refused: bool) -> Option<Level> {
        let level = if refused || used >= limit {
            Some(Level::Full)
        } else if used >= limit - limit / 5 {
            Some(Level::High)
        } else {
            None
        };
        match level {
            Some(level) if self.told < Some(level) => {
                self.told = Some(level);
                Some(level)
            }
            _ => {
                if used < limit / 2 && !refused {
                    self.told = None;
                }
                None
            }
        }
    }
}

impl Level {
    /// Words for messages.
    pub fn words(self) -> &'static str {
        match self {
            Level::High => "four fifths full",
            Level::Full => "full",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_told_once_until_it_was_half_empty() {
        let mut fill = Fill::default();
        let mut told = Vec::new();
        for used in [10, 79, 80, 81, 99, 100, 100, 70, 100, 49, 80, 100] {
            told.extend(fill.news(used, 100, false).map(|level| (used, level)));
        }
        let expected = [(80, Level::High), (100, Level::Full), (80, Level::High), (100, Level::Full)];
        assert_eq!(told, expected);
        // One large thing may find no room though there is some.
        assert_eq!(Fill::default().news(60, 100, true), Some(Level::Full));
    }
}
