//! The direct endpoint's clients and their deadlines.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pcp_net::{Holder, Limiter, gives_way};
use slab::Slab;

use super::Stats;
use super::io::{Channel, Closed, Line, Rest};
use super::listen::Peer;
use super::logins::{Logins, Verdict};
use super::security::{Origin, Security};
use crate::{Attributes, BODY_SECONDS, Core, DirectConnection, Endpoint};
use pcp_pdu::ResultWriter;

/// What one client, and all clients together, may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients connected at a time; more are turned away with `PM_ERR_CONNLIMIT`.
    pub clients: usize,
    /// How long a client may take to introduce itself.
    pub handshake: Duration,
    /// How long the rest of a request may take.
    pub body: Duration,
    /// How long a client may go without taking any of an answer.
    pub reading: Duration,
    /// Bytes of answers that may wait for slow clients, all together; beyond it the client for which most waits is
    /// dropped.
    pub waiting: usize,
    /// How long a client has asked for nothing that gives way to another, once there are as many as may be. One of a host or
    /// user that has more clients than the other's gives way at once.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 1000,
            handshake: Duration::from_secs(30),
            body: Duration::from_secs(BODY_SECONDS as u64),
            reading: Duration::from_secs(10),
            waiting: 64 << 20,
            idle: Duration::from_secs(30),
        }
    }
}

/// What a client is late with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    Handshake,
    Body { answered: u64 },
    Reading { written: u64 },
}

struct Client {
    line: Line,
    connection: DirectConnection,
    address: String,
    origin: Origin,
    /// The attempt to log in that is being judged.
    attempt: Option<u64>,
    /// When it asked for something last.
    asked: Instant,
    due: Option<(Duty, Instant)>,
}

/// All direct clients.
#[derive(Default)]
pub(super) struct Clients {
    pub limits: Limits,
    /// By place: their tokens count up from the place's.
    table: Slab<Client>,
    due: BTreeSet<(Instant, usize)>,
    /// Bytes that wait to be written, of all clients.
    waiting: usize,
    refusals: Refusals,
}

/// Tells the log of clients that are not let in, and not of a flood of them: they are counted.
struct Refusals(Limiter);

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals(Limiter::new(10, Duration::from_secs(1)))
    }
}

impl Refusals {
    fn tell(&mut self, client: &str, reason: &dyn std::fmt::Display) {
        match self.0.allow(Instant::now()) {
            Some(0) => tracing::warn!(client, "not let in: {reason}"),
            Some(others) => tracing::warn!(client, others, "not let in: {reason}"),
            None => {}
        }
    }
}

/// Why a client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It closed the connection, or the connection broke.
    Left,
    /// It broke the protocol.
    Broken,
}

/// Clients dropped at a time before others get their turn.
const DROPS: u64 = 64;

impl Clients {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Takes in a client and greets it; its place in the table.
    pub(super) fn add<S>(
        &mut self,
        peer: Peer,
        core: &mut Core<S>,
        endpoint: &mut Endpoint,
        security: &Security,
        start: &str,
    ) -> std::io::Result<usize> {
        let (offer, origin) = (security.offer(&peer.attributes), Origin::of(&peer.attributes));
        let mut line =
            Line::new(Channel::socket(peer.socket)?).with_certificate(security.certificate.clone());
        let connection = DirectConnection::new(core, endpoint, peer.attributes, &peer.address, start);
        let mut connection = connection.offering(core, offer);
        if let Err(error) = line.say(|out| connection.greet(out)) {
            connection.close(core, endpoint);
            return Err(std::io::Error::other(error.to_string()));
        }
        let due = Instant::now() + self.limits.handshake;
        self.waiting += line.waiting();
        let client = Client {
            line,
            connection,
            address: peer.address,
            origin,
            attempt: None,
            asked: Instant::now(),
            due: Some((Duty::Handshake, due)),
        };
        let place = self.table.insert(client);
        self.due.insert((due, place));
        Ok(place)
    }

    /// The line of the client at a place.
    pub(super) fn line(&mut self, place: usize) -> Option<&mut Line> {
        Some(&mut self.table.get_mut(place)?.line)
    }

    /// Serves a client as far as it goes. `Ok(Rest::More)`: call again soon. `Err`: it is gone.
    pub(super) fn drive<S>(
        &mut self,
        place: usize,
        core: &mut Core<S>,
        endpoint: &mut Endpoint,
        results: &mut ResultWriter,
        scratch: &mut [u8],
        stats: &Stats,
    ) -> Result<Rest, Gone> {
        let Some(client) = self.table.get_mut(place) else { return Ok(Rest::Wait) };
        let Client { line, connection, address, asked, .. } = client;
        let (was_denied, was_encrypted) = (connection.denial().is_some(), line.is_encrypted());
        // What it adds to the sum of all is known only after its turn.
        debug_assert!(self.waiting >= line.waiting(), "counted since its last turn");
        self.waiting -= line.waiting();
        let rest = line.drive(scratch, |input, out| {
            let (before, begun) = (connection.requests(), Instant::now());
            let result = connection.process(core, endpoint, input, results, out);
            stats.answered(connection.requests() - before, begun.elapsed());
            if connection.requests() > before {
                *asked = begun;
            }
            result
        });
        self.waiting += line.waiting();
        if line.is_encrypted() && !was_encrypted {
            stats.encrypted.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(denial) = connection.denial().filter(|_| !was_denied) {
            stats.denied.fetch_add(1, Ordering::Relaxed);
            self.refusals.tell(address, &denial);
        }
        let rest = match rest {
            Ok(rest) => Ok(rest),
            Err(Closed::Tls(reason)) => {
                stats.tls_failed.fetch_add(1, Ordering::Relaxed);
                self.refusals.tell(address, &reason);
                Err(Gone::Left)
            }
            Err(Closed::Broken(reason)) => {
                tracing::warn!(client = %address, %reason, "dropped");
                Err(Gone::Broken)
            }
            Err(Closed::Eof | Closed::Io(_)) => Err(Gone::Left),
        };
        match rest {
            Ok(rest) => self.set_due(place, rest),
            Err(_) => self.remove(place, core, endpoint),
        }
        rest
    }

    /// Drops the client for which most waits, if too much waits for all together: not the one that happens to be served.
    /// Whether there was one.
    pub(super) fn drop_slowest<S>(&mut self, core: &mut Core<S>, endpoint: &mut Endpoint) -> bool {
        if self.waiting <= self.limits.waiting {
            return false;
        }
        let slowest = self.table.iter().max_by_key(|(_, client)| client.line.waiting());
        let Some((place, client)) = slowest.filter(|(_, client)| client.line.waiting() > 0) else {
            return false;
        };
        tracing::warn!(client = %client.address, "dropped: too much waits for slow clients, and most for this one");
        self.remove(place, core, endpoint);
        true
    }

    /// Drops a client in favour of one who comes, so that nobody can shut others out: of the host or user with most clients, or
    /// else one that asks for nothing. Whether there was one.
    pub(super) fn make_room<S>(
        &mut self,
        newcomer: &Attributes,
        core: &mut Core<S>,
        endpoint: &mut Endpoint,
    ) -> bool {
        let holders = self.table.iter().map(|(place, client)| Holder {
            place,
            owner: client.origin,
            heard: client.asked,
        });
        let Some(place) = gives_way(holders, Origin::of(newcomer), self.limits.idle) else { return false };
        if let Some(client) = self.table.get(place) {
            tracing::warn!(client = %client.address, "dropped: others wait for a place");
        }
        self.remove(place, core, endpoint);
        true
    }

    /// Has the claim of a client judged, if it has just made one. Whether it is refused at once.
    pub(super) fn log_in<S>(
        &mut self,
        place: usize,
        core: &mut Core<S>,
        logins: &mut Logins,
        stats: &Stats,
    ) -> bool {
        let Some(client) = self.table.get_mut(place) else { return false };
        let Some(claim) = client.connection.claim() else { return false };
        match logins.begin(place, client.origin, claim) {
            Ok(attempt) => {
                client.attempt = Some(attempt);
                false
            }
            Err(denial) => {
                client.attempt = Some(0);
                self.conclude(Verdict { place, attempt: 0, outcome: Err(denial) }, core, logins, stats)
            }
        }
    }

    /// Lets a client in that has proved who it is, or not. Whether it is still there.
    pub(super) fn conclude<S>(
        &mut self,
        Verdict { place, attempt, outcome }: Verdict,
        core: &mut Core<S>,
        logins: &mut Logins,
        stats: &Stats,
    ) -> bool {
        let client = self.table.get_mut(place).filter(|client| client.attempt == Some(attempt));
        let Some(client) = client else { return false };
        client.attempt = None;
        if let Ok(user) = &outcome {
            stats.logins.fetch_add(1, Ordering::Relaxed);
            logins.forgive(client.origin);
            tracing::info!(client = %client.address, user = user.name, "logged in");
        }
        self.waiting -= client.line.waiting();
        // A line that breaks here is noticed when it is driven.
        let _ = client.line.say(|out| client.connection.verdict(core, outcome, out));
        self.waiting += client.line.waiting();
        if let Some(denial) = client.connection.denial() {
            stats.denied.fetch_add(1, Ordering::Relaxed);
            self.refusals.tell(&client.address, &denial);
        }
        client.line.resume();
        true
    }

    /// When the next client will be late.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Drops the clients that are late; gives their number.
    pub(super) fn drop_late<S>(&mut self, core: &mut Core<S>, endpoint: &mut Endpoint) -> u64 {
        let now = Instant::now();
        let mut dropped = 0;
        while let Some(&(due, place)) = self.due.first()
            && due <= now
            && dropped < DROPS
        {
            if let Some(client) = self.table.get(place) {
                let duty = client.due.map(|(duty, _)| duty);
                tracing::warn!(client = %client.address, ?duty, "dropped: too slow");
            }
            self.due.remove(&(due, place));
            self.remove(place, core, endpoint);
            dropped += 1;
        }
        dropped
    }

    /// Closes everything.
    pub(super) fn clear<S>(&mut self, core: &mut Core<S>, endpoint: &mut Endpoint) {
        let all: Vec<usize> = self.table.iter().map(|(place, _)| place).collect();
        for place in all {
            self.remove(place, core, endpoint);
        }
    }

    /// Drops the client at a place.
    pub(super) fn remove<S>(&mut self, place: usize, core: &mut Core<S>, endpoint: &mut Endpoint) {
        let Some(mut client) = self.table.try_remove(place) else { return };
        if let Some((_, due)) = client.due {
            self.due.remove(&(due, place));
        }
        self.waiting -= client.line.waiting();
        client.connection.close(core, endpoint);
    }

    /// Notes what the client owes now, and until when. The time runs on while it owes the same.
    fn set_due(&mut self, place: usize, rest: Rest) {
        let limits = self.limits;
        let Some(client) = self.table.get_mut(place) else { return };
        // What is said once both sides have agreed on TLS may be decided before they have.
        let is_open = client.connection.is_open() && !client.line.is_agreeing();
        let (duty, allowed) = if !is_open {
            (Duty::Handshake, limits.handshake)
        } else if client.line.waiting() > 0 {
            (Duty::Reading { written: client.line.written() }, limits.reading)
        } else if client.line.has_partial_input() && rest == Rest::Wait {
            (Duty::Body { answered: client.connection.requests() }, limits.body)
        } else {
            if let Some((_, due)) = client.due.take() {
                self.due.remove(&(due, place));
            }
            return;
        };
        // A duty with a number changes as soon as the client does something for it, which so gives it more time.
        if client.due.is_some_and(|(owed, _)| owed == duty) {
            return;
        }
        if let Some((_, due)) = client.due {
            self.due.remove(&(due, place));
        }
        let due = Instant::now() + allowed;
        client.due = Some((duty, due));
        self.due.insert((due, place));
    }
}
