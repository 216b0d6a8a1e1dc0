//! [`Work`]: what may still be done before others have their turn.

/// Work that may still be done, in steps: a step is the look of one test at one parameter, or the look of one regular
/// expression at one byte; a nanosecond or two.
///
/// Charged before it is done, and for the worst case, so that the limit holds whatever a filter says and whatever the
/// records hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work(u64);

impl Work {
    /// As much as anybody wants: for owners who wait for nobody.
    pub const UNLIMITED: Work = Work(u64::MAX);

    /// So many steps.
    pub const fn new(steps: u64) -> Work {
        Work(steps)
    }

    /// Takes so many steps, unless there are fewer.
    #[inline]
    #[must_use]
    pub fn take(&mut self, steps: u64) -> bool {
        match self.0.checked_sub(steps) {
            Some(rest) => {
                // Without a limit it never ends.
                self.0 = if self.0 == u64::MAX { u64::MAX } else { rest };
                true
            }
            None => false,
        }
    }

    /// The steps that are left.
    pub const fn steps(self) -> u64 {
        self.0
    }
}
