//! A queue whose first two elements are in the queue itself.
//!
//! Most queues here have the value before a time and the one behind it, and no more. Looking for these elsewhere in memory is what
//! the queues of thousands of instances would cost otherwise.

use std::collections::VecDeque;
use std::iter::once;

/// A queue. There is no second element without a first one, and nothing in the rest without both.
pub(super) struct Queue<T> {
    first: Option<T>,
    second: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue { first: None, second: None, rest: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// The one behind the front.
    #[inline]
    pub(super) fn second(&self) -> Option<&T> {
        self.second.as_ref()
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&T> {
        self.rest.back().or(self.second.as_ref()).or(self.first.as_ref())
    }

    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.back_mut().or(self.second.as_mut()).or(self.first.as_mut())
    }

    #[inline]
    pub(super) fn push_back(&mut self, element: T) {
        if self.first.is_none() {
            self.first = Some(element);
        } else if self.second.is_none() {
            self.second = Some(element);
        } else {
            self.rest.push_back(element);
        }
    }

    pub(super) fn push_front(&mut self, element: T) {
        let before = self.first.replace(element);
        if let Some(third) = std::mem::replace(&mut self.second, before) {
            self.rest.push_front(third);
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        let next = self.second.take();
        if !self.rest.is_empty() {
            self.second = self.rest.pop_front();
        }
        std::mem::replace(&mut self.first, next)
    }

    /// From the front to the back.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        once(&self.first).chain(once(&self.second)).flatten().chain(&self.rest)
    }

    pub(super) fn clear(&mut self) {
        (self.first, self.second) = (None, None);
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is done to it, it is what a queue of the standard library is.
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec(0_u8..9, 0..200)) {
            let (mut queue, mut same) = (Queue::new(), VecDeque::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0..=3 => {
                        queue.push_back(number);
                        same.push_back(number);
                    }
                    4 => {
                        queue.push_front(number);
                        same.push_front(number);
                    }
                    5 | 6 => prop_assert_eq!(queue.pop_front(), same.pop_front()),
                    7 => prop_assert_eq!(queue.back_mut(), same.back_mut()),
                    _ if number % 8 == 0 => {
                        queue.clear();
                        same.clear();
                    }
                    _ => {}
                }
                prop_assert!(queue.iter().eq(&same));
                let ends = (queue.front(), queue.second(), queue.back(), queue.is_empty());
                prop_assert_eq!(ends, (same.front(), same.get(1), same.back(), same.is_empty()));
            }
        }
    }
}
