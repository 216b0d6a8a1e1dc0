//! What both listeners do with a complete request: decompress, decode, and say what became of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::answer::{self, Code};
use super::config::OtlpConfig;
use super::decode::{Decoder, Outcome, Signal};
use super::http::Format;
use super::inflate::{Encoding, inflate};
use super::json::{self, LeftOut};
use super::stats::OtlpStats;
use crate::delivery::Reason;
use crate::event::Refusal;
use crate::guard::tokens::Pass;
use crate::lanes::Arrival;
use crate::outlet::Outlet;
use crate::registry::{SourceRefused, Taker};
use pcp_net::{Identity, Limiter};

/// Buffers are given back when they were larger than this.
const KEEP: usize = 1 << 20;
/// How soon to look again whether there is room in the core's channel.
const LOOK: Duration = Duration::from_millis(1);

/// A request that is refused in whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The kind of refusal.
    pub code: Code,
    /// What is wrong, and what to do.
    pub message: String,
    /// How long to wait before it is sent again, where that is known.
    pub wait: Option<Duration>,
}

impl Refused {
    /// One that says nothing of when it might be another answer.
    pub(super) fn new(code: Code, message: impl Into<String>) -> Refused {
        Refused { code, message: message.into(), wait: None }
    }
}

/// What a client exports: a complete request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export<'a> {
    /// Its connection, and when it was complete.
    pub arrival: Arrival,
    /// Who sends.
    pub peer: SocketAddr,
    /// What it has.
    pub signal: Signal,
    /// How that is written.
    pub format: Format,
    /// How the body is compressed.
    pub encoding: Encoding,
    /// In the name of which sources they may send, if that is told.
    pub pass: Option<&'a Arc<Pass>>,
    /// As it was sent.
    pub body: &'a [u8],
}

/// Decoder and buffers of one thread.
pub(super) struct Intake {
    /// Where records go.
    pub decoder: Decoder,
    /// Counters.
    pub stats: Arc<OtlpStats>,
    max_decompressed: usize,
    patience: Duration,
    buffers: Buffers,
    report: Limiter,
}

/// Memory for the forms of a body, used again for the next one.
#[derive(Default)]
struct Buffers {
    plain: Vec<u8>,
    transcoded: Vec<u8>,
}

impl Intake {
    /// For a thread that listens at `address`.
    ///
    /// # Errors
    /// The default source cannot be.
    pub(super) fn new(
        config: &OtlpConfig,
        outlet: &Outlet,
        stats: &Arc<OtlpStats>,
        address: &str,
    ) -> Result<Intake, SourceRefused> {
        let patience = Duration::from_millis(config.patience_ms);
        let lanes = outlet.lanes(patience);
        let mut decoder = Decoder::new(lanes, &config.source, config.by_instance, address, config.limits())?;
        decoder.set_series(outlet.series.clone());
        Ok(Intake {
            decoder,
            stats: Arc::clone(stats),
            max_decompressed: config.max_decompressed,
            patience,
            buffers: Buffers::default(),
            report: Limiter::new(5, Duration::from_secs(10)),
        })
    }

    /// Takes in a request. What is not right is counted and reported.
    ///
    /// # Errors
    /// What the client is to be told instead of an outcome.
    pub(super) fn take(&mut self, export: Export<'_>) -> Result<Outcome, Refused> {
        // Before anything is decoded: a client that is told to come again keeps its spans, and nothing is lost.
        if !self.has_room() {
            return Err(self.busy("the agent is behind"));
        }
        // Taken out for the time being: the body that is decoded is in them.
        let mut buffers = std::mem::take(&mut self.buffers);
        let result = self.decode(export, &mut buffers);
        for buffer in [&mut buffers.plain, &mut buffers.transcoded] {
            buffer.clear();
            // One large request does not set the memory for good.
            buffer.shrink_to(KEEP);
        }
        self.buffers = buffers;
        result
    }

    /// Counts and reports a request that came to nothing before it could be decoded.
    pub(super) fn refuse(&mut self, peer: SocketAddr, bytes: usize, reason: Reason, message: &str) {
        self.stats.refused.fetch_add(1, Ordering::Relaxed);
        self.decoder.refuse(bytes, reason);
        self.warn(peer, reason, message);
    }

    /// Counts a request that the client may send again, which so counts for nothing else.
    pub(super) fn busy(&mut self, why: &str) -> Refused {
        self.stats.busy.fetch_add(1, Ordering::Relaxed);
        Refused::new(Code::Unavailable, format!("{why}: send it again later"))
    }

    /// Says something about a client in the log, not too often.
    pub(super) fn warn(&mut self, peer: SocketAddr, reason: Reason, message: &str) {
        if let Some(held_back) = self.report.allow(Instant::now()) {
            tracing::warn!(%peer, reason = reason.word(), held_back, "OTLP: {message}");
        }
    }

    fn decode(&mut self, export: Export<'_>, buffers: &mut Buffers) -> Result<Outcome, Refused> {
        let Export { arrival, peer, signal, format, encoding, pass, mut body } = export;
        if encoding != Encoding::Identity {
            let inflated = inflate(encoding, body, self.max_decompressed, &mut buffers.plain);
            inflated.map_err(|refusal| self.not_inflated(peer, body.len(), refusal))?;
            body = &buffers.plain;
        }
        let mut left_out = LeftOut::default();
        if format == Format::Json {
            left_out = json::transcode(signal, body, &mut buffers.transcoded).map_err(|error| {
                self.refuse(peer, body.len(), error.reason, &error.message);
                Refused::new(Code::InvalidArgument, error.message)
            })?;
            body = &buffers.transcoded;
        }
        let sender = Identity { host: Some(peer.ip()), ..Identity::default() };
        self.decoder.lanes.set_sender(Taker::Host(peer.ip()), sender);
        self.decoder.set_pass(pass);
        let mut outcome = self.decoder.request(arrival, signal, body);
        if outcome.is_busy {
            return Err(self.busy("the agent is behind with metrics"));
        }
        self.decoder.leave_out(&mut outcome, left_out);
        if let (Some(refusal), Some(message)) = (&outcome.broken, answer::broken(signal, &outcome)) {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            self.warn(peer, refusal.reason, &message);
            return Err(Refused::new(Code::InvalidArgument, message));
        }
        if signal == Signal::Metrics {
            self.stats.data_points.fetch_add(outcome.accepted + outcome.rejected, Ordering::Relaxed);
            self.stats.points_refused.fetch_add(outcome.rejected, Ordering::Relaxed);
        }
        if let Some(first) = answer::first(&outcome) {
            let reason = outcome.first.as_ref().map_or(Reason::Syntax, |refusal| refusal.reason);
            self.warn(peer, reason, &format!("{first}; {} refused in this request", outcome.rejected));
        }
        Ok(outcome)
    }

    fn not_inflated(&mut self, peer: SocketAddr, sent: usize, refusal: Refusal) -> Refused {
        let message = format!("byte {} decompressed: {}", refusal.column, refusal.detail);
        self.refuse(peer, sent, refusal.reason, &message);
        let is_long = refusal.reason == Reason::OversizeLine;
        let code = if is_long { Code::ResourceExhausted } else { Code::InvalidArgument };
        Refused::new(code, message)
    }

    /// Whether the core's channel has room, now or soon.
    fn has_room(&self) -> bool {
        let until = Instant::now() + self.patience;
        while self.decoder.lanes.is_full() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK.min(self.patience));
        }
        true
    }
}
