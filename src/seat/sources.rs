//! Starts the sources that the configuration names.

use std::any::Any;
use std::sync::Arc;

use super::config::Config;
use super::{SeatError, State};
use crate::source::Outlet;
use crate::source::socket::SocketSource;

/// The sources' threads: they end when this is dropped.
pub type Running = Vec<Box<dyn Any + Send>>;

/// Starts all, in the order of their kinds.
///
/// # Errors
/// [`SeatError::Source`] for the first that does not start; those that did have ended then.
pub fn start(config: &Config, outlet: &Outlet, state: &mut State) -> Result<Running, SeatError> {
    let mut running = Running::new();
    for socket in &config.socket {
        let source = SocketSource::start(
            socket,
            Arc::clone(&outlet.registry),
            outlet.out.clone(),
            Arc::clone(&outlet.wake),
        )
        .map_err(failed(|| format!("ingest socket {}", socket.path.display())))?;
        state.sockets.push(Arc::clone(&source.stats));
        running.push(Box::new(source));
    }
    Ok(running)
}

/// Says of an error which source it is about.
fn failed<E: std::error::Error + Send + Sync + 'static>(
    what: impl FnOnce() -> String,
) -> impl FnOnce(E) -> SeatError {
    move |error| SeatError::Source { what: what(), error: Box::new(error) }
}
