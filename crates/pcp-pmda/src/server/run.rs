//! The loop itself: who gets a turn, and when.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Token};
use nix::sys::signal::Signal;

use super::clients::Gone;
use super::io::{Channel, Closed, Line, Rest};
use super::listen::Peer;
use super::logins::Logins;
use super::pmcd::{Accepted, PmcdLine};
use super::signals::Signals;
use super::{
    CLIENTS, Exit, KEEP_RESULT, LISTENERS, PMCD_INPUT, PMCD_LISTENER, PMCD_OUTPUT, SIGNALS, ServeError,
    Server, WAKE,
};
use crate::DirectConnection;
use pcp_model::PmError;

/// Connections taken in at a time before others get their turn.
const ACCEPTS: usize = 64;
/// After so long in one round clients wait for the next.
const ROUND: Duration = Duration::from_millis(30);
/// When to try again after the system could not accept a connection, for lack of descriptors most likely.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

impl<S> Server<S> {
    pub(super) fn serve(&mut self) -> Result<Exit, ServeError> {
        let mut events = Events::with_capacity(256);
        self.check_ready()?;
        loop {
            let timeout = self.timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            if let Some(exit) = self.turn(&events)? {
                return Ok(exit);
            }
        }
    }

    /// Everybody's turn: who has more to do than one turn goes first, pmcd before all others.
    fn turn(&mut self, events: &Events) -> Result<Option<Exit>, ServeError> {
        let woken = Instant::now();
        self.stats.wakeups.fetch_add(1, Ordering::Relaxed);
        if std::mem::take(&mut self.pmcd_busy)
            && let Some(exit) = self.drive_pmcd()?
        {
            return Ok(Some(exit));
        }
        for event in events {
            if let Some(exit) = self.event(event)? {
                return Ok(Some(exit));
            }
        }
        self.drive_clients(woken);
        self.run_timers()?;
        self.stats.contexts.store(self.core.clients() as u64, Ordering::Relaxed);
        let took = woken.elapsed().as_nanos() as u64;
        self.stats.busy_nanos.fetch_add(took, Ordering::Relaxed);
        self.stats.longest_round_nanos.fetch_max(took, Ordering::Relaxed);
        self.results.shrink_to(KEEP_RESULT);
        Ok(None)
    }

    /// A turn for each client that has something to do, as far as they fit into a round; the others come first in the
    /// next, so that neither pmcd nor a timer waits for a thousand of them.
    fn drive_clients(&mut self, since: Instant) {
        let mut left = std::mem::take(&mut self.busy);
        while let Some(place) = left.pop_front() {
            self.drive_client(place);
            if since.elapsed() >= ROUND {
                break;
            }
        }
        // Behind those who had no turn: they have just had one.
        left.append(&mut self.busy);
        self.busy = left;
    }

    /// Notes that a client has something to do.
    fn mark_busy(&mut self, place: usize) {
        if !self.busy.contains(&place) {
            self.busy.push_back(place);
        }
    }

    /// Does what the system has told of; `Some` if that is the end.
    fn event(&mut self, event: &Event) -> Result<Option<Exit>, ServeError> {
        match event.token() {
            WAKE => return self.woken(),
            SIGNALS => return self.take_signals(),
            PMCD_LISTENER => {
                // The pmcd before this one may have gone in the same moment: it must be known first.
                if let Some(line) = self.pmcd.as_mut().and_then(PmcdLine::line) {
                    line.look_for_end();
                    if let Some(exit) = self.drive_pmcd()? {
                        return Ok(Some(exit));
                    }
                }
                self.accept_pmcd()?;
            }
            PMCD_INPUT | PMCD_OUTPUT => {
                if let Some(line) = self.pmcd.as_mut().and_then(PmcdLine::line) {
                    line.note_readiness(event);
                }
                return self.drive_pmcd();
            }
            Token(token) if token < CLIENTS => self.accept_clients(token - LISTENERS),
            Token(token) => {
                if let Some(line) = self.clients.line(token - CLIENTS) {
                    line.note_readiness(event);
                }
                self.mark_busy(token - CLIENTS);
            }
        }
        Ok(None)
    }

    /// [`super::Handle`] was used.
    fn woken(&mut self) -> Result<Option<Exit>, ServeError> {
        // Before anything is looked at: who comes from here on wakes it again.
        self.handle.is_woken.swap(false, Ordering::AcqRel);
        if self.handle.stop.load(Ordering::Acquire) {
            return Ok(Some(Exit::Stopped));
        }
        self.take_in_insiders();
        self.take_verdicts();
        self.take_certificate();
        if let Some(hook) = &mut self.on_wake {
            hook(&mut self.core);
            self.check_ready()?;
        }
        Ok(None)
    }

    /// Somebody has set another certificate.
    fn take_certificate(&mut self) {
        let fresh = self.handle.fresh.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((certificate, required)) = fresh else { return };
        self.security.certificate = certificate;
        self.security.required = required;
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.offers(self.security.certificate.is_some(), self.security.passwords.is_some());
        }
    }

    /// How long there is nothing to do but wait.
    fn timeout(&self) -> Option<Duration> {
        if self.pmcd_busy || !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let tick = self.tick.as_ref().and_then(|tick| tick.due(&self.core.state));
        let check = self.pmcd.as_ref().and_then(PmcdLine::next_check);
        let next = [tick, check, self.clients.next_due(), self.accept_again].into_iter().flatten().min()?;
        // One more millisecond: the system's clock of waits is coarser than ours.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn run_timers(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        if let Some(tick) = &mut self.tick
            && tick.due(&self.core.state).is_some_and(|due| due <= now)
        {
            // Ticks that were missed are not made up for.
            tick.last = now;
            (tick.hook)(&mut self.core);
            self.check_ready()?;
        }
        if let Some(pmcd) = &mut self.pmcd
            && pmcd.next_check().is_some_and(|check| check <= now)
            && pmcd.check_socket()
            && let Some(listener) = pmcd.listener()
        {
            let fd = listener.fd();
            self.watch(fd, PMCD_LISTENER, Interest::READABLE)?;
        }
        if self.clients.next_due().is_some_and(|due| due <= now)
            && let Some(endpoint) = &mut self.endpoint
        {
            let late = self.clients.drop_late(&mut self.core, endpoint);
            self.stats.slow.fetch_add(late, Ordering::Relaxed);
            self.count_clients();
        }
        if self.accept_again.is_some_and(|again| again <= now) {
            self.accept_again = None;
            self.accept_pmcd()?;
            for index in 0..self.listeners.len() {
                self.accept_clients(index);
            }
        }
        Ok(())
    }

    fn take_signals(&mut self) -> Result<Option<Exit>, ServeError> {
        while let Some(signal) = self.signals.as_mut().and_then(Signals::next) {
            match signal {
                Signal::SIGHUP => {
                    if let Some(hook) = &mut self.on_reload {
                        hook(&mut self.core.state);
                    }
                    self.check_ready()?;
                }
                signal => return Ok(Some(Exit::Signal(signal as i32))),
            }
        }
        Ok(None)
    }

    fn check_ready(&mut self) -> Result<(), ServeError> {
        let Some(ready) = &self.ready else { return Ok(()) };
        let ready = ready(&self.core.state);
        if self.is_ready != Some(ready)
            && let Some(pmcd) = &mut self.pmcd
        {
            // A line that breaks here is noticed when it is driven.
            let _ = pmcd.set_ready(&mut self.core, ready);
            if let Some(line) = pmcd.line() {
                line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
            }
        }
        self.is_ready = Some(ready);
        Ok(())
    }

    fn accept_pmcd(&mut self) -> Result<(), ServeError> {
        for _ in 0..ACCEPTS {
            let Some(pmcd) = &mut self.pmcd else { return Ok(()) };
            match pmcd.accept(&mut self.core) {
                Ok(Accepted::Nobody) => return Ok(()),
                Ok(Accepted::TurnedAway) => {}
                Ok(Accepted::Pmcd) => {
                    if let Some(line) = pmcd.line() {
                        line.watch(self.poll.registry(), PMCD_INPUT)?;
                        line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
                    }
                    self.is_ready = None;
                    self.check_ready()?;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection from pmcd");
                    self.accept_again = Some(Instant::now() + ACCEPT_AGAIN);
                    return Ok(());
                }
            }
        }
        // The system tells of new connections only.
        self.accept_again = Some(Instant::now());
        Ok(())
    }

    fn drive_pmcd(&mut self) -> Result<Option<Exit>, ServeError> {
        let Some(pmcd) = &mut self.pmcd else { return Ok(None) };
        let closed = match pmcd.drive(&mut self.core, &mut self.results, &mut self.scratch, &self.stats) {
            Ok(rest) => {
                // It goes before everybody else in the next round, but not for ever: anybody on this host may
                // have connected in its place.
                self.pmcd_busy = rest == Rest::More;
                if let Some(line) = pmcd.line() {
                    line.watch_output(self.poll.registry(), PMCD_INPUT, PMCD_OUTPUT)?;
                }
                return Ok(None);
            }
            Err(closed) => closed,
        };
        let broken = match &closed {
            Closed::Eof => None,
            Closed::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => None,
            Closed::Io(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            other => Some(other.to_string()),
        };
        let listens = pmcd.lost(&mut self.core).map_err(ServeError::Pmcd)?;
        match (listens, broken) {
            (true, reason) => {
                tracing::info!(reason, "pmcd has gone: waiting for it to connect again");
                Ok(None)
            }
            (false, None) => Ok(Some(Exit::PmcdGone)),
            (false, Some(reason)) => Err(ServeError::PmcdBroken(reason)),
        }
    }

    fn accept_clients(&mut self, index: usize) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(index) else { return };
            match listener.accept() {
                Ok(None) => return,
                Ok(Some(peer)) => self.add_client(peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a client");
                    self.accept_again = Some(Instant::now() + ACCEPT_AGAIN);
                    return;
                }
            }
        }
        // The system tells of new connections only.
        self.accept_again = Some(Instant::now());
    }

    /// Takes in the clients that have come from within this program.
    fn take_in_insiders(&mut self) {
        while let Ok(socket) = self.inside.try_recv() {
            match self.open_endpoint(true) {
                Ok(()) => self.add_client(Peer::inside(socket)),
                Err(error) => tracing::error!(%error, "cannot serve clients in this program"),
            }
        }
    }

    /// Goes on with clients whose passwords have been looked at.
    fn take_verdicts(&mut self) {
        while let Some(verdict) = self.logins.as_ref().and_then(Logins::next_verdict) {
            let place = verdict.place;
            if let Some(logins) = &mut self.logins
                && self.clients.conclude(verdict, &mut self.core, logins, &self.stats)
            {
                self.mark_busy(place);
            }
        }
    }

    fn add_client(&mut self, peer: Peer) {
        let Some(endpoint) = &mut self.endpoint else { return };
        let may_log_in = self.security.offer(&peer.attributes).may_log_in();
        if !may_log_in && !self.core.admits(&peer.attributes) {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("{} turned away: it may neither fetch nor store", peer.attributes.identity());
            return refuse(peer, PmError::PERMISSION);
        }
        let is_full = self.clients.len() >= self.clients.limits.clients;
        if is_full && self.clients.make_room(&peer.attributes, &mut self.core, endpoint) {
            self.stats.idle.fetch_add(1, Ordering::Relaxed);
        } else if is_full {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(client = peer.address, "turned away: too many clients");
            return refuse(peer, PmError::CONNLIMIT);
        }
        let start = crate::time::ctime(std::time::SystemTime::now());
        // Otherwise it has gone already.
        let Ok(place) = self.clients.add(peer, &mut self.core, endpoint, &self.security, &start) else {
            return;
        };
        self.stats.accepted.fetch_add(1, Ordering::Relaxed);
        let token = Token(CLIENTS + place);
        match self.clients.line(place).map(|line| line.watch(self.poll.registry(), token)) {
            Some(Err(error)) => self.cannot_watch(place, &error),
            _ => self.watch_client_output(place),
        }
        self.count_clients();
    }

    fn drive_client(&mut self, place: usize) {
        let Some(endpoint) = &mut self.endpoint else { return };
        let (core, results, scratch) = (&mut self.core, &mut self.results, &mut self.scratch);
        let gone = match self.clients.drive(place, core, endpoint, results, scratch, &self.stats) {
            Ok(rest) => {
                if let Some(logins) = &mut self.logins
                    && self.clients.log_in(place, &mut self.core, logins, &self.stats)
                {
                    return self.mark_busy(place);
                }
                if self.clients.drop_slowest(&mut self.core, endpoint) {
                    self.stats.slow.fetch_add(1, Ordering::Relaxed);
                    self.count_clients();
                }
                return match rest {
                    Rest::Wait => self.watch_client_output(place),
                    Rest::More => self.mark_busy(place),
                };
            }
            Err(gone) => gone,
        };
        match gone {
            Gone::Left => {}
            Gone::Broken => drop(self.stats.broken.fetch_add(1, Ordering::Relaxed)),
        }
        self.count_clients();
    }

    fn watch_client_output(&mut self, place: usize) {
        let (registry, token) = (self.poll.registry(), Token(CLIENTS + place));
        if let Some(line) = self.clients.line(place)
            && let Err(error) = line.watch_output(registry, token, token)
        {
            self.cannot_watch(place, &error);
        }
    }

    /// The system would not tell of this client: it is dropped, and the others are served on.
    fn cannot_watch(&mut self, place: usize, error: &std::io::Error) {
        tracing::warn!(%error, "a client is dropped: it cannot be watched");
        if let Some(endpoint) = &mut self.endpoint {
            self.clients.remove(place, &mut self.core, endpoint);
        }
        self.count_clients();
    }

    fn count_clients(&self) {
        self.stats.clients.store(self.clients.len() as u64, Ordering::Relaxed);
    }
}

/// Tells somebody why they are turned away: as much as the socket takes at once; then it is closed.
fn refuse(peer: Peer, error: PmError) {
    let refuse = |channel| Line::new(channel).say(|out| DirectConnection::refuse(error, out));
    let _ = Channel::socket(peer.socket).map(refuse);
}
