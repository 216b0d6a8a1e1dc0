//! Functions and operators (`docs/pcp/webapi.md` 13): of values that were selected, or of none at all, to know what an expression gives.

use hashbrown::HashMap;
use pcp_model::{Conversion, InDom, Number, Semantics, Units, UnitsVocabulary, ValueType};

use super::language::{Expr, Function, Operator, QueryError, Selector};
use super::values::{Datum, Of, Point, Sample, Values};
use crate::server::identity::Id;

type Result<T> = std::result::Result<T, QueryError>;

/// What an expression gives, for each of the series it is of; `leaf` gives the values that a selector stands for.
///
/// # Errors
/// What does not go together.
pub(super) fn evaluate(
    expr: &Expr,
    leaf: &mut dyn FnMut(&Selector) -> Result<Vec<Values>>,
) -> Result<Vec<Values>> {
    match expr {
        Expr::Select(selector) => leaf(selector),
        Expr::Call(function, of) => {
            let all = evaluate(of, leaf)?;
            all.into_iter().map(|values| called(function, values)).collect()
        }
        Expr::Combine(operator, left, right) => {
            let (left, right) = (evaluate(left, leaf)?, evaluate(right, leaf)?);
            combined(*operator, left, right)
        }
        Expr::Scale { by, of, .. } => {
            let by: f64 = by.parse().map_err(|_| QueryError(format!("{by} is no number")))?;
            let all = evaluate(of, leaf)?;
            all.into_iter()
                .map(|mut values| {
                    expect_numbers(&values)?;
                    values.desc.value_type = ValueType::Double;
                    mapped(values, |number| (number.to_f64() * by).into())
                })
                .collect()
        }
    }
}

fn called(function: &Function, mut values: Values) -> Result<Values> {
    expect_numbers(&values)?;
    let kind = &mut values.desc.value_type;
    match function {
        Function::Rate => return rate(values),
        Function::Rescale(units, _) => return rescaled(values, *units),
        Function::Sum(_) | Function::Avg(_) | Function::Stdev(_) | Function::Sqrt | Function::Log(_) => {
            *kind = ValueType::Double;
        }
        _ => {}
    }
    match function {
        Function::Max(over) => {
            grouped(values, over.is_sample(), |group| picked(group, |one, best| one > best))
        }
        Function::Min(over) => {
            grouped(values, over.is_sample(), |group| picked(group, |one, best| one < best))
        }
        Function::Sum(over) => {
            grouped(values, over.is_sample(), |group| made(group, over.is_sample(), |all| all.iter().sum()))
        }
        Function::Avg(over) => grouped(values, over.is_sample(), |group| made(group, over.is_sample(), mean)),
        Function::Stdev(over) => {
            grouped(values, over.is_sample(), |group| made(group, over.is_sample(), deviation))
        }
        Function::TopK(over, count) => grouped(values, over.is_sample(), |mut group| {
            group.sort_by(|one, other| number_of(other).total_cmp(&number_of(one)));
            group.truncate(*count as usize);
            group
        }),
        Function::Percentile(over, n) => grouped(values, over.is_sample(), |mut group| {
            group.sort_by(|one, other| number_of(one).total_cmp(&number_of(other)));
            let rank = (f64::from(*n) / 100.0 * group.len() as f64) as usize;
            let rank = rank.min(group.len().saturating_sub(1));
            group.into_iter().skip(rank).take(1).collect()
        }),
        Function::Abs => mapped(values, |number| match number {
            Number::I32(v) => Datum::Number(Number::U32(v.unsigned_abs())),
            Number::I64(v) => Datum::Number(Number::U64(v.unsigned_abs())),
            Number::Float(v) => Datum::Number(Number::Float(v.abs())),
            Number::Double(v) => v.abs().into(),
            Number::U32(_) | Number::U64(_) => Datum::Number(number),
        }),
        Function::Floor => mapped(values, |number| whole(number, f64::floor)),
        Function::Round => mapped(values, |number| whole(number, f64::round)),
        Function::Sqrt => mapped(values, |number| number.to_f64().sqrt().into()),
        Function::Log(base) => {
            let base = base.as_deref().map(str::parse).transpose();
            let base: Option<f64> = base.map_err(|_| QueryError("log: the base is no number".to_owned()))?;
            mapped(values, |number| {
                let log = number.to_f64().ln();
                base.map_or(log, |base| log / base.ln()).into()
            })
        }
        Function::Rate | Function::Rescale(..) => Ok(values),
    }
}

fn expect_numbers(values: &Values) -> Result<()> {
    if values.desc.value_type.is_numeric() {
        return Ok(());
    }
    Err(QueryError(format!("'{}' has no numbers to compute with\n", values.name)))
}

fn rate(mut values: Values) -> Result<Values> {
    if values.desc.semantics != Semantics::Counter {
        let name = &values.name;
        return Err(QueryError(format!("Can't rate convert '{name}', counter semantics required\n")));
    }
    let units = values.desc.units;
    values.desc.semantics = Semantics::Instant;
    values.desc.value_type = ValueType::Double;
    values.desc.units = by_time(units)
        .ok_or_else(|| QueryError(format!("'{}': units {units} have no rate\n", values.name)))?;
    let mut rates = Vec::with_capacity(values.samples.len().saturating_sub(1));
    let mut before: HashMap<Of, f64> = HashMap::default();
    let mut before_time: Option<i64> = None;
    for sample in &values.samples {
        if let Some(time) = before_time {
            // From the first of the pair: which sign a rate of nothing has, clients may compare.
            let seconds = (time - sample.time) as f64 / 1e6;
            let rate = |point: &Point| {
                let difference = before.get(&point.of)? - point.datum.number()?;
                Some(Point { datum: Datum::Rate(difference / seconds), ..point.clone() })
            };
            let points = sample.points.iter().filter_map(rate).collect();
            rates.push(Sample { time: sample.time, points });
        }
        before_time = Some(sample.time);
        before.clear();
        let known = sample.points.iter().filter_map(|point| Some((point.of, point.datum.number()?)));
        before.extend(known);
    }
    values.samples = rates;
    Ok(values)
}

fn rescaled(mut values: Values, units: Units) -> Result<Values> {
    let from = values.desc.units;
    let conversion = Conversion::new(from, units, UnitsVocabulary::Classic).map_err(|_| {
        QueryError(format!("'{}': units {from} cannot be rescaled to {units}\n", values.name))
    })?;
    values.desc.units = units;
    values.desc.value_type = ValueType::Double;
    mapped(values, |number| conversion.f64(number.to_f64()).into())
}

/// Each value alone.
fn mapped(mut values: Values, map: impl Fn(Number) -> Datum) -> Result<Values> {
    expect_numbers(&values)?;
    for point in values.samples.iter_mut().flat_map(|sample| &mut sample.points) {
        let number = match &point.datum {
            Datum::Number(number) => *number,
            Datum::Rate(rate) => Number::Double(*rate),
            Datum::Text(_) => continue,
        };
        point.datum = map(number);
    }
    Ok(values)
}

/// The values of each sample, or of each instance over all samples, together.
fn grouped(mut values: Values, by_sample: bool, take: impl Fn(Vec<Point>) -> Vec<Point>) -> Result<Values> {
    let samples = std::mem::take(&mut values.samples);
    if by_sample {
        values.samples = samples
            .into_iter()
            .map(|sample| Sample { time: sample.time, points: take(sample.points) })
            .filter(|sample| !sample.points.is_empty())
            .collect();
        return Ok(values);
    }
    // In the order in which instances come first.
    let mut places: HashMap<Of, usize> = HashMap::default();
    let mut groups: Vec<Vec<Point>> = Vec::new();
    for point in samples.into_iter().flat_map(|sample| sample.points) {
        let place = *places.entry(point.of).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(point),
            None => groups.push(vec![point]),
        }
    }
    let taken: Vec<Vec<Point>> = groups.into_iter().map(take).collect();
    let most = taken.iter().map(Vec::len).max().unwrap_or_default();
    let mut taken: Vec<_> = taken.into_iter().map(Vec::into_iter).collect();
    values.samples = (0..most)
        .map(|_| {
            let points: Vec<Point> = taken.iter_mut().filter_map(Iterator::next).collect();
            Sample { time: points.first().map_or(0, |point| point.time), points }
        })
        .collect();
    Ok(values)
}

/// The point that is better than all others; the first of those that are equal.
fn picked(group: Vec<Point>, is_better: impl Fn(f64, f64) -> bool) -> Vec<Point> {
    let best = group
        .into_iter()
        .reduce(|best, point| if is_better(number_of(&point), number_of(&best)) { point } else { best });
    best.into_iter().collect()
}

/// A number made of all of them, at the time of the first.
fn made(group: Vec<Point>, together: bool, make: impl Fn(&[f64]) -> f64) -> Vec<Point> {
    let numbers: Vec<f64> = group.iter().map(number_of).collect();
    let first = group.into_iter().next();
    first
        .map(|first| Point {
            of: if together { Of::Together } else { first.of },
            datum: make(&numbers).into(),
            ..first
        })
        .into_iter()
        .collect()
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn deviation(numbers: &[f64]) -> f64 {
    let mean = mean(numbers);
    (numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / numbers.len() as f64).sqrt()
}

fn number_of(point: &Point) -> f64 {
    point.datum.number().unwrap_or(f64::NAN)
}

fn whole(number: Number, to_whole: fn(f64) -> f64) -> Datum {
    match number {
        Number::Float(v) => Datum::Number(Number::Float(to_whole(f64::from(v)) as f32)),
        Number::Double(v) => to_whole(v).into(),
        whole => Datum::Number(whole),
    }
}

/// Two operands, of each source the first of one with the first of the other and so on.
fn combined(operator: Operator, left: Vec<Values>, mut right: Vec<Values>) -> Result<Vec<Values>> {
    let mut out = Vec::with_capacity(left.len());
    let nothing = left.is_empty() || right.is_empty();
    let alone = left.len() == 1 && right.len() == 1;
    for one in left {
        let Some(at) = right.iter().position(|other| alone || other.source == one.source) else { continue };
        let other = right.remove(at);
        out.push(pair(operator, one, other)?);
    }
    if out.is_empty() && !nothing {
        return Err(QueryError(format!("the operands of {operator} have no source in common\n")));
    }
    Ok(out)
}

fn pair(operator: Operator, mut left: Values, mut right: Values) -> Result<Values> {
    expect_numbers(&left)?;
    expect_numbers(&right)?;
    let bad = |what: &str| {
        QueryError(format!(
            "'{}' {operator} '{}': the operands' {what} do not go together\n",
            left.name, right.name
        ))
    };
    if left.desc.indom != right.desc.indom {
        return Err(bad("instance domains"));
    }
    let semantics = semantics(operator, left.desc.semantics, right.desc.semantics);
    let semantics = semantics.ok_or_else(|| bad("semantics"))?;
    let (units, kind) = match operator {
        Operator::Add | Operator::Subtract => {
            let (to, from) = (left.desc.units, right.desc.units);
            if to != from {
                Conversion::new(from, to, UnitsVocabulary::Classic).map_err(|_| bad("units"))?;
                right = rescaled(right, to)?;
            }
            (to, wider(left.desc.value_type, right.desc.value_type))
        }
        Operator::Multiply | Operator::Divide => {
            let units = product(operator, left.desc.units, right.desc.units).ok_or_else(|| bad("units"))?;
            (units, ValueType::Double)
        }
    };
    let samples = paired(&left.samples, &right.samples);
    let instance = |of: Of, values: &Values| match of {
        Of::Instance(at) => values.instances.get(at as usize).copied(),
        _ => None,
    };
    let mut out = Vec::with_capacity(samples.len());
    for (one, other) in samples {
        let known: HashMap<(bool, Option<Id>), &Datum> = other
            .points
            .iter()
            .map(|point| ((point.of == Of::Together, instance(point.of, &right)), &point.datum))
            .collect();
        let point = |point: &Point| {
            let other = known.get(&(point.of == Of::Together, instance(point.of, &left)))?;
            Some(Point { datum: operated(operator, kind, &point.datum, other)?, ..point.clone() })
        };
        out.push(Sample { time: one.time, points: one.points.iter().filter_map(point).collect() });
    }
    left.samples = out;
    left.desc.value_type = kind;
    left.desc.semantics = semantics;
    left.desc.units = units;
    Ok(left)
}

/// Samples one to one where there are as many; else those of the same time.
fn paired<'a>(left: &'a [Sample], right: &'a [Sample]) -> Vec<(&'a Sample, &'a Sample)> {
    if left.len() == right.len() {
        return left.iter().zip(right).collect();
    }
    let times: HashMap<i64, &Sample> = right.iter().map(|sample| (sample.time, sample)).collect();
    left.iter().filter_map(|sample| Some((sample, *times.get(&sample.time)?))).collect()
}

fn operated(operator: Operator, kind: ValueType, left: &Datum, right: &Datum) -> Option<Datum> {
    let (one, other) = (left.number()?, right.number()?);
    let exact = |operation: fn(i128, i128) -> i128| match (left, right) {
        (Datum::Number(left), Datum::Number(right)) => {
            Some(operation(whole_number(*left)?, whole_number(*right)?))
        }
        _ => None,
    };
    let is_whole = !matches!(kind, ValueType::Float | ValueType::Double);
    Some(match operator {
        Operator::Add if is_whole => number(exact(|one, other| one + other)?),
        Operator::Subtract if is_whole => number(exact(|one, other| one - other)?),
        Operator::Add => (one + other).into(),
        Operator::Subtract => (one - other).into(),
        Operator::Multiply => (one * other).into(),
        Operator::Divide => (one / other).into(),
    })
}

fn whole_number(number: Number) -> Option<i128> {
    Some(match number {
        Number::I32(v) => v.into(),
        Number::U32(v) => v.into(),
        Number::I64(v) => v.into(),
        Number::U64(v) => v.into(),
        Number::Float(_) | Number::Double(_) => return None,
    })
}

/// The number in the type that has room for it: a difference of unsigned numbers may be below 0.
fn number(value: i128) -> Datum {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => Datum::Number(Number::I64(value)),
        (_, Ok(value)) => Datum::Number(Number::U64(value)),
        _ => (value as f64).into(),
    }
}

/// The type that has room for both, as C has it.
fn wider(one: ValueType, other: ValueType) -> ValueType {
    const ORDER: [ValueType; 6] =
        [ValueType::I32, ValueType::U32, ValueType::I64, ValueType::U64, ValueType::Float, ValueType::Double];
    let rank = |kind| ORDER.iter().position(|known| *known == kind).unwrap_or(ORDER.len() - 1);
    ORDER[rank(one).max(rank(other))]
}

/// As in derived metrics: counters are added to counters only, and not multiplied.
fn semantics(operator: Operator, left: Semantics, right: Semantics) -> Option<Semantics> {
    let (one, other) = (left == Semantics::Counter, right == Semantics::Counter);
    match (operator, one, other) {
        (_, false, false) if left == right => Some(left),
        (_, false, false) => Some(Semantics::Instant),
        (Operator::Add | Operator::Subtract, true, true) => Some(Semantics::Counter),
        (Operator::Divide, true, true) => Some(Semantics::Instant),
        (Operator::Multiply | Operator::Divide, true, false) | (Operator::Multiply, false, true) => {
            Some(Semantics::Counter)
        }
        _ => None,
    }
}

/// Units per second.
fn by_time(units: Units) -> Option<Units> {
    product(
        Operator::Divide,
        units,
        Units { scale_time: if units.dim_time == 0 { 3 } else { units.scale_time }, ..Units::SECOND },
    )
}

fn product(operator: Operator, left: Units, right: Units) -> Option<Units> {
    let dimension = |one: i8, other: i8| {
        let sum = if operator == Operator::Divide { one - other } else { one + other };
        (-8..8).contains(&sum).then_some(sum)
    };
    // A scale that both have is one: there is no factor that would be told.
    let space = scale((left.dim_space, left.scale_space), (right.dim_space, right.scale_space))?;
    let time = scale((left.dim_time, left.scale_time), (right.dim_time, right.scale_time))?;
    let count = scale((left.dim_count, left.scale_count), (right.dim_count, right.scale_count))?;
    let dims = [
        dimension(left.dim_space, right.dim_space)?,
        dimension(left.dim_time, right.dim_time)?,
        dimension(left.dim_count, right.dim_count)?,
    ];
    let mut units = left;
    (units.dim_space, units.dim_time, units.dim_count) = (dims[0], dims[1], dims[2]);
    units.scale_space = if dims[0] == 0 { Default::default() } else { space };
    units.scale_time = if dims[1] == 0 { Default::default() } else { time };
    units.scale_count = if dims[2] == 0 { Default::default() } else { count };
    Some(units)
}

fn scale<T: PartialEq>(left: (i8, T), right: (i8, T)) -> Option<T> {
    match (left, right) {
        ((0, _), (_, scale)) | ((_, scale), (0, _)) => Some(scale),
        ((_, one), (_, other)) => (one == other).then_some(one),
    }
}

/// What domain an expression's instances are of.
pub(super) fn indom_of(all: &[Values]) -> InDom {
    all.first().map_or(InDom::NULL, |values| values.desc.indom)
}

#[cfg(test)]
mod tests {
    use pcp_model::{Desc, Pmid};
    use proptest::prelude::*;

    use super::super::language;
    use super::*;

    fn desc(semantics: Semantics, units: Units) -> Desc {
        Desc { pmid: Pmid(1), value_type: ValueType::U32, indom: InDom(5), semantics, units }
    }

    /// Samples a second apart, of instances in a row.
    fn values(name: &str, desc: Desc, samples: &[&[u32]]) -> Values {
        let point = |time: i64, place: u32, value: &u32| Point {
            time,
            of: Of::Instance(place),
            datum: Datum::Number(Number::U32(*value)),
        };
        let sample = |(number, row): (i64, &&[u32])| {
            let time = number * 1_000_000;
            Sample { time, points: (0..).zip(*row).map(|(place, value)| point(time, place, value)).collect() }
        };
        Values {
            id: Id::expression(name),
            source: Id::ZERO,
            name: name.to_owned(),
            desc,
            instances: [Id::expression("a"), Id::expression("b")].into(),
            samples: (0..).zip(samples).map(sample).collect(),
        }
    }

    fn computed(expr: &str, values: &Values) -> Result<Values> {
        let query = language::parse(expr, Default::default())?;
        let mut all = evaluate(&query.expr, &mut |_| Ok(vec![values.clone()]))?;
        Ok(all.remove(0))
    }

    /// Values as texts, by sample.
    fn texts(expr: &str, values: &Values) -> Vec<Vec<String>> {
        let computed = computed(expr, values).unwrap_or_else(|error| panic!("{expr}: {error}"));
        let text = |point: &Point| {
            let mut text = Vec::new();
            point.datum.print(&mut text);
            String::from_utf8(text).expect("it is text")
        };
        let of_sample = |sample: &Sample| sample.points.iter().map(text).collect();
        computed.samples.iter().map(of_sample).collect()
    }

    #[test]
    fn functions_give_what_they_say() {
        let gauge = values("g", desc(Semantics::Instant, Units::NONE), &[&[0, 7], &[4, 1], &[2, 9]]);
        for (expr, expected) in [
            ("max(g)", &[&["4", "9"][..]][..]),
            ("min_sample(g)", &[&["0"], &["1"], &["2"]]),
            ("sum_sample(g)", &[&["7.000000e+00"], &["5.000000e+00"], &["1.100000e+01"]]),
            ("avg(g)", &[&["2.000000e+00", "5.666667e+00"]]),
            ("topk_inst(g,2)", &[&["4", "9"], &["2", "7"]]),
            ("topk_sample(g,1)", &[&["7"], &["4"], &["9"]]),
            // Values of 0 count.
            ("nth_percentile_inst(g,0)", &[&["0", "1"]]),
            ("nth_percentile_inst(g,50)", &[&["2", "7"]]),
            ("nth_percentile_inst(g,100)", &[&["4", "9"]]),
            ("stdev_sample(g)", &[&["3.500000e+00"], &["1.500000e+00"], &["3.500000e+00"]]),
            (
                "g-3*g",
                &[
                    &["0.000000e+00", "-1.400000e+01"],
                    &["-8.000000e+00", "-2.000000e+00"],
                    &["-4.000000e+00", "-1.800000e+01"],
                ],
            ),
            (
                "round(0.5*g)",
                &[
                    &["0.000000e+00", "4.000000e+00"],
                    &["2.000000e+00", "1.000000e+00"],
                    &["1.000000e+00", "5.000000e+00"],
                ],
            ),
        ] {
            assert_eq!(texts(expr, &gauge), expected, "{expr}");
        }
        let counter = values("c", desc(Semantics::Counter, Units::COUNT), &[&[0, 7], &[4, 9]]);
        assert_eq!(texts("rate(c)", &counter), [["4.000000", "2.000000"]]);
        let rate = computed("rate(c)", &counter).expect("a counter").desc;
        assert_eq!((rate.units.to_string(), rate.semantics), ("count / sec".to_owned(), Semantics::Instant));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let counter = values("c", desc(Semantics::Counter, Units::COUNT), &[&[1, 2]]);
        let gauge = values("g", desc(Semantics::Instant, Units::BYTE), &[&[1, 2]]);
        assert!(computed("c{x==1}*c", &counter).is_err() && computed("rate(g)", &gauge).is_err());
        assert!(computed("rescale(g,\"sec\")", &gauge).is_err());
        let text = Values { desc: Desc { value_type: ValueType::String, ..gauge.desc }, ..gauge.clone() };
        for expr in ["abs(t)", "max(t)", "t+t", "2*t"] {
            assert!(computed(expr, &text).is_err(), "{expr}");
        }
        let mut operands = vec![counter, gauge].into_iter();
        let query = language::parse("a+b", Default::default()).expect("a query");
        let sum = evaluate(&query.expr, &mut |_| Ok(operands.next().into_iter().collect()));
        assert!(sum.is_err(), "a counter and a gauge");
    }

    proptest! {
        /// What picks gives what was there, and the mean lies between the least and the most.
        #[test]
        fn picks_are_of_what_is_there(rows in prop::collection::vec([0_u32..1000, 0_u32..1000], 1..20), n in 0_u32..=100) {
            let rows: Vec<&[u32]> = rows.iter().map(|row| &row[..]).collect();
            let gauge = values("g", desc(Semantics::Instant, Units::NONE), &rows);
            for over in ["inst", "sample"] {
                let numbers = |expr: String| -> Vec<f64> {
                    texts(&expr, &gauge).concat().iter().map(|text| text.parse().expect("a number")).collect()
                };
                let (least, most) = (numbers(format!("min_{over}(g)")), numbers(format!("max_{over}(g)")));
                let picked = numbers(format!("nth_percentile_{over}(g,{n})"));
                let means = numbers(format!("avg_{over}(g)"));
                for (place, picked) in picked.iter().enumerate() {
                    prop_assert!(rows.concat().iter().any(|value| f64::from(*value) == *picked));
                    prop_assert!((least[place]..=most[place]).contains(picked));
                    prop_assert!(least[place] - 1e-3 <= means[place] && means[place] <= most[place] + 1e-3);
                }
            }
        }
    }
}
