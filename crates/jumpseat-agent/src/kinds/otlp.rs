//! OpenTelemetry's protocol: `[otlp]`, and `jumpseat.self.otlp.*`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jumpseat_source::otlp::{GrpcSource, OtlpSource};
use jumpseat_source::{OtlpStats, Outlet};
use pcp_model::{Units, ValueType};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::state::State;

use super::kind::{Running, SourceKind, StartError, load};

/// OTLP over HTTP and over gRPC, which count together.
pub struct Otlp;

impl SourceKind for Otlp {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        config.otlp.validate().map_err(|invalid| InvalidTable { table: "otlp", nth: 0, invalid })
    }

    fn sources(&self, config: &Config) -> usize {
        usize::from(config.otlp.is_on())
    }

    fn queue(&self, config: &Config) -> usize {
        if config.otlp.is_on() { config.otlp.queue } else { 0 }
    }

    fn start(&self, config: &Config, outlet: &Outlet, running: &mut Running<'_>) -> Result<(), StartError> {
        let stats: Arc<OtlpStats> = Arc::default();
        if let Some(listen) = &config.otlp.listen {
            let source = OtlpSource::start(&config.otlp, outlet, &stats)
                .map_err(|error| StartError::new(format!("OTLP over HTTP at {listen}"), error))?;
            running.add(source);
        }
        if let Some(listen) = &config.otlp.grpc {
            let source = GrpcSource::start(&config.otlp, outlet, &stats)
                .map_err(|error| StartError::new(format!("OTLP over gRPC at {listen}"), error))?;
            running.add(source);
        }
        running.count_in(stats);
        Ok(())
    }

    fn metrics(&self) -> Vec<Metric<State>> {
        let of = |name: &str, units, counter: fn(&OtlpStats) -> &AtomicU64| {
            Metric::new(format!("jumpseat.self.otlp.{name}"), ValueType::U64).units(units).value(
                move |state: &mut State| -> u64 {
                    state.threads.of::<OtlpStats>().map(|stats| load(counter(stats))).sum()
                },
            )
        };
        vec![
            of("connections", Units::COUNT, |stats| &stats.connections),
            of("turned_away", Units::COUNT, |stats| &stats.turned_away).counter(),
            of("requests", Units::COUNT, |stats| &stats.requests).counter(),
            of("refused", Units::COUNT, |stats| &stats.refused).counter(),
            of("busy", Units::COUNT, |stats| &stats.busy).counter(),
            of("slow", Units::COUNT, |stats| &stats.slow).counter(),
            of("bytes", Units::BYTE, |stats| &stats.bytes).counter(),
            of("memory", Units::BYTE, |stats| &stats.memory),
        ]
    }
}
