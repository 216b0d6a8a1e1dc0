//! Values as text: `pmPrintValue(3)`, `pmAtomStr(3)`, `pmNumberStr(3)` (`docs/pcp/units.md` 11 and 12).

use std::io::Write;

use super::c_number::{exponential, fixed, general};
use super::{Value, ValueType};

/// How [`Value::print`] prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// Least number of bytes: blanks are put in front. Of an aggregate each part has this width.
    pub width: usize,
    /// Print white space within strings as blanks (`PCP_SQUASH_NEWLINES` of PCP 6.3).
    pub squash_newlines: bool,
}

impl PrintOptions {
    /// A least width, strings as they are.
    pub const fn width(width: usize) -> PrintOptions {
        PrintOptions { width, squash_newlines: false }
    }
}

/// A value in the encoding in which it was delivered, for values that are not of their metric's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntypedValue<'a> {
    /// 32 bits.
    InSitu(u32),
    /// A value block.
    Block {
        /// The type the block has.
        kind: ValueType,
        /// Its bytes, without header; numbers in network byte order.
        payload: &'a [u8],
    },
}

impl Value {
    /// Appends the text of `pmPrintValue(3)`. Strings are put out byte by byte. Of an event array only the
    /// number of records is printed, for want of a time zone: `event::print_value` prints the times too.
    pub fn print(&self, options: PrintOptions, out: &mut Vec<u8>) {
        let width = options.width;
        match self {
            Value::I32(v) => padded(out, width, v),
            Value::U32(v) => padded(out, width, v),
            Value::I64(v) => padded(out, width, v),
            Value::U64(v) => padded(out, width, v),
            Value::Float(v) => padded(out, width, general(f64::from(*v), FLOAT_DIGITS)),
            Value::Double(v) => padded(out, width, general(*v, DOUBLE_DIGITS)),
            Value::String(text) if options.squash_newlines => {
                let text: Vec<u8> = text
                    .iter()
                    .map(|&byte| if byte.is_ascii_whitespace() || byte == 0x0b { b' ' } else { byte })
                    .collect();
                quoted(out, width, &text);
            }
            Value::String(text) => quoted(out, width, text),
            Value::Aggregate(payload) => {
                UntypedValue::Block { kind: ValueType::Aggregate, payload }.print(width, out);
            }
            Value::Event(array) | Value::HighResEvent(array) => {
                out.extend_from_slice(record_count(array).as_bytes());
            }
        }
    }

    /// The text of `pmAtomStr(3)`: short, and cut where it would be long. Strings are put out byte by byte.
    pub fn print_short(&self, out: &mut Vec<u8>) {
        match self {
            Value::Float(v) => out.extend_from_slice(exponential(f64::from(*v), 6).as_bytes()),
            Value::Double(v) => out.extend_from_slice(exponential(*v, 6).as_bytes()),
            Value::String(text) if text.len() > SHORT_STRING => {
                quoted(out, 0, &[&text[..SHORT_STRING_CUT], b"..."].concat());
            }
            Value::Aggregate(payload) => {
                UntypedValue::Block { kind: ValueType::Aggregate, payload }.print_short(out);
            }
            _ => self.print(PrintOptions::default(), out),
        }
    }
}

impl UntypedValue<'_> {
    /// Appends what `pmPrintValue(3)` prints for a value whose type is unknown, or not that of its metric:
    /// every reading that makes sense, then the bytes in hexadecimal. Each part has `width` bytes at least.
    pub fn print(&self, width: usize, out: &mut Vec<u8>) {
        match *self {
            UntypedValue::InSitu(word) => {
                padded(out, width, word);
                let float = f32::from_bits(word);
                if !float.is_nan() {
                    out.push(b' ');
                    padded(out, width, general(f64::from(float), FLOAT_DIGITS));
                }
                out.extend_from_slice(b" 0x");
                padded(out, if width > 2 { width - 2 } else { width }, format!("{word:x}"));
            }
            UntypedValue::Block { kind, payload } => print_block(&host_order(kind, payload), width, out),
        }
    }

    /// Appends the text of `pmAtomStr(3)` for an aggregate: type, length and the first twelve bytes.
    pub fn print_short(&self, out: &mut Vec<u8>) {
        let UntypedValue::Block { kind, payload } = *self else {
            return self.print(0, out);
        };
        // Writing to a Vec does not fail.
        let _ = write!(out, "[type={} len={}]", kind.name(), payload.len());
        for (at, byte) in payload.iter().take(SHORT_BYTES).enumerate() {
            let _ = write!(out, "{}{byte:02x}", if at % 4 == 0 { " " } else { "" });
        }
        if payload.len() > SHORT_BYTES {
            out.extend_from_slice(b" ...");
        }
    }

    /// The state of logging that `pmlogger(1)` keeps in place of an event metric's value.
    pub fn log_control(word: u32) -> String {
        let bit = |n: u32| word >> n & 1 != 0;
        let (force, state) = (if bit(1) { "mand" } else { "adv" }, if bit(0) { "on" } else { "off" });
        let logged = match (bit(3), bit(2)) {
            (false, _) => "nl ",
            (true, false) => "na ",
            (true, true) => " ",
        };
        format!("[pmlc control {force} {state} {logged}{}]", word >> 4)
    }
}

/// The seven characters of `pmNumberStr(3)`: ` 12.34K`.
pub fn number_text(value: f64) -> String {
    // The limits are those at which two decimals would round up to 1000 (or 100, below zero).
    let positive =
        [(999_995e6, 1e12, 'T'), (999_995e3, 1e9, 'G'), (999_995.0, 1e6, 'M'), (999.995, 1e3, 'K')];
    if value >= 999_995e9 {
        return " inf?  ".to_owned();
    }
    if value <= -99_995e9 {
        return "-inf?  ".to_owned();
    }
    let scaled = |divisor: f64, suffix: char| format!("{:>6}{suffix}", fixed(value / divisor, 2));
    if let Some(&(_, divisor, suffix)) = positive.iter().find(|&&(limit, ..)| value >= limit) {
        return scaled(divisor, suffix);
    }
    // A tenth of those above zero: the sign takes a place.
    let negative = [(99_995e6, 1e12, 'T'), (99_995e3, 1e9, 'G'), (99_995.0, 1e6, 'M'), (99.995, 1e3, 'K')];
    if let Some(&(_, divisor, suffix)) = negative.iter().find(|&&(limit, ..)| value <= -limit) {
        return scaled(divisor, suffix);
    }
    if value.abs() >= 0.005 { scaled(1.0, ' ') } else { "  0.00 ".to_owned() }
}

/// Significant digits of single precision.
const FLOAT_DIGITS: usize = 8;
/// Significant digits of double precision.
const DOUBLE_DIGITS: usize = 16;
/// The longest string that `pmAtomStr` prints whole.
const SHORT_STRING: usize = 37;
/// How much it prints of longer ones.
const SHORT_STRING_CUT: usize = 34;
/// How many bytes of an aggregate it prints.
const SHORT_BYTES: usize = 12;

fn padded(out: &mut Vec<u8>, width: usize, text: impl std::fmt::Display) {
    let start = out.len();
    // Writing to a Vec does not fail.
    let _ = write!(out, "{text}");
    // Not by `format!`, which takes no width beyond 65,535.
    let missing = width.saturating_sub(out.len() - start);
    if missing > 0 {
        out.splice(start..start, std::iter::repeat_n(b' ', missing));
    }
}

fn blanks(out: &mut Vec<u8>, n: usize) {
    out.resize(out.len() + n, b' ');
}

fn quoted(out: &mut Vec<u8>, width: usize, text: &[u8]) {
    blanks(out, width.saturating_sub(text.len() + 2));
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// A block's bytes as libpcp has them in memory: numbers in the machine's order, the rest as it came.
fn host_order(kind: ValueType, payload: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let number = matches!(kind, ValueType::I64 | ValueType::U64 | ValueType::Float | ValueType::Double);
    if number && cfg!(target_endian = "little") {
        let mut bytes = payload.to_vec();
        bytes.reverse();
        bytes.into()
    } else {
        payload.into()
    }
}

fn print_block(bytes: &[u8], width: usize, out: &mut Vec<u8>) {
    if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        padded(out, width, u64::from_ne_bytes(eight));
        out.push(b' ');
        let double = f64::from_ne_bytes(eight);
        if !double.is_nan() {
            padded(out, width, general(double, DOUBLE_DIGITS));
            out.push(b' ');
        }
    } else if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        let float = f32::from_ne_bytes(four);
        if !float.is_nan() {
            padded(out, width, general(f64::from(float), FLOAT_DIGITS));
            out.push(b' ');
        }
    }
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        quoted(out, width, bytes);
        out.push(b' ');
    }
    blanks(out, width.saturating_sub(2 * bytes.len() + 2));
    out.push(b'[');
    for byte in bytes {
        // Writing to a Vec does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.push(b']');
}

/// The text for an event array whose times are of no interest. The count follows the header word.
fn record_count(array: &[u8]) -> String {
    let count = array.get(4..8).and_then(|word| word.try_into().ok()).map_or(0, i32::from_be_bytes);
    format!("[{count} event record{}]", if count == 1 { "" } else { "s" })
}
