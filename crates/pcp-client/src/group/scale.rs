//! How a value is turned into what is asked for: the checks at registration, and their outcome.

use std::str::FromStr;

use super::error::Reason;
use pcp_model::{Conversion, Desc, PmError, Semantics, Units, UnitsParseError, UnitsVocabulary, ValueType};

/// What to do with a value before it is cast to the output's type.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Scale {
    /// The rate of a counter; other values as they are.
    #[default]
    None,
    /// The rate, whatever the metric's semantics.
    Rate,
    /// The value as it is, even of a counter.
    Instant,
    /// The value in these units, times the multiplier. With the metric's dimension it is the value itself, even
    /// of a counter; with one less in time it is the rate, whatever the metric's semantics.
    Units {
        /// Dimension and scale.
        units: Units,
        /// As in [`Units::parse`]: `2 count` gives 0.5.
        multiplier: f64,
    },
}

impl FromStr for Scale {
    type Err = UnitsParseError;

    /// Reads `rate`, `instant`, or units such as `Kbyte / min`; an empty text is that of units without dimension.
    fn from_str(text: &str) -> Result<Scale, UnitsParseError> {
        Scale::parse(text, UnitsVocabulary::Classic)
    }
}

impl Scale {
    fn parse(text: &str, words: UnitsVocabulary) -> Result<Scale, UnitsParseError> {
        Ok(match text {
            "rate" => Scale::Rate,
            "instant" => Scale::Instant,
            _ => {
                let (units, multiplier) = Units::parse(text, words)?;
                Scale::Units { units, multiplier }
            }
        })
    }
}

/// A [`Scale`], or its text, or perhaps a text: what registrations take. A text is read after the metric and the
/// instance have been found, as in PCP.
pub trait IntoScale {
    /// The scale meant.
    ///
    /// # Errors
    /// What is wrong with the text.
    fn into_scale(self, words: UnitsVocabulary) -> Result<Scale, UnitsParseError>;
}

impl IntoScale for Scale {
    fn into_scale(self, _: UnitsVocabulary) -> Result<Scale, UnitsParseError> {
        Ok(self)
    }
}

impl IntoScale for &str {
    fn into_scale(self, words: UnitsVocabulary) -> Result<Scale, UnitsParseError> {
        Scale::parse(self, words)
    }
}

impl IntoScale for &String {
    fn into_scale(self, words: UnitsVocabulary) -> Result<Scale, UnitsParseError> {
        Scale::parse(self, words)
    }
}

/// `None` is [`Scale::None`].
impl IntoScale for Option<&str> {
    fn into_scale(self, words: UnitsVocabulary) -> Result<Scale, UnitsParseError> {
        self.map_or(Ok(Scale::None), |text| Scale::parse(text, words))
    }
}

/// The way from a metric's value to an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValueConversion {
    /// The metric's type.
    pub from: ValueType,
    /// The output's type.
    pub to: ValueType,
    pub path: ConversionPath,
}

/// The two ways, which cast differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ConversionPath {
    /// Straight from type to type.
    Plain,
    /// Through double precision.
    Double {
        rate: bool,
        /// An error here is that of every value: `pmConvScale(3)` finds it only when it has one.
        convert: Option<Result<Conversion, PmError>>,
        multiplier: f64,
    },
}

/// A way that begins and ends in double precision.
#[derive(Clone, Copy, Debug)]
pub(super) struct DoublePath<'a> {
    pub rate: bool,
    pub convert: Option<(&'a Conversion, f64)>,
}

impl ValueConversion {
    /// Checks a metric's type, the output's type and the scale, in this order (`docs/pcp/fetchgroup.md` 3).
    pub(super) fn new(
        desc: &Desc,
        to: ValueType,
        scale: impl IntoScale,
        words: UnitsVocabulary,
    ) -> Result<ValueConversion, Reason> {
        let from = desc.value_type;
        if !is_scalar(from) {
            return Err(Reason::MetricType(from));
        }
        if !is_scalar(to) {
            return Err(Reason::OutputType(to));
        }
        let double = |rate| ConversionPath::Double { rate, convert: None, multiplier: 1.0 };
        let path = match scale.into_scale(words)? {
            Scale::None if desc.semantics == Semantics::Counter => double(true),
            Scale::None | Scale::Instant => ConversionPath::Plain,
            Scale::Rate => double(true),
            Scale::Units { units, multiplier } => convert(desc.units, units, multiplier, words)
                .ok_or(Reason::Dimension { metric: desc.units, scale: units })?,
        };
        Ok(ValueConversion { from, to, path })
    }

    /// The way to an output in double precision, if each number has one.
    pub(super) fn double_path(&self) -> Option<DoublePath<'_>> {
        let (rate, convert) = match &self.path {
            ConversionPath::Plain => (false, None),
            ConversionPath::Double { rate, convert: None, .. } => (*rate, None),
            ConversionPath::Double { rate, convert: Some(Ok(convert)), multiplier } => {
                (*rate, Some((convert, *multiplier)))
            }
            ConversionPath::Double { convert: Some(Err(_)), .. } => return None,
        };
        (self.to == ValueType::Double).then_some(DoublePath { rate, convert })
    }

    pub(super) fn is_rate(&self) -> bool {
        matches!(self.path, ConversionPath::Double { rate: true, .. })
    }
}

fn is_scalar(value_type: ValueType) -> bool {
    value_type.is_numeric() || value_type == ValueType::String
}

/// `None` when the dimensions do not go together.
fn convert(from: Units, to: Units, multiplier: f64, words: UnitsVocabulary) -> Option<ConversionPath> {
    if from.dim_space != to.dim_space || from.dim_count != to.dim_count {
        return None;
    }
    let extra = |units: Units| units.extra_unit().map_or(0, |extra| extra.unit);
    let (rate, to, multiplier) =
        if from.dim_time == to.dim_time && (words == UnitsVocabulary::Classic || extra(from) == extra(to)) {
            (false, to, multiplier)
        } else if from.dim_time == to.dim_time + 1 {
            // A rate comes for a second.
            let seconds = *[1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0].get(usize::from(to.scale_time))?;
            (true, Units { dim_time: to.dim_time + 1, ..to }, multiplier * seconds)
        } else {
            return None;
        };
    Some(ConversionPath::Double { rate, convert: Some(Conversion::new(from, to, words)), multiplier })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::{InDom, Pmid};

    const BYTE: Units = Units::BYTE;

    /// The path for a metric of these units, or the error code.
    fn path(units: Units, semantics: Semantics, scale: Option<&str>) -> Result<ConversionPath, PmError> {
        let desc =
            Desc { pmid: Pmid::NULL, value_type: ValueType::I32, indom: InDom::NULL, semantics, units };
        ValueConversion::new(&desc, ValueType::Double, scale, UnitsVocabulary::Classic)
            .map(|conversion| conversion.path)
            .map_err(|error| error.code())
    }

    fn check(units: Units, semantics: Semantics, scale: &str, rate: Result<bool, PmError>) {
        let found = path(units, semantics, Some(scale)).map(|path| match path {
            ConversionPath::Plain => panic!("{scale}: converts"),
            ConversionPath::Double { rate, .. } => rate,
        });
        assert_eq!(found, rate, "{scale:?}");
    }

    #[test]
    fn dimensions_as_on_the_page() {
        let no = Err(PmError::CONV);
        for (scale, rate) in [
            ("", Ok(false)),
            (" ", Ok(false)),
            ("3", Ok(false)),
            ("count/count", Ok(false)),
            ("sec/sec", Ok(false)),
            ("/sec", Ok(true)),
            ("/min", Ok(true)),
            ("count", no),
            ("byte", no),
            ("nonsense", no),
        ] {
            check(Units::NONE, Semantics::Instant, scale, rate);
        }
        for (scale, rate) in [
            ("Mbyte", Ok(false)),
            ("byte/sec", Ok(true)),
            ("Kbyte/min", Ok(true)),
            ("2 byte/3 sec", Ok(true)),
            ("count/sec", no),
            ("byte/sec^2", no),
            ("byte sec", no),
            ("byte/time-9", no),
        ] {
            check(BYTE, Semantics::Counter, scale, rate);
            check(BYTE, Semantics::Instant, scale, rate);
        }
    }

    #[test]
    fn words_and_semantics() {
        let rate = Ok(ConversionPath::Double { rate: true, convert: None, multiplier: 1.0 });
        assert_eq!(path(BYTE, Semantics::Counter, None), rate);
        assert_eq!(path(BYTE, Semantics::Instant, None), Ok(ConversionPath::Plain));
        assert_eq!(path(BYTE, Semantics::Discrete, Some("rate")), rate);
        assert_eq!(path(BYTE, Semantics::Counter, Some("instant")), Ok(ConversionPath::Plain));
        assert_eq!(path(BYTE, Semantics::Counter, Some("Rate")), Err(PmError::CONV));
    }

    #[test]
    fn scales_without_a_length_fail_only_with_values() {
        let Ok(ConversionPath::Double { convert, .. }) = path(BYTE, Semantics::Instant, Some("space-7"))
        else {
            panic!("registers")
        };
        assert_eq!(convert, Some(Err(PmError::UNIT)));
    }

    #[test]
    fn rates_in_other_times() {
        let rate = |units, scale| match path(units, Semantics::Counter, Some(scale)) {
            Ok(ConversionPath::Double { convert: Some(Ok(convert)), multiplier, .. }) => {
                (convert.f64(1101.038) * multiplier * 1e6).round() / 1e6
            }
            other => panic!("{scale}: {other:?}"),
        };
        for (scale, expected) in [
            ("byte/sec", 1101.038),
            ("Kbyte/sec", 1.075232),
            ("byte/min", 66062.28),
            ("byte/hour", 3963736.8),
            ("byte/ms", 1.101038),
            ("2 byte/3 sec", 1651.557),
        ] {
            assert_eq!(rate(BYTE, scale), expected, "{scale}");
        }
        // Of a millisecond counter: no dimension is left.
        for (scale, expected) in
            [("ms/sec", 1101.038), ("sec/sec", 1.101038), (" ", 1.101038), ("100", 0.01101)]
        {
            let found = rate(Units::MILLISECOND, scale);
            assert!((found - expected).abs() < 1e-5, "{scale}: {found}");
        }
    }

    #[test]
    fn types_are_checked_before_the_scale() {
        let desc = |value_type| Desc {
            pmid: Pmid::NULL,
            value_type,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: Units::NONE,
        };
        for value_type in [ValueType::Aggregate, ValueType::Event, ValueType::NoSupport, ValueType::Unknown] {
            let refused = |from, to| {
                ValueConversion::new(&desc(from), to, "byte", UnitsVocabulary::Classic).unwrap_err()
            };
            assert_eq!(refused(value_type, ValueType::I32).code(), PmError::TYPE);
            assert_eq!(refused(ValueType::I32, value_type).code(), PmError::TYPE);
            assert_eq!(refused(ValueType::I32, ValueType::I32).code(), PmError::CONV);
        }
    }
}
