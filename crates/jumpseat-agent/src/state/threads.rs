//! What the threads of sources tell of themselves while they run.

use std::any::Any;
use std::sync::Arc;

/// The counters of all source threads, by their types: the state need not know which kinds of sources there are.
#[derive(Clone, Default)]
pub(crate) struct ThreadStats(Vec<Arc<dyn Any + Send + Sync>>);

impl ThreadStats {
    /// A thread runs that counts here.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, stats: Arc<T>) {
        self.0.push(stats);
    }

    /// The same of one, if there is one, whose type is not known here.
    pub(crate) fn extend(&mut self, stats: Option<Arc<dyn Any + Send + Sync>>) {
        self.0.extend(stats);
    }

    /// A thread has ended, and nobody is to be told any more what it has counted.
    pub(crate) fn remove(&mut self, stats: &Arc<dyn Any + Send + Sync>) {
        self.0.retain(|other| !Arc::ptr_eq(other, stats));
    }

    /// The counters of threads of a kind, in the order in which they were started.
    pub(crate) fn of<T: Send + Sync + 'static>(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|stats| (**stats).downcast_ref())
    }

    /// The same, to be looked at from elsewhere.
    pub(crate) fn shared<T: Send + Sync + 'static>(&self) -> impl Iterator<Item = Arc<T>> {
        self.0.iter().filter_map(|stats| Arc::clone(stats).downcast().ok())
    }
}
