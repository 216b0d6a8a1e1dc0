//! What the thread counts.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What the thread does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// There is nothing to ask pmcd for.
    Off,
    /// No connection yet.
    Connecting,
    /// Connected; nobody wants values.
    Idle,
    /// Connected and fetching.
    Sampling,
    /// pmcd cannot be reached, or does not answer; tried again from time to time.
    Unreachable,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Off, Phase::Connecting, Phase::Idle, Phase::Sampling, Phase::Unreachable];

    /// A word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Phase::Off => "off",
            Phase::Connecting => "connecting",
            Phase::Idle => "idle",
            Phase::Sampling => "sampling",
            Phase::Unreachable => "unreachable",
        }
    }
}

/// What the thread counts.
#[derive(Debug, Default)]
pub(crate) struct SamplerStats {
    phase: AtomicU8,
    /// Samples taken.
    pub samples: AtomicU64,
    /// Requests and attempts to connect that failed.
    pub errors: AtomicU64,
    /// Connections made after the first.
    pub reconnects: AtomicU64,
    /// Nanoseconds that the last fetch took.
    pub latency_nanos: AtomicU64,
}

impl SamplerStats {
    /// What the thread does.
    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or(Phase::Off)
    }

    /// Says what it does now.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}
