//! Numbers of one type as slices: written to a set, and read from one, in loops without a look at each value's type.

use super::check;
use super::view::{Lie, ValuesRef};
use super::{VALUE_LEN, WORD};
use pcp_model::{Inst, NumbersMut, ValueType};

impl ValuesRef<'_> {
    /// Appends instances and values to `ids` and `out`, if all of them are numbers of its type, sent in the usual way and in
    /// their order. Otherwise nothing is appended, and the answer is false: they are to be read one by one.
    pub fn read_into(&self, ids: &mut Vec<Inst>, out: NumbersMut<'_>) -> bool {
        let read = match out {
            NumbersMut::I32(out) => self.words(i32::from_be_bytes, out),
            NumbersMut::U32(out) => self.words(u32::from_be_bytes, out),
            NumbersMut::I64(out) => self.blocks::<12, _>(ValueType::I64, i64::from_be_bytes, out),
            NumbersMut::U64(out) => self.blocks::<12, _>(ValueType::U64, u64::from_be_bytes, out),
            NumbersMut::Double(out) => self.blocks::<12, _>(ValueType::Double, f64::from_be_bytes, out),
            NumbersMut::Float(out) => self.float_blocks(out),
        };
        if read.is_some() {
            ids.extend(self.pairs.iter().map(|&[i, n, s, t, ..]| Inst::from_be_bytes([i, n, s, t])));
        }
        read.is_some()
    }

    fn words<T>(&self, number: impl Fn([u8; WORD]) -> T, out: &mut Vec<T>) -> Option<()> {
        if self.has_blocks() {
            return None;
        }
        out.extend(self.pairs.iter().map(|&[_, _, _, _, w, o, r, d]| number([w, o, r, d])));
        Some(())
    }

    fn blocks<const SIZE: usize, T>(
        &self,
        value_type: ValueType,
        number: impl Fn([u8; 8]) -> T,
        out: &mut Vec<T>,
    ) -> Option<()> {
        let blocks = self.row_of::<SIZE>(value_type)?;
        let data = |block: &[u8; SIZE]| block.last_chunk().copied().unwrap_or_default();
        out.extend(blocks.iter().map(|block| number(data(block))));
        Some(())
    }

    fn float_blocks(&self, out: &mut Vec<f32>) -> Option<()> {
        let blocks = self.row_of::<8>(ValueType::Float)?;
        out.extend(blocks.iter().map(|&[_, _, _, _, d, a, t, e]| f32::from_be_bytes([d, a, t, e])));
        Some(())
    }

    /// The blocks, if they are one row of numbers of this type.
    fn row_of<const SIZE: usize>(&self, value_type: ValueType) -> Option<&[[u8; SIZE]]> {
        if !self.has_blocks() {
            return None;
        }
        let (start, end) = match self.lie {
            Lie::Row { start, size } if size.bytes() == SIZE => (start, start + SIZE * self.pairs.len()),
            _ => check::row(self)?,
        };
        let data = self.data.get(start..end)?;
        let (blocks, rest) = data.as_chunks::<SIZE>();
        let is_of_type = i32::from(*data.first()?) == value_type.code();
        (is_of_type && rest.is_empty() && blocks.len() == self.pairs.len()).then_some(blocks)
    }
}

/// Appends `count` entries of a buffer, each filled by a number.
#[inline]
pub(super) fn append<const SIZE: usize, T: Copy>(
    buffer: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = T>,
    fill: impl Fn(T, &mut [u8; SIZE]),
) {
    let start = buffer.len();
    buffer.resize(start + SIZE * values.len(), 0);
    for (place, value) in buffer[start..].as_chunks_mut::<SIZE>().0.iter_mut().zip(values) {
        fill(value, place);
    }
}

/// An instance and its word.
#[inline]
pub(super) fn pair(inst: Inst, [w, o, r, d]: [u8; WORD]) -> [u8; VALUE_LEN] {
    let [i, n, s, t] = inst.to_be_bytes();
    [i, n, s, t, w, o, r, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fetched;
    use pcp_model::{Numbers, Pmid, Value};

    const IDS: [Inst; 3] = [7, -1, 9];

    /// Numbers written at once are those written one by one, byte for byte, and are read at once as they were.
    fn check<T: Copy + PartialEq + std::fmt::Debug + Into<Value>>(
        values: [T; 3],
        numbers: for<'a> fn(&'a [T]) -> Numbers<'a>,
        numbers_mut: for<'a> fn(&'a mut Vec<T>) -> NumbersMut<'a>,
    ) {
        let (mut at_once, mut one_by_one) = (Fetched::new(), Fetched::new());
        at_once.begin_set(Pmid(1));
        at_once.push_numbers(&IDS, numbers(&values)).unwrap();
        at_once.end_set();
        one_by_one.begin_set(Pmid(1));
        for (inst, value) in IDS.into_iter().zip(values) {
            one_by_one.push_value(inst, &value.into()).unwrap();
        }
        one_by_one.end_set();
        let all = |fetched: &Fetched| format!("{:?}", fetched.set(0).unwrap().values.unwrap());
        assert_eq!(all(&at_once), all(&one_by_one));
        let (mut ids, mut read) = (vec![3], vec![values[1]]);
        assert!(at_once.set(0).unwrap().values.unwrap().read_into(&mut ids, numbers_mut(&mut read)));
        assert_eq!(ids, [&[3], &IDS[..]].concat());
        assert_eq!(read, [&[values[1]], &values[..]].concat());
    }

    #[test]
    fn numbers_at_once_are_those_one_by_one() {
        check([1, -2, i32::MAX], |v| Numbers::I32(v), |v| NumbersMut::I32(v));
        check([1, 2, u32::MAX], |v| Numbers::U32(v), |v| NumbersMut::U32(v));
        check([1, -2, i64::MIN], |v| Numbers::I64(v), |v| NumbersMut::I64(v));
        check([1, 2, u64::MAX], |v| Numbers::U64(v), |v| NumbersMut::U64(v));
        check([1.5, -0.0, f32::MAX], |v| Numbers::Float(v), |v| NumbersMut::Float(v));
        check([1.5, -0.0, f64::MAX], |v| Numbers::Double(v), |v| NumbersMut::Double(v));
    }

    #[test]
    fn what_is_of_another_type_is_left_alone() {
        let mut fetched = Fetched::new();
        fetched.begin_set(Pmid(1));
        fetched.push_numbers(&IDS, Numbers::U64(&[1, 2, 3])).unwrap();
        assert!(fetched.push_numbers(&IDS, Numbers::I32(&[1, 2, 3])).is_err(), "one format in a set");
        fetched.end_set();
        let values = fetched.set(0).unwrap().values.unwrap();
        let (mut ids, mut read) = (Vec::new(), Vec::new());
        assert!(!values.read_into(&mut ids, NumbersMut::Double(&mut read)));
        assert!(!values.read_into(&mut ids, NumbersMut::I64(&mut Vec::new())));
        assert!(!values.read_into(&mut ids, NumbersMut::U32(&mut Vec::new())));
        assert!(ids.is_empty() && read.is_empty());
    }
}
