//! The order in which the messages of a chunk are sent: always that with the earliest time of those that are next in
//! their rings; at the same time that of the run that stands first. Losses stand before the message that tells of them, or
//! at the end.
//!
//! **Cost:** a heap of as many entries as there are runs, which is looked into when the next message is another run's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::message::{self, Message};
use super::thread::Thread;

/// Most lost messages that one item tells of.
pub const MAX_MISSED: u64 = 1 << 32;

/// What a chunk has of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Whole messages.
    pub messages: &'a [u8],
    /// The thread that wrote them, where that is known.
    pub thread: Option<&'a Thread>,
    /// How many lost messages of this ring were told before.
    pub told: u64,
    /// How many there are after it.
    pub lost: u64,
}

/// What becomes one frame: RECORD or MISSED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// A message.
    Message(Message<'a>),
    /// So many were lost before the next, or by now.
    Missed(u64, Option<i64>),
}

/// The items of a chunk, in their order.
#[derive(Debug)]
pub struct Merge<'a> {
    runs: Vec<Run<'a>>,
    /// The run of the newest message: its next one is not in the heap, and comes first if it is before that.
    current: Option<usize>,
    /// Time and run of the next message of each other run that has one.
    next: BinaryHeap<Reverse<(i64, usize)>>,
    /// A message whose losses were just told.
    held: Option<Message<'a>>,
    /// Runs whose last losses were told.
    ended: usize,
}

impl<'a> Merge<'a> {
    /// The items of these runs.
    pub fn new(runs: Vec<Run<'a>>) -> Merge<'a> {
        let first = |(index, run): (usize, &Run<'a>)| {
            message::next_time(run.messages).map(|time| Reverse((time, index)))
        };
        let next = runs.iter().enumerate().filter_map(first).collect();
        Merge { runs, current: None, next, held: None, ended: 0 }
    }

    /// The run whose next message comes next.
    #[inline]
    fn next_run(&mut self) -> Option<usize> {
        let first = self.next.peek().map(|Reverse(first)| *first);
        let current = self.current.and_then(|index| {
            let time = message::next_time(self.runs.get(index)?.messages)?;
            Some((time, index))
        });
        match (current, first) {
            (Some(current), Some(first)) if first < current => {
                self.next.pop();
                self.next.push(Reverse(current));
                Some(first.1)
            }
            (Some(current), _) => Some(current.1),
            (None, _) => self.next.pop().map(|Reverse((_, index))| index),
        }
    }

    /// What comes after the last message: losses that no message told of.
    fn end(&mut self) -> Option<Item<'a>> {
        while let Some(run) = self.runs.get_mut(self.ended) {
            self.ended += 1;
            let count = run.lost.saturating_sub(run.told).min(MAX_MISSED);
            if count > 0 {
                run.told += count;
                return Some(Item::Missed(count, None));
            }
        }
        None
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        if let Some(message) = self.held.take() {
            return Some(Item::Message(message));
        }
        self.current = self.next_run();
        let Some(index) = self.current else { return self.end() };
        let run = self.runs.get_mut(index)?;
        let message = Message { thread: run.thread, ..message::next(&mut run.messages)? };
        let count = message.lost.wrapping_sub(run.told as u32);
        if count == 0 {
            return Some(Item::Message(message));
        }
        run.told = run.told.wrapping_add(count.into());
        self.held = Some(message);
        Some(Item::Missed(count.into(), Some(message.time)))
    }
}

impl Item<'_> {
    /// How many numbers it has.
    pub fn numbers(&self) -> u64 {
        match self {
            Item::Message(_) => 1,
            Item::Missed(count, _) => *count,
        }
    }
}

/// How many lost messages are told after all of these, if `told` were before.
pub fn told(mut messages: &[u8], mut told: u64) -> u64 {
    while let Some(message) = message::next(&mut messages) {
        told = told.wrapping_add(message.lost.wrapping_sub(told as u32).into());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(messages: &[(i64, u32, u64)]) -> Vec<u8> {
        let one = |&(time, site, lost): &(i64, u32, u64)| {
            message::tests::message((message::POINT, time), (site, 0), lost, &[])
        };
        messages.iter().flat_map(one).collect()
    }

    #[test]
    fn messages_come_in_the_order_of_time_and_losses_at_their_place() {
        let (a, b) = (ring(&[(1, 0, 5), (9, 1, 7), (4, 2, 7)]), ring(&[(1, 3, 0), (5, 4, 0)]));
        let main = Thread::new(7, "main");
        let runs = vec![
            Run { messages: &a, thread: Some(&main), told: 5, lost: 10 },
            Run { messages: &b, thread: None, told: 0, lost: 0 },
            Run { messages: &[], thread: None, told: 2, lost: 3 },
        ];
        let seen: Vec<_> = Merge::new(runs)
            .map(|item| match item {
                Item::Message(message) => {
                    assert_eq!(message.thread.is_some(), message.site < 3);
                    (message.site, message.time)
                }
                Item::Missed(count, time) => (100 + count as u32, time.unwrap_or(-1)),
            })
            .collect();
        // A clock that was set back changes nothing about the order of one thread.
        let expected = [(0, 1), (3, 1), (4, 5), (102, 9), (1, 9), (2, 4), (103, -1), (101, -1)];
        assert_eq!(seen, expected);
        assert_eq!(told(&a, 5), 7);
    }
}
