//! OTLP's JSON: turned into the same request in protobuf, so that there is one decoder for both.
//!
//! Names are in lowerCamelCase, ids hexadecimal, 64-bit integers text or numbers, bytes base64; names that OTLP does
//! not have are skipped, as are nulls ("JSON Protobuf Encoding" in the specification of OTLP).
//!
//! **Cost:** one pass, no tree. The result is at most about twice as long as the text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::decode::Signal;
use crate::delivery::Reason;

/// Longest text that can be turned: what lengths of four bytes can say of the result.
pub const MAX_TEXT: usize = 64 << 20;

/// Why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// The kind of defect.
    pub reason: Reason,
    /// What is wrong, with line and column.
    pub message: String,
}

/// Spans or log records that cannot be turned, and so are not in the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: u64,
    /// Where the first is, and what is wrong with it.
    pub first: Option<String>,
}

/// Appends the protobuf of a request in JSON to `out`. A span or log record with a value of another type than OTLP gives
/// it is left out, alone.
///
/// # Errors
/// It is no JSON, longer than [`MAX_TEXT`], nested too deep, or has such a value around spans and log records.
pub fn transcode(signal: Signal, text: &[u8], out: &mut Vec<u8>) -> Result<LeftOut, JsonError> {
    if text.len() > MAX_TEXT {
        let message = format!("more than {MAX_TEXT} bytes");
        return Err(JsonError { reason: Reason::OversizeLine, message });
    }
    let message = match signal {
        Signal::Traces => &TRACES,
        Signal::Logs => &LOGS,
        Signal::Metrics => &METRICS,
    };
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut out = Output { bytes: out, left_out: LeftOut::default() };
    let fields = Fields { message, out: &mut out };
    match json.deserialize_map(fields).and_then(|fit| json.end().map(|()| fit)) {
        Ok(Ok(())) => Ok(out.left_out),
        Ok(Err(Misfit(message))) => Err(JsonError { reason: Reason::Syntax, message }),
        Err(error) => {
            let message = error.to_string();
            // The parser has no other way to say that its limit of depth was reached.
            let reason = match message.contains("recursion limit") {
                true => Reason::Depth,
                false if std::str::from_utf8(text).is_err() => Reason::Encoding,
                false => Reason::Syntax,
            };
            Err(JsonError { reason, message })
        }
    }
}

/// A value of another type than its field has: where, and what was expected. What surrounds it is read on.
struct Misfit(String);

type Fit = Result<(), Misfit>;

impl Misfit {
    /// The misfit of something that has this one within.
    fn within(self, place: &dyn fmt::Display) -> Misfit {
        Misfit(format!("{place}: {}", self.0))
    }
}

/// What has been turned.
struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    left_out: LeftOut,
}

/// A message's fields by their names.
struct Message(&'static [(&'static str, Field)]);

/// A field's number and what its JSON is.
#[derive(Clone, Copy)]
struct Field(u32, Kind);

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Hex,
    Base64,
    Varint,
    Bool,
    Fixed64,
    SFixed64,
    Fixed32,
    Zigzag,
    Double,
    /// A list of numbers.
    Each(&'static Kind),
    One(&'static Message),
    Many(&'static Message),
    /// Spans or log records, which stand or fall each on its own.
    Items(&'static Message),
}

use Kind::{
    Base64, Bool, Double, Each, Fixed32, Fixed64, Hex, Items, Many, One, SFixed64, Text, Varint, Zigzag,
};

static TRACES: Message = Message(&[("resourceSpans", Field(1, Many(&RESOURCE_SPANS)))]);
static RESOURCE_SPANS: Message =
    Message(&[("resource", Field(1, One(&RESOURCE))), ("scopeSpans", Field(2, Many(&SCOPE_SPANS)))]);
static SCOPE_SPANS: Message = Message(&[("scope", Field(1, One(&SCOPE))), ("spans", Field(2, Items(&SPAN)))]);
static LOGS: Message = Message(&[("resourceLogs", Field(1, Many(&RESOURCE_LOGS)))]);
static RESOURCE_LOGS: Message =
    Message(&[("resource", Field(1, One(&RESOURCE))), ("scopeLogs", Field(2, Many(&SCOPE_LOGS)))]);
static SCOPE_LOGS: Message =
    Message(&[("scope", Field(1, One(&SCOPE))), ("logRecords", Field(2, Items(&LOG_RECORD)))]);
static METRICS: Message = Message(&[("resourceMetrics", Field(1, Many(&RESOURCE_METRICS)))]);
static RESOURCE_METRICS: Message =
    Message(&[("resource", Field(1, One(&RESOURCE))), ("scopeMetrics", Field(2, Many(&SCOPE_METRICS)))]);
static SCOPE_METRICS: Message =
    Message(&[("scope", Field(1, One(&SCOPE))), ("metrics", Field(2, Many(&METRIC)))]);
static METRIC: Message = Message(&[
    ("name", Field(1, Text)),
    ("description", Field(2, Text)),
    ("unit", Field(3, Text)),
    ("gauge", Field(5, One(&NUMBERS))),
    ("sum", Field(7, One(&NUMBERS))),
    ("histogram", Field(9, One(&HISTOGRAM))),
    ("exponentialHistogram", Field(10, One(&EXPONENTIAL))),
    ("summary", Field(11, One(&SUMMARY))),
]);
static NUMBERS: Message = Message(&[
    ("dataPoints", Field(1, Items(&NUMBER_POINT))),
    ("aggregationTemporality", Field(2, Varint)),
    ("isMonotonic", Field(3, Bool)),
]);
static HISTOGRAM: Message = Message(&[
    ("dataPoints", Field(1, Items(&HISTOGRAM_POINT))),
    ("aggregationTemporality", Field(2, Varint)),
]);
static EXPONENTIAL: Message = Message(&[
    ("dataPoints", Field(1, Items(&EXPONENTIAL_POINT))),
    ("aggregationTemporality", Field(2, Varint)),
]);
static SUMMARY: Message = Message(&[("dataPoints", Field(1, Items(&SUMMARY_POINT)))]);
static NUMBER_POINT: Message = Message(&[
    ("startTimeUnixNano", Field(2, Fixed64)),
    ("timeUnixNano", Field(3, Fixed64)),
    ("asDouble", Field(4, Double)),
    ("exemplars", Field(5, Many(&EXEMPLAR))),
    ("asInt", Field(6, SFixed64)),
    ("attributes", Field(7, Many(&KEY_VALUE))),
    ("flags", Field(8, Varint)),
]);
static HISTOGRAM_POINT: Message = Message(&[
    ("startTimeUnixNano", Field(2, Fixed64)),
    ("timeUnixNano", Field(3, Fixed64)),
    ("count", Field(4, Fixed64)),
    ("sum", Field(5, Double)),
    ("bucketCounts", Field(6, Each(&Fixed64))),
    ("explicitBounds", Field(7, Each(&Double))),
    ("exemplars", Field(8, Many(&EXEMPLAR))),
    ("attributes", Field(9, Many(&KEY_VALUE))),
    ("flags", Field(10, Varint)),
    ("min", Field(11, Double)),
    ("max", Field(12, Double)),
]);
static EXPONENTIAL_POINT: Message = Message(&[
    ("attributes", Field(1, Many(&KEY_VALUE))),
    ("startTimeUnixNano", Field(2, Fixed64)),
    ("timeUnixNano", Field(3, Fixed64)),
    ("count", Field(4, Fixed64)),
    ("sum", Field(5, Double)),
    ("scale", Field(6, Zigzag)),
    ("zeroCount", Field(7, Fixed64)),
    ("positive", Field(8, One(&BUCKETS))),
    ("negative", Field(9, One(&BUCKETS))),
    ("flags", Field(10, Varint)),
    ("exemplars", Field(11, Many(&EXEMPLAR))),
    ("min", Field(12, Double)),
    ("max", Field(13, Double)),
]);
static BUCKETS: Message = Message(&[("offset", Field(1, Zigzag)), ("bucketCounts", Field(2, Each(&Varint)))]);
static SUMMARY_POINT: Message = Message(&[
    ("startTimeUnixNano", Field(2, Fixed64)),
    ("timeUnixNano", Field(3, Fixed64)),
    ("count", Field(4, Fixed64)),
    ("sum", Field(5, Double)),
    ("quantileValues", Field(6, Many(&QUANTILE))),
    ("attributes", Field(7, Many(&KEY_VALUE))),
    ("flags", Field(8, Varint)),
]);
static QUANTILE: Message = Message(&[("quantile", Field(1, Double)), ("value", Field(2, Double))]);
static EXEMPLAR: Message = Message(&[
    ("timeUnixNano", Field(2, Fixed64)),
    ("asDouble", Field(3, Double)),
    ("spanId", Field(4, Hex)),
    ("traceId", Field(5, Hex)),
    ("asInt", Field(6, SFixed64)),
]);
static RESOURCE: Message = Message(&[("attributes", Field(1, Many(&KEY_VALUE)))]);
static SCOPE: Message = Message(&[("name", Field(1, Text)), ("version", Field(2, Text))]);
static KEY_VALUE: Message = Message(&[("key", Field(1, Text)), ("value", Field(2, One(&ANY_VALUE)))]);
static ANY_VALUE: Message = Message(&[
    ("stringValue", Field(1, Text)),
    ("boolValue", Field(2, Bool)),
    ("intValue", Field(3, Varint)),
    ("doubleValue", Field(4, Double)),
    ("arrayValue", Field(5, One(&ARRAY_VALUE))),
    ("kvlistValue", Field(6, One(&KEY_VALUE_LIST))),
    ("bytesValue", Field(7, Base64)),
]);
static ARRAY_VALUE: Message = Message(&[("values", Field(1, Many(&ANY_VALUE)))]);
static KEY_VALUE_LIST: Message = Message(&[("values", Field(1, Many(&KEY_VALUE)))]);
static SPAN: Message = Message(&[
    ("traceId", Field(1, Hex)),
    ("spanId", Field(2, Hex)),
    ("traceState", Field(3, Text)),
    ("parentSpanId", Field(4, Hex)),
    ("name", Field(5, Text)),
    ("kind", Field(6, Varint)),
    ("startTimeUnixNano", Field(7, Fixed64)),
    ("endTimeUnixNano", Field(8, Fixed64)),
    ("attributes", Field(9, Many(&KEY_VALUE))),
    ("droppedAttributesCount", Field(10, Varint)),
    ("events", Field(11, Many(&EVENT))),
    ("droppedEventsCount", Field(12, Varint)),
    ("links", Field(13, Many(&LINK))),
    ("droppedLinksCount", Field(14, Varint)),
    ("status", Field(15, One(&STATUS))),
    ("flags", Field(16, Fixed32)),
]);
static EVENT: Message = Message(&[
    ("timeUnixNano", Field(1, Fixed64)),
    ("name", Field(2, Text)),
    ("attributes", Field(3, Many(&KEY_VALUE))),
    ("droppedAttributesCount", Field(4, Varint)),
]);
static LINK: Message = Message(&[
    ("traceId", Field(1, Hex)),
    ("spanId", Field(2, Hex)),
    ("traceState", Field(3, Text)),
    ("attributes", Field(4, Many(&KEY_VALUE))),
    ("droppedAttributesCount", Field(5, Varint)),
    ("flags", Field(6, Fixed32)),
]);
static STATUS: Message = Message(&[("message", Field(2, Text)), ("code", Field(3, Varint))]);
static LOG_RECORD: Message = Message(&[
    ("timeUnixNano", Field(1, Fixed64)),
    ("severityNumber", Field(2, Varint)),
    ("severityText", Field(3, Text)),
    ("body", Field(5, One(&ANY_VALUE))),
    ("attributes", Field(6, Many(&KEY_VALUE))),
    ("droppedAttributesCount", Field(7, Varint)),
    ("flags", Field(8, Fixed32)),
    ("traceId", Field(9, Hex)),
    ("spanId", Field(10, Hex)),
    ("observedTimeUnixNano", Field(11, Fixed64)),
    ("eventName", Field(12, Text)),
]);

impl Message {
    fn field(&self, name: &str) -> Option<(&'static str, Field)> {
        self.0.iter().find(|(known, _)| *known == name).copied()
    }
}

/// An object: the fields of a message, without tag and length.
struct Fields<'a, 'o> {
    message: &'static Message,
    out: &'a mut Output<'o>,
}

impl<'de> Visitor<'de> for Fields<'_, '_> {
    type Value = Fit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fit, A::Error> {
        let mut all = Ok(());
        while let Some(known) = map.next_key_seed(Name(self.message))? {
            match known {
                Some((name, field)) => {
                    let fit = map.next_value_seed(Value { field, out: &mut *self.out })?;
                    all = all.and(fit.map_err(|misfit| misfit.within(&name)));
                }
                // Newer clients may send more than this knows, as in protobuf.
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(all)
    }
}

/// A name: the field, if the message has one of this name.
struct Name(&'static Message);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<(&'static str, Field)>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<(&'static str, Field)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name))
    }
}

/// A field's value, or one of several: written with tag and, where it takes one, length.
struct Value<'a, 'o> {
    field: Field,
    out: &'a mut Output<'o>,
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_> {
    type Value = Fit;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Fit, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Value<'_, '_> {
    fn tag(&mut self, wire_type: u32) {
        varint(self.out.bytes, u64::from(self.field.0 << 3 | wire_type));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.tag(2);
        varint(self.out.bytes, bytes.len() as u64);
        self.out.bytes.extend_from_slice(bytes);
    }

    /// An integer in two's complement; `false` if the field is none.
    fn integer(&mut self, number: u64) -> bool {
        match self.field.1 {
            Varint => {
                self.tag(0);
                varint(self.out.bytes, number);
            }
            Zigzag => {
                self.tag(0);
                let number = number as i64;
                varint(self.out.bytes, (number << 1 ^ number >> 63) as u64);
            }
            Fixed64 | SFixed64 => {
                self.tag(1);
                self.out.bytes.extend_from_slice(&number.to_le_bytes());
            }
            Fixed32 => {
                self.tag(5);
                self.out.bytes.extend_from_slice(&(number as u32).to_le_bytes());
            }
            _ => return false,
        }
        true
    }

    fn double(&mut self, number: f64) {
        self.tag(1);
        self.out.bytes.extend_from_slice(&number.to_bits().to_le_bytes());
    }

    /// What a value is that is no value for this field.
    fn misfit(&self, what: &dyn fmt::Display) -> Misfit {
        let expected = match self.field.1 {
            Text => "text",
            Hex => "an id in hexadecimal digits",
            Base64 => "bytes in base64",
            Varint | Fixed64 | SFixed64 | Fixed32 | Zigzag => "an integer, as a number or as text",
            Bool => "true or false",
            Double => "a number",
            One(_) => "an object",
            Many(_) | Items(_) => "a list of objects",
            Each(_) => "a list of numbers",
        };
        Misfit(format!("{what}, expected {expected}"))
    }

    fn fit(&self, fits: bool, what: impl fmt::Display) -> Fit {
        if fits { Ok(()) } else { Err(self.misfit(&what)) }
    }

    /// Writes the message that an object is.
    fn object<'de, A: MapAccess<'de>>(&mut self, message: &'static Message, map: A) -> Result<Fit, A::Error> {
        self.tag(2);
        let start = self.out.bytes.len();
        self.out.bytes.extend_from_slice(&[0; 4]);
        let fit = Fields { message, out: &mut *self.out }.visit_map(map)?;
        // Four bytes in any case, so that the message need not be moved.
        let len = self.out.bytes.len() - start - 4;
        if let Some(place) = self.out.bytes.get_mut(start..start + 4) {
            place.copy_from_slice(&[
                len as u8 & 0x7f | 0x80,
                (len >> 7) as u8 & 0x7f | 0x80,
                (len >> 14) as u8 & 0x7f | 0x80,
                (len >> 21) as u8 & 0x7f,
            ]);
        }
        Ok(fit)
    }
}

impl<'de> Visitor<'de> for Value<'_, '_> {
    type Value = Fit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Fit, E> {
        Ok(Ok(()))
    }

    fn visit_bool<E>(mut self, value: bool) -> Result<Fit, E> {
        let fits = matches!(self.field.1, Bool);
        if fits {
            self.tag(0);
            self.out.bytes.push(u8::from(value));
        }
        Ok(self.fit(fits, value))
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<Fit, E> {
        if let Double = self.field.1 {
            self.double(number as f64);
            return Ok(Ok(()));
        }
        let fits = self.integer(number);
        Ok(self.fit(fits, number))
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<Fit, E> {
        let fits = match self.field.1 {
            Double => {
                self.double(number as f64);
                true
            }
            // The field types that have signed numbers.
            Varint | SFixed64 | Zigzag => self.integer(number as u64),
            _ => false,
        };
        Ok(self.fit(fits, number))
    }

    fn visit_f64<E>(mut self, number: f64) -> Result<Fit, E> {
        let fits = matches!(self.field.1, Double);
        if fits {
            self.double(number);
        }
        Ok(self.fit(fits, number))
    }

    fn visit_str<E>(mut self, text: &str) -> Result<Fit, E> {
        let fits = match self.field.1 {
            Text => {
                self.bytes(text.as_bytes());
                true
            }
            Hex => unhex(text).map(|bytes| self.bytes(&bytes)).is_some(),
            Base64 => STANDARD.decode(text).map(|bytes| self.bytes(&bytes)).is_ok(),
            Double => text.parse().map(|number| self.double(number)).is_ok(),
            Varint | Fixed64 | SFixed64 | Fixed32 | Zigzag => {
                // 64-bit integers are text in protobuf's JSON, as numbers there have 53 bits.
                let unsigned = text.parse::<u64>();
                let number = unsigned.or_else(|_| text.parse::<i64>().map(|number| number as u64));
                number.is_ok_and(|number| self.integer(number))
            }
            _ => false,
        };
        Ok(self.fit(fits, "this text"))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Fit, A::Error> {
        if let One(message) | Many(message) | Items(message) = self.field.1 {
            return self.object(message, map);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Err(self.misfit(&"an object")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Fit, A::Error> {
        if let Each(kind) = self.field.1 {
            let field = Field(self.field.0, *kind);
            let mut all = Ok(());
            // One field for each number, which protobuf takes as well as all in one.
            while let Some(fit) = list.next_element_seed(Value { field, out: &mut *self.out })? {
                all = all.and(fit);
            }
            return Ok(all);
        }
        let (Many(message) | Items(message)) = self.field.1 else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Err(self.misfit(&"a list")));
        };
        let alone = matches!(self.field.1, Items(_));
        let field = Field(self.field.0, One(message));
        // Counted within its list.
        let (mut all, mut number) = (Ok(()), 0_usize);
        loop {
            let start = self.out.bytes.len();
            let Some(fit) = list.next_element_seed(Value { field, out: &mut *self.out })? else {
                return Ok(all);
            };
            match fit {
                Err(misfit) if alone => {
                    // It does not spoil those behind it.
                    self.out.bytes.truncate(start);
                    self.out.left_out.add(&misfit.within(&format_args!("[{number}]")));
                }
                fit => all = all.and(fit.map_err(|misfit| misfit.within(&format_args!("[{number}]")))),
            }
            number += 1;
        }
    }
}

impl LeftOut {
    fn add(&mut self, misfit: &Misfit) {
        self.count += 1;
        self.first.get_or_insert_with(|| misfit.0.clone());
    }
}

/// Appends a number as protobuf writes it.
pub(super) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
