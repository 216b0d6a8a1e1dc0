//! A channel that holds the newest message only. Neither side ever waits for room.

use crossbeam_channel::{Receiver, Sender, TrySendError};

/// Puts messages into a mailbox. There must be only one.
#[derive(Debug)]
pub(super) struct Poster<T> {
    into: Sender<T>,
    out: Receiver<T>,
}

/// A mailbox: where to post, and where to receive. Receiving tells when the poster is gone.
pub(super) fn new<T>() -> (Poster<T>, Receiver<T>) {
    let (into, out) = crossbeam_channel::bounded(1);
    (Poster { into, out: out.clone() }, out)
}

impl<T> Poster<T> {
    /// Puts a message into the place of the one before, if that has not been received.
    pub(super) fn post(&self, mut message: T) {
        // Nobody else posts, so there is room the second time.
        while let Err(TrySendError::Full(back)) = self.into.try_send(message) {
            let _ = self.out.try_recv();
            message = back;
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::TryRecvError;

    #[test]
    fn the_newest_message_is_there_until_it_is_received_and_the_end_is_told() {
        let (poster, mailbox) = super::new();
        assert_eq!(mailbox.try_recv(), Err(TryRecvError::Empty));
        poster.post(1);
        poster.post(2);
        assert_eq!(mailbox.try_recv(), Ok(2));
        assert_eq!(mailbox.try_recv(), Err(TryRecvError::Empty));
        poster.post(3);
        drop(poster);
        assert_eq!(mailbox.try_recv(), Ok(3));
        assert_eq!(mailbox.try_recv(), Err(TryRecvError::Disconnected));
    }
}
