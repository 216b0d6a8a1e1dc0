//! Several groups, mostly of several hosts, fetched together by one thread.

use std::time::{Duration, Instant};

use super::fetch_group::FetchGroup;
use crate::error::ClientError;
use crate::waiting::wait;
use pcp_pdu::StateChange;

/// Groups that are fetched together. All requests go out at once, and answers are taken in the order they come.
///
/// A host that does not answer delays the others once, by the patience of a fetch: from then on its answer is taken
/// when it comes, but not waited for. A group that has lost its connection is connected again while others are
/// waited for, as often as its context lets it ([`Context::reconnect`](crate::Context::reconnect)).
#[derive(Default)]
pub struct GroupSet {
    members: Vec<Member>,
}

struct Member {
    group: FetchGroup,
    state: State,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Ready for a fetch.
    Idle,
    /// Waits for the answer to one, which was asked for in this round or in one before.
    Fetching {
        this_round: bool,
    },
    /// Has lost its connection.
    Lost,
    Reconnecting,
}

/// What has become of a group in a round.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It has not been fetched yet.
    New,
    /// Its outputs are filled with new values.
    Fetched(StateChange),
    /// The answer has not come yet; outputs are as before.
    Late,
    /// The fetch failed, and outputs are as after any that does. After the loss of a connection this stays until
    /// there is a new one.
    Failed(ClientError),
}

impl GroupSet {
    /// A set without groups.
    pub fn new() -> GroupSet {
        GroupSet::default()
    }

    /// Adds a group; returns its place.
    pub fn push(&mut self, group: FetchGroup) -> usize {
        self.members.push(Member { group, state: State::Idle, outcome: Outcome::New });
        self.members.len() - 1
    }

    /// How many groups.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A group, to read from.
    pub fn group(&self, at: usize) -> Option<&FetchGroup> {
        self.members.get(at).map(|member| &member.group)
    }

    /// A group, to register with. Registrations wait for a fetch under way: do not make them of a group that is late.
    pub fn group_mut(&mut self, at: usize) -> Option<&mut FetchGroup> {
        self.members.get_mut(at).map(|member| &mut member.group)
    }

    /// What has become of a group in the last [`GroupSet::fetch`].
    pub fn outcome(&self, at: usize) -> Option<&Outcome> {
        self.members.get(at).map(|member| &member.outcome)
    }

    /// Fetches all groups; waits for the answers, but no longer than `patience`. See [`GroupSet::outcome`] for what
    /// each has brought.
    ///
    /// # Errors
    /// Only those of poll(2).
    pub fn fetch(&mut self, patience: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now().checked_add(patience);
        self.members.iter_mut().for_each(Member::start);
        loop {
            self.members.iter_mut().for_each(Member::advance);
            if deadline.is_some_and(|deadline| Instant::now() >= deadline)
                || !self.members.iter().any(Member::is_awaited)
            {
                return Ok(());
            }
            let running = || self.members.iter().filter(|member| member.is_running());
            let waits = running().filter_map(|member| member.group.waiting());
            let until = waits.clone().filter_map(|waiting| waiting.deadline).chain(deadline).min();
            // One that waits for nothing can go on at once: then so does the round.
            if waits.clone().count() == running().count() {
                wait(waits, until)?;
            }
        }
    }
}

impl Member {
    fn is_running(&self) -> bool {
        matches!(self.state, State::Fetching { .. } | State::Reconnecting)
    }

    fn is_awaited(&self) -> bool {
        self.state == State::Fetching { this_round: true }
    }

    /// Begins a round.
    fn start(&mut self) {
        if self.state == State::Idle && !self.group.context.is_connected() {
            self.state = State::Lost;
        }
        match self.state {
            State::Idle => self.ask(true),
            State::Fetching { .. } => self.state = State::Fetching { this_round: false },
            State::Lost => match self.group.start_reconnect() {
                Ok(()) => self.state = State::Reconnecting,
                // Why the last attempt failed says more.
                Err(ClientError::TooSoon(_)) => {}
                Err(error) => self.outcome = Outcome::Failed(error),
            },
            State::Reconnecting => {}
        }
    }

    fn ask(&mut self, this_round: bool) {
        match self.group.start_fetch() {
            Ok(()) => {
                self.state = State::Fetching { this_round };
                self.outcome = Outcome::Late;
            }
            Err(error) => self.fail(error),
        }
    }

    fn advance(&mut self) {
        while self.is_running() {
            match (self.group.advance(), self.state) {
                (Ok(false), _) => return,
                (Ok(true), State::Reconnecting) => self.ask(false),
                (Ok(true), _) => {
                    self.state = State::Idle;
                    self.outcome = Outcome::Fetched(self.group.before.changes);
                }
                (Err(error), _) => self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: ClientError) {
        // The error does not tell: a refusal may have ended the connection, and another error may have come from
        // before anything was sent.
        self.state = if self.group.context.is_connected() { State::Idle } else { State::Lost };
        self.outcome = Outcome::Failed(error);
    }
}
