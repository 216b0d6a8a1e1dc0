//! The spans that a thread is in, by the numbers that the layer gave them.
//!
//! The registry knows as much, but a look into it takes several locked instructions, as another thread could end a span
//! meanwhile. What a thread is in cannot end.
//!
//! **Invariant:** a span's number is remembered only while the thread is in it, so that its [`Id`] is no other span's.

use std::cell::RefCell;

use tracing_core::span::Id;

struct Entered {
    layer: u64,
    id: u64,
    /// It was entered before, and the thread is in the other one.
    is_again: bool,
    /// Looked up when it is needed.
    number: Option<u64>,
}

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// The thread enters a span, as a layer sees it.
#[inline]
pub(crate) fn enter(layer: u64, id: &Id) {
    let id = id.into_u64();
    // A thread that ends has no spans any more: they are looked up then.
    let _ = ENTERED.try_with(|entered| {
        let mut entered = entered.borrow_mut();
        let is_again = entered.iter().any(|span| span.is(layer, id));
        entered.push(Entered { layer, id, is_again, number: None });
    });
}

/// The thread leaves a span, which need not be the newest.
#[inline]
pub(crate) fn leave(layer: u64, id: &Id) {
    let id = id.into_u64();
    let _ = ENTERED.try_with(|entered| {
        let mut entered = entered.borrow_mut();
        if let Some(at) = entered.iter().rposition(|span| span.is(layer, id)) {
            entered.remove(at);
        }
    });
}

/// The number of the span that the thread is in, 0 if it is in none; a new one is asked for. `None`: nothing is known, as the
/// thread is about to end.
#[inline]
pub(crate) fn current(layer: u64, ask: impl FnOnce(&Id) -> u64) -> Option<u64> {
    let newest = |entered: &RefCell<Vec<Entered>>| {
        let entered = entered.borrow();
        entered.iter().rfind(|span| span.is_current(layer)).map(|span| (span.id, span.number))
    };
    let Some((id, number)) = ENTERED.try_with(newest).ok()? else { return Some(0) };
    // Whoever is asked may trace.
    Some(number.unwrap_or_else(|| {
        let number = ask(&Id::from_u64(id));
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            if let Some(span) = entered.iter_mut().rfind(|span| span.is_current(layer) && span.id == id) {
                span.number = Some(number);
            }
        });
        number
    }))
}

impl Entered {
    fn is(&self, layer: u64, id: u64) -> bool {
        (self.layer, self.id) == (layer, id)
    }

    /// Whether it is the one that its layer's events are in, unless there is a newer one.
    fn is_current(&self, layer: u64) -> bool {
        self.layer == layer && !self.is_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_span_is_the_newest_that_was_entered_once() {
        let asked = RefCell::new(Vec::new());
        let now = |layer| {
            current(layer, |id| {
                asked.borrow_mut().push(id.into_u64());
                id.into_u64() * 10
            })
        };
        let id = Id::from_u64;
        assert_eq!(now(0), Some(0));
        enter(0, &id(1));
        enter(1, &id(7));
        enter(0, &id(2));
        // As in the registry, the thread is still in 2.
        enter(0, &id(1));
        assert_eq!([now(0), now(0), now(1), now(2)], [20, 20, 70, 0].map(Some));
        leave(0, &id(1));
        leave(0, &id(2));
        assert_eq!(now(0), Some(10));
        leave(0, &id(3));
        leave(0, &id(1));
        assert_eq!([now(0), now(1)], [0, 70].map(Some));
        leave(1, &id(7));
        // Another span may have the same id.
        enter(0, &id(1));
        assert_eq!(now(0), Some(10));
        leave(0, &id(1));
        assert_eq!(*asked.borrow(), [2, 7, 1, 1]);
    }
}
