//! One connection: whose it is, what it holds, and a read of it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::{Instant, SystemTime};

use super::line::Line;
use crate::guard::tokens::Entered;
use crate::intake::{Intake, Shared};
use pcp_model::Timestamp;

/// Most bytes of one read.
pub(super) const READ_BYTES: usize = 256 * 1024;
/// The buffer of an incomplete line, or of replies, is given back when it was larger than this.
pub(super) const KEEP_CARRY: usize = 4 * 1024;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// Of a user of this machine.
    User(Option<u32>),
    /// Of somebody at a host.
    Host(IpAddr),
}

/// A connection.
pub(super) struct Conn {
    pub(super) line: Line,
    pub(super) owner: Owner,
    /// When something came last.
    pub(super) heard: Instant,
    pub(super) intake: Intake,
    /// The sender is gone, and what it left is being taken over.
    pub(super) inherits: bool,
    /// An incomplete line.
    pub(super) carry: Vec<u8>,
    /// Replies not yet written.
    pub(super) replies: Vec<u8>,
    pub(super) written: usize,
    /// The client has stopped listening.
    pub(super) deaf: bool,
    /// In the queue of those that may have something to read.
    pub(super) queued: bool,
    /// In the list of those that are to be told what is committed.
    pub(super) tells: bool,
    /// The summary is queued; gone when it is written, or at this time.
    pub(super) closing: Option<Instant>,
}

/// What comes of a read.
pub(super) enum Turn {
    /// There may be more to read.
    Again,
    /// Nothing more for now.
    Drained,
    /// There may be more to read, but not yet.
    Later(Instant),
    /// The client has sent everything; the summary is among the replies.
    Ended,
    /// The connection broke.
    Gone,
}

/// One read. `buffer` is shared by all connections: what is incomplete is carried over in the connection.
pub(super) fn read(conn: &mut Conn, shared: &mut Shared, buffer: &mut [u8]) -> Turn {
    if conn.closing.is_some() {
        return Turn::Drained;
    }
    if conn.inherits {
        return take_over(conn, shared);
    }
    let now = Instant::now();
    if let Some(wait) = conn.line.entered().and_then(|Entered { token }| token.wait(now)) {
        return Turn::Later(now + wait);
    }
    let carried = conn.carry.len();
    if conn.intake.is_held() {
        let Some(held) = buffer.get_mut(..carried) else {
            // It is what a read has left of the buffer: cannot happen.
            return Turn::Gone;
        };
        held.copy_from_slice(&conn.carry);
        return feed(conn, held, shared);
    }
    let Some(room) = buffer.get_mut(carried..carried + READ_BYTES) else {
        // The intake leaves at most a line of the limit: cannot happen.
        return Turn::Gone;
    };
    let read = match conn.line.read(room) {
        Ok((read, None)) => read,
        Ok((read, Some(descriptor))) => {
            conn.intake.descriptor(descriptor, shared);
            read
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Drained,
        Err(error) if error.kind() == ErrorKind::Interrupted => return Turn::Again,
        // A reset is an end, too: whole lines before it count.
        Err(_) => 0,
    };
    conn.heard = Instant::now();
    if read == 0 {
        let arrived = Timestamp::from(SystemTime::now());
        if conn.intake.inherits(shared) {
            conn.inherits = true;
            conn.carry = Vec::new();
            return Turn::Again;
        }
        let rest = std::mem::take(&mut conn.carry);
        conn.intake.finish(&rest, arrived, shared, &mut conn.replies);
        return Turn::Ended;
    }
    buffer[..carried].copy_from_slice(&conn.carry);
    feed(conn, &buffer[..carried + read], shared)
}

/// Takes in bytes; what is incomplete, or waits for another turn, is carried over.
fn feed(conn: &mut Conn, input: &[u8], shared: &mut Shared) -> Turn {
    let arrived = Timestamp::from(SystemTime::now());
    let used = conn.intake.feed(input, arrived, shared, &mut conn.replies);
    conn.carry.clear();
    if conn.carry.capacity() > KEEP_CARRY {
        conn.carry.shrink_to(KEEP_CARRY);
    }
    conn.carry.extend_from_slice(&input[used..]);
    if conn.intake.broken {
        conn.intake.finish(&[], arrived, shared, &mut conn.replies);
        return Turn::Ended;
    }
    Turn::Again
}

/// A portion of what a sender that is gone has left.
fn take_over(conn: &mut Conn, shared: &mut Shared) -> Turn {
    let arrived = Timestamp::from(SystemTime::now());
    conn.heard = Instant::now();
    if conn.intake.take_over(arrived, shared) {
        return Turn::Again;
    }
    conn.intake.finish(&[], arrived, shared, &mut conn.replies);
    Turn::Ended
}
