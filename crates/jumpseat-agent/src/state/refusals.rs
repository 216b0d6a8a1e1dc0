//! Why stores were refused, by the user who stored: the protocol has a number for it, and no words.

/// Users whose last refusal is remembered; those who had theirs longest ago are forgotten first.
const MAX_USERS: usize = 64;
/// Longest text: a line, as what was stored may be part of it.
const MAX_TEXT: usize = 400;

/// The last refusal of each user.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_user: Vec<(u32, String)>,
}

impl Refusals {
    /// A store of this user's was refused.
    pub(crate) fn remember(&mut self, uid: u32, what: &str) {
        self.by_user.retain(|(known, _)| *known != uid);
        if self.by_user.len() == MAX_USERS {
            self.by_user.remove(0);
        }
        self.by_user.push((uid, what.chars().take(MAX_TEXT).collect()));
    }

    /// Of this user.
    pub(crate) fn of(&self, uid: u32) -> Option<&str> {
        self.by_user.iter().find(|(known, _)| *known == uid).map(|(_, what)| what.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_user_and_no_more_users_than_there_is_room_for() {
        let mut refusals = Refusals::default();
        for uid in 0..1000 {
            refusals.remember(uid, &"x".repeat(MAX_TEXT + 1));
        }
        refusals.remember(999, "again");
        assert_eq!((refusals.of(999), refusals.by_user.len()), (Some("again"), MAX_USERS));
        assert_eq!((refusals.of(998).map(str::len), refusals.of(1)), (Some(MAX_TEXT), None));
    }
}
