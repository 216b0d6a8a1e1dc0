//! `jumpseat.self.*`: what the agent costs.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};

use crate::sampler::{Phase, SamplerStats};
use crate::state::State;
use pcp_model::{PmError, Units, Value, ValueType};
use pcp_pmda::Metric;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let u64 = |name: &str, units, value: fn(&State) -> u64| {
        Metric::new(format!("jumpseat.self.{name}"), ValueType::U64)
            .units(units)
            .value(move |state: &mut State| value(state))
    };
    let u32 = |name: &str, value: fn(&State) -> u32| {
        Metric::new(format!("jumpseat.self.{name}"), ValueType::U32)
            .units(Units::COUNT)
            .value(move |state: &mut State| value(state))
    };
    let sampled = |name: &str, counter: fn(&SamplerStats) -> &AtomicU64| {
        Metric::new(format!("jumpseat.self.sampler.{name}"), ValueType::U64)
            .units(Units::COUNT)
            .counter()
            .value(move |state: &mut State| {
                state.derived.foreign.stats().map_or(0, |stats| load(counter(stats)))
            })
    };
    let text = |name: &str, value: fn(&State) -> String| {
        Metric::new(format!("jumpseat.self.{name}"), ValueType::String)
            .discrete()
            .value(move |state: &mut State| value(state))
    };
    vec![
        text("contexts.state", |state| state.contexts.state()),
        u64("contexts.resumed", Units::COUNT, |state| state.contexts.resumed()).counter(),
        u64("contexts.unsure", Units::COUNT, |state| state.contexts.unsure()).counter(),
        u64("contexts.bytes", Units::BYTE, |state| state.contexts.bytes()),
        text("confined.user", |_| crate::confine::user()),
        text("confined.privileges", |state| state.trust.state("privileges")),
        text("confined.capabilities", |state| state.trust.state("capabilities")),
        text("confined.files", |state| state.trust.state("files")),
        text("confined.system_calls", |state| state.trust.state("system_calls")),
        text("confined.kernel", |state| state.trust.kernel()),
        Metric::new("jumpseat.self.version", ValueType::String)
            .discrete()
            .value(|_: &mut State| env!("CARGO_PKG_VERSION")),
        Metric::new("jumpseat.self.pid", ValueType::U32).discrete().value(|_: &mut State| std::process::id()),
        u64("uptime", Units::MILLISECOND, |state| state.started.elapsed().as_millis() as u64),
        Metric::new("jumpseat.self.cpu", ValueType::U64)
            .units(Units::MICROSECOND)
            .counter()
            .each(|_: &mut State, _, _| Ok(cpu_micros().map(Value::U64))),
        Metric::new("jumpseat.self.memory.resident", ValueType::U64)
            .units(Units::BYTE)
            .each(|_: &mut State, _, _| resident_bytes().map(|bytes| Some(Value::U64(bytes)))),
        u64("memory.events", Units::BYTE, |state| state.sources.memory() as u64),
        Metric::new("jumpseat.self.memory.history", ValueType::U64)
            .units(Units::BYTE)
            .value(|state: &mut State| state.derived.history_bytes() as u64),
        u64("derived.clients_refused", Units::COUNT, |state| state.derived.history_refused()).counter(),
        u64("requests.count", Units::COUNT, |state| load(&state.load.requests)).counter(),
        u64("requests.time", Units::NANOSECOND, |state| load(&state.load.request_nanos)).counter(),
        u64("requests.longest", Units::NANOSECOND, |state| load(&state.load.longest_nanos)),
        u64("loop.count", Units::COUNT, |state| load(&state.load.wakeups)).counter(),
        u64("loop.time", Units::NANOSECOND, |state| load(&state.load.busy_nanos)).counter(),
        u64("loop.longest", Units::NANOSECOND, |state| load(&state.load.longest_round_nanos)),
        u32("streams.count", |state| state.streams.count() as u32),
        u64("streams.refused", Units::COUNT, |state| state.streams.refused()).counter(),
        u64("memory.filters", Units::BYTE, |state| state.streams.filter_memory() as u64),
        u64("reads_refused", Units::COUNT, |state| state.reads_refused).counter(),
        u32("clients", |state| load(&state.load.contexts) as u32),
        u32("endpoint.connected", |state| load(&state.load.clients) as u32),
        u64("endpoint.refused", Units::COUNT, |state| load(&state.load.refused)).counter(),
        u64("endpoint.dropped", Units::COUNT, |state| load(&state.load.slow) + load(&state.load.broken))
            .counter(),
        u64("endpoint.made_room", Units::COUNT, |state| load(&state.load.idle)).counter(),
        u64("endpoint.encrypted", Units::COUNT, |state| load(&state.load.encrypted)).counter(),
        u64("endpoint.tls_failed", Units::COUNT, |state| load(&state.load.tls_failed)).counter(),
        u64("endpoint.logins", Units::COUNT, |state| load(&state.load.logins)).counter(),
        u64("endpoint.denied", Units::COUNT, |state| load(&state.load.denied)).counter(),
        u32("sources", |state| state.sources.len() as u32),
        u64("sources_refused", Units::COUNT, |state| state.registry.sources_refused()).counter(),
        u64("sources_forbidden", Units::COUNT, |state| state.registry.forbidden()).counter(),
        u64("types_folded", Units::COUNT, |state| state.registry.types_folded()).counter(),
        u64("threads.restarted", Units::COUNT, |state| state.restarts.count()).counter(),
        u64("names_over_share", Units::COUNT, |state| state.registry.over_share()).counter(),
        u64("recycled.sources", Units::COUNT, |state| state.registry.recycled()[0]).counter(),
        u64("recycled.types", Units::COUNT, |state| state.registry.recycled()[1]).counter(),
        u64("recycled.spans", Units::COUNT, |state| state.registry.recycled()[2]).counter(),
        u64("recycled.fields", Units::COUNT, |state| state.registry.recycled()[3]).counter(),
        u64("recycled.records", Units::COUNT, |state| state.records_gone + state.registry.records_gone())
            .counter(),
        u32("fields.known", |state| state.fields.count() as u32),
        u64("fields.folded", Units::COUNT, |state| state.fields_folded).counter(),
        u32("derived.usable", |state| state.derived.counts().usable),
        u32("derived.refused", |state| state.derived.counts().refused),
        u32("derived.waiting", |state| state.derived.counts().waiting),
        Metric::new("jumpseat.self.sampler.state", ValueType::String).discrete().value(
            |state: &mut State| state.derived.foreign.stats().map_or(Phase::Off, SamplerStats::phase).word(),
        ),
        sampled("samples", |stats| &stats.samples),
        sampled("errors", |stats| &stats.errors),
        sampled("reconnects", |stats| &stats.reconnects),
        Metric::new("jumpseat.self.sampler.age", ValueType::U64).units(Units::MILLISECOND).each(
            |state: &mut State, _, _| {
                Ok(state.derived.foreign.age().map(|age| Value::U64(age.as_millis() as u64)))
            },
        ),
        u64("sampler.latency", Units::NANOSECOND, |state| {
            state.derived.foreign.stats().map_or(0, |stats| load(&stats.latency_nanos))
        }),
        u32("sampler.metrics", |state| state.derived.foreign.wanted() as u32),
    ]
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn cpu_micros() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    Some(micros(usage.user_time()) + micros(usage.system_time()))
}

/// The kernel's own count, from procfs: memory, not a file that could make the agent wait.
fn resident_bytes() -> Result<u64, PmError> {
    let statm = std::fs::read_to_string("/proc/self/statm").map_err(|_| PmError::VALUE)?;
    let pages: u64 = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).ok_or(PmError::VALUE)?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    Ok(pages * page as u64)
}
