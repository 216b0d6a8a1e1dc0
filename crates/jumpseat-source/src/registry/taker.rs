//! Who takes names, and how many one may take: what is handed out stays while it is used, and so nobody may have it all.

use std::fmt;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

/// Who a new name is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Taker {
    /// The configuration's own sources, and root: as much as there is.
    #[default]
    Trusted,
    /// A user of this machine.
    User(u32),
    /// A host, or all of this machine where nobody knows the user.
    Host(IpAddr),
    /// What stands in followed files, and in what commands print.
    Texts,
}

impl fmt::Display for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Taker::Trusted => f.write_str("the configuration and root"),
            Taker::User(uid) => write!(f, "user {uid}"),
            Taker::Host(host) => write!(f, "host {host}"),
            Taker::Texts => f.write_str("followed files and commands"),
        }
    }
}

/// How many names each has taken since the start.
#[derive(Debug, Default)]
pub(super) struct Taken(FxHashMap<Taker, usize>);

impl Taken {
    /// Whether one more is within the share of `taker`, where `free` are left: half of what it found. Whoever comes next
    /// finds half of the rest, so that there is always something left for somebody new.
    pub(super) fn allows(&self, taker: Taker, free: usize) -> bool {
        let own = self.0.get(&taker).copied().unwrap_or(0);
        match taker {
            Taker::Trusted => free > 0,
            _ => free > 0 && own < (free + own).div_ceil(2),
        }
    }

    /// Counts one more. Gives the account that it is on.
    pub(super) fn add(&mut self, taker: Taker) -> Taker {
        // As many as there are users and hosts; beyond that the rest share one account.
        let known = self.0.len() < MAX_TAKERS || self.0.contains_key(&taker);
        let account = if known { taker } else { Taker::Texts };
        *self.0.entry(account).or_default() += 1;
        account
    }

    /// One of an account has given its place back.
    pub(super) fn give_back(&mut self, account: Taker) {
        if let Some(count) = self.0.get_mut(&account) {
            *count = count.saturating_sub(1);
        }
    }

    /// Who has taken most, and how many.
    pub(super) fn most(&self) -> Option<(Taker, usize)> {
        self.0.iter().map(|(taker, count)| (*taker, *count)).max_by_key(|(_, count)| *count)
    }
}

/// Most accounts.
const MAX_TAKERS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_come_each_finds_something() {
        let (mut taken, mut free) = (Taken::default(), 256);
        let mut counts = Vec::new();
        for uid in 0..6 {
            let mut count = 0;
            while taken.allows(Taker::User(uid), free) {
                taken.add(Taker::User(uid));
                (count, free) = (count + 1, free - 1);
            }
            counts.push(count);
        }
        assert_eq!(counts, [128, 64, 32, 16, 8, 4]);
        // Nobody gets more by coming again, and what is trusted gets the rest.
        assert!(!taken.allows(Taker::User(0), free) && taken.allows(Taker::Trusted, free));
        assert_eq!(taken.most(), Some((Taker::User(0), 128)));
        assert!(!taken.allows(Taker::Trusted, 0));
    }
}
