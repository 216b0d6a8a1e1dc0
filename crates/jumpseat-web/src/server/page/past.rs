//! Values from archives.
//!
//! Metrics are read record by record, so that no peak is missed; expressions, whose operands may lie in different records, and metrics of
//! which there are too many records, are interpolated.
//!
//! **Cost:** of a window at most [`MAX_RECORDS`] records or [`OVERSAMPLED`] samples a point.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pcp_client::{Context, Fetched, Mode, SetRef};
use pcp_model::{Inst, PmError};

use super::found::Found;
use super::lines::{Cells, Last, Series, Shown, Text, Window, seconds, timestamp};

/// Most records that are read.
const MAX_RECORDS: usize = 100_000;
/// How long they may take.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Samples a point where values are interpolated.
const OVERSAMPLED: usize = 2;
/// The shortest time between two of them.
const LEAST_STEP: f64 = 0.1;
/// Most points of all series, and most instances that are remembered as left out.
const MAX_CELLS: usize = 250_000;

/// Reads metrics and expressions between two times. Waits for the disk: for the pool only.
pub(super) fn read(context: &mut Context, exprs: &[String], window: &Window) -> Vec<Series> {
    // Each row may get a point, and a gap, in each part of the window.
    let rows = (MAX_CELLS / window.points.max(1)).max(1);
    let mut room = rows;
    let mut parts: Vec<Result<Part, String>> = (0..)
        .zip(exprs)
        .map(|(number, expr)| Found::find(context, expr, number).map(|found| Part::new(expr, found)))
        .collect();
    // One walk over the records for all metrics; what is interpolated another one.
    let is_recorded = |part: &Part| !part.found.derived && part.found.is_numeric();
    let all = |recorded: bool| -> Vec<usize> {
        let is_one =
            |part: &Result<Part, String>| part.as_ref().is_ok_and(|part| is_recorded(part) == recorded);
        (0..parts.len()).filter(|&at| is_one(&parts[at])).collect()
    };
    let (recorded, mut interpolated) = (all(true), all(false));
    if !recorded.is_empty() && !walk(context, &mut parts, &recorded, Mode::Forward, window, &mut room) {
        parts.iter_mut().flatten().for_each(Part::begin_anew);
        room = rows;
        interpolated.extend(recorded);
        interpolated.sort_unstable();
    }
    if !interpolated.is_empty() {
        let step = ((window.finish - window.start) / (window.points * OVERSAMPLED) as f64).max(LEAST_STEP);
        let step = Mode::Interpolate { step: (step * 1e9) as i64 };
        walk(context, &mut parts, &interpolated, step, window, &mut room);
    }
    let series = |(expr, part): (&String, Result<Part, String>)| match part {
        Ok(part) => part.series(),
        Err(error) => Series::failed(expr, error),
    };
    exprs.iter().zip(parts).map(series).collect()
}

/// A metric while it is read.
struct Part {
    expr: String,
    found: Found,
    rows: BTreeMap<Inst, (Last, Cells)>,
    left_out: BTreeSet<Inst>,
    texts: Vec<Text>,
    error: Option<String>,
    interpolated: bool,
}

/// Reads samples of some parts to the end of the window. False if there are too many.
fn walk(
    context: &mut Context,
    parts: &mut [Result<Part, String>],
    which: &[usize],
    mode: Mode,
    window: &Window,
    room: &mut usize,
) -> bool {
    let step = (window.finish - window.start) / window.points as f64;
    let pmids: Vec<_> =
        which.iter().filter_map(|&at| Some(parts[at].as_ref().ok()?.found.desc.pmid)).collect();
    // A rate needs the sample before.
    let lead = if let Mode::Interpolate { step } = mode { step as f64 * 1e-9 } else { 0.0 };
    let begin = timestamp((window.start - lead).max(0.0));
    let mut fetched = Fetched::new();
    let until = Instant::now() + MAX_TIME;
    let mut done = context.set_mode(mode, Some(begin));
    let mut records = 0;
    while done.is_ok() {
        match context.fetch_next(&pmids, &mut fetched) {
            Ok(true) => {}
            Ok(false) => return true,
            Err(error) => {
                done = Err(error);
                break;
            }
        }
        let time = seconds(fetched.timestamp);
        if time > window.finish {
            return true;
        }
        records += 1;
        let is_late = records % 1_000 == 0 && Instant::now() > until;
        if mode == Mode::Forward && (records > MAX_RECORDS || is_late) {
            return false;
        }
        if is_late {
            done = Err(PmError::TIMEOUT.into());
            break;
        }
        for (set, &at) in which.iter().enumerate() {
            let Ok(part) = &mut parts[at] else { continue };
            part.interpolated = mode != Mode::Forward;
            match fetched.set(set) {
                Some(set) => part.take(time, set, window, step, room),
                // A mark: recording was interrupted.
                None => part.gap(time),
            }
        }
    }
    if let Err(error) = done {
        for &at in which {
            if let Ok(part) = &mut parts[at] {
                part.error = Some(error.to_string());
            }
        }
    }
    true
}

impl Part {
    fn new(expr: &str, found: Found) -> Part {
        Part {
            expr: expr.to_owned(),
            found,
            rows: BTreeMap::new(),
            left_out: BTreeSet::new(),
            texts: Vec::new(),
            error: None,
            interpolated: false,
        }
    }

    fn begin_anew(&mut self) {
        self.rows.clear();
        self.left_out.clear();
    }

    fn take(&mut self, time: f64, set: SetRef<'_>, window: &Window, step: f64, room: &mut usize) {
        if !self.found.is_numeric() {
            if let Ok(texts) = self.found.texts(set)
                && !texts.is_empty()
            {
                self.texts = texts;
            }
            return;
        }
        // A record without the metric says nothing of it; one with an error has no values.
        let Ok(numbers) = self.found.numbers(set) else { return };
        for (inst, raw) in numbers {
            if !self.rows.contains_key(&inst) {
                if *room == 0 {
                    if self.left_out.len() < MAX_CELLS {
                        self.left_out.insert(inst);
                    }
                    continue;
                }
                *room -= 1;
                self.rows.insert(inst, (Last::default(), Cells::new(window.start, step)));
            }
            let Some((last, cells)) = self.rows.get_mut(&inst) else { continue };
            let shown = last.shown(&self.found.measure, time, raw);
            if time >= window.start {
                cells.push(time, shown);
            }
        }
    }

    fn gap(&mut self, time: f64) {
        for (last, cells) in self.rows.values_mut() {
            *last = Last::default();
            cells.push(time, None);
        }
    }

    fn series(self) -> Series {
        let found = &self.found;
        let lines = self.rows.into_iter().map(|(inst, (_, cells))| cells.line(inst, &found.name(inst)));
        Series {
            lines: lines.filter(|line| !line.t.is_empty()).collect(),
            shown: Some(Shown::of(&self.found.desc)),
            error: self.error,
            texts: self.texts,
            left_out: self.left_out.len(),
            interpolated: self.interpolated,
            expr: self.expr,
        }
    }
}
