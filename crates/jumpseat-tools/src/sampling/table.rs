//! Values in columns, one for each instance (`docs/pcp/tools.md` 5.5 and 5.6).

use pcp_client::Context;
use pcp_event::print_value;
use pcp_model::{Desc, InDom, Inst, PrintOptions, Semantics, Timestamp, Value, ValueType, c_number};
use pcp_pdu::{ValueRef, ValuesRef};

use super::rate::{self, number as as_number};
use super::real::{self, put_real, put_right};
use super::style::Style;
use super::subject::all_instances;
use crate::tool::{Clock, Out, put};

/// The columns, and the sample that rates start from.
pub(super) struct Table {
    desc: Desc,
    counter: bool,
    rated: bool,
    wraps: bool,
    width: usize,
    precision: Option<usize>,
    squash: PrintOptions,
    style: Style,
    columns: Columns,
    /// Whether there were values before: those of the first sample are of the instances that there are at the start, and others
    /// among them only warned of.
    begun: bool,
    /// Whether the headers of the columns are out of date.
    stale: bool,
    /// Whether the whole names of the columns have been shown.
    named: bool,
    last: Option<TimedValues>,
    /// Whether there was a line since rates last started.
    any_shown: bool,
    /// The line that is printed, and a number in it.
    line: Vec<u8>,
    number: String,
}

/// What columns there are.
pub(super) struct Columns {
    /// Instances and their names.
    pub of: Vec<(Inst, String)>,
    /// Whether new instances get columns.
    pub grow: bool,
}

/// Values of the metric's type at a time.
pub(super) struct TimedValues {
    /// When.
    pub time: Timestamp,
    /// Of each instance.
    pub values: Vec<(Inst, Value)>,
}

/// What a sample shows.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    /// Nothing at all: it is what the first rates start from.
    Nothing,
    /// That there are no values.
    NoValues,
    /// Values, or rates, of instances.
    Values(Vec<(Inst, Value)>),
}

/// What becomes of a sample.
pub(super) struct Taken {
    /// What there is to show.
    pub shown: Shown,
    /// Whether it is one of the samples asked for.
    pub counts: bool,
}

/// The width of a column, if nothing else is asked for.
pub(super) fn default_width(value_type: ValueType) -> usize {
    match value_type {
        ValueType::I32 | ValueType::U32 => 11,
        ValueType::Float => 13,
        ValueType::Event | ValueType::HighResEvent => 0,
        _ => 21,
    }
}

impl TimedValues {
    /// Values of the metric's type; others are left out.
    pub(super) fn decode(time: Timestamp, values: ValuesRef<'_>, value_type: ValueType) -> TimedValues {
        let typed = |(inst, value): (Inst, ValueRef<'_>)| Some((inst, value.to_value(value_type).ok()?));
        let mut all = Vec::with_capacity(values.len());
        all.extend(values.iter().filter_map(typed));
        TimedValues { time, values: all }
    }
}

impl Table {
    /// With the columns to begin with, each as wide as values are to be printed.
    pub(super) fn new(
        desc: Desc,
        rated: bool,
        squash: PrintOptions,
        precision: Option<usize>,
        columns: Columns,
        style: Style,
    ) -> Table {
        Table {
            desc,
            counter: desc.semantics == Semantics::Counter,
            rated,
            wraps: std::env::var_os("PCP_COUNTER_WRAP").is_some(),
            width: squash.width,
            precision,
            squash,
            style,
            columns,
            begun: false,
            stale: true,
            named: false,
            last: None,
            any_shown: false,
            line: Vec::new(),
            number: String::new(),
        }
    }

    /// Takes a sample, or the lack of one, and says what to show of it. Rates need a sample to start from, which is
    /// not counted as one of those asked for. Where there were lines before, PCP shows it as one without values.
    pub(super) fn take(&mut self, sample: Option<TimedValues>) -> Taken {
        let Some(sample) = sample.filter(|sample| !sample.values.is_empty()) else {
            self.any_shown |= self.last.is_none();
            self.last = None;
            self.stale = true;
            return Taken { shown: Shown::NoValues, counts: true };
        };
        if !self.rated {
            return Taken { shown: Shown::Values(sample.values), counts: true };
        }
        let any_shown = std::mem::replace(&mut self.any_shown, self.last.is_some());
        let Some(last) = self.last.replace(sample) else {
            // PCP has no line for the first start of all, and one without values for each later one.
            let shown = if any_shown { Shown::NoValues } else { Shown::Nothing };
            return Taken { shown, counts: false };
        };
        let mut rates = Vec::new();
        if let Some(new) = &self.last {
            let elapsed = rate::seconds(last.time, new.time);
            rates.reserve(new.values.len());
            rates.extend(new.values.iter().enumerate().filter_map(|(at, (inst, value))| {
                // An instance that is new has no rate yet.
                let old = of_instance(&last.values, at, *inst)?;
                let (old, value) = (as_number(old)?, as_number(value)?);
                let rate = rate::rate(old, value, self.desc.value_type, elapsed, self.desc.units, self.wraps);
                Some((*inst, Value::Double(rate)))
            }));
        }
        Taken { shown: Shown::Values(rates), counts: true }
    }

    /// Recording was interrupted: rates start anew.
    pub(super) fn suspend(&mut self) {
        self.any_shown = self.last.take().is_none();
        self.stale = true;
    }

    /// Prints the headers of the columns where they are due: before the first values, after values were missing, and
    /// for a new instance. Lines begin with a stamp of this length.
    pub(super) fn headers(&mut self, present: &[Inst], stamp: usize, context: &mut Context, out: &mut Out) {
        if self.desc.indom == InDom::NULL {
            return;
        }
        // Columns do not come and go with values: the names are asked for again if there is a new one.
        let known = |(at, inst): (usize, &Inst)| of_instance(&self.columns.of, at, *inst).is_some();
        let is_due = self.columns.of.is_empty() || (self.begun && !present.iter().enumerate().all(known));
        if self.columns.grow && is_due {
            if let Ok(all) = all_instances(context, self.desc.indom) {
                self.columns.of = all;
            }
            self.named = false;
            self.stale = true;
        }
        self.begun |= !present.is_empty();
        // PCP has an empty line for no columns, but not in archives.
        let empty = self.columns.of.is_empty() && stamp > 0;
        if std::mem::take(&mut self.stale) && !empty {
            self.print_headers(stamp, out);
        }
    }

    /// Prints a line of values. It begins with a stamp, empty for values of now.
    pub(super) fn print(&mut self, stamp: &str, shown: &[(Inst, Value)], clock: &Clock, out: &mut Out) {
        let mut line = std::mem::take(&mut self.line);
        let mut number = std::mem::take(&mut self.number);
        line.clear();
        line.extend_from_slice(self.style.label(stamp).as_bytes());
        if self.desc.indom == InDom::NULL {
            match shown.first() {
                Some((_, value)) => self.value(value, clock, &mut number, &mut line),
                None => line.extend_from_slice(format!("{:>1$}", '?', self.width).as_bytes()),
            }
        } else {
            for (at, (inst, _)) in self.columns.of.iter().enumerate() {
                match of_instance(shown, at, *inst) {
                    Some(value) => self.value(value, clock, &mut number, &mut line),
                    None => line
                        .extend_from_slice(self.style.label(&format!("{:>1$}", '?', self.width)).as_bytes()),
                }
                line.push(b' ');
            }
        }
        // Neither a stamp nor a column: no line.
        if self.desc.indom == InDom::NULL || !line.is_empty() {
            line.push(b'\n');
            out.bytes(&line);
        }
        (self.line, self.number) = (line, number);
        self.warn_of_unknown(shown, clock, out);
    }

    /// Names of the columns, cut to their width; whole ones in front if any is cut, for the first time.
    fn print_headers(&mut self, indent: usize, out: &mut Out) {
        let longest = self.columns.of.iter().map(|(_, name)| name.len()).max().unwrap_or(0);
        if longest > self.width && !std::mem::replace(&mut self.named, true) {
            for (at, (_, name)) in self.columns.of.iter().enumerate() {
                put!(out, "full label for instance[{at}]: {name}\n");
            }
        }
        put!(out, "\n{:indent$}", "");
        // Rates have a point with digits behind it, and PCP has the name stand over what is before it.
        let indented = self.rated && self.precision.is_none() && longest + 3 <= self.width;
        for (_, name) in &self.columns.of {
            let name: String =
                // PCP counts bytes.
                String::from_utf8_lossy(name.as_bytes().get(..self.width).unwrap_or(name.as_bytes()))
                    .into_owned();
            let (width, after) = if indented { (self.width - 3, "    ") } else { (self.width, " ") };
            put!(out, "{}{after}", self.style.name(&format!("{name:>width$}")));
        }
        put!(out, "\n");
    }

    fn warn_of_unknown(&self, shown: &[(Inst, Value)], clock: &Clock, out: &mut Out) {
        // Of instances that were chosen the others are not missed.
        if !self.columns.grow || self.desc.indom == InDom::NULL {
            return;
        }
        let known = |at: usize, inst: Inst| of_instance(&self.columns.of, at, inst).is_some();
        let unknown = shown.iter().enumerate().filter(|(at, (inst, _))| !known(*at, *inst));
        let mut unknown: Vec<_> = unknown.map(|(_, shown)| shown).collect();
        unknown.sort_by_key(|(inst, _)| *inst);
        for (inst, value) in unknown {
            let mut text = Vec::new();
            let options = PrintOptions { width: 1, ..self.squash };
            print_value(value, options, |seconds| clock.utc_offset(seconds), &mut text);
            let text = String::from_utf8_lossy(&text);
            put!(out, "Warning: value={text}, but instance={inst} is unknown\n");
        }
    }

    fn value(&self, value: &Value, clock: &Clock, number: &mut String, line: &mut Vec<u8>) {
        // Whole numbers and text are printed as everywhere; numbers with a point have PCP's rules for columns.
        if !matches!(value, Value::Float(_) | Value::Double(_)) {
            return print_value(value, self.squash, |seconds| clock.utc_offset(seconds), line);
        }
        let v = as_number(value).unwrap_or_default();
        match self.precision {
            _ if self.counter && v < 0.0 => {
                line.extend_from_slice(self.style.warning(&real::fallen(self.width)).as_bytes());
            }
            Some(digits) => {
                number.clear();
                c_number::put_fixed(number, v, digits);
                put_right(number, self.width, line);
            }
            None => put_real(v, self.width, number, line),
        }
    }
}

/// What is of an instance. Samples have instances in one order, nearly always, so it is looked for where it should be first.
fn of_instance<T>(all: &[(Inst, T)], at: usize, inst: Inst) -> Option<&T> {
    let there = all.get(at).filter(|(other, _)| *other == inst);
    there.or_else(|| all.iter().find(|(other, _)| *other == inst)).map(|(_, found)| found)
}
