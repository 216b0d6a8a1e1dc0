//! OpenTelemetry's protocol: `[otlp]`, and `jumpseat.self.otlp.*`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jumpseat_source::OtlpStats;
use jumpseat_source::otlp::{OtlpConfig, OtlpSource};
use pcp_model::{Units, ValueType};
use pcp_pmda::Metric;

use crate::config::{Config, InvalidTable};
use crate::reach::Need;
use crate::state::State;

use super::kind::{Site, SourceKind, StartError, Started, Wanted, load};

/// OTLP over HTTP and over gRPC, which count together.
pub(super) struct Otlp;

impl SourceKind for Otlp {
    fn check(&self, config: &Config) -> Result<(), InvalidTable> {
        config.otlp.validate().map_err(|invalid| InvalidTable { table: "otlp", nth: 0, invalid })
    }

    fn sources(&self, config: &Config) -> usize {
        usize::from(config.otlp.is_on())
    }

    fn source_names(&self, config: &Config) -> Vec<String> {
        config.otlp.is_on().then(|| config.otlp.source.clone()).into_iter().collect()
    }

    fn queue(&self, config: &Config) -> usize {
        if config.otlp.is_on() { config.otlp.queue } else { 0 }
    }

    fn wanted<'a>(&self, config: &'a Config) -> Vec<Wanted<'a>> {
        let start = move |site: &mut Site<'_>| {
            let otlp = &config.otlp;
            // The next one counts on where the one before has ended.
            let before = site.stats.shared::<OtlpStats>().next();
            let stats = before.unwrap_or_else(|| {
                let stats: Arc<OtlpStats> = Arc::default();
                site.stats.add(Arc::clone(&stats));
                stats
            });
            let source = OtlpSource::start(otlp, site.outlet, &stats)
                .map_err(|error| StartError::new(listener(otlp, &error), error))?;
            Ok(Started { thread: Box::new(source), stats: None })
        };
        let wanted = Wanted {
            what: "OTLP".to_owned(),
            key: format!("{:?}", config.otlp),
            need: Need::Nothing,
            start: Box::new(start),
        };
        config.otlp.is_on().then_some(wanted).into_iter().collect()
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
            of("made_room", Units::COUNT, |stats| &stats.made_room).counter(),
            of("requests", Units::COUNT, |stats| &stats.requests).counter(),
            of("refused", Units::COUNT, |stats| &stats.refused).counter(),
            of("data_points", Units::COUNT, |stats| &stats.data_points).counter(),
            of("handshakes_failed", Units::COUNT, |stats| &stats.handshakes_failed).counter(),
            of("unauthenticated", Units::COUNT, |stats| &stats.unauthenticated).counter(),
            of("over_limit", Units::COUNT, |stats| &stats.over_limit).counter(),
            of("points_refused", Units::COUNT, |stats| &stats.points_refused).counter(),
            of("busy", Units::COUNT, |stats| &stats.busy).counter(),
            of("slow", Units::COUNT, |stats| &stats.slow).counter(),
            of("bytes", Units::BYTE, |stats| &stats.bytes).counter(),
            of("memory", Units::BYTE, |stats| &stats.memory),
        ]
    }
}

/// Which of the two listeners an error is about: the second if it is about its address, otherwise the first there is.
fn listener(config: &OtlpConfig, error: &jumpseat_source::StartError) -> String {
    use jumpseat_source::StartError::Address;
    let is_of_grpc = matches!(error, Address { address, .. } if Some(address) == config.grpc.as_ref());
    match (&config.listen, &config.grpc) {
        (Some(listen), _) if !is_of_grpc => format!("OTLP over HTTP at {listen}"),
        (_, grpc) => format!("OTLP over gRPC at {}", grpc.as_deref().unwrap_or_default()),
    }
}
