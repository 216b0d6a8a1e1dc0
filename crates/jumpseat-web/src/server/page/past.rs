//! Values from archives.
//!
//! Metrics are read record by record, so that no peak is missed; expressions, whose operands may lie in different records, and metrics of
//! which there are too many records, are interpolated.
//!
//! **Cost:** of a window at most [`MAX_RECORDS`] records or [`OVERSAMPLED`] samples a point.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pcp_client::{Context, Fetched, Mode, SetRef};
use pcp_model::Inst;

use super::found::Found;
use super::lines::{Cells, Last, Series, Shown, Window, seconds, timestamp};

/// Most records that are read.
const MAX_RECORDS: usize = 100_000;
/// How long they may take.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Samples a point where values are interpolated.
const OVERSAMPLED: usize = 2;
/// The shortest time between two of them.
const LEAST_STEP: f64 = 0.1;
/// Most points of all series.
const MAX_CELLS: usize = 250_000;

/// Reads metrics and expressions between two times. Waits for the disk: for the pool only.
pub(super) fn read(context: &mut Context, exprs: &[String], window: &Window) -> Vec<Series> {
    let mut room = MAX_CELLS;
    let mut parts: Vec<Result<Part, Series>> = (0..)
        .zip(exprs)
        .map(|(number, expr)| match Found::find(context, expr, number) {
            Ok(found) => Ok(Part::new(expr, found)),
            Err(error) => Err(Series::failed(expr, error)),
        })
        .collect();
    // One walk over the records for all metrics; what is interpolated another one.
    let all = |parts: &mut Vec<Result<Part, Series>>, which: fn(&Part) -> bool| -> Vec<usize> {
        (0..parts.len()).filter(|&at| parts[at].as_ref().is_ok_and(which)).collect()
    };
    let recorded = all(&mut parts, |part| !part.found.derived && part.found.is_numeric());
    let mut interpolated = all(&mut parts, |part| part.found.derived || !part.found.is_numeric());
    if !recorded.is_empty() {
        let begin = Mode::Forward;
        if !walk(context, &mut parts, &recorded, begin, window, &mut room) {
            for &at in &recorded {
                if let Ok(part) = &mut parts[at] {
                    part.begin_anew();
                }
            }
            room = MAX_CELLS;
            interpolated.extend(recorded);
            interpolated.sort_unstable();
        }
    }
    if !interpolated.is_empty() {
        let step = ((window.finish - window.start) / (window.points * OVERSAMPLED) as f64).max(LEAST_STEP);
        let step = Mode::Interpolate { step: (step * 1e9) as i64 };
        walk(context, &mut parts, &interpolated, step, window, &mut room);
    }
    parts.into_iter().map(|part| part.map_or_else(|failed| failed, Part::series)).collect()
}

/// A metric while it is read.
struct Part {
    expr: String,
    found: Found,
    rows: BTreeMap<Inst, (Last, Cells)>,
    left_out: std::collections::BTreeSet<Inst>,
    texts: Vec<super::lines::Text>,
    error: Option<String>,
    interpolated: bool,
}

/// Reads samples of some parts to the end of the window. False if there are too many.
fn walk(
    context: &mut Context,
    parts: &mut [Result<Part, Series>],
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
            done = Err(pcp_model::PmError::TIMEOUT.into());
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
            left_out: Default::default(),
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
                    self.left_out.insert(inst);
                    continue;
                }
                self.rows.insert(inst, (Last::default(), Cells::new(window.start, step)));
            }
            let Some((last, cells)) = self.rows.get_mut(&inst) else { continue };
            let shown = last.shown(&self.found.measure, time, raw);
            if time >= window.start {
                let before = cells.len();
                cells.push(time, shown);
                *room = room.saturating_sub(cells.len() - before);
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
