//! What clients have computed so far, and who holds how much memory by it.
//!
//! **Bounded:** all histories together by the configuration, those of one user by half of that: somebody with hundreds of
//! contexts cannot keep derived metrics from everybody else. Those whom nobody knows are one user. A history that is there is
//! never cut short, as that would give wrong rates; it is the next client of that user that has to wait.
//!
//! **Cost:** a session's memory is counted when a new client comes, if it has computed anything since it was counted last.

use rustc_hash::FxHashMap;

use pcp_model::PmError;
use pcp_net::Fill;
use pcp_pmda::{Call, ClientId};

use super::session::Session;
use crate::state::streams::user_name;

/// The sessions of all clients.
#[derive(Default)]
pub(super) struct Sessions {
    by_client: FxHashMap<ClientId, Box<Session>>,
    /// Those that have computed something since they were counted.
    uncounted: Vec<ClientId>,
    total: usize,
    by_user: FxHashMap<Option<u32>, usize>,
    /// Clients that were told to come again.
    refused: u64,
    fill: Fill,
}

impl Sessions {
    /// A client's session, or a new one; it has to be [given back](Sessions::put).
    ///
    /// # Errors
    /// `PM_ERR_AGAIN`: there is no memory for another one, or not for this user.
    pub(super) fn take(&mut self, call: &Call<'_>, budget: u64) -> Result<Box<Session>, PmError> {
        if let Some(session) = self.by_client.remove(&call.client) {
            return Ok(session);
        }
        self.count();
        let user = call.attributes.uid;
        let of_user = self.by_user.get(&user).copied().unwrap_or_default();
        let refused = self.total as u64 >= budget || of_user as u64 >= budget / 2;
        if let Some(level) =
            self.fill.news(self.total, usize::try_from(budget).unwrap_or(usize::MAX), refused)
        {
            let most = self.by_user.iter().max_by_key(|(_, bytes)| **bytes);
            let (who, bytes) = most.map_or((user, 0), |(user, bytes)| (*user, *bytes));
            tracing::warn!(
                "memory for histories of derived metrics: {} ({budget} bytes for all clients); {bytes} are of {}",
                level.words(),
                user_name(who)
            );
        }
        if refused {
            self.refused += 1;
            return Err(PmError::AGAIN);
        }
        Ok(Box::new(Session::of(user)))
    }

    /// Takes a session back, with what was computed.
    pub(super) fn put(&mut self, client: ClientId, mut session: Box<Session>) {
        if session.counted.is_some() {
            self.discount(&mut session);
        }
        // Until somebody wants to know, once for all that it has computed until then.
        if !std::mem::replace(&mut session.due, true) {
            self.uncounted.push(client);
        }
        self.by_client.insert(client, session);
    }

    /// A client is gone; what it had.
    pub(super) fn remove(&mut self, client: ClientId) -> Option<Box<Session>> {
        let mut session = self.by_client.remove(&client)?;
        self.discount(&mut session);
        Some(session)
    }

    /// Forgets all bindings and histories.
    pub(super) fn forget(&mut self) {
        self.by_client.values_mut().for_each(|session| session.forget());
        self.uncounted = self.by_client.keys().copied().collect();
        (self.total, self.by_user) = Default::default();
        for session in self.by_client.values_mut() {
            (session.due, session.counted) = (true, None);
        }
    }

    /// Memory of all of them, in bytes.
    pub(super) fn bytes(&mut self) -> usize {
        self.count();
        self.total
    }

    /// Clients that were told to come again.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    fn count(&mut self) {
        for client in std::mem::take(&mut self.uncounted) {
            let Some(session) = self.by_client.get_mut(&client) else { continue };
            let bytes = session.bytes();
            (session.due, session.counted) = (false, Some(bytes));
            self.total += bytes;
            *self.by_user.entry(session.user).or_default() += bytes;
        }
    }

    fn discount(&mut self, session: &mut Session) {
        let Some(bytes) = session.counted.take() else { return };
        self.total -= bytes;
        if let Some(of_user) = self.by_user.get_mut(&session.user) {
            *of_user -= bytes;
            if *of_user == 0 {
                self.by_user.remove(&session.user);
            }
        }
    }
}
