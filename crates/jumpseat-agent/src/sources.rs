//! Starts the sources that the configuration names.

use std::any::Any;
use std::sync::Arc;

use super::config::Config;
use super::{SeatError, State};
use jumpseat_source::Outlet;
use jumpseat_source::follow::{self, Follow};
use jumpseat_source::otlp::GrpcSource;
use jumpseat_source::otlp::OtlpSource;
use jumpseat_source::socket::SocketSource;
use jumpseat_source::tracefs::{self, TracefsSource};

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
    if let Some(listen) = &config.otlp.listen {
        let source = OtlpSource::start(&config.otlp, outlet, &state.otlp)
            .map_err(failed(|| format!("OTLP over HTTP at {listen}")))?;
        running.push(Box::new(source));
    }
    let follow = config.follow();
    if !follow.is_empty() {
        let source = Follow::start(&follow, config.events.max_sources as usize, outlet)
            .map_err(failed(|| "files and commands".to_owned()))?;
        state.follow = Some(Arc::clone(&source.stats));
        running.push(Box::new(source));
    }
    if let Some(listen) = &config.otlp.grpc {
        let failed = failed(|| format!("OTLP over gRPC at {listen}"));
        running.push(Box::new(GrpcSource::start(&config.otlp, outlet, &state.otlp).map_err(failed)?));
    }
    for kernel in &config.kernel {
        let source = TracefsSource::start(kernel, outlet)
            .map_err(failed(|| format!("kernel source {}", kernel.source)))?;
        state.kernels.push(Arc::clone(&source.stats));
        running.push(Box::new(source));
    }
    Ok(running)
}

/// How many batches may wait for the core, over all sources.
pub fn queue(config: &Config) -> usize {
    let sockets: usize = config.socket.iter().map(|socket| socket.queue).sum();
    let otlp = if config.otlp.is_on() { config.otlp.queue } else { 0 };
    let follow = if config.follow().is_empty() { 0 } else { follow::QUEUE };
    let kernel = config.kernel.len() * tracefs::QUEUE;
    (sockets + otlp + follow + kernel).max(1)
}

/// Says of an error which source it is about.
fn failed<E: std::error::Error + Send + Sync + 'static>(
    what: impl FnOnce() -> String,
) -> impl FnOnce(E) -> SeatError {
    move |error| SeatError::Source { what: what(), error: Box::new(error) }
}
