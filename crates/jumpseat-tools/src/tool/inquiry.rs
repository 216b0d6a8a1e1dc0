//! Asking about metrics, many at a time: names, values and descriptors with one request of each kind.
//!
//! Tools that show each metric once (`info`, `probe`) differ in what they print only. In an archive "once" is the first
//! record of a metric from some time on, so each metric is asked about by itself, starting there again.

use std::process::ExitCode;

use pcp_client::{Context, Fetched, Mode};
use pcp_model::{Desc, InDom, PmError, Pmid, Timestamp, ValueType};

use super::call::Call;
use super::clock::Clock;
use super::command_line::Ready;
use super::derived::report_unusable;
use super::instances::Instances;
use super::out::Out;
use super::window::replay_from;

/// Metrics asked about with one request of each kind, unless the user says otherwise.
const BATCH: usize = 128;

/// A source of metrics, and what has been learnt about it.
pub(crate) struct Inquiry {
    /// The source.
    pub context: Context,
    /// Where each metric's first record is looked for, in an archive.
    pub origin: Option<Timestamp>,
    /// Instances, at the time of the last fetch.
    pub instances: Instances,
    /// The zone for times.
    pub clock: Clock,
    /// Standard output.
    pub out: Out,
    /// What the last fetch brought, reused from one to the next.
    fetched: Fetched,
}

/// Tells which name must have been meant by one that there is not, behind the message that it is not there. PCP's tools do
/// not, nor do these by their names.
pub(crate) fn hint_name(context: &mut Context, call: &Call, name: &str, error: PmError) {
    if call.pcp || error != PmError::NAME {
        return;
    }
    if let Some(near) = context.nearest_name(name) {
        complain!("{}: {name}: did you mean {near}?", call.name);
    }
}

/// What a tool has to know about metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Fetch them.
    pub values: bool,
    /// Ask for their descriptors.
    pub descs: bool,
    /// Names that nobody knows stand for metrics that nobody has, and are fetched as these.
    pub unknown_names: bool,
}

/// A metric that was asked about.
#[derive(Clone, Debug)]
pub(crate) struct Metric<'n> {
    /// Its name.
    pub name: &'n str,
    /// Its identifier.
    pub pmid: Pmid,
    /// Its descriptor, if that was asked for.
    pub desc: Result<Option<Desc>, PmError>,
}

/// What came of a batch of names.
pub(crate) struct Answer<'n> {
    /// Names that are no metric's, and why.
    pub unknown: Vec<(&'n str, PmError)>,
    /// The others, in their order.
    pub metrics: Vec<Metric<'n>>,
    /// Their value sets, in the same order; none if there was no need. An error is that of the whole request: then there
    /// are no descriptors either.
    pub values: Result<Fetched, PmError>,
}

impl Inquiry {
    /// About metrics of an open source. In an archive it starts where the command line says.
    ///
    /// # Errors
    /// The exit code, after a message.
    pub(crate) fn new(mut context: Context, ready: &Ready) -> Result<Inquiry, ExitCode> {
        let mut out = Out::new(&ready.call);
        let (clock, origin) = replay_from(ready, &mut context, &mut out)?;
        let (instances, fetched) = (Instances::default(), Fetched::new());
        Ok(Inquiry { context, origin, instances, clock, out, fetched })
    }

    /// How many metrics to ask about at a time, where the user wants `wanted`.
    pub(crate) fn batch(&self, wanted: Option<usize>) -> usize {
        match self.origin {
            Some(_) => 1,
            None => wanted.unwrap_or(BATCH),
        }
    }

    /// Asks about metrics by their names. Hand the value sets back with [`Inquiry::reuse`].
    pub(crate) fn ask<'n>(&mut self, names: &'n [String], needs: Needs) -> Answer<'n> {
        let mut answer = self.look_up(names, needs);
        if answer.metrics.is_empty() {
            return answer;
        }
        let pmids: Vec<Pmid> = answer.metrics.iter().map(|metric| metric.pmid).collect();
        if needs.values {
            self.rewind();
            let fetched = answer.values.as_mut().map_err(|error| *error);
            let outcome = fetched.and_then(|fetched| {
                self.context.fetch(&pmids, fetched).map(|_| ()).map_err(|error| error.code())
            });
            self.moved();
            if let Err(error) = outcome {
                answer.values = Err(error);
                return answer;
            }
        }
        if needs.descs {
            let descs =
                self.context.descs(&pmids).unwrap_or_else(|error| vec![Err(error.code()); pmids.len()]);
            debug_assert_eq!(descs.len(), pmids.len(), "there is an answer for each metric");
            for (metric, desc) in answer.metrics.iter_mut().zip(descs) {
                metric.desc = desc.map(Some);
            }
        }
        // Definitions are bound when their metrics are first asked for, so now is when they turn out to be of no use.
        report_unusable(&mut self.context);
        answer
    }

    /// Tells that something was fetched: an archive is at the time of that now, with the instances of then.
    pub(crate) fn moved(&mut self) {
        if self.origin.is_some() {
            self.instances.move_to(self.context.mode().1);
        }
    }

    /// Takes value sets back, for the next fetch.
    pub(crate) fn reuse(&mut self, fetched: Fetched) {
        self.fetched = fetched;
    }

    fn look_up<'n>(&mut self, names: &'n [String], needs: Needs) -> Answer<'n> {
        let mut fetched = std::mem::take(&mut self.fetched);
        fetched.clear();
        let mut answer = Answer { unknown: Vec::new(), metrics: Vec::new(), values: Ok(fetched) };
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        let pmids = match self.context.lookup_names(&refs) {
            Ok(pmids) => pmids,
            // An archive refuses a request of nothing but unknown names; a collector answers each.
            Err(_) if needs.unknown_names && self.origin.is_some() => vec![None; names.len()],
            Err(error) => {
                let error = error.code();
                answer.unknown = refs.into_iter().map(|name| (name, error)).collect();
                return answer;
            }
        };
        let mut unknown = Vec::new();
        for (name, pmid) in refs.into_iter().zip(pmids) {
            match pmid.or(needs.unknown_names.then_some(Pmid::NULL)) {
                Some(pmid) => answer.metrics.push(Metric { name, pmid, desc: Ok(None) }),
                None => unknown.push(name),
            }
        }
        let why = self.why_unknown(&unknown);
        answer.unknown = unknown.into_iter().zip(why).collect();
        answer
    }

    /// Why names among others are no metrics': collectors tell that of a single name only, such as that the agent which would
    /// know it is gone. So each is asked about by itself, all at once.
    fn why_unknown(&mut self, names: &[&str]) -> Vec<PmError> {
        if self.origin.is_some() || names.is_empty() {
            return vec![PmError::NAME; names.len()];
        }
        match self.context.lookup_each(names) {
            Ok(found) => found.into_iter().map(|found| found.err().unwrap_or(PmError::NAME)).collect(),
            Err(error) => vec![error.code(); names.len()],
        }
    }

    /// Goes back to where each metric is looked for.
    fn rewind(&mut self) {
        if let Some(origin) = self.origin {
            let archive = self.context.set_mode(Mode::Forward, Some(origin));
            debug_assert!(archive.is_ok(), "only archives have an origin, and they all have this mode");
        }
    }
}

impl Metric<'_> {
    /// Its descriptor, if that was asked for and could be had.
    pub(crate) fn desc(&self) -> Option<Desc> {
        self.desc.ok().flatten()
    }

    /// Its instance domain.
    pub(crate) fn indom(&self) -> InDom {
        self.desc().map_or(InDom::NULL, |desc| desc.indom)
    }

    /// The type of its values.
    pub(crate) fn value_type(&self) -> ValueType {
        self.desc().map_or(ValueType::Unknown, |desc| desc.value_type)
    }
}
