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
            Lie::Row { .. } => return None,
            Lie::InSitu | Lie::Blocks => check::row(self)?,
        };
        let data = self.data.get(start..end)?;
        let (blocks, rest) = data.as_chunks::<SIZE>();
        let is_of_type = i32::from(*data.first()?) == value_type.code();
        (is_of_type && rest.is_empty() && blocks.len() == self.pairs.len()).then_some(blocks)
    }
}

/// Appends an entry for each value. The iterators that this is called with know how many they are ([`Vec::extend`] is told so for
/// slices, their pairs, and what is made of each of them), so that room is made once, and nothing is written twice.
#[inline]
pub(super) fn append<const SIZE: usize, T>(
    buffer: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = T>,
    entry: impl Fn(T) -> [u8; SIZE],
) {
    buffer.extend(values.flat_map(entry));
}

/// An instance and its word. As one number: loops over many are compiled to fewer steps.
#[inline]
pub(super) fn pair(inst: Inst, word: [u8; WORD]) -> [u8; VALUE_LEN] {
    (u64::from(inst.cast_unsigned()) << 32 | u64::from(u32::from_be_bytes(word))).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Fetched, SetsWriter, ValueRef};
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
        assert_eq!(parts(&at_once), parts(&one_by_one));
        let (mut ids, mut read) = (vec![3], vec![values[1]]);
        assert!(at_once.set(0).unwrap().values.unwrap().read_into(&mut ids, numbers_mut(&mut read)));
        assert_eq!(ids, [&[3], &IDS[..]].concat());
        assert_eq!(read, [&[values[1]], &values[..]].concat());
    }

    /// Instances and values as text.
    type Shown = Vec<(Inst, String)>;
    /// Something that is appended to a set.
    type Push<'a> = &'a dyn Fn(&mut Fetched);

    /// Words, blocks, and all values in each way in which they can be read.
    fn parts(fetched: &Fetched) -> (Vec<[u8; VALUE_LEN]>, Vec<u8>, Shown) {
        let values = fetched.set(0).unwrap().values.unwrap();
        let shown = |(inst, value): (Inst, ValueRef<'_>)| (inst, format!("{value:?}"));
        let stepped: Vec<_> = (0..values.len()).map(|at| shown(values.get(at).unwrap())).collect();
        let (mut looped, mut folded) = (Vec::new(), Vec::new());
        for value in values.iter() {
            looped.push(shown(value));
        }
        values.iter().for_each(|value| folded.push(shown(value)));
        assert!(stepped == looped && stepped == folded, "{stepped:?}, {looped:?}, {folded:?}");
        (values.pairs.to_vec(), values.data.to_vec(), stepped)
    }

    #[test]
    fn rows_of_numbers_are_joined_by_others() {
        const DOUBLES: [f64; 3] = [1.5, 2.5, 3.5];
        let row = |fetched: &mut Fetched| fetched.push_numbers(&IDS, Numbers::Double(&DOUBLES)).unwrap();
        let floats =
            |fetched: &mut Fetched| fetched.push_numbers(&IDS, Numbers::Float(&[1.5, 2.5, 3.5])).unwrap();
        let text = |fetched: &mut Fetched| {
            fetched.push_value(8, &Value::String(Bytes::from_static(b"text"))).unwrap();
        };
        let one = |fetched: &mut Fetched| fetched.push_value(8, &Value::Double(4.5)).unwrap();
        let whole = |fetched: &mut Fetched| fetched.push_numbers(&IDS, Numbers::U64(&[1, 2, 3])).unwrap();
        let cases: [&[Push<'_>]; 8] = [
            &[&row, &row],
            &[&row, &whole],
            &[&row, &one],
            &[&one, &row],
            &[&row, &floats],
            &[&floats, &row, &one],
            &[&text, &row],
            &[&row, &text, &row],
        ];
        for pushes in cases {
            let mut fetched = Fetched::new();
            // One in front of it, so that its blocks do not begin at 0.
            fetched.begin_set(Pmid(2));
            row(&mut fetched);
            fetched.end_set();
            fetched.begin_set(Pmid(1));
            pushes.iter().for_each(|push| push(&mut fetched));
            fetched.end_set();
            fetched.set_aside();
            fetched.keep(1);
            let (pairs, data, values) = parts(&fetched);
            let at_places = ValuesRef { pairs: &pairs, data: &data, bias: 0, lie: Lie::Blocks };
            let expected: Vec<_> =
                at_places.iter().map(|(inst, value)| (inst, format!("{value:?}"))).collect();
            assert_eq!(values, expected);
            // Numbers are taken as those of one type only if all are.
            let read = |values: ValuesRef<'_>| {
                values.read_into(&mut Vec::new(), NumbersMut::Double(&mut Vec::new()))
            };
            assert_eq!(read(fetched.set(0).unwrap().values.unwrap()), read(at_places));
        }
    }

    #[test]
    fn sets_of_the_same_instances_have_them_in_common() {
        const OTHERS: [Inst; 3] = [7, -1, 8];
        let sets: [(&[Inst], Numbers<'_>); 9] = [
            (&IDS, Numbers::Double(&[1.5, 2.5, 3.5])),
            (&IDS, Numbers::U64(&[1, 2, 3])),
            (&IDS, Numbers::Float(&[4.5, 5.5, 6.5])),
            (&IDS, Numbers::I32(&[-1, -2, -3])),
            (&IDS, Numbers::I64(&[-4, -5, -6])),
            (&OTHERS, Numbers::Double(&[7.5, 8.5, 9.5])),
            (&OTHERS, Numbers::Double(&[0.5, 0.25, 0.125])),
            (&[], Numbers::Double(&[])),
            (&IDS[..1], Numbers::Double(&[0.75])),
        ];
        let (mut fetched, mut alone) = (Fetched::new(), Vec::new());
        // What was there before counts for nothing.
        for _ in 0..2 {
            fetched.clear();
            for (pmid, (ids, numbers)) in (0..).map(Pmid).zip(sets) {
                let mut one = Fetched::new();
                for fetched in [&mut fetched, &mut one] {
                    fetched.begin_set(pmid);
                    fetched.push_numbers(ids, numbers).unwrap();
                    fetched.end_set();
                }
                alone.push(one);
            }
        }
        let at = |set: usize| fetched.set(set).unwrap().values.unwrap();
        let first = |set: usize| at(set).pairs.as_ptr();
        assert!([1, 2, 4].iter().all(|set| first(*set) == first(0)), "one list for all");
        assert!(first(3) != first(0) && first(5) != first(0) && first(6) == first(5) && first(8) != first(0));
        let types = [ValueType::Double, ValueType::U64, ValueType::Float, ValueType::I32, ValueType::I64];
        for (set, one) in alone.iter().take(sets.len()).enumerate() {
            let values = one.set(0).unwrap().values.unwrap();
            assert!(at(set).iter().eq(values.iter()), "set {set}");
            for value_type in types {
                let all = |values: ValuesRef<'_>| -> Vec<_> {
                    (0..4).map(|at| values.usual_f64(at, value_type)).collect()
                };
                assert_eq!(all(at(set)), all(values), "set {set} as {value_type:?}");
            }
            let doubles = |values: ValuesRef<'_>| {
                let (mut ids, mut doubles) = (Vec::new(), Vec::new());
                (values.read_into(&mut ids, NumbersMut::Double(&mut doubles)), ids, doubles)
            };
            assert_eq!(doubles(at(set)), doubles(values), "set {set}");
            // As they are sent, each set has instances of its own.
            let written = |values: ValuesRef<'_>| {
                let mut writer = SetsWriter::with_lead(0, usize::MAX);
                writer.begin_set(Pmid(1)).unwrap();
                writer.push_all(values).unwrap();
                writer.end_set().unwrap();
                writer.place_blocks(5).unwrap();
                writer.parts().concat()
            };
            assert_eq!(written(at(set)), written(values), "set {set}");
        }
    }

    #[test]
    fn a_set_that_is_dropped_lends_nothing() {
        let mut fetched = Fetched::new();
        fetched.begin_set(Pmid(1));
        fetched.push_numbers(&IDS, Numbers::U64(&[1, 2, 3])).unwrap();
        // Takes its place.
        fetched.begin_set(Pmid(2));
        for inst in 20..30 {
            fetched.push_value(inst, &Value::U32(4)).unwrap();
        }
        fetched.end_set();
        fetched.begin_set(Pmid(3));
        fetched.push_numbers(&IDS, Numbers::U64(&[5, 6, 7])).unwrap();
        fetched.end_set();
        assert_eq!(fetched.len(), 2);
        assert!(fetched.set(1).unwrap().values.unwrap().insts().eq(IDS));
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
