//! Metric queries: how many lines there were, at each step of a window.
//!
//! **Cost:** a record is two additions, whatever the range and the step are: what comes and goes is noted at the steps where it does,
//! and added up at the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::line::Labels;
use super::logql::{AggregateOp, BinaryOp, Compare, Expr, Grouping, LogQuery, RangeOp};
use super::pipeline;
use crate::server::records::Turn;
use crate::server::records::record::Record;
use crate::server::records::walk::{Order, Visitor, Walked, Window};

/// Most steps, as Loki has it, and most series of a range; most values of all series in a query.
pub(super) const MAX_STEPS: i64 = 11_000;
pub(super) const MAX_SERIES: usize = 1000;
const MAX_CELLS: usize = 250_000;
/// Most ranges in an expression: each goes through the records.
const MAX_RANGES: usize = 8;

/// The times at which values are wanted, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub start: i64,
    pub step: i64,
    /// At least 1.
    pub number: usize,
}

impl Steps {
    /// From a time to another one, at most [`MAX_STEPS`].
    ///
    /// # Errors
    /// In Loki's words.
    pub(super) fn new(start: i64, end: i64, step: i64) -> Result<Steps, String> {
        if step <= 0 {
            return Err(
                "zero or negative query resolution step widths are not accepted. Try a positive integer"
                    .to_owned(),
            );
        }
        let number = (i128::from(end) - i128::from(start)) / i128::from(step) + 1;
        if number > i128::from(MAX_STEPS) {
            return Err("exceeded maximum resolution of 11,000 points per time series. Try increasing the value of the step parameter".to_owned());
        }
        Ok(Steps { start, step, number: usize::try_from(number).unwrap_or(1).max(1) })
    }

    /// The time of a step.
    pub(super) fn at(self, number: usize) -> i64 {
        let steps = i64::try_from(number).unwrap_or(i64::MAX);
        self.start.saturating_add(self.step.saturating_mul(steps))
    }

    fn last(self) -> i64 {
        self.at(self.number - 1)
    }
}

/// A series: a value, or none, for each step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub labels: Labels,
    pub values: Vec<Option<f64>>,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Series(Vec<Series>),
}

/// Computes.
pub(super) struct Machine<'a> {
    turn: &'a Turn<'a>,
    steps: Steps,
    ranges: usize,
    /// How many more values there may be.
    cells: usize,
    /// What all walks came to.
    pub walked: Walked,
}

impl<'a> Machine<'a> {
    pub(super) fn new(turn: &'a Turn<'a>, steps: Steps) -> Machine<'a> {
        Machine { turn, steps, ranges: 0, cells: MAX_CELLS, walked: Walked::default() }
    }

    /// The value of an expression, which is not one for lines.
    ///
    /// # Errors
    /// What is too much.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Value, String> {
        match expr {
            Expr::Log(_) => Err("lines are not numbers".to_owned()),
            Expr::Number(number) => Ok(Value::Number(*number)),
            Expr::Vector(number) => Ok(Value::Series(vec![self.everywhere(*number)?])),
            Expr::Range { op, query, range, offset } => {
                self.range(*op, query, *range, *offset, None).map(Value::Series)
            }
            Expr::Aggregate { op, param, grouping, of } => {
                let all = Grouping { without: false, names: Vec::new() };
                let grouping = grouping.as_ref().unwrap_or(&all);
                let inner = match (&**of, op) {
                    // A sum of counts is a count of all: series are not told apart that are added up anyway.
                    (Expr::Range { op, query, range, offset }, AggregateOp::Sum) => {
                        self.range(*op, query, *range, *offset, Some(grouping))?
                    }
                    (of, _) => match self.value(of)? {
                        Value::Series(series) => series,
                        Value::Number(_) => return Err("a number cannot be aggregated".to_owned()),
                    },
                };
                Ok(Value::Series(aggregate(*op, *param, grouping, inner, self.steps.number)))
            }
            Expr::Binary { op, is_bool, left, right } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                Ok(binary(*op, *is_bool, left, right))
            }
        }
    }

    fn everywhere(&mut self, number: f64) -> Result<Series, String> {
        self.cells = self.cells.checked_sub(self.steps.number).ok_or_else(too_many)?;
        Ok(Series { labels: Labels::new(), values: vec![Some(number); self.steps.number] })
    }

    fn range(
        &mut self,
        op: RangeOp,
        query: &LogQuery,
        range: i64,
        offset: i64,
        grouping: Option<&Grouping>,
    ) -> Result<Vec<Series>, String> {
        self.ranges += 1;
        if self.ranges > MAX_RANGES {
            return Err(format!("more than {MAX_RANGES} ranges in one query"));
        }
        if self.turn.is_over() {
            return Err("query timed out: ask for a shorter time".to_owned());
        }
        // A step has what is after its range's beginning, up to itself.
        let (first, last) =
            (self.steps.start.saturating_sub(offset), self.steps.last().saturating_sub(offset));
        let window =
            Window { from: first.saturating_sub(range).saturating_add(1), to: last.saturating_add(1) };
        let is_bytes = matches!(op, RangeOp::BytesOverTime | RangeOp::BytesRate);
        let steps = Steps { start: first, ..self.steps };
        let mut counts = Counts {
            query,
            grouping,
            steps,
            range,
            is_bytes,
            series: HashMap::new(),
            cells: self.cells,
            refused: None,
        };
        let walked = self.turn.walk(window, Order::Newest, &mut counts);
        if let Some(refused) = counts.refused {
            return Err(refused);
        }
        self.cells = counts.cells;
        self.walked.looked += walked.looked;
        self.walked.bytes += walked.bytes;
        self.walked.cut = self.walked.cut.or(walked.cut);
        self.walked.problems.extend(walked.problems);
        let per = match op {
            RangeOp::Rate | RangeOp::BytesRate => range as f64 / 1e9,
            RangeOp::CountOverTime | RangeOp::BytesOverTime => 1.0,
        };
        let mut series: Vec<Series> = counts
            .series
            .into_iter()
            .map(|(labels, changes)| {
                let mut sum = (0_i64, 0_i64);
                let mut values = Vec::with_capacity(steps.number);
                for (number, amount) in changes.into_iter().take(steps.number) {
                    sum = (sum.0 + number, sum.1 + amount);
                    values.push((sum.0 > 0).then_some(sum.1 as f64 / per));
                }
                Series { labels, values }
            })
            .collect();
        series.sort_by(|one, other| one.labels.cmp(&other.labels));
        Ok(series)
    }
}

/// Counts the lines of a query.
struct Counts<'a> {
    query: &'a LogQuery,
    grouping: Option<&'a Grouping>,
    steps: Steps,
    range: i64,
    is_bytes: bool,
    /// How many lines, and how much, more than at the step before; one more step than there are.
    series: HashMap<Labels, Vec<(i64, i64)>>,
    /// How many more values there may be.
    cells: usize,
    refused: Option<String>,
}

impl Visitor for Counts<'_> {
    fn host(&self, host: &str) -> bool {
        pipeline::wants_host(self.query, host)
    }

    fn wants(&mut self, record: &Record) -> bool {
        self.refused.is_none() && pipeline::run(self.query, record).is_some()
    }

    fn take(&mut self, record: Arc<Record>) {
        let Some(entry) = pipeline::run(self.query, &record) else { return };
        let labels = match self.grouping {
            None => entry.labels(),
            Some(Grouping { without: false, names }) => {
                names.iter().filter_map(|name| Some((name.clone(), entry.get(name)?.into_owned()))).collect()
            }
            Some(Grouping { without: true, names }) => {
                let mut labels = entry.labels();
                labels.retain(|name, _| !names.contains(name));
                labels
            }
        };
        let Some((from, to)) = places(self.steps, self.range, record.time) else { return };
        let is_new = !self.series.contains_key(&labels);
        if is_new && self.series.len() >= MAX_SERIES {
            self.refused = Some(format!(
                "maximum of series ({MAX_SERIES}) reached for a single query; consider reducing query cardinality by adding more specific stream selectors, reducing the time range, or aggregating results with functions like sum(), count() or topk()"
            ));
            return;
        }
        if is_new {
            let Some(cells) = self.cells.checked_sub(self.steps.number) else {
                self.refused = Some(too_many());
                return;
            };
            self.cells = cells;
        }
        let amount = if self.is_bytes { i64::try_from(entry.line().len()).unwrap_or(i64::MAX) } else { 1 };
        let changes = self.series.entry(labels).or_insert_with(|| vec![(0, 0); self.steps.number + 1]);
        for (place, sign) in [(from, 1), (to, -1)] {
            if let Some(change) = changes.get_mut(place) {
                *change = (change.0 + sign, change.1 + sign * amount);
            }
        }
    }

    fn enough(&self, _: i64) -> bool {
        self.refused.is_some()
    }
}

fn too_many() -> String {
    format!(
        "more than {MAX_CELLS} values in one query: ask with a longer step, for a shorter time, or for fewer series by more specific stream selectors or functions like sum()"
    )
}

/// The first step whose range has a time, and the first after it that has not; `None` if none has.
fn places(steps: Steps, range: i64, time: i64) -> Option<(usize, usize)> {
    let (start, step, time) = (i128::from(steps.start), i128::from(steps.step), i128::from(time));
    let first = (time - start + step - 1).div_euclid(step).max(0);
    let behind = (time + i128::from(range) - start + step - 1).div_euclid(step).min(steps.number as i128);
    if first >= behind {
        return None;
    }
    Some((usize::try_from(first).ok()?, usize::try_from(behind).ok()?))
}

fn grouped(grouping: &Grouping, labels: &Labels) -> Labels {
    let stays = |name: &String| grouping.names.contains(name) != grouping.without;
    labels.iter().filter(|(name, _)| stays(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn aggregate(
    op: AggregateOp,
    param: f64,
    grouping: &Grouping,
    series: Vec<Series>,
    steps: usize,
) -> Vec<Series> {
    let mut groups: BTreeMap<Labels, Vec<Series>> = BTreeMap::new();
    for one in series {
        groups.entry(grouped(grouping, &one.labels)).or_default().push(one);
    }
    let mut aggregated = Vec::new();
    for (labels, mut members) in groups {
        if op.has_param() {
            pick(op, param as usize, &mut members, steps);
            aggregated.extend(members.into_iter().filter(|one| one.values.iter().any(Option::is_some)));
            continue;
        }
        let at = |step: usize| {
            let values: Vec<f64> = members.iter().filter_map(|one| *one.values.get(step)?).collect();
            let number = values.len() as f64;
            (!values.is_empty()).then(|| match op {
                AggregateOp::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
                AggregateOp::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                AggregateOp::Count => number,
                AggregateOp::Avg => values.iter().sum::<f64>() / number,
                AggregateOp::Sum | AggregateOp::Topk | AggregateOp::Bottomk => values.iter().sum(),
            })
        };
        aggregated.push(Series { labels, values: (0..steps).map(at).collect() });
    }
    aggregated
}

/// Leaves the largest or the smallest at each step.
fn pick(op: AggregateOp, number: usize, members: &mut [Series], steps: usize) {
    for step in 0..steps {
        let mut order: Vec<(f64, usize)> = members
            .iter()
            .enumerate()
            .filter_map(|(at, one)| Some(((*one.values.get(step)?)?, at)))
            .collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        if op == AggregateOp::Topk {
            order.reverse();
        }
        for (_, at) in order.into_iter().skip(number) {
            members[at].values[step] = None;
        }
    }
}

fn binary(op: BinaryOp, is_bool: bool, left: Value, right: Value) -> Value {
    // A comparison of numbers is 1 or 0; of series it keeps what it holds for, unless it shall be 1 or 0, too.
    let of = |one: f64, other: f64, keep: f64, is_bool: bool| match op {
        BinaryOp::Compare(compare) => {
            let holds = Compare::holds(compare, one, other);
            if is_bool { Some(f64::from(u8::from(holds))) } else { holds.then_some(keep) }
        }
        _ => Some(arithmetic(op, one, other)),
    };
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => Value::Number(of(one, other, one, true).unwrap_or(0.0)),
        (Value::Series(series), Value::Number(other)) => {
            Value::Series(mapped(series, |value| of(value, other, value, is_bool)))
        }
        (Value::Number(one), Value::Series(series)) => {
            Value::Series(mapped(series, |value| of(one, value, value, is_bool)))
        }
        (Value::Series(one), Value::Series(other)) => {
            let mut by_labels: HashMap<Labels, Vec<Option<f64>>> =
                other.into_iter().map(|series| (series.labels, series.values)).collect();
            let paired = one.into_iter().filter_map(|series| {
                let other = by_labels.remove(&series.labels)?;
                let values =
                    series.values.iter().zip(other).map(|(&one, other)| of(one?, other?, one?, is_bool));
                Some(Series { values: values.collect(), labels: series.labels })
            });
            Value::Series(paired.collect())
        }
    }
}

fn mapped(mut series: Vec<Series>, map: impl Fn(f64) -> Option<f64>) -> Vec<Series> {
    for value in series.iter_mut().flat_map(|one| &mut one.values) {
        *value = value.and_then(&map);
    }
    series
}

fn arithmetic(op: BinaryOp, one: f64, other: f64) -> f64 {
    match op {
        BinaryOp::Add => one + other,
        BinaryOp::Sub => one - other,
        BinaryOp::Mul => one * other,
        BinaryOp::Div => one / other,
        BinaryOp::Mod => one % other,
        BinaryOp::Pow => one.powf(other),
        BinaryOp::Compare(_) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use pcp_event::EventFlags;

    use super::super::logql::parse;
    use super::*;
    use crate::server::records::record::tests::{origin, record};
    use crate::server::records::tests::with_none;

    #[test]
    fn a_time_is_in_the_ranges_of_its_steps() {
        let steps = Steps { start: 100, step: 10, number: 5 };
        // 100, 110, 120, 130, 140; each has what is after its beginning up to itself.
        for (range, time, expected) in [
            (10, 100, Some((0, 1))),
            (10, 101, Some((1, 2))),
            (10, 110, Some((1, 2))),
            (20, 101, Some((1, 3))),
            (5, 101, None),
            (5, 106, Some((1, 2))),
            (10, 90, None),
            (10, 91, Some((0, 1))),
            (1000, 91, Some((0, 5))),
            (10, 141, None),
            (i64::MAX, i64::MIN, None),
            (i64::MAX, i64::MAX, None),
        ] {
            assert_eq!(places(steps, range, time), expected, "{time} {range}");
        }
    }

    #[test]
    fn steps_are_bounded() {
        let most = MAX_STEPS as usize;
        assert_eq!(Steps::new(0, 10_999, 1).map(|steps| steps.number), Ok(most));
        assert!(Steps::new(0, 11_000, 1).is_err());
        assert!(Steps::new(i64::MIN, i64::MAX, 1).is_err());
        assert!(Steps::new(0, 1, 0).is_err());
        assert_eq!(Steps::new(5, 5, i64::MAX).map(|steps| steps.number), Ok(1));
    }

    #[test]
    fn the_values_of_all_parts_of_a_query_are_bounded_together() {
        let steps = Steps { start: 0, step: 1, number: MAX_STEPS as usize };
        let most = MAX_CELLS / steps.number;
        let sum = |parts: usize| {
            let expr = parse(&vec!["vector(1)"; parts].join(" + ")).expect("good");
            with_none(|turn| Machine::new(turn, steps).value(&expr))
        };
        let Ok(Value::Series(series)) = sum(most) else { panic!("one series") };
        assert_eq!(series[0].values[0], Some(most as f64));
        assert_eq!(sum(most + 1), Err(too_many()));
    }

    #[test]
    fn the_values_of_a_range_are_bounded() {
        let Expr::Range { query, .. } = parse("count_over_time({}[1s])").expect("good") else {
            panic!("a range")
        };
        let steps = Steps { start: 0, step: 1_000_000_000, number: 10 };
        let mut counts = Counts {
            query: &query,
            grouping: None,
            steps,
            range: steps.step,
            is_bytes: false,
            series: HashMap::new(),
            cells: 25,
            refused: None,
        };
        for (name, cells) in [("a", 15), ("b", 5), ("a", 5)] {
            counts.take(record(&origin(name, "app"), 1, EventFlags::POINT, &[]));
            assert_eq!((counts.cells, &counts.refused), (cells, &None), "{name}");
        }
        counts.take(record(&origin("c", "app"), 1, EventFlags::POINT, &[]));
        assert_eq!((counts.series.len(), counts.refused), (2, Some(too_many())));
    }

    #[test]
    fn series_are_aggregated_and_compared() {
        let series = |name: &str, values: &[f64]| Series {
            labels: Labels::from([("a".to_owned(), name.to_owned()), ("b".to_owned(), "x".to_owned())]),
            values: values.iter().map(|&value| (value >= 0.0).then_some(value)).collect(),
        };
        let all = vec![series("1", &[1.0, -1.0, 3.0]), series("2", &[4.0, -1.0, 2.0])];
        let by = Grouping { without: false, names: vec!["b".to_owned()] };
        let values = |op| aggregate(op, 1.0, &by, all.clone(), 3)[0].values.clone();
        assert_eq!(values(AggregateOp::Sum), [Some(5.0), None, Some(5.0)]);
        assert_eq!(values(AggregateOp::Avg), [Some(2.5), None, Some(2.5)]);
        assert_eq!(values(AggregateOp::Topk), [None, None, Some(3.0)]);
        assert_eq!(values(AggregateOp::Bottomk), [Some(1.0), None, None]);
        let above = binary(
            BinaryOp::Compare(Compare::Greater),
            false,
            Value::Series(all.clone()),
            Value::Number(2.0),
        );
        let Value::Series(above) = above else { panic!("series") };
        assert_eq!(above[0].values, [None, None, Some(3.0)]);
        let same = binary(BinaryOp::Div, false, Value::Series(all.clone()), Value::Series(all));
        let Value::Series(same) = same else { panic!("series") };
        assert_eq!(same[1].values, [Some(1.0), None, Some(1.0)]);
        let number = binary(BinaryOp::Compare(Compare::Less), false, Value::Number(1.0), Value::Number(2.0));
        assert_eq!(number, Value::Number(1.0));
    }
}
