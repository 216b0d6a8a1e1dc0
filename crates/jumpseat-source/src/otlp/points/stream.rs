//! A metric of one resource and scope: which metrics of PCP it is, and what is known of its series.
//!
//! ```text
//! gauge                        NAME                              double, instant
//! sum, monotonic               NAME                              U64 or double, counter; what is delta is added up
//! sum, not monotonic           NAME                              I64 or double, instant
//! histogram, exponential       NAME.bucket .count .sum .min .max counter, but for min and max, which are of the last interval
//! exponential                  NAME.scale                        I64, instant
//! summary                      NAME.quantile .count .sum
//! exemplars                    NAME, below a root of their own
//! starts of sums               NAME, below another one, U64, instant: if that is configured
//! ```
//!
//! **Time:** a point that is older than the newest of its series is refused, and so is one of an earlier start; what is delta must
//! also begin where the one before has ended, or later. A later start is a restart: cumulative values go back then, as they are.

use std::cell::{OnceCell, RefCell};

use jumpseat_wire::series::{BOUND, QUANTILE};

use super::super::value::hex;
use super::super::wire::Place;
use super::MAX_SERIES;
use super::buckets::{Bound, Work, upper};
use super::groups::Groups;
use super::labels::Sender;
use super::point::{Data, Exemplar, Point, Sent};
use super::{MetricHead, Request, Scratch, Size};
use crate::delivery::Reason;
use crate::event::Refusal;
use crate::series::{
    Kind, LabelText, Labels, Metric, MetricId, Number, Part, Refused, SeriesId, Session, encode,
};

/// The kind of a metric, with all that makes it another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Gauge,
    Sum { is_delta: bool, is_monotonic: bool },
    Histogram { is_delta: bool, is_exponential: bool },
    Summary,
}

/// A metric of one resource and scope.
pub(super) struct Stream {
    name: String,
    help: String,
    unit: String,
    shape: Shape,
    /// What its values are, once there is one.
    number: Option<Number>,
    /// The metrics that were looked up.
    metrics: RefCell<Vec<(Part, Number, MetricId)>>,
    sender: Sender,
    groups: Groups<Group>,
    /// For points beyond the limits.
    overflow: Option<Group>,
}

/// The series that one set of attributes has. Of a number no more than this is looked at for each point.
#[derive(Default)]
struct Group {
    time: u64,
    start: u64,
    value: Option<SeriesId>,
    exemplar: Option<SeriesId>,
    told_start: Option<SeriesId>,
    /// Of what has several values.
    parts: Option<Box<Parts>>,
}

/// The series that a histogram or a summary has.
#[derive(Default)]
struct Parts {
    count: Option<SeriesId>,
    sum: Option<SeriesId>,
    min: Option<SeriesId>,
    max: Option<SeriesId>,
    /// Of the metric with the scale.
    told_scale: Option<SeriesId>,
    /// Series of buckets or quantiles, the one without bound last.
    cells: Vec<SeriesId>,
    bounds: Vec<f64>,
    powers: Vec<Bound>,
    scale: Option<i32>,
}

/// Whose series they are.
enum Whose<'a> {
    /// Of the point with these attributes. Its labels are read once there is a series to be made.
    Point { body: &'a [u8], attributes: &'a [Place], labels: OnceCell<Labels> },
    /// Of all beyond a limit.
    Overflow,
}

/// Why a point is not taken in.
enum Not {
    /// There is no series for it.
    Series(Refused),
    /// It is not as it must be.
    Point(Reason, &'static str),
    /// Its attributes are not.
    Attributes(Refusal),
}

impl Shape {
    /// `field`: the number of the field with the data; `temporality`: 1 is delta.
    pub(super) fn of(field: u32, temporality: u64, is_monotonic: bool) -> Shape {
        let is_delta = temporality == 1;
        match field {
            5 => Shape::Gauge,
            7 => Shape::Sum { is_delta, is_monotonic },
            9 => Shape::Histogram { is_delta, is_exponential: false },
            10 => Shape::Histogram { is_delta, is_exponential: true },
            _ => Shape::Summary,
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Shape::Gauge => 0,
            Shape::Summary => 1,
            Shape::Sum { is_delta, is_monotonic } => 4 | u8::from(is_delta) | u8::from(is_monotonic) << 1,
            Shape::Histogram { is_delta, is_exponential } => {
                8 | u8::from(is_delta) | u8::from(is_exponential) << 1
            }
        }
    }

    pub(super) fn data(self) -> Data {
        match self {
            Shape::Gauge | Shape::Sum { .. } => Data::Number,
            Shape::Histogram { is_exponential: false, .. } => Data::Histogram,
            Shape::Histogram { is_exponential: true, .. } => Data::Exponential,
            Shape::Summary => Data::Summary,
        }
    }

    fn is_delta(self) -> bool {
        matches!(self, Shape::Sum { is_delta: true, .. } | Shape::Histogram { is_delta: true, .. })
    }

    /// Whether it only grows.
    fn is_counter(self) -> bool {
        !matches!(self, Shape::Gauge | Shape::Sum { is_monotonic: false, .. })
    }
}

impl Stream {
    pub(super) fn new(head: &MetricHead<'_>, sender: &Sender) -> Stream {
        Stream {
            name: head.name.to_owned(),
            help: head.help.to_owned(),
            unit: head.unit.to_owned(),
            shape: head.shape,
            number: None,
            metrics: RefCell::default(),
            sender: sender.clone(),
            groups: Groups::default(),
            overflow: None,
        }
    }

    /// Takes in the point.
    ///
    /// # Errors
    /// It is not as it must be, and nothing of it is taken in.
    pub(super) fn take(
        &mut self,
        request: &mut Request<'_, '_>,
        scratch: &mut Scratch,
        size: &mut Size,
        at: usize,
    ) -> Result<(), Refusal> {
        let Scratch { point, attributes, buckets, .. } = scratch;
        if point.time == 0 {
            point.time = request.now;
        }
        let checked = self.check(point).and_then(|()| self.choose_number(&mut request.session, point));
        checked.map_err(|not| not.refusal(at))?;
        let mut is_set = false;
        let place = match self.groups.find(attributes) {
            Some(place) => {
                let group = &mut self.groups[place];
                group.check_time(self.shape, point).map_err(|not| not.refusal(at))?;
                is_set = group.try_set(self.shape, self.number, point, &mut request.session);
                if is_set
                    && point.exemplar.is_none()
                    && !(group.has_new_start(self.shape, point) && request.session.keeps_starts())
                {
                    group.keep_start(&mut request.session);
                    group.moved(point);
                    return Ok(());
                }
                place
            }
            None => {
                if size.groups >= MAX_SERIES {
                    return Err(Not::Series(Refused::Total).refusal(at));
                }
                size.groups += 1;
                size.bytes += attributes.len();
                self.groups.add(attributes, Group::default())
            }
        };
        let mut group = std::mem::take(&mut self.groups[place]);
        // From here on: several values, exemplars, the first of a series, or the first after it was forgotten.
        let whose =
            Whose::Point { body: request.body, attributes: &point.attributes, labels: OnceCell::new() };
        let set = self.set(&mut group, &whose, point, is_set, buckets, request);
        if let Err(Not::Series(refused)) = set
            && refused.is_limit()
        {
            group.forget(&mut request.session);
            self.groups.remove(place);
            size.groups = size.groups.saturating_sub(1);
            size.bytes = size.bytes.saturating_sub(attributes.len());
            return self.take_beyond(request, point, buckets, refused, at);
        }
        if set.is_ok() {
            group.moved(point);
        }
        self.groups[place] = group;
        set.map_err(|not| not.refusal(at))
    }

    /// A point of a series beyond a limit: what is delta can be added up with others, of a gauge the newest value is kept, and
    /// cumulative values of several series are no value.
    fn take_beyond(
        &mut self,
        request: &mut Request<'_, '_>,
        point: &Point,
        buckets: &mut Work,
        refused: Refused,
        at: usize,
    ) -> Result<(), Refusal> {
        if !self.shape.is_delta() && self.shape != Shape::Gauge {
            return Err(Not::Series(refused).refusal(at));
        }
        let mut group = self.overflow.take().unwrap_or_default();
        let set = self.set(&mut group, &Whose::Overflow, point, false, buckets, request);
        self.overflow = Some(group);
        set.map_err(|not| not.refusal(at))?;
        request.session.overflowed();
        request.outcome.overflowed += 1;
        Ok(())
    }

    /// Refuses numbers that cannot be.
    fn check(&self, point: &Point) -> Result<(), Not> {
        if point.is_missing {
            return Ok(());
        }
        let number = |detail| Err(Not::Point(Reason::Number, detail));
        let is_finite = |value: Option<f64>| value.is_none_or(f64::is_finite);
        if ![point.sum, point.min, point.max].into_iter().all(is_finite) {
            return number("a sum, min or max that is not finite");
        }
        match self.shape {
            Shape::Gauge | Shape::Sum { .. } => match point.value {
                None => number("a point without a value"),
                Some(Sent::Double(value)) if !value.is_finite() => number("a value that is not finite"),
                Some(value) if self.shape.is_counter() && value.double() < 0.0 => {
                    number("a negative value of a sum that only grows")
                }
                Some(_) => Ok(()),
            },
            Shape::Histogram { is_exponential: false, .. } => {
                let Point { counts, bounds, count, .. } = point;
                if counts.is_empty() && bounds.is_empty() {
                    return Ok(());
                }
                let is_ordered = bounds.is_sorted_by(|one, other| one < other);
                if counts.len() != bounds.len() + 1 {
                    return number("as many counts as there are bounds and one more are needed");
                }
                if !is_ordered || !bounds.iter().all(|bound| bound.is_finite()) {
                    return number("bounds of buckets out of order, or not finite");
                }
                let sum = counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
                if sum != Some(*count) {
                    return number("counts of buckets that do not add up to the count");
                }
                Ok(())
            }
            // Judged where they are put together.
            Shape::Histogram { .. } => Ok(()),
            Shape::Summary => {
                let are_quantiles = point.bounds.iter().all(|quantile| (0.0..=1.0).contains(quantile));
                if !are_quantiles || !point.values.iter().all(|value| value.is_finite()) {
                    return number("quantiles outside of 0 to 1, or with values that are not finite");
                }
                Ok(())
            }
        }
    }

    /// The type of the metric's values: once, but that what turns out to have fractions goes on as another metric.
    fn choose_number(&mut self, session: &mut Session<'_>, point: &Point) -> Result<(), Not> {
        let wanted = match (self.shape, point.value) {
            (Shape::Sum { is_monotonic: true, .. }, Some(Sent::Int(_))) => Number::U64,
            (Shape::Sum { is_monotonic: false, .. }, Some(Sent::Int(_))) => Number::I64,
            (_, None) => return Ok(()),
            _ => Number::Double,
        };
        let number = *self.number.get_or_insert(wanted);
        if number != Number::Double && point.value.is_some_and(|value| value.bits(number).is_none()) {
            self.number = Some(Number::Double);
            // Their series are of the metric before, and stop. Of what is delta these have the sum so far; what is cumulative would be
            // there twice.
            for group in self.groups.iter_mut() {
                let old = group.value.take().filter(|_| !self.shape.is_delta());
                old.into_iter().for_each(|series| session.forget(series));
            }
            self.overflow = None;
        }
        Ok(())
    }

    fn metric(&self, session: &mut Session<'_>, part: Part) -> Result<MetricId, Not> {
        let is_instant = matches!(
            part,
            Part::Below("min" | "max") | Part::Quantile | Part::Scale | Part::Exemplar | Part::Start
        );
        let number = match part {
            Part::Value => self.number.unwrap_or(Number::Double),
            Part::CountBelow(_) | Part::Bucket | Part::ExponentialBucket | Part::Start => Number::U64,
            Part::Scale => Number::I64,
            _ => Number::Double,
        };
        let mut metrics = self.metrics.borrow_mut();
        let is_this = |known: &&(Part, Number, MetricId)| (known.0, known.1) == (part, number);
        if let Some((.., id)) = metrics.iter().find(is_this) {
            return Ok(*id);
        }
        let is_counter = self.shape.is_counter() && !is_instant;
        let kind = match self.shape {
            _ if is_counter => Kind::Counter,
            Shape::Sum { .. } => Kind::UpDown,
            _ => Kind::Instant,
        };
        let metric = Metric { name: &self.name, part, help: &self.help, unit: &self.unit, kind, number };
        let id = session.metric(&metric).map_err(Not::Series)?;
        metrics.push((part, number, id));
        Ok(id)
    }

    fn series(
        &self,
        session: &mut Session<'_>,
        part: Part,
        whose: &Whose<'_>,
        more: Option<(&str, LabelText)>,
    ) -> Result<SeriesId, Not> {
        let metric = self.metric(session, part)?;
        let found = match (whose, more) {
            (Whose::Point { body, attributes, labels }, more) => {
                let labels = match labels.get() {
                    Some(labels) => labels,
                    None => {
                        let read = self.sender.labels(body, attributes).map_err(Not::Attributes)?;
                        labels.get_or_init(|| read)
                    }
                };
                match more {
                    None => session.series(metric, labels),
                    Some((name, value)) => session.series(metric, &labels.with(name, value)),
                }
            }
            (Whose::Overflow, more) => {
                let more: Vec<(String, LabelText)> =
                    more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                session.overflow(metric, &more)
            }
        };
        found.map_err(Not::Series)
    }

    /// Sets all that the point has, making series for it.
    fn set(
        &self,
        group: &mut Group,
        whose: &Whose<'_>,
        point: &Point,
        is_set: bool,
        buckets: &mut Work,
        request: &mut Request<'_, '_>,
    ) -> Result<(), Not> {
        let session = &mut request.session;
        let is_delta = self.shape.is_delta();
        if point.is_missing {
            group.forget(session);
            return Ok(());
        }
        match self.shape {
            Shape::Gauge | Shape::Sum { .. } => {
                if !is_set {
                    group.value = Some(self.live(session, group.value, Part::Value, whose)?);
                    group.try_set(self.shape, self.number, point, session);
                }
            }
            Shape::Histogram { is_exponential, .. } => {
                let parts = &mut **group.parts.get_or_insert_default();
                if is_exponential {
                    if !buckets.exponential(point, &parts.powers, parts.scale) {
                        let detail =
                            "a scale that is not -10 to 20, or counts that do not add up to the count";
                        return Err(Not::Point(Reason::Number, detail));
                    }
                    self.exponential_cells(parts, whose, buckets, session)?;
                    let scale = self.live(session, parts.told_scale, Part::Scale, whose)?;
                    parts.told_scale = Some(scale);
                    session.set(scale, i64::from(buckets.scale).cast_unsigned());
                } else {
                    self.explicit_cells(parts, whose, point, session)?;
                }
                self.ends(parts, whose, point, session)?;
                let mut below = 0;
                let add = |session: &mut Session<'_>, cell: SeriesId, below: u64| {
                    let before = if is_delta { session.value(cell).unwrap_or(0) } else { 0 };
                    session.set(cell, before.saturating_add(below));
                };
                let mut counted = buckets.counted.iter().peekable();
                for (index, &cell) in parts.cells.iter().enumerate() {
                    if index + 1 == parts.cells.len() {
                        below = point.count;
                    } else if is_exponential {
                        while let Some((_, count)) = counted
                            .next_if(|(bound, _)| parts.powers.get(index).is_some_and(|this| bound <= this))
                        {
                            below += count;
                        }
                    } else {
                        below += point.counts.get(index).copied().unwrap_or(0);
                    }
                    add(session, cell, below);
                }
            }
            Shape::Summary => {
                let parts = &mut **group.parts.get_or_insert_default();
                self.quantile_cells(parts, whose, point, session)?;
                self.ends(parts, whose, point, session)?;
                for (cell, value) in parts.cells.iter().zip(&point.values) {
                    session.set(*cell, value.to_bits());
                }
            }
        }
        if let Some(exemplar) = &point.exemplar {
            // The point has been taken in: that there is no room for an exemplar changes nothing of that.
            let _ = self.set_exemplar(group, whose, exemplar, request);
        }
        if self.shape != Shape::Gauge && point.start > 0 && request.session.keeps_starts() {
            // As with exemplars.
            let _ = self.set_start(group, whose, point.start, &mut request.session);
        }
        Ok(())
    }

    /// Count and sum, and the least and the greatest where they are.
    fn ends(
        &self,
        parts: &mut Parts,
        whose: &Whose<'_>,
        point: &Point,
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        let is_delta = self.shape.is_delta();
        let count = self.live(session, parts.count, Part::CountBelow("count"), whose)?;
        parts.count = Some(count);
        let mut sum = None;
        if let Some(value) = point.sum {
            let series = self.live(session, parts.sum, Part::Below("sum"), whose)?;
            parts.sum = Some(series);
            sum = Some((series, value));
        }
        let extremes = [
            (point.min, &mut parts.min, Part::Below("min")),
            (point.max, &mut parts.max, Part::Below("max")),
        ];
        let mut found = [None; 2];
        for ((value, place, part), found) in extremes.into_iter().zip(&mut found) {
            if let Some(value) = value {
                let series = self.live(session, *place, part, whose)?;
                *place = Some(series);
                *found = Some((series, value));
            }
        }
        // Nothing fails from here on: a point that is refused changes nothing.
        let before = if is_delta { session.value(count).unwrap_or(0) } else { 0 };
        session.set(count, before.saturating_add(point.count));
        if let Some((series, value)) = sum {
            let before = if is_delta { session.value(series).map_or(0.0, f64::from_bits) } else { 0.0 };
            session.set(series, (before + value).to_bits());
        }
        for (series, value) in found.into_iter().flatten() {
            session.set(series, value.to_bits());
        }
        Ok(())
    }

    fn live(
        &self,
        session: &mut Session<'_>,
        known: Option<SeriesId>,
        part: Part,
        whose: &Whose<'_>,
    ) -> Result<SeriesId, Not> {
        match known.filter(|series| session.value(*series).is_some()) {
            Some(series) => Ok(series),
            None => self.series(session, part, whose, None),
        }
    }

    fn explicit_cells(
        &self,
        parts: &mut Parts,
        whose: &Whose<'_>,
        point: &Point,
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        let is_same = parts.bounds == point.bounds && parts.are_live(session);
        if is_same && parts.cells.len() == point.bounds.len() + 1 {
            return Ok(());
        }
        self.bucket_cells(parts, whose, point.bounds.iter().copied(), session)
    }

    fn exponential_cells(
        &self,
        parts: &mut Parts,
        whose: &Whose<'_>,
        work: &Work,
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        let is_same = parts.scale == Some(work.scale) && parts.powers == work.bounds;
        if is_same && parts.are_live(session) && !parts.cells.is_empty() {
            return Ok(());
        }
        let bounds = work.bounds.iter().map(|power| upper(*power, work.scale));
        self.bucket_cells(parts, whose, bounds, session)?;
        parts.powers.clone_from(&work.bounds);
        parts.scale = Some(work.scale);
        Ok(())
    }

    /// Has the parts the buckets with these bounds, and the one without.
    fn bucket_cells(
        &self,
        parts: &mut Parts,
        whose: &Whose<'_>,
        bounds: impl Iterator<Item = f64>,
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        let old = parts.begin_cells(session);
        // All that is beyond a limit has one bucket: bounds are whatever is sent, and each would be an instance for ever.
        let is_overflow = matches!(whose, Whose::Overflow);
        for bound in bounds.filter(|_| !is_overflow) {
            parts.add_cell(self, whose, (bound, LabelText::Double(bound)), &old, session)?;
            parts.bounds.push(bound);
        }
        parts.add_cell(self, whose, (f64::INFINITY, "+Inf".into()), &old, session)?;
        parts.drop_others(&old, session);
        Ok(())
    }

    fn quantile_cells(
        &self,
        parts: &mut Parts,
        whose: &Whose<'_>,
        point: &Point,
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        if parts.bounds == point.bounds && parts.are_live(session) && parts.cells.len() == point.bounds.len()
        {
            return Ok(());
        }
        parts.cells.clear();
        for &quantile in &point.bounds {
            let label = Some((QUANTILE, LabelText::Double(quantile)));
            parts.cells.push(self.series(session, Part::Quantile, whose, label)?);
        }
        parts.bounds.clone_from(&point.bounds);
        Ok(())
    }

    /// Of what is delta, the start of the first point stays: the agent has added up what came since.
    fn set_start(
        &self,
        group: &mut Group,
        whose: &Whose<'_>,
        start: u64,
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        let series = self.live(session, group.told_start, Part::Start, whose)?;
        group.told_start = Some(series);
        let first = session.value(series).filter(|known| *known > 0 && self.shape.is_delta());
        session.set(series, first.unwrap_or(start));
        Ok(())
    }

    fn set_exemplar(
        &self,
        group: &mut Group,
        whose: &Whose<'_>,
        exemplar: &Exemplar,
        request: &mut Request<'_, '_>,
    ) -> Result<(), Not> {
        let series = self.live(&mut request.session, group.exemplar, Part::Exemplar, whose)?;
        group.exemplar = Some(series);
        let text = exemplar.told(request.body);
        request.session.set_text(series, text.into());
        Ok(())
    }
}

impl Group {
    fn check_time(&self, shape: Shape, point: &Point) -> Result<(), Not> {
        let order = |detail| Err(Not::Point(Reason::Order, detail));
        if point.time < self.time {
            return order("older than what is there of its series");
        }
        if shape.is_delta() && self.time > 0 {
            if point.time == self.time {
                return order("the same as is there of its series: delta must not be added twice");
            }
            if point.start > 0 && point.start < self.time {
                return order("delta that begins before the one before has ended");
            }
        } else if shape.is_counter() && point.start > 0 && point.start < self.start {
            return order("of an earlier start than what is there of its series");
        }
        Ok(())
    }

    /// Sets a single value whose series is known. `false`: there is none, or more than that is to be done.
    #[inline]
    fn try_set(
        &self,
        shape: Shape,
        number: Option<Number>,
        point: &Point,
        session: &mut Session<'_>,
    ) -> bool {
        let (Some(series), Some(value), Some(number)) = (self.value, point.value, number) else {
            return false;
        };
        if point.is_missing {
            return false;
        }
        let Some(bits) = value.bits(number) else { return false };
        if !shape.is_delta() {
            return session.set(series, bits);
        }
        let Some(before) = session.value(series) else { return false };
        let bits = match number {
            Number::Double => (f64::from_bits(before) + f64::from_bits(bits)).to_bits(),
            Number::U64 | Number::I64 => before.wrapping_add(bits),
        };
        session.set(series, bits)
    }

    fn moved(&mut self, point: &Point) {
        self.time = point.time;
        self.start = self.start.max(point.start);
    }

    /// Whether there is a start to be told. Each point of what is delta has one of its own, of which the first one stays. What had no
    /// room counts as told, lest it is tried again with each point.
    #[inline]
    fn has_new_start(&self, shape: Shape, point: &Point) -> bool {
        let is_known = if shape.is_delta() { self.start > 0 } else { point.start == self.start };
        point.start > 0 && !is_known
    }

    /// What has not changed counts as long as the sum does.
    #[inline]
    fn keep_start(&self, session: &mut Session<'_>) {
        if let Some(series) = self.told_start {
            session.touch(series);
        }
    }

    fn forget(&mut self, session: &mut Session<'_>) {
        let Group { value, exemplar, told_start, .. } = self;
        [value, exemplar, told_start]
            .into_iter()
            .filter_map(Option::take)
            .for_each(|series| session.forget(series));
        self.parts.take().into_iter().flat_map(|parts| parts.all()).for_each(|series| session.forget(series));
    }
}

impl Parts {
    fn are_live(&self, session: &Session<'_>) -> bool {
        self.cells.iter().all(|cell| session.value(*cell).is_some())
    }

    /// Takes out the buckets as they were: bounds, values, series.
    fn begin_cells(&mut self, session: &Session<'_>) -> Vec<(f64, u64, SeriesId)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let old =
            bounds.zip(&self.cells).filter_map(|(bound, cell)| Some((bound, session.value(*cell)?, *cell)));
        let old = old.collect();
        self.cells.clear();
        self.bounds.clear();
        self.powers.clear();
        old
    }

    /// The series of a bucket: the one of the same bound, or a new one, which begins with what was below it.
    fn add_cell(
        &mut self,
        stream: &Stream,
        whose: &Whose<'_>,
        (bound, label): (f64, LabelText),
        old: &[(f64, u64, SeriesId)],
        session: &mut Session<'_>,
    ) -> Result<(), Not> {
        let before =
            old.partition_point(|(known, ..)| *known <= bound).checked_sub(1).and_then(|at| old.get(at));
        let cell = match before {
            Some((known, _, cell)) if *known == bound => *cell,
            before => {
                let part = match stream.shape {
                    Shape::Histogram { is_exponential: true, .. } => Part::ExponentialBucket,
                    _ => Part::Bucket,
                };
                let cell = stream.series(session, part, whose, Some((BOUND, label)))?;
                if let Some((_, value, _)) = before {
                    session.set(cell, *value);
                }
                cell
            }
        };
        self.cells.push(cell);
        Ok(())
    }

    /// Forgets buckets that are there no more.
    fn drop_others(&self, old: &[(f64, u64, SeriesId)], session: &mut Session<'_>) {
        for (.., cell) in old.iter().filter(|(.., cell)| !self.cells.contains(cell)) {
            session.forget(*cell);
        }
    }

    /// All their series.
    fn all(self) -> impl Iterator<Item = SeriesId> {
        let Parts { count, sum, min, max, told_scale, cells, .. } = self;
        [count, sum, min, max, told_scale].into_iter().flatten().chain(cells)
    }
}

impl Sent {
    fn double(self) -> f64 {
        match self {
            Sent::Int(number) => number as f64,
            Sent::Double(number) => number,
        }
    }

    /// The bits of this number as one of that type; `None`: it has a fraction, or is too large.
    #[inline]
    fn bits(self, number: Number) -> Option<u64> {
        match (self, number) {
            (Sent::Int(value), Number::I64) => Some(value as u64),
            (Sent::Int(value), Number::U64) => u64::try_from(value).ok(),
            (Sent::Int(value), Number::Double) => Some((value as f64).to_bits()),
            (Sent::Double(value), number) => encode(value, number),
        }
    }
}

impl Exemplar {
    /// What is told of it.
    fn told(&self, body: &[u8]) -> String {
        let id = |place: &Place| -> String {
            let bytes = body.get(place.clone()).unwrap_or_default();
            bytes.iter().take(16).flat_map(|byte| hex(*byte)).map(char::from).collect()
        };
        let value = match self.value {
            Sent::Int(number) => number.to_string(),
            // With a point or an exponent: who reads it can tell it from a whole number.
            Sent::Double(number) => format!("{number:?}"),
        };
        let (seconds, nanos) = (self.time / 1_000_000_000, self.time % 1_000_000_000);
        format!(
            "trace_id={} span_id={} value={value} time={seconds}.{nanos:09}",
            id(&self.trace_id),
            id(&self.span_id)
        )
    }
}

impl Not {
    #[cold]
    fn refusal(&self, at: usize) -> Refusal {
        let (reason, detail) = match self {
            Not::Attributes(refusal) => return *refusal,
            Not::Point(reason, detail) => (*reason, *detail),
            Not::Series(Refused::Name) => (
                Reason::Encoding,
                "a name of a metric that is empty, longer than 255 bytes, or has control characters",
            ),
            Not::Series(Refused::Labels) => (Reason::OversizeField, "attributes of more than 4 KiB together"),
            Not::Series(Refused::Metrics) => (Reason::Limit, "more metrics than [series] max_metrics allows"),
            Not::Series(Refused::PerMetric) => (
                Reason::Limit,
                "more series of one metric than [series] max_per_metric allows, and cumulative",
            ),
            Not::Series(_) => {
                (Reason::Limit, "more series than [series] max_series or budget allows, and cumulative")
            }
        };
        Refusal::at(at, reason, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_told_where_it_is_another_one_and_of_deltas_once() {
        let delta = Shape::Sum { is_delta: true, is_monotonic: true };
        let cumulative = Shape::Sum { is_delta: false, is_monotonic: true };
        // The starts of points, and of which of them the start is told.
        for (shape, starts, told) in [
            (delta, [5, 6, 7], [true, false, false]),
            (delta, [0, 0, 0], [false, false, false]),
            (delta, [0, 6, 0], [false, true, false]),
            (cumulative, [5, 5, 7], [true, false, true]),
            (cumulative, [0, 0, 0], [false, false, false]),
            (cumulative, [5, 0, 5], [true, false, false]),
        ] {
            let mut group = Group::default();
            let found = starts.map(|start| {
                let point = Point { start, time: 10, ..Point::default() };
                let is_new = group.has_new_start(shape, &point);
                group.moved(&point);
                is_new
            });
            assert_eq!(found, told, "{starts:?}");
        }
    }
}
