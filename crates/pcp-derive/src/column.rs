//! Values of many instances as one column a type: what evaluation reads and writes.
//!
//! Columns keep their memory from fetch to fetch, so filling one again allocates nothing once it has
//! been as long before.

use pcp_model::{Inst, InstanceValue, Numbers, NumbersMut, PmError, Value, ValueType};

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Values {
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Everything that is not a number.
    Other(Vec<Value>),
}

/// Runs the same code for whichever vector a [`Values`] has, bound to a name.
macro_rules! with_values {
    ($values:expr, $name:ident => $code:expr) => {
        match $values {
            Values::I32($name) => $code,
            Values::U32($name) => $code,
            Values::I64($name) => $code,
            Values::U64($name) => $code,
            Values::Float($name) => $code,
            Values::Double($name) => $code,
            Values::Other($name) => $code,
        }
    };
}

impl Values {
    /// No values of a type yet.
    pub fn new(value_type: ValueType) -> Values {
        match value_type {
            ValueType::I32 => Values::I32(Vec::new()),
            ValueType::U32 => Values::U32(Vec::new()),
            ValueType::I64 => Values::I64(Vec::new()),
            ValueType::U64 => Values::U64(Vec::new()),
            ValueType::Float => Values::Float(Vec::new()),
            ValueType::Double => Values::Double(Vec::new()),
            _ => Values::Other(Vec::new()),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type; strings, aggregates and events are all the same here.
    #[cfg(test)]
    pub(super) fn value_type(&self) -> ValueType {
        match self {
            Values::I32(_) => ValueType::I32,
            Values::U32(_) => ValueType::U32,
            Values::I64(_) => ValueType::I64,
            Values::U64(_) => ValueType::U64,
            Values::Float(_) => ValueType::Float,
            Values::Double(_) => ValueType::Double,
            Values::Other(_) => ValueType::Unknown,
        }
    }

    pub(super) fn clear(&mut self) {
        with_values!(self, values => values.clear());
    }

    /// All of them as a slice, if they are numbers.
    pub fn numbers(&self) -> Option<Numbers<'_>> {
        Some(match self {
            Values::I32(values) => Numbers::I32(values),
            Values::U32(values) => Numbers::U32(values),
            Values::I64(values) => Numbers::I64(values),
            Values::U64(values) => Numbers::U64(values),
            Values::Float(values) => Numbers::Float(values),
            Values::Double(values) => Numbers::Double(values),
            Values::Other(_) => return None,
        })
    }

    /// Where they are put, if they are numbers.
    pub fn numbers_mut(&mut self) -> Option<NumbersMut<'_>> {
        Some(match self {
            Values::I32(values) => NumbersMut::I32(values),
            Values::U32(values) => NumbersMut::U32(values),
            Values::I64(values) => NumbersMut::I64(values),
            Values::U64(values) => NumbersMut::U64(values),
            Values::Float(values) => NumbersMut::Float(values),
            Values::Double(values) => NumbersMut::Double(values),
            Values::Other(_) => return None,
        })
    }

    /// One value.
    pub fn get(&self, at: usize) -> Option<Value> {
        Some(match self {
            Values::I32(values) => Value::I32(*values.get(at)?),
            Values::U32(values) => Value::U32(*values.get(at)?),
            Values::I64(values) => Value::I64(*values.get(at)?),
            Values::U64(values) => Value::U64(*values.get(at)?),
            Values::Float(values) => Value::Float(*values.get(at)?),
            Values::Double(values) => Value::Double(*values.get(at)?),
            Values::Other(values) => values.get(at)?.clone(),
        })
    }

    /// Appends the value at `at` of `from`; nothing if types differ or there is none.
    pub(super) fn push_from(&mut self, from: &Values, at: usize) {
        macro_rules! same {
            ($($kind:ident),*) => {
                match (self, from) {
                    $((Values::$kind(to), Values::$kind(from)) => to.extend(from.get(at).cloned()),)*
                    _ => {}
                }
            };
        }
        same!(I32, U32, I64, U64, Float, Double, Other);
    }

    /// Becomes a copy of `from`, in the memory it has.
    pub(super) fn copy_from(&mut self, from: &Values) {
        macro_rules! same {
            ($($kind:ident),*) => {
                match (&mut *self, from) {
                    $((Values::$kind(to), Values::$kind(from)) => to.clone_from(from),)*
                    (to, from) => *to = from.clone(),
                }
            };
        }
        same!(I32, U32, I64, U64, Float, Double, Other);
    }
}

/// Instances and their values, of equal length.
#[derive(Clone, Debug)]
pub struct Column {
    /// The instances, in the order of evaluation.
    pub ids: Vec<Inst>,
    /// A value for each.
    pub values: Values,
    /// Which list of instances it is, where [`Lists`](super::machine::lists::Lists) has said so. **Invariant:** columns with the same
    /// number have the same instances; whoever changes `ids` begins with [`Column::clear`] or takes another column's.
    list: Option<ListNumber>,
}

/// A list of instances, told from all others of its context.
pub(super) type ListNumber = std::num::NonZeroU64;

/// By instances and values.
impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        self.ids == other.ids && self.values == other.values
    }
}

impl Column {
    /// One without values.
    pub(super) const NONE: Column = Column { ids: Vec::new(), values: Values::Other(Vec::new()), list: None };

    /// The kind of its values: a number.
    pub(super) fn kind(&self) -> usize {
        match self.values {
            Values::I32(_) => 0,
            Values::U32(_) => 1,
            Values::I64(_) => 2,
            Values::U64(_) => 3,
            Values::Float(_) => 4,
            Values::Double(_) => 5,
            Values::Other(_) => 6,
        }
    }

    /// The kind that values of a type are.
    pub(super) fn kind_of(value_type: ValueType) -> usize {
        Column::new(value_type).kind()
    }

    /// An empty column for values of a type.
    pub fn new(value_type: ValueType) -> Column {
        Column::of(Vec::new(), Values::new(value_type))
    }

    /// Of instances and as many values.
    pub fn of(ids: Vec<Inst>, values: Values) -> Column {
        Column { ids, values, list: None }
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.values.clear();
        self.list = None;
    }

    /// Empties it, but for the instances, which become those of another column.
    pub(super) fn take_instances(&mut self, of: &Column) {
        self.values.clear();
        if self.list.is_none() || self.list != of.list {
            self.ids.clone_from(&of.ids);
            self.list = of.list;
        }
    }

    /// Whether both have the same instances in the same order: without a look at them, mostly.
    pub(super) fn has_instances_of(&self, other: &Column) -> bool {
        self.list.is_some() && self.list == other.list || self.ids == other.ids
    }

    /// Says which list the instances are.
    pub(super) fn set_list(&mut self, list: ListNumber) {
        self.list = Some(list);
    }

    /// Empties a column that evaluation has met with operands which the type rules keep from it.
    pub(super) fn not_of_its_type(&mut self) {
        debug_assert!(false, "the type rules let no such operands through");
        self.clear();
    }

    /// Bytes held for numbers and their instances.
    pub(super) fn capacity_bytes(&self) -> usize {
        let value = match &self.values {
            Values::I32(values) => 4 * values.capacity(),
            Values::U32(values) => 4 * values.capacity(),
            Values::Float(values) => 4 * values.capacity(),
            Values::I64(values) => 8 * values.capacity(),
            Values::U64(values) => 8 * values.capacity(),
            Values::Double(values) => 8 * values.capacity(),
            Values::Other(_) => 0,
        };
        value + 4 * self.ids.capacity()
    }

    /// Appends a number of the column's type.
    pub(super) fn push_number<T: Number>(&mut self, inst: Inst, number: T) {
        match T::of_mut(&mut self.values) {
            Some(values) => {
                values.push(number);
                self.ids.push(inst);
            }
            None => debug_assert!(false, "the type rules say which type the results have"),
        }
    }

    pub(super) fn copy_from(&mut self, from: &Column) {
        self.take_instances(from);
        self.values.copy_from(&from.values);
    }

    /// Appends one entry of another column of the same type.
    pub(super) fn push_from(&mut self, from: &Column, at: usize) {
        self.ids.extend(from.ids.get(at));
        self.values.push_from(&from.values, at);
    }

    /// Appends a value as a source delivered it.
    ///
    /// # Errors
    /// `PM_ERR_LOGREC` for a value in the wrong encoding, `PM_ERR_TYPE` for one of another type. Types
    /// of the same size that differ in sign only are taken as they are, bit by bit.
    pub fn push(&mut self, inst: Inst, value: &Value) -> Result<(), PmError> {
        match (&mut self.values, value) {
            (Values::I32(to), Value::I32(v)) => to.push(*v),
            (Values::I32(to), Value::U32(v)) => to.push(*v as i32),
            (Values::U32(to), Value::U32(v)) => to.push(*v),
            (Values::U32(to), Value::I32(v)) => to.push(*v as u32),
            (Values::I64(to), Value::I64(v)) => to.push(*v),
            (Values::I64(to), Value::U64(v)) => to.push(*v as i64),
            (Values::U64(to), Value::U64(v)) => to.push(*v),
            (Values::U64(to), Value::I64(v)) => to.push(*v as u64),
            (Values::Float(to), Value::Float(v)) => to.push(*v),
            // A single precision number in the old encoding comes as its bits.
            (Values::Float(to), Value::I32(v)) => to.push(f32::from_bits(*v as u32)),
            (Values::Float(to), Value::U32(v)) => to.push(f32::from_bits(*v)),
            (Values::Double(to), Value::Double(v)) => to.push(*v),
            // Kept whole, to be counted and to be refused where numbers are wanted.
            (Values::Other(to), Value::String(_) | Value::Aggregate(_)) => to.push(value.clone()),
            (Values::Other(to), Value::Event(_) | Value::HighResEvent(_)) => to.push(value.clone()),
            (
                Values::I64(_) | Values::U64(_) | Values::Double(_) | Values::Other(_),
                Value::I32(_) | Value::U32(_),
            ) => return Err(PmError::LOGREC),
            _ => return Err(PmError::TYPE),
        }
        self.ids.push(inst);
        Ok(())
    }

    /// Appends values as a source delivered them.
    ///
    /// # Errors
    /// As [`Column::push`].
    pub fn extend(&mut self, values: &[InstanceValue]) -> Result<(), PmError> {
        // The common case, all of the column's own type, as a loop that only copies.
        macro_rules! same_type {
            ($($kind:ident),*) => {
                match &mut self.values {
                    $(Values::$kind(to) => {
                        self.ids.reserve(values.len());
                        to.reserve(values.len());
                        let mut rest = values;
                        while let [InstanceValue { inst, value: Value::$kind(value) }, more @ ..] = rest {
                            self.ids.push(*inst);
                            to.push(*value);
                            rest = more;
                        }
                        rest
                    })*
                    Values::Other(_) => values,
                }
            };
        }
        let rest = same_type!(I32, U32, I64, U64, Float, Double);
        rest.iter().try_for_each(|InstanceValue { inst, value }| self.push(*inst, value))
    }

    /// The values one by one, as a fetch result has them.
    pub fn to_values(&self) -> Vec<InstanceValue> {
        macro_rules! each {
            ($($kind:ident),*) => {
                match &self.values {
                    $(Values::$kind(values) => {
                        let pairs = self.ids.iter().zip(values);
                        pairs.map(|(&inst, &value)| InstanceValue { inst, value: Value::$kind(value) }).collect()
                    })*
                    Values::Other(values) => {
                        let pairs = self.ids.iter().zip(values);
                        pairs.map(|(&inst, value)| InstanceValue { inst, value: value.clone() }).collect()
                    }
                }
            };
        }
        each!(I32, U32, I64, U64, Float, Double)
    }
}

/// A number that columns hold and that other numbers convert to, as C converts them.
pub(super) trait Number: Copy + Default + PartialEq + PartialOrd + 'static {
    const ZERO: Self;
    /// The vector inside, if the values are of this type.
    fn of(values: &Values) -> Option<&[Self]>;
    fn of_mut(values: &mut Values) -> Option<&mut Vec<Self>>;
    /// All values, converted. Not-numbers are left out.
    fn convert(values: &Values, out: &mut Vec<Self>);

    /// The values in this type: borrowed if they are, else converted into `scratch`.
    fn view<'a>(values: &'a Values, scratch: &'a mut Vec<Self>) -> &'a [Self] {
        match Self::of(values) {
            Some(values) => values,
            None => {
                scratch.clear();
                Self::convert(values, scratch);
                scratch
            }
        }
    }
}

macro_rules! number {
    ($type:ty, $kind:ident, $zero:literal) => {
        impl Number for $type {
            const ZERO: $type = $zero;

            fn of(values: &Values) -> Option<&[$type]> {
                match values {
                    Values::$kind(values) => Some(values),
                    _ => None,
                }
            }

            fn of_mut(values: &mut Values) -> Option<&mut Vec<$type>> {
                match values {
                    Values::$kind(values) => Some(values),
                    _ => None,
                }
            }

            fn convert(values: &Values, out: &mut Vec<$type>) {
                match values {
                    Values::I32(values) => out.extend(values.iter().map(|&v| v as $type)),
                    Values::U32(values) => out.extend(values.iter().map(|&v| v as $type)),
                    Values::I64(values) => out.extend(values.iter().map(|&v| v as $type)),
                    Values::U64(values) => out.extend(values.iter().map(|&v| v as $type)),
                    Values::Float(values) => out.extend(values.iter().map(|&v| v as $type)),
                    Values::Double(values) => out.extend(values.iter().map(|&v| v as $type)),
                    Values::Other(_) => {}
                }
            }
        }
    };
}
number!(i32, I32, 0);
number!(u32, U32, 0);
number!(i64, I64, 0);
number!(u64, U64, 0);
number!(f32, Float, 0.0);
number!(f64, Double, 0.0);

/// Room for converted operands, one vector a type; kept from fetch to fetch.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub i32: Vec<i32>,
    pub u32: Vec<u32>,
    pub i64: Vec<i64>,
    pub u64: Vec<u64>,
    pub f32: Vec<f32>,
    pub f64: Vec<f64>,
}
