//! Where the threads that encode come together at the end of a day, before the first of them gives a file its name.
//!
//! **Invariant:** a meeting holds if every thread has come to it. If one ends before, by an error or a panic, it holds for none.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The threads of an export.
pub(super) struct Meeting {
    members: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that wait.
    arrived: usize,
    /// Meetings that have been held.
    held: u64,
    /// A thread has ended: no further one will be.
    is_off: bool,
}

/// A thread among them, as long as it runs.
pub(super) struct Member(Arc<Meeting>);

impl Meeting {
    /// Of so many threads.
    pub(super) fn of(members: usize) -> Arc<Meeting> {
        Arc::new(Meeting { members, state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    pub(super) fn new(meeting: &Arc<Meeting>) -> Member {
        Member(Arc::clone(meeting))
    }

    /// Waits for all others. `false`: one of them will never come.
    pub(super) fn meet(&self) -> bool {
        let Member(meeting) = self;
        let mut state = meeting.state();
        state.arrived += 1;
        if state.arrived == meeting.members {
            state.arrived = 0;
            state.held += 1;
            meeting.changed.notify_all();
            return true;
        }
        let before = state.held;
        let waits = |state: &mut State| state.held == before && !state.is_off;
        let state = meeting.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        // It was held even if another thread has ended by now.
        state.held != before
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.state().is_off = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meeting_is_held_by_all_or_by_none() {
        let meeting = Meeting::of(3);
        let come = |times: usize| {
            let member = Member::new(&meeting);
            std::thread::spawn(move || (0..times).filter(|_| member.meet()).count())
        };
        let threads = [come(3), come(2), come(3)];
        let held = threads.map(|thread| thread.join().expect("no panic"));
        assert_eq!(held, [2, 2, 2], "the one that has left is missing in the third");
    }
}
