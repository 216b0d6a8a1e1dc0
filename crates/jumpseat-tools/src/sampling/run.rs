//! The run: samples at equal intervals, each put out in the form that is wanted.

use std::process::ExitCode;

use pcp_client::{Fetched, Mode};
use pcp_model::PmError;

use super::options::SamplingSettings;
use super::pace::Pace;
use super::schedule::Schedule;
use super::sink::Sink;
use super::subject::Subject;

/// Samples the metric until the end.
///
/// # Errors
/// The exit code, after a message, if not one sample can be taken.
pub(super) fn run(mut subject: Subject, wanted: &SamplingSettings) -> Result<ExitCode, ExitCode> {
    let schedule = Schedule::new(&subject, wanted);
    let mut sink = Sink::new(&mut subject, wanted, &schedule)?;
    tracing::trace!(
        target: "pcp::timecontrol",
        "samples: {}, {:?} apart, {}{}",
        schedule.samples.map_or_else(|| "no end".to_owned(), |samples| samples.to_string()),
        schedule.interval,
        if schedule.by_record { "the records as they are" } else { "at these times" },
        if schedule.rated { ", as rates" } else { "" },
    );
    // From the origin on; a collector knows no time but now.
    if subject.is_recorded() {
        let step = i64::try_from(schedule.interval.as_nanos()).unwrap_or(i64::MAX);
        let mode = if schedule.by_record { Mode::Forward } else { Mode::Interpolate { step } };
        if let Err(error) = subject.context.set_mode(mode, Some(subject.window.origin)) {
            return Err(subject.fails(&format!("pmSetMode: {}", error.code().at(subject.ready.call.level))));
        }
    }
    let mut pace = Pace::new(schedule.interval);
    if sink.needs_an_end()
        && let Err(errno) = pace.catch_signals()
    {
        return Err(subject.fails(&format!("cannot catch signals: {errno}")));
    }
    // What was recorded is there at once.
    let pace = (!subject.is_recorded() || wanted.delay).then_some(pace);
    let complete = sample_all(&mut subject, wanted, &schedule, pace, &mut sink);
    // Whatever ended it: what was sampled is to be whole.
    let written = sink.finish(&mut subject);
    let printed = subject.out.finish(&subject.ready.call);
    match complete && written && printed {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

/// Takes one sample after the other. False if it is an error that ended it.
fn sample_all(
    subject: &mut Subject,
    wanted: &SamplingSettings,
    schedule: &Schedule,
    mut pace: Option<Pace>,
    sink: &mut Sink,
) -> bool {
    let mut fetched = Fetched::new();
    let (mut taken, mut first) = (0, true);
    while schedule.samples.is_none_or(|samples| taken < samples) {
        if let Some(pace) = &mut pace
            && !std::mem::take(&mut first)
            && !pace.wait()
        {
            return true;
        }
        if let Err(error) = fetch(subject, schedule.by_record, &mut fetched) {
            subject.out.flush();
            if error == PmError::EOL {
                return true;
            }
            let call = if schedule.by_record { "pmFetchArchive" } else { "pmFetch" };
            complain!("\n{}: {call}: {}", subject.ready.call.name, error.at(subject.ready.call.level));
            return false;
        }
        tracing::trace!(
            target: "pcp::timecontrol",
            "sample {} at {}",
            taken + 1,
            fetched.timestamp,
        );
        // A record without metrics is a mark: the logger was not there for a while.
        if fetched.is_empty() {
            sink.suspended(subject, wanted, fetched.timestamp);
            taken += 1;
            continue;
        }
        if schedule.end.is_some_and(|end| fetched.timestamp > end) {
            return true;
        }
        // Records of an archive have other metrics as well, in any place.
        let values = fetched.find(subject.desc.pmid).map_or(Err(PmError::IPC), |set| set.values);
        if let Err(error) = values {
            subject.out.flush();
            if error == PmError::NOTCONN {
                return true;
            }
            complain!("\n{}: pmFetch: {}", subject.ready.call.name, error.at(subject.ready.call.level));
            // There is nothing to show of it; a program that reads JSON is told the error as well.
            if !wanted.json {
                taken += 1;
                continue;
            }
        }
        let counts = sink.sample(subject, wanted, fetched.timestamp, values);
        if pace.is_some() {
            subject.out.flush();
        }
        match counts {
            Some(counts) if !subject.out.is_lost() => taken += u64::from(counts),
            _ => return true,
        }
    }
    true
}

/// The next sample; of the records of an archive the next that has the metric, or the next mark, which is empty.
fn fetch(subject: &mut Subject, by_record: bool, fetched: &mut Fetched) -> Result<(), PmError> {
    let pmid = subject.desc.pmid;
    let fetched = match by_record {
        true => subject.context.fetch_record_of(pmid, fetched),
        false => subject.context.fetch(&[pmid], fetched).map(drop),
    };
    fetched.map_err(|error| error.code())
}
