//! A fetch result kept in the bytes it came in, for whoever fetches the same metrics again and again.
//!
//! Values are read in place, in network order, where [`super::ResultPdu`] takes the same PDUs apart into values of
//! their own. Records of archives are kept in the same way ([`Fetched::select`]). Sets that come from neither (derived
//! metrics, interpolated archives) are written in the same layout, so that there is one representation for all; rows of numbers of the
//! same instances have these in common, which is 12 bytes a number instead of 20.
//!
//! Cost of [`Fetched::decode`]: one step for each set and each value block, one copy of the PDU; of [`Fetched::select`]: one copy
//! of the record, and one step for each set that is wanted if these are elsewhere than in the last one. No allocation once the
//! buffers have grown to the size of the largest result.

use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;

use super::codec::KIND_OFFSET;
use super::error::StateChange;
use super::fault::{PduError, Problem};
use super::frame::HEADER_LEN;
use super::result::{BODY_BIAS, ResultKind};
use super::sets::{
    Common, Excerpt, Head, SetHead, SetRef, Sets, SetsError, SetsWriter, ValueRef, ValuesRef, Whole,
    check_tiling, next_of,
};
use pcp_model::{Inst, Numbers, PmError, Pmid, Timestamp, Value};

/// What a fetch returned: one value set for each metric asked for, in that order.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// When the values were collected.
    pub timestamp: Timestamp,
    /// What the collector said has changed, with this result.
    pub changes: StateChange,
    /// The PDU, without its header, or a record.
    body: Vec<u8>,
    /// By how many words places in it are larger than offsets.
    bias: u32,
    /// How many sets are in it.
    came: usize,
    /// What the sets are, if they are those of a record and nothing else.
    selection: Option<Selection>,
    /// Where the first set begins in the body, if the sets are just those that came, in their order.
    whole: Option<usize>,
    /// Of a selection: where in records of its layout the bytes are that make the body, if that is not a whole record.
    excerpt: Excerpt,
    /// Sets that came otherwise.
    appended: SetsWriter,
    /// Their instances, where they are the same.
    common: Common,
    sets: Vec<Entry>,
    /// Sets that were fetched for the sake of others.
    aside: Vec<Entry>,
    /// Memory for the check of a PDU.
    strays: Vec<(usize, usize)>,
}

/// Tells a selection of sets out of records of one layout from all others that this process makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection(NonZeroU64);

impl Selection {
    /// One that is like no other. `None` once there are no more.
    pub fn next() -> Option<Selection> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        next_of(&LAST).map(Selection)
    }
}

/// Where the values of a metric are.
#[derive(Clone, Copy, Debug)]
struct Entry {
    head: Head,
    /// In the sets that were appended, or in the PDU or record.
    appended: bool,
}

impl Fetched {
    /// Nothing yet.
    pub fn new() -> Fetched {
        Fetched::default()
    }

    /// Takes over a RESULT or HIGHRES_RESULT, header included. [`Fetched::changes`] is left alone.
    ///
    /// # Errors
    /// What is wrong with the PDU and where; there are no sets then.
    pub fn decode(&mut self, pdu: &[u8]) -> Result<(), PduError> {
        self.clear();
        let decoded = self.take(pdu);
        if decoded.is_err() {
            self.clear();
        }
        decoded
    }

    /// Takes over sets of a record, in the order in which they are wanted: the metric, and the place of its set in the record, if
    /// there is one. Others have no values. [`Fetched::changes`] is left alone.
    ///
    /// Under one `selection`, records have one layout, and the same is wanted: the sets are found once then.
    pub fn select(
        &mut self,
        timestamp: Timestamp,
        record: Sets<'_>,
        selection: Option<Selection>,
        wanted: impl Iterator<Item = (Pmid, Option<usize>)>,
    ) {
        let (bytes, bias) = record.bytes();
        if selection.is_some() && self.selection == selection {
            self.timestamp = timestamp;
            self.body.clear();
            self.body.extend_from_slice(bytes);
            return;
        }
        self.clear();
        self.timestamp = timestamp;
        self.body.extend_from_slice(bytes);
        (self.bias, self.came, self.selection) = (bias, record.len(), selection);
        self.sets.extend(wanted.map(|(pmid, at)| match at.and_then(|at| record.head(at)) {
            Some(head) => Entry { head, appended: false },
            None => Entry { head: without_values(pmid, 0), appended: true },
        }));
        self.whole = self.first_of_whole();
    }

    /// The same for a small part of the sets of a record: these are put together, in that order, as a record that has nothing else.
    pub fn pick(
        &mut self,
        timestamp: Timestamp,
        record: Sets<'_>,
        selection: Option<Selection>,
        wanted: impl Iterator<Item = (Pmid, Option<usize>)> + Clone,
    ) {
        if selection.is_some() && self.selection == selection {
            self.timestamp = timestamp;
            self.excerpt.copy(record.data(), &mut self.body);
            return;
        }
        self.clear();
        self.timestamp = timestamp;
        if selection.is_some() {
            let wanted: Vec<_> = wanted.clone().collect();
            if let Some((heads, bias)) = self.excerpt.make(record, &wanted, &mut self.body) {
                (self.bias, self.came, self.selection) = (bias, heads.len(), selection);
                self.sets.extend(heads.into_iter().map(|head| Entry { head, appended: false }));
                self.whole = self.first_of_whole();
                return;
            }
            self.body.clear();
        }
        for (pmid, at) in wanted {
            self.push_set(pmid, at.and_then(|at| record.get(at)));
        }
    }

    /// Takes over all sets of a record, in its order. [`Fetched::changes`] is left alone.
    pub fn select_all(&mut self, timestamp: Timestamp, record: Sets<'_>) {
        self.clear();
        self.timestamp = timestamp;
        let (bytes, bias) = record.bytes();
        self.body.extend_from_slice(bytes);
        (self.bias, self.came) = (bias, record.len());
        self.sets.extend(record.heads().iter().map(|&head| Entry { head, appended: false }));
        self.whole = self.first_of_whole();
    }

    /// What was selected, if the sets are just that: as long as it is the same, so are metrics and instances and where they lie,
    /// and only the numbers differ.
    pub fn selection(&self) -> Option<Selection> {
        self.selection
    }

    /// All sets as they came, if the result is just those that came, in their order.
    pub fn whole(&self) -> Option<Whole<'_>> {
        Whole::of(&self.body, self.whole?, self.bias, self.came)
    }

    /// See [`Fetched::whole`], the field: found out once for all records of a selection.
    fn first_of_whole(&self) -> Option<usize> {
        if self.sets.len() != self.came || self.sets.iter().any(|set| set.appended) {
            return None;
        }
        let sets = || self.sets.iter().map(|set| &set.head.set);
        let in_order = sets().zip(sets().skip(1)).all(|(set, next)| set.end() == next.start());
        sets().next().filter(|_| in_order).map(SetHead::start)
    }

    /// Forgets all sets; the buffers keep their memory.
    pub fn clear(&mut self) {
        self.timestamp = Timestamp::default();
        self.body.clear();
        (self.came, self.selection, self.whole) = (0, None, None);
        self.appended.reset();
        self.common.reset();
        self.sets.clear();
        self.aside.clear();
    }

    /// How many value sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there is no value set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// One value set, by its place in the request.
    pub fn set(&self, at: usize) -> Option<SetRef<'_>> {
        self.sets.get(at).map(|set| self.view(set))
    }

    /// The first value set of a metric.
    pub fn find(&self, pmid: Pmid) -> Option<SetRef<'_>> {
        self.sets.iter().find(|set| set.head.set.pmid == pmid).map(|set| self.view(set))
    }

    /// The metrics of all value sets, in their order.
    pub fn pmids(&self) -> impl ExactSizeIterator<Item = Pmid> {
        self.sets.iter().map(|set| set.head.set.pmid)
    }

    /// All value sets.
    pub fn sets(&self) -> impl ExactSizeIterator<Item = SetRef<'_>> {
        self.sets.iter().map(|set| self.view(set))
    }

    /// Appends a metric without values: the reason.
    pub fn push_error(&mut self, pmid: Pmid, error: PmError) {
        let head = without_values(pmid, error.0.min(-1));
        self.append(head);
    }

    /// Begins to append the values of a metric. A set that was begun and not ended is dropped.
    pub fn begin_set(&mut self, pmid: Pmid) {
        if self.appended.has_open_set() {
            self.appended.cancel_set();
            // They may have been in that.
            self.common.reset();
        }
        let begun = self.appended.begin_set(pmid);
        debug_assert_eq!(begun, Ok(()), "no set is open");
    }

    /// Appends a value to the set that was begun. All values of a set are of one type.
    ///
    /// # Errors
    /// `PM_ERR_TOOBIG` for a value longer than a block can be, `PM_ERR_CONV` for one of another format than
    /// the set's others.
    pub fn push_value(&mut self, inst: Inst, value: &Value) -> Result<(), PmError> {
        self.appended.value(inst, value).map_err(|error| error.pm_error())
    }

    /// Appends the numbers of as many instances to the set that was begun, all or none of them.
    ///
    /// # Errors
    /// As [`Fetched::push_value`].
    pub fn push_numbers(&mut self, ids: &[Inst], values: Numbers<'_>) -> Result<(), PmError> {
        self.appended.numbers_in_common(ids, values, &mut self.common).map_err(|error| error.pm_error())
    }

    /// Appends a value as it is, in network order, to the set that was begun. All values of a set are of one format.
    ///
    /// # Errors
    /// `PM_ERR_CONV` for a value of another format than the set's others, or bytes that are no block.
    #[inline]
    pub fn push(&mut self, inst: Inst, value: ValueRef<'_>) -> Result<(), PmError> {
        self.appended.push(inst, value).map_err(|error| error.pm_error())
    }

    /// Appends all values of another set as they are. After an error the set has some of them.
    ///
    /// # Errors
    /// As [`Fetched::push`].
    pub fn push_all(&mut self, values: ValuesRef<'_>) -> Result<(), PmError> {
        self.appended.push_all(values).map_err(|error| error.pm_error())
    }

    /// Appends a set of a metric as it is: all its values, or why there are none; no values if there is no set.
    pub fn push_set(&mut self, pmid: Pmid, set: Option<SetRef<'_>>) {
        let values = match set.map(|set| set.values) {
            Some(Err(error)) => return self.push_error(pmid, error),
            Some(Ok(values)) => Some(values),
            None => None,
        };
        self.begin_set(pmid);
        match values.map_or(Ok(()), |values| self.push_all(values)) {
            Err(error) => self.fail_set(error),
            Ok(()) => self.end_set(),
        }
    }

    /// Ends the set that was begun.
    pub fn end_set(&mut self) {
        if let Ok(head) = self.appended.end_indexed() {
            self.append(head);
        }
    }

    /// Turns the set that was begun into an error.
    pub fn fail_set(&mut self, error: PmError) {
        if let Ok(head) = self.appended.end_indexed() {
            self.push_error(head.set.pmid, error);
        }
    }

    /// Takes all sets out of the result, to be put back one by one ([`Fetched::keep`]) or read as operands
    /// ([`Fetched::operand`]).
    pub fn set_aside(&mut self) {
        self.changed();
        self.aside.clear();
        std::mem::swap(&mut self.aside, &mut self.sets);
    }

    /// Appends a set that was set aside.
    pub fn keep(&mut self, at: usize) {
        self.changed();
        self.sets.extend(self.aside.get(at));
    }

    /// A set that was set aside.
    pub fn operand(&self, at: usize) -> Option<SetRef<'_>> {
        self.aside.get(at).map(|set| self.view(set))
    }

    fn append(&mut self, head: Head) {
        self.changed();
        self.sets.push(Entry { head, appended: true });
    }

    /// The sets are no longer those that came.
    fn changed(&mut self) {
        (self.selection, self.whole) = (None, None);
    }

    #[inline]
    fn view(&self, set: &Entry) -> SetRef<'_> {
        match set.appended {
            false => set.head.view(&self.body, self.bias),
            // Never placed: those appended count from the start of their own blocks.
            true => {
                let [words, blocks] = self.appended.parts();
                set.head.view_of(words, blocks, 0)
            }
        }
    }

    /// Copies the PDU and finds its sets.
    fn take(&mut self, pdu: &[u8]) -> Result<(), PduError> {
        let Some((&[_, _, _, _, k, i, n, d, ..], body)) = pdu.split_first_chunk::<HEADER_LEN>() else {
            let problem = Problem::Truncated { field: "header", need: HEADER_LEN, have: pdu.len() };
            return Err(PduError { kind: 0, offset: 0, problem });
        };
        let kind = u32::from_be_bytes([k, i, n, d]);
        let unknown = PduError { kind, offset: KIND_OFFSET, problem: Problem::UnknownType };
        let kind = ResultKind::of(kind).ok_or(unknown)?;
        let (timestamp, count) = kind.read(body)?;
        self.timestamp = timestamp;
        self.body.extend_from_slice(body);
        (self.bias, self.came) = (BODY_BIAS, count);
        self.index(kind.header_len() - HEADER_LEN, count)
            .map_err(|error| error.in_pdu(kind.kind(), HEADER_LEN))
    }

    fn index(&mut self, mut at: usize, count: usize) -> Result<(), SetsError> {
        self.whole = (count > 0).then_some(at);
        for _ in 0..count {
            let set = SetHead::read(&self.body, at)?;
            self.sets.push(Entry { head: Head::unseen(set), appended: false });
            at = set.end();
        }
        let heads = self.sets.iter().map(|set| set.head.set);
        check_tiling(&self.body, at, BODY_BIAS, heads, &mut self.strays)
    }
}

/// A set of a metric that has no values, or an error in their place.
fn without_values(pmid: Pmid, numval: i32) -> Head {
    Head::unseen(SetHead { pmid, numval, blocks: false, at: 0 })
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::*;

    use super::super::result::tests::arb_sets;
    use super::*;
    use crate::codec::testing::unhex;
    use crate::sets::testing::{Set, written};
    use crate::{Block, Frame, FrameReader, Pdu, RawValue, ResultPdu};
    use pcp_model::{ValueSet, ValueType};

    fn frame(bytes: &[u8]) -> Frame {
        let mut input = BytesMut::from(bytes);
        FrameReader::new(usize::MAX).next(&mut input).unwrap().unwrap()
    }

    /// The same sets, as [`ResultPdu`] has them.
    fn raw(fetched: &Fetched) -> ResultPdu {
        let value = |(inst, value): (Inst, ValueRef<'_>)| super::super::RawInstanceValue {
            inst,
            value: match value {
                ValueRef::InSitu(word) => RawValue::InSitu(word),
                ValueRef::Block(block) => RawValue::Block(Block(Bytes::copy_from_slice(block))),
            },
        };
        let set = |set: SetRef<'_>| super::super::RawValueSet {
            pmid: set.pmid,
            values: set.values.map(|values| values.iter().map(value).collect()),
        };
        ResultPdu { timestamp: fetched.timestamp, sets: fetched.sets().map(set).collect() }
    }

    #[test]
    fn reads_a_captured_result_in_place() {
        let pdu = unhex(
            "00000074 00007015 00000000 00000005 00000000 6b002211 00000000 37bcbfed
             3200000a ffffcf9e 0740000a 00000001 00000000 ffffffff 00000001
             0740000a 00000001 00000000 ffffffff 00000001
             074003e8 00000001 00000001 ffffffff 0000001b ffffffff ffffcf9e 06000008 666f6f00",
        );
        let mut fetched = Fetched::new();
        fetched.decode(&pdu).unwrap();
        assert_eq!(fetched.timestamp, Timestamp::new(0x6b00_2211, 0x37bc_bfed));
        assert_eq!(fetched.len(), 5);
        let one = fetched.find(Pmid(0x0740_000a)).unwrap().to_values(ValueType::U32).unwrap();
        assert_eq!(one, ValueSet::singular(Pmid(0x0740_000a), 1_u32));
        let (inst, text) = fetched.set(3).unwrap().values.unwrap().get(0).unwrap();
        assert_eq!((inst, text.text()), (-1, Ok(&b"foo"[..])));
        assert_eq!(fetched.set(0).unwrap().values.err(), Some(PmError::NOAGENT));
        // What does not come from the PDU joins it.
        fetched.begin_set(Pmid(7));
        fetched.push_value(3, &Value::Double(1.5)).unwrap();
        assert_eq!(fetched.push_value(4, &Value::I32(1)), Err(PmError::CONV));
        fetched.push_value(5, &Value::Double(2.5)).unwrap();
        fetched.end_set();
        let derived = fetched.find(Pmid(7)).unwrap().values.unwrap();
        let doubles: Vec<_> =
            derived.iter().map(|(inst, value)| (inst, value.to_value(ValueType::Double))).collect();
        assert_eq!(doubles, [(3, Ok(Value::Double(1.5))), (5, Ok(Value::Double(2.5)))]);
        assert_eq!(derived.get(0).unwrap().1.to_value(ValueType::U64), Err(PmError::CONV));
    }

    #[test]
    fn sets_that_are_picked_are_those_taken_one_by_one() {
        // As in a record: two words in front, and places that count two more.
        const BIAS: u32 = 2;
        let record = |number: u32, text: &'static str| {
            let long = u64::from(number) << 40;
            let sets: [Set<'_>; 7] = [
                (1, Ok(&[(-1, Value::U32(number)), (3, Value::U32(number + 1))])),
                (2, Ok(&[(7, Value::U64(long)), (9, Value::U64(long + 1)), (8, Value::U64(long + 2))])),
                (3, Ok(&[(0, Value::Float(number as f32)), (1, Value::Float(0.5))])),
                (4, Ok(&[])),
                (5, Ok(&[(-1, Value::Double(number.into()))])),
                (6, Ok(&[(0, Value::from(text)), (1, Value::from("abc")), (2, Value::from(""))])),
                (7, Err(PmError::VALUE)),
            ];
            written(8, BIAS as usize, &sets)
        };
        let records = [record(1, "red"), record(2, "tan"), record(3, "sky")];
        let layout = read(&records[0], 8, 7, BIAS);
        let some: [&[(Pmid, Option<usize>)]; 6] = [
            &[(Pmid(1), Some(0))],
            &[(Pmid(2), Some(1)), (Pmid(3), Some(2))],
            &[
                (Pmid(6), Some(5)),
                (Pmid(1), Some(0)),
                (Pmid(8), None),
                (Pmid(5), Some(4)),
                (Pmid(2), Some(1)),
            ],
            &[(Pmid(7), Some(6)), (Pmid(4), Some(3)), (Pmid(2), Some(1)), (Pmid(2), Some(1))],
            &[(Pmid(4), Some(3))],
            &[],
        ];
        let mut fetched = Fetched::new();
        for wanted in some {
            let wanted = || wanted.iter().copied();
            let selection = Selection::next();
            for (time, data) in (1..).zip(&records) {
                let time = Timestamp::new(time, 0);
                fetched.pick(time, layout.sets(data), selection, wanted());
                let mut one_by_one = Fetched::new();
                one_by_one.pick(time, layout.sets(data), None, wanted());
                assert_eq!((fetched.selection(), one_by_one.selection()), (selection, None));
                assert_eq!(raw(&fetched), raw(&one_by_one));
                // They can be handed on as what came.
                let Some(whole) = fetched.whole() else {
                    assert_eq!(wanted().len(), 0);
                    continue;
                };
                let mut handed_on = vec![0; 12];
                whole.append_to(&mut handed_on, 3);
                let again = read(&handed_on, 12, whole.count(), 0);
                let mut all = Fetched::new();
                all.select_all(time, again.sets(&handed_on));
                assert_eq!(raw(&all), raw(&fetched));
            }
            // What is appended joins it, and the next is taken anew.
            fetched.begin_set(Pmid(9));
            fetched.push_value(1, &Value::U64(9)).unwrap();
            fetched.end_set();
            assert_eq!((fetched.selection(), fetched.len()), (None, wanted().len() + 1));
            let last = fetched.find(Pmid(9)).unwrap().to_values(ValueType::U64).unwrap().values.unwrap();
            assert_eq!(last[0].value, Value::U64(9));
            fetched.pick(Timestamp::new(4, 0), layout.sets(&records[0]), selection, wanted());
            assert_eq!(fetched.len(), wanted().len());
        }
    }

    #[test]
    fn sets_that_were_selected_before_are_where_they_were() {
        let record = |number: u32| {
            let mut sets = SetsWriter::with_lead(0, usize::MAX);
            for pmid in 1..4 {
                sets.begin_set(Pmid(pmid)).unwrap();
                sets.value(-1, &Value::U64(u64::from(number * 10 + pmid))).unwrap();
                sets.end_set().unwrap();
            }
            sets.place_blocks(sets.sets_len() / 4).unwrap();
            sets.parts().concat()
        };
        let values = |fetched: &Fetched| -> Vec<Value> {
            let sets = fetched.sets().map(|set| set.to_values(ValueType::U64).unwrap().values.unwrap());
            sets.map(|mut values| values.remove(0).value).collect()
        };
        let [data, later] = [record(1), record(2)];
        let (layout, selection) = (read(&data, 0, 3, 0), Selection::next());
        let wanted = || [(Pmid(3), Some(2)), (Pmid(1), Some(0))].into_iter();
        let mut fetched = Fetched::new();
        fetched.select(Timestamp::new(1, 0), layout.sets(&data), selection, wanted());
        assert_eq!(
            (values(&fetched), fetched.selection()),
            (vec![Value::U64(13), Value::U64(11)], selection)
        );
        let nothing_new = || std::iter::from_fn(|| panic!("it is known"));
        fetched.select(Timestamp::new(2, 0), layout.sets(&later), selection, nothing_new());
        assert_eq!(fetched.timestamp, Timestamp::new(2, 0));
        assert_eq!(
            (values(&fetched), fetched.selection()),
            (vec![Value::U64(23), Value::U64(21)], selection)
        );
        // Whatever comes of it otherwise, it is no more what was selected.
        let changes: [fn(&mut Fetched); 5] = [
            |fetched| fetched.push_error(Pmid(7), PmError::VALUE),
            |fetched| {
                fetched.begin_set(Pmid(7));
                fetched.end_set();
            },
            Fetched::set_aside,
            Fetched::clear,
            |fetched| assert!(fetched.decode(&[]).is_err()),
        ];
        for change in changes {
            fetched.select(Timestamp::new(1, 0), layout.sets(&data), selection, wanted());
            change(&mut fetched);
            assert_eq!(fetched.selection(), None);
            fetched.select(Timestamp::new(2, 0), layout.sets(&later), selection, wanted());
            assert_eq!(values(&fetched), [Value::U64(23), Value::U64(21)]);
        }
        // Another one is looked for.
        let other = Selection::next();
        assert_ne!(other, selection);
        fetched.select(Timestamp::new(3, 0), layout.sets(&data), other, wanted().take(1));
        assert_eq!(values(&fetched), [Value::U64(13)]);
    }

    /// Sets that begin at `start`, with places that are larger than offsets by `bias`.
    fn read(data: &[u8], start: usize, count: usize, bias: u32) -> crate::Layout {
        let mut layout = crate::Layout::default();
        layout.read(data, start, count as i32, bias).unwrap();
        layout
    }

    proptest! {
        /// What came is handed on to other headers as it is, and only if it is just that.
        #[test]
        fn whole_results_are_handed_on(sets in arb_sets(), lead in 0_usize..9, bias in 0_u32..9) {
            let count = sets.len();
            let result = ResultPdu { timestamp: Timestamp::new(7, 8000), sets };
            let mut fetched = Fetched::new();
            fetched.decode(&Pdu::HighResResult(result).to_bytes(0).unwrap()).unwrap();
            prop_assert_eq!(fetched.whole().is_some(), count > 0);
            let Some(whole) = fetched.whole() else { return Ok(()) };
            prop_assert_eq!(whole.count(), count);
            let mut data = vec![0; lead * 4];
            whole.append_to(&mut data, lead as u32 + bias);
            prop_assert_eq!(data.len(), lead * 4 + whole.len());
            let layout = read(&data, lead * 4, count, bias);
            let sets = layout.sets(&data);
            let mut all = Fetched::new();
            let each = sets.iter().enumerate().map(|(at, set)| (set.pmid, Some(at)));
            all.select(fetched.timestamp, sets, None, each);
            prop_assert_eq!(raw(&all), raw(&fetched));
            all.select_all(fetched.timestamp, sets);
            prop_assert_eq!(raw(&all), raw(&fetched));
            prop_assert!(all.pmids().eq(fetched.sets().map(|set| set.pmid)));
            let mut again = vec![1, 2, 3];
            all.whole().unwrap().append_to(&mut again, lead as u32 + bias);
            prop_assert_eq!(&again[3..], &data[lead * 4..]);

            // In another order, or with others among them, it is not.
            let mut picked = Fetched::new();
            let other = [(Pmid(0), None), (sets.get(count - 1).unwrap().pmid, Some(count - 1))];
            picked.select(fetched.timestamp, sets, None, other.into_iter());
            prop_assert!(picked.whole().is_none());
            prop_assert_eq!(picked.len(), 2);
            prop_assert_eq!(picked.set(0).unwrap().values.unwrap().len(), 0);
            prop_assert_eq!(&raw(&picked).sets[1], &raw(&fetched).sets[count - 1]);
            let reverse = (0..count).rev().map(|at| (sets.get(at).unwrap().pmid, Some(at)));
            picked.select(fetched.timestamp, sets, None, reverse);
            prop_assert_eq!(picked.whole().is_some(), count == 1);
            all.push_error(Pmid(1), PmError::VALUE);
            prop_assert!(all.whole().is_none());
        }

        #[test]
        fn agrees_with_the_other_decoder(sets in arb_sets(), high in any::<bool>()) {
            let result = ResultPdu { timestamp: Timestamp::new(7, 8000), sets };
            let pdu = if high { Pdu::HighResResult(result) } else { Pdu::Result(result) };
            let bytes = pdu.to_bytes(0).unwrap();
            let (Pdu::Result(whole) | Pdu::HighResResult(whole)) = Pdu::decode(&frame(&bytes)).unwrap() else {
                unreachable!("the PDU was one of these")
            };
            let mut fetched = Fetched::new();
            fetched.decode(&bytes).unwrap();
            prop_assert_eq!(raw(&fetched), whole);
        }

        /// Whatever came over the wire: both accept it, or both refuse it.
        #[test]
        fn refuses_what_the_other_decoder_refuses(
            sets in arb_sets(), place in any::<prop::sample::Index>(), byte: u8, cut in 0_usize..3
        ) {
            let result = ResultPdu { timestamp: Timestamp::new(7, 8000), sets };
            let mut bytes = Pdu::HighResResult(result).to_bytes(0).unwrap().to_vec();
            let keep = bytes.len().saturating_sub(cut * 4).max(12);
            bytes.truncate(keep);
            if let Some(place) = (keep > 12).then(|| 12 + place.index(keep - 12)) {
                bytes[place] = byte;
            }
            let len = (bytes.len() as u32).to_be_bytes();
            bytes[..4].copy_from_slice(&len);
            let mut fetched = Fetched::new();
            let whole = Pdu::decode(&frame(&bytes));
            prop_assert_eq!(fetched.decode(&bytes).is_ok(), whole.is_ok(), "{:?}", whole);
            if let Ok(Pdu::HighResResult(whole)) = whole {
                prop_assert_eq!(raw(&fetched), whole);
            }
        }
    }
}
