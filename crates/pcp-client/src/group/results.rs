//! What outputs are filled from: the result of a fetch, and the one before for rates.

use super::cell::Cell;
use super::options::Falling;
use super::scalar::Scalar;
use super::scale::{ConversionPath, DoublePath, ValueConversion};
use pcp_model::{Inst, PmError, Timestamp, ValueType};
use pcp_pdu::{Fetched, ValueRef, ValuesRef};

/// Two results. Metrics have the same place in both; the older one may lack the last ones.
#[derive(Clone, Copy)]
pub(super) struct ResultPair<'a> {
    now: &'a Fetched,
    before: Option<&'a Fetched>,
    seconds: f64,
    falling: Falling,
}

/// The values of one metric.
#[derive(Clone, Copy)]
pub(super) struct MetricValues<'a> {
    /// Those of now; a metric that the result lacks is `PM_ERR_VALUE`.
    pub now: Result<ValuesRef<'a>, PmError>,
    /// Those of the result before; without one `PM_ERR_AGAIN`.
    before: Result<ValuesRef<'a>, PmError>,
    seconds: f64,
    falling: Falling,
}

impl<'a> ResultPair<'a> {
    pub(super) fn new(now: &'a Fetched, before: Option<&'a Fetched>, falling: Falling) -> ResultPair<'a> {
        // At least a nanosecond: two results of one moment give a large rate, not an infinite one.
        let seconds = before.map_or(0.0, |before| seconds_between(before.timestamp, now.timestamp));
        ResultPair { now, before, seconds: seconds.max(1e-9), falling }
    }

    /// The values of a metric.
    pub(super) fn values(&self, metric: usize) -> MetricValues<'a> {
        let of = |fetched: &'a Fetched| fetched.set(metric).ok_or(PmError::VALUE)?.values;
        MetricValues {
            now: of(self.now),
            before: self.before.ok_or(PmError::AGAIN).and_then(of),
            seconds: self.seconds,
            falling: self.falling,
        }
    }
}

/// Calls a function that is made for the type of a metric's values: then nothing about it has to be decided value by value.
macro_rules! by_type {
    ($from:expr, $function:ident $arguments:tt) => {
        by_type!($from, $function $arguments, I32 U32 I64 U64 Float Double)
    };
    ($from:expr, $function:ident $arguments:tt, $($number:ident)*) => {
        match $from {
            $(ValueType::$number => $function::<{ ValueType::$number.code() }> $arguments,)*
            // No number: taken one by one.
            _ => $function::<{ ValueType::String.code() }> $arguments,
        }
    };
}
pub(super) use by_type;

impl MetricValues<'_> {
    /// The value of an instance, or of a metric without instances, in double precision, if everything is as it mostly is: a
    /// number of the type with the code `FROM`, at the place `at`, for a rate there before as well and not larger.
    /// [`MetricValues::fill`] is for everything else, and gives the same for this.
    #[inline(always)]
    pub(super) fn usual<const FROM: i32>(
        &self,
        now: &ValuesRef<'_>,
        wanted: Option<Inst>,
        at: usize,
        path: DoublePath<'_>,
    ) -> Option<f64> {
        let of = |values: &ValuesRef<'_>| {
            let (inst, value) = values.usual_f64(at, ValueType::from_code(FROM))?;
            let found = wanted.map_or(values.len() == 1, |wanted| inst == wanted);
            found.then_some(value)
        };
        let mut value = of(now)?;
        if path.rate {
            let delta = value - of(self.before.as_ref().ok()?)?;
            if delta < 0.0 {
                return None;
            }
            value = delta / self.seconds;
        }
        Some(path.convert.map_or(value, |(convert, multiplier)| convert.f64(value) * multiplier))
    }

    /// Takes a value on its way to the output (`docs/pcp/fetchgroup.md` 5 and 6). `wanted` is its instance, if the
    /// metric has instances; `guess` says where it may have been before, and then where it was.
    #[inline]
    pub(super) fn fill(
        &self,
        wanted: Option<Inst>,
        conversion: &ValueConversion,
        value: ValueRef<'_>,
        guess: &mut usize,
        cell: &mut Cell,
    ) -> Result<(), PmError> {
        match &conversion.path {
            // What is asked for mostly, and never leaves the registers.
            ConversionPath::Plain if conversion.to == ValueType::Double => {
                cell.set_double(Scalar::f64_of(value, conversion.from)?, ValueType::Double)
            }
            ConversionPath::Plain => cell.set_plain(&Scalar::of(value, conversion.from)?, conversion.to),
            ConversionPath::Double { rate, convert, multiplier } => {
                let mut value = Scalar::f64_of(value, conversion.from)?;
                if *rate {
                    value = self.rate(wanted, conversion.from, value, guess)?;
                }
                if let Some(convert) = convert {
                    // A rate first: converting a counter's large value would cost it digits.
                    value = convert.as_ref().map_err(|error| *error)?.f64(value) * multiplier;
                }
                cell.set_double(value, conversion.to)
            }
        }
    }

    #[inline]
    fn rate(
        &self,
        wanted: Option<Inst>,
        from: ValueType,
        value: f64,
        guess: &mut usize,
    ) -> Result<f64, PmError> {
        let before = self.before.as_ref().map_err(|error| *error)?;
        // A new instance has no rate yet, which is not the same as no second result (`PM_ERR_AGAIN`).
        let old = find(before, wanted, guess).ok_or(PmError::VALUE)?;
        let mut delta = value - Scalar::f64_of(old, from)?;
        if delta < 0.0 {
            delta += match (self.falling, from) {
                (Falling::NoValue, _) => return Err(PmError::VALUE),
                (Falling::Wrap, ValueType::I32 | ValueType::U32) => 4_294_967_296.0,
                (Falling::Wrap, ValueType::I64 | ValueType::U64) => 18_446_744_073_709_551_616.0,
                _ => 0.0,
            };
        }
        Ok(delta / self.seconds)
    }
}

/// The value of an instance, or the first one for metrics without instances: looks at the place guessed first, as
/// instances mostly keep their places.
#[inline(always)]
pub(super) fn find<'a>(
    values: &ValuesRef<'a>,
    wanted: Option<Inst>,
    guess: &mut usize,
) -> Option<ValueRef<'a>> {
    match (values.get(*guess), wanted) {
        (Some((inst, value)), Some(wanted)) if inst == wanted => Some(value),
        (Some((_, value)), None) if values.len() == 1 => Some(value),
        _ => search(values, wanted, guess),
    }
}

#[cold]
fn search<'a>(values: &ValuesRef<'a>, wanted: Option<Inst>, guess: &mut usize) -> Option<ValueRef<'a>> {
    let numbered = values.iter().enumerate();
    let (at, (_, value)) = match wanted {
        Some(wanted) => numbered.into_iter().find(|(_, (inst, _))| *inst == wanted)?,
        None => numbered.into_iter().min_by_key(|(_, (inst, _))| *inst)?,
    };
    *guess = at;
    Some(value)
}

/// In double precision, to the nanosecond.
fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    (to.sec as f64 - from.sec as f64) + (f64::from(to.nsec) - f64::from(from.nsec)) / 1e9
}
