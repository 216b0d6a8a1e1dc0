//! Values of one column until they are written: dense, with what is missing marked.
//!
//! **Cost:** of a value, one comparison and one store in a vector; what is missing costs the same, and a byte.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt32Array,
    UInt64Array, types::Int32Type,
};
use arrow_schema::DataType;
use hashbrown::HashMap;
use pcp_model::{Number, ValueType};

use super::stage::{OfBits, Stage};

/// A column of a table, from the row on that is the first not yet written.
#[derive(Debug)]
pub(super) struct Column {
    values: Values,
    /// Which rows have a value; none while all of them have.
    valid: Option<Vec<bool>>,
    /// Bytes of the texts and bytes that it has.
    held: usize,
}

#[derive(Debug)]
enum Values {
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Flags(Vec<bool>),
    /// Text that repeats itself: which of `texts`.
    Words {
        keys: Vec<i32>,
        words: Words,
    },
    Bytes(Vec<Vec<u8>>),
}

/// Texts, each once.
#[derive(Debug, Default)]
struct Words {
    texts: Vec<String>,
    places: HashMap<String, i32>,
}

impl Words {
    fn place(&mut self, text: &str) -> i32 {
        match self.places.get(text) {
            Some(place) => *place,
            None => {
                let place = self.texts.len() as i32;
                self.texts.push(text.to_owned());
                self.places.insert(text.to_owned(), place);
                place
            }
        }
    }
}

/// The type in which values of a metric or a field are written.
pub(super) fn data_type(value_type: ValueType) -> DataType {
    match value_type {
        ValueType::I32 => DataType::Int32,
        ValueType::U32 => DataType::UInt32,
        ValueType::I64 => DataType::Int64,
        ValueType::U64 => DataType::UInt64,
        ValueType::Float => DataType::Float32,
        ValueType::Double => DataType::Float64,
        ValueType::String => words_type(),
        _ => DataType::Binary,
    }
}

/// The type of text that repeats itself.
pub(super) fn words_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Runs the same code for whichever vector there is.
macro_rules! each {
    ($values:expr, $name:ident => $code:expr) => {
        match $values {
            Values::I32($name) => $code,
            Values::U32($name) => $code,
            Values::I64($name) => $code,
            Values::U64($name) => $code,
            Values::Float($name) => $code,
            Values::Double($name) => $code,
            Values::Words { keys: $name, .. } => $code,
            Values::Bytes($name) => $code,
            Values::Flags($name) => $code,
        }
    };
}

impl Column {
    /// For values of a type.
    pub(super) fn new(value_type: ValueType) -> Column {
        let values = match value_type {
            ValueType::I32 => Values::I32(Vec::new()),
            ValueType::U32 => Values::U32(Vec::new()),
            ValueType::I64 => Values::I64(Vec::new()),
            ValueType::U64 => Values::U64(Vec::new()),
            ValueType::Float => Values::Float(Vec::new()),
            ValueType::Double => Values::Double(Vec::new()),
            ValueType::String => Values::Words { keys: Vec::new(), words: Words::default() },
            _ => Values::Bytes(Vec::new()),
        };
        Column { values, valid: None, held: 0 }
    }

    /// For what is so or not.
    pub(super) fn flags() -> Column {
        Column { values: Values::Flags(Vec::new()), valid: None, held: 0 }
    }

    /// How many bytes of texts and bytes there are.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        each!(&self.values, values => values.len())
    }

    /// Makes it `rows` rows at least: what is not there has no value.
    pub(super) fn pad(&mut self, rows: usize) {
        let len = self.len();
        if len < rows {
            self.valid.get_or_insert_with(|| vec![true; len]).resize(rows, false);
            each!(&mut self.values, values => values.resize_with(rows, Default::default));
        }
    }

    /// Puts a number into a row; nothing if it is of another type than the column.
    #[inline]
    pub(super) fn number(&mut self, row: usize, number: Number) {
        macro_rules! put {
            ($values:expr, $value:expr) => {{
                // Nearly always it is the next one.
                if $values.len() == row {
                    $values.push($value);
                    if let Some(valid) = &mut self.valid {
                        valid.push(true);
                    }
                    return;
                }
            }};
        }
        match (&mut self.values, number) {
            (Values::I32(values), Number::I32(value)) => put!(values, value),
            (Values::U32(values), Number::U32(value)) => put!(values, value),
            (Values::I64(values), Number::I64(value)) => put!(values, value),
            (Values::U64(values), Number::U64(value)) => put!(values, value),
            (Values::Float(values), Number::Float(value)) => put!(values, value),
            (Values::Double(values), Number::Double(value)) => put!(values, value),
            _ => return,
        }
        self.number_elsewhere(row, number);
    }

    /// Puts the numbers of a metric, which are of the column's own type, into their rows of a table.
    pub(super) fn numbers(&mut self, stage: &Stage, table: usize, metric: usize) {
        macro_rules! put {
            ($values:ident) => {
                stage
                    .each(table, metric, |row, bits| self.number(row, Number::$values(OfBits::of_bits(bits))))
            };
        }
        match &self.values {
            Values::I32(_) => put!(I32),
            Values::U32(_) => put!(U32),
            Values::I64(_) => put!(I64),
            Values::U64(_) => put!(U64),
            Values::Float(_) => put!(Float),
            Values::Double(_) => put!(Double),
            Values::Flags(_) | Values::Words { .. } | Values::Bytes(_) => {}
        }
    }

    /// Puts numbers of the column's own type behind those that there are.
    pub(super) fn append(&mut self, bits: &[u64]) {
        fn put<N: OfBits>(values: &mut Vec<N>, bits: &[u64]) {
            values.extend(bits.iter().map(|bits| N::of_bits(*bits)));
        }
        match &mut self.values {
            Values::I32(values) => put(values, bits),
            Values::U32(values) => put(values, bits),
            Values::I64(values) => put(values, bits),
            Values::U64(values) => put(values, bits),
            Values::Float(values) => put(values, bits),
            Values::Double(values) => put(values, bits),
            Values::Flags(_) | Values::Words { .. } | Values::Bytes(_) => {}
        }
        let len = self.len();
        self.valid.iter_mut().for_each(|valid| valid.resize(len, true));
    }

    /// Makes room for as many rows more.
    pub(super) fn reserve(&mut self, rows: usize) {
        each!(&mut self.values, values => values.reserve_exact(rows));
    }

    #[inline(never)]
    fn number_elsewhere(&mut self, row: usize, number: Number) {
        self.pad(row + 1);
        match (&mut self.values, number) {
            (Values::I32(values), Number::I32(value)) => values[row] = value,
            (Values::U32(values), Number::U32(value)) => values[row] = value,
            (Values::I64(values), Number::I64(value)) => values[row] = value,
            (Values::U64(values), Number::U64(value)) => values[row] = value,
            (Values::Float(values), Number::Float(value)) => values[row] = value,
            (Values::Double(values), Number::Double(value)) => values[row] = value,
            _ => return,
        }
        self.mark(row);
    }

    /// Puts text into a row, if the column is one of text.
    pub(super) fn text(&mut self, row: usize, text: &str) {
        self.pad(row + 1);
        if let Values::Words { keys, words } = &mut self.values {
            let known = words.texts.len();
            keys[row] = words.place(text);
            if words.texts.len() > known {
                self.held += text.len();
            }
            self.mark(row);
        }
    }

    /// Puts bytes into a row, if the column is one of bytes.
    pub(super) fn bytes(&mut self, row: usize, bytes: &[u8]) {
        self.pad(row + 1);
        if let Values::Bytes(values) = &mut self.values {
            values[row] = bytes.to_vec();
            self.held += bytes.len();
            self.mark(row);
        }
    }

    /// Puts whether it is so into a row, if the column is one of that.
    pub(super) fn flag(&mut self, row: usize, flag: bool) {
        self.pad(row + 1);
        if let Values::Flags(values) = &mut self.values {
            values[row] = flag;
            self.mark(row);
        }
    }

    fn mark(&mut self, row: usize) {
        if let Some(valid) = &mut self.valid {
            valid[row] = true;
        }
    }

    /// Takes all rows out as an array; `rows` of them.
    pub(super) fn take(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        self.held = 0;
        let valid = self.valid.take().map(arrow_buffer::NullBuffer::from);
        macro_rules! primitive {
            ($array:ident, $values:expr) => {{ Arc::new($array::new(std::mem::take($values).into(), valid)) }};
        }
        match &mut self.values {
            Values::I32(values) => primitive!(Int32Array, values),
            Values::U32(values) => primitive!(UInt32Array, values),
            Values::I64(values) => primitive!(Int64Array, values),
            Values::U64(values) => primitive!(UInt64Array, values),
            Values::Float(values) => primitive!(Float32Array, values),
            Values::Double(values) => primitive!(Float64Array, values),
            Values::Words { keys, words } => {
                let keys = Int32Array::new(std::mem::take(keys).into(), valid);
                let mut texts = StringBuilder::new();
                std::mem::take(words).texts.iter().for_each(|text| texts.append_value(text));
                // The keys are places of texts, by the code above.
                match DictionaryArray::<Int32Type>::try_new(keys, Arc::new(texts.finish())) {
                    Ok(array) => Arc::new(array),
                    Err(error) => {
                        debug_assert!(false, "{error}");
                        arrow_array::new_null_array(&words_type(), rows)
                    }
                }
            }
            Values::Flags(values) => Arc::new(BooleanArray::new(std::mem::take(values).into(), valid)),
            Values::Bytes(values) => {
                let mut array = BinaryBuilder::new();
                for (row, bytes) in std::mem::take(values).iter().enumerate() {
                    array.append_option(
                        valid.as_ref().is_none_or(|valid| valid.is_valid(row)).then_some(bytes),
                    );
                }
                Arc::new(array.finish())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::UInt64Type;

    #[test]
    fn rows_without_a_value_are_told_from_zeros() {
        let mut column = Column::new(ValueType::U64);
        column.number(2, 7_u64.into());
        column.number(0, 0_u64.into());
        column.number(3, u64::MAX.into());
        column.number(3, 1_i32.into());
        let array = column.take(5);
        assert_eq!(array.as_primitive::<UInt64Type>().values(), &[0, 0, 7, u64::MAX, 0]);
        assert_eq!(array.null_count(), 2);
        assert!(array.is_valid(0) && array.is_null(1) && array.is_null(4));
        column.number(0, 1_u64.into());
        assert_eq!(column.take(1).null_count(), 0, "nothing is left of the rows before");
    }

    #[test]
    fn text_is_kept_once() {
        let mut column = Column::new(ValueType::String);
        for (row, text) in ["a", "b", "a", "a"].into_iter().enumerate() {
            column.text(row, text);
        }
        assert_eq!(column.held(), 2);
        let array = column.take(4);
        assert_eq!(column.held(), 0);
        let array = array.as_dictionary::<Int32Type>();
        assert_eq!((array.keys().values().as_ref(), array.values().len()), (&[0, 1, 0, 0][..], 2));
    }

    #[test]
    fn bytes_that_are_missing_are_not_empty() {
        let mut column = Column::new(ValueType::Aggregate);
        column.bytes(1, b"");
        let array = column.take(2);
        assert!(array.is_null(0) && array.is_valid(1));
    }
}
