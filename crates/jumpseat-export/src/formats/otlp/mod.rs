//! `--otlp`: metrics, event records and spans to a receiver of OpenTelemetry's protocol.
//!
//! ```text
//! Sample --> points  (metrics)       --+
//!        \-> records (spans, logs)   --+--> sender: queue --> transport: HTTP, gRPC --> receiver
//!        \-> positions --> mark of the last request of a sample ... state, when it was taken
//! ```
//!
//! * `unit`, `attribute`: words of PCP as words of OTLP. `points`, `records`: what becomes of samples; `families`: of
//!   metrics that came by OTLP. `docs/otel-out.md` has all
//!   of it in one table.
//! * `transport`: a request and its answer. `sender`: the queue, and when a request is sent again. `state`: the file of `--state`.
//! * `resume`: where the records of a live agent go on.

mod attribute;
mod families;
mod points;
pub mod records;
mod resume;
mod sender;
mod state;
mod transport;
pub mod unit;

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use jumpseat_tools::complain;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal as Unix};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use pcp_model::ValueType;
use pcp_model::time::parse_interval;

use crate::args::OtlpArgs;
use crate::formats::error::ExportError;
use crate::formats::source::{NAME, Source};
use crate::formats::walk::{Format, Sample};
use points::Points;
use records::Records;
use resume::Resume;
use sender::{Counts, Item, Limits, Sender};
use state::{Mark, State};
use transport::{Signal, Target, Transport};

/// Sends samples.
pub(crate) struct Otlp {
    points: Points,
    records: Records,
    sender: Option<Sender>,
    resume: Option<Resume>,
    url: String,
    is_live: bool,
    /// Which of the source's metrics are of event records, and which are positions.
    events: Vec<bool>,
    signals: SignalFd,
}

impl Otlp {
    /// Begins to send to the receiver of a command line.
    ///
    /// # Errors
    /// What is wrong with its options; the agent cannot go on where the state says.
    pub(crate) fn new(args: &OtlpArgs, url: &str, source: &mut Source) -> Result<Otlp, ExportError> {
        let transport = Transport::new(&Target {
            url: url.to_owned(),
            protocol: args.protocol,
            headers: args.headers.clone(),
            ca: args.ca.clone(),
            token: args.token_file.clone(),
            gzip: !args.no_gzip,
        });
        let transport = transport.map_err(ExportError::Usage)?;
        let limits = Limits {
            queue: args.queue,
            give_up: duration("--give-up", &args.give_up)?,
            flush: duration("--flush", &args.flush)?,
        };
        let state =
            args.state.as_deref().map(State::open).transpose().map_err(ExportError::Usage)?.map(Arc::new);
        let is_live = !source.is_archive();
        let resume = match &state {
            Some(state) => Some(Resume::begin(source, Arc::clone(state))?),
            None => None,
        };
        let host = points::host(source);
        let events = source.metrics.iter().map(|metric| is_event(metric.desc.value_type)).collect();
        let system =
            |error: std::io::Error| ExportError::Otlp { url: url.to_owned(), reason: error.to_string() };
        // Before the thread begins, which takes over what is blocked here. A signal that waits is seen and left to the walk.
        let mut ending = SigSet::empty();
        [Unix::SIGTERM, Unix::SIGINT, Unix::SIGHUP].into_iter().for_each(|signal| ending.add(signal));
        if is_live {
            ending.thread_block().map_err(|errno| system(errno.into()))?;
        }
        let signals = SignalFd::with_flags(&ending, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(|errno| system(errno.into()))?;
        Ok(Otlp {
            points: Points::new(source, &host),
            records: Records::new(&host),
            sender: Some(Sender::start(transport, state, limits).map_err(system)?),
            resume,
            url: url.to_owned(),
            is_live,
            events,
            signals,
        })
    }

    fn pass(&mut self, all: bool, mark: Option<Mark>) -> Result<(), ExportError> {
        let mut items = Vec::new();
        let mut add = |signal, (message, count), droppable| {
            items.push(Item { signal, message, count, mark: None, droppable });
        };
        if all || self.points.is_enough() {
            self.points.take().into_iter().for_each(|ready| add(Signal::Metrics, ready, self.is_live));
        }
        self.records.ready.drain(..).for_each(|(signal, ready)| add(signal, ready, false));
        if all {
            self.records.take_spans().into_iter().for_each(|ready| add(Signal::Traces, ready, false));
            self.records.take_logs().into_iter().for_each(|ready| add(Signal::Logs, ready, false));
        }
        // Behind it nothing of the sample is left. A request of samples could be dropped, and its mark with it.
        if let Some(last) = items.last_mut().filter(|item| !item.droppable) {
            last.mark = mark;
        }
        self.push(items)
    }

    fn push(&self, items: Vec<Item>) -> Result<(), ExportError> {
        let Some(sender) = &self.sender else { return Ok(()) };
        for item in items {
            let signals = &self.signals;
            let pushed = sender.push(item, || is_ready(signals));
            pushed.map_err(|reason| ExportError::Otlp { url: self.url.clone(), reason })?;
        }
        Ok(())
    }
}

impl Format for Otlp {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        let mut mark = Mark::new();
        for (at, values) in sample.sets() {
            if let Some(resume) = &self.resume
                && resume.read(source, at, sample.time, values, &mut mark)
            {
                continue;
            }
            match self.events.get(at) {
                Some(true) => self.records.add(source, at, sample.time, values),
                _ => self.points.add(source, at, sample.time, values),
            }
            // A sample can have more than a request.
            if !self.is_live {
                self.pass(false, None)?;
            } else if self.points.is_enough() {
                let ready = self.points.take().into_iter();
                let item = |(message, count)| Item {
                    signal: Signal::Metrics,
                    message,
                    count,
                    mark: None,
                    droppable: true,
                };
                self.push(ready.map(item).collect())?;
            }
        }
        self.points.end(sample.time);
        if let Some(resume) = &mut self.resume {
            let anchored = resume.anchor(source, sample, &mark, self.records.is_empty());
            anchored.map_err(|reason| ExportError::Otlp { url: self.url.clone(), reason })?;
        }
        self.pass(self.is_live, (!mark.is_empty()).then_some(mark))
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        let passed = self.pass(true, None);
        self.records.finish();
        let Some(sender) = self.sender.take() else { return passed };
        let (counts, failed) = sender.finish(!self.is_live && passed.is_ok());
        let records = self.records.counts;
        complain!(
            "{NAME}: {} took {} points, {} spans, {} log records in {} requests",
            self.url,
            counts.points,
            counts.spans,
            counts.logs,
            counts.requests
        );
        for (count, what) in [
            (records.missed, "records were lost before they could be exported"),
            (records.unfinished, "spans have begun and did not end: they are not exported"),
            (records.malformed, "arrays of event records cannot be read"),
            (self.points.left_out, "values are neither numbers nor texts: they are not exported"),
        ] {
            if count > 0 {
                complain!("{NAME}: {count} {what}");
            }
        }
        match failed {
            Some(reason) => {
                Err(ExportError::Otlp { url: self.url.clone(), reason: lost(&counts, Some(&reason)) })
            }
            None if counts.rejected + counts.dropped + counts.left > 0 => {
                Err(ExportError::Otlp { url: self.url.clone(), reason: lost(&counts, None) })
            }
            None => passed,
        }
    }
}

/// What did not go out, in words.
fn lost(counts: &Counts, reason: Option<&str>) -> String {
    let parts = [
        (counts.rejected, "rejected by the receiver"),
        (counts.dropped, "dropped"),
        (counts.left, "not sent"),
    ];
    let parts = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} items {what}"));
    reason.map(str::to_owned).into_iter().chain(parts).collect::<Vec<_>>().join("; ")
}

fn is_event(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Event | ValueType::HighResEvent)
}

/// Whether a signal waits to be read.
fn is_ready(signals: &SignalFd) -> bool {
    poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO)
        .is_ok_and(|ready| ready > 0)
}

fn duration(option: &str, text: &str) -> Result<Duration, ExportError> {
    parse_interval(text).map_err(|error| ExportError::Usage(format!("{option}:\n{error}")))
}
