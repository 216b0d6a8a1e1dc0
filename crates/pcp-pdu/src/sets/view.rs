//! Value sets read in place.

use super::check::{self, SetsError};
use super::value::{ValueRef, block_at, block_header};
use super::{INSITU, SET_HEADER, SPTR, VALUE_LEN, WORD, offset_of};
use pcp_model::{Inst, InstanceValue, PmError, Pmid, ValueSet, ValueType};

/// Some value sets where they are. Cheap to copy; nothing is kept but where they begin.
///
/// No bytes make it panic: what was not checked reads as fewer sets, or as empty blocks.
#[derive(Clone, Copy, Debug)]
pub struct Sets<'a> {
    data: &'a [u8],
    start: usize,
    count: usize,
    bias: u32,
}

/// The values of one metric.
#[derive(Clone, Copy, Debug)]
pub struct SetRef<'a> {
    /// The metric.
    pub pmid: Pmid,
    /// Its values, possibly none, or why there are none.
    pub values: Result<ValuesRef<'a>, PmError>,
}

/// Values of a metric, in the order they came.
#[derive(Clone, Copy, Debug)]
pub struct ValuesRef<'a> {
    /// Instances and value words.
    pub(super) pairs: &'a [[u8; VALUE_LEN]],
    /// Where the blocks are, if the values are in blocks.
    pub(super) data: &'a [u8],
    pub(super) bias: u32,
    pub(super) blocks: bool,
}

/// What a set says about its values, and where these are: an index entry of whoever looks sets up again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetHead {
    pub pmid: Pmid,
    /// How many values, or an error.
    pub numval: i32,
    /// Whether the words are places of blocks.
    pub blocks: bool,
    /// Offset of the first instance.
    pub at: usize,
}

/// The number of sets that a header promises, if that many fit into `room` bytes.
pub(crate) fn count_of_sets(numpmid: i32, room: usize) -> Option<usize> {
    usize::try_from(numpmid).ok().filter(|&count| count <= room / SET_HEADER)
}

impl<'a> Sets<'a> {
    /// Takes up the `numpmid` sets that begin at `start`, without a look at them. `data` is what blocks may lie in,
    /// `bias` by how many words their places are larger than offsets in it. `None` if so many sets cannot fit.
    pub fn new(data: &'a [u8], start: usize, numpmid: i32, bias: u32) -> Option<Sets<'a>> {
        let room = data.len().checked_sub(start)?;
        Some(Sets { data, start, count: count_of_sets(numpmid, room)?, bias })
    }

    /// Checks that sets and blocks are all there is in the data and lie within it, blocks not in front of the sets. Two
    /// values may share a block, and nobody looks into blocks: so archives are checked.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn check(&self) -> Result<(), SetsError> {
        let (mut at, mut blocks_end) = (self.start, 0);
        for _ in 0..self.count {
            let head = SetHead::read(self.data, at)?;
            at = head.end();
            if head.blocks {
                let (from, to) = check::extent(&head.values(self.data, self.data, self.bias), head.at)?;
                if from < self.start {
                    return Err(SetsError::outside(head.at));
                }
                blocks_end = blocks_end.max(to);
            }
        }
        match self.data.len() {
            end if at == end || blocks_end == end => Ok(()),
            end => Err(SetsError::trailing(at.max(blocks_end), end)),
        }
    }

    /// How many sets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sets, in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = SetRef<'a>> + use<'a> {
        let Sets { data, start: mut at, count, bias } = *self;
        (0..count).map_while(move |_| {
            let head = SetHead::at(data, at)?;
            at = head.end();
            Some(head.set(data, data, bias))
        })
    }
}

impl SetHead {
    /// The head of the set at an offset, whose values are there.
    #[inline]
    pub(crate) fn read(data: &[u8], at: usize) -> Result<SetHead, SetsError> {
        SetHead::at(data, at).ok_or_else(|| SetHead::fault(data, at))
    }

    #[inline(always)]
    fn at(data: &[u8], at: usize) -> Option<SetHead> {
        let (&[p, m, i, d, n, u, v, l], rest) = data.get(at..)?.split_first_chunk()?;
        let pmid = Pmid(u32::from_be_bytes([p, m, i, d]));
        let numval = i32::from_be_bytes([n, u, v, l]);
        let at = at + SET_HEADER;
        if numval <= 0 {
            return Some(SetHead { pmid, numval, blocks: false, at });
        }
        let (valfmt, rest) = rest.split_first_chunk()?;
        let valfmt = i32::from_be_bytes(*valfmt);
        let fits = numval as usize <= rest.len() / VALUE_LEN && (INSITU..=SPTR).contains(&valfmt);
        fits.then_some(SetHead { pmid, numval, blocks: valfmt != INSITU, at: at + WORD })
    }

    /// Why there is none.
    #[cold]
    fn fault(data: &[u8], at: usize) -> SetsError {
        let rest = data.get(at..).unwrap_or_default();
        let Some((head, rest)) = rest.split_at_checked(SET_HEADER) else {
            return SetsError::truncated(at, "value set", SET_HEADER, rest.len());
        };
        let at = at + SET_HEADER;
        let Some((&valfmt, values)) = rest.split_first_chunk() else {
            return SetsError::truncated(at, "valfmt", WORD, rest.len());
        };
        let numval = head.last_chunk().map_or(0, |numval| i32::from_be_bytes(*numval));
        if numval as usize > values.len() / VALUE_LEN {
            return SetsError::count(at - WORD, numval);
        }
        SetsError::valfmt(at, i32::from_be_bytes(valfmt))
    }

    /// Where the next set begins.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.at + self.numval.max(0) as usize * VALUE_LEN
    }

    /// The set, whose instances and words are in `words`, and whose blocks are in `data`.
    #[inline]
    pub(crate) fn set<'a>(&self, words: &'a [u8], data: &'a [u8], bias: u32) -> SetRef<'a> {
        let values =
            if self.numval < 0 { Err(PmError(self.numval)) } else { Ok(self.values(words, data, bias)) };
        SetRef { pmid: self.pmid, values }
    }

    #[inline]
    pub(crate) fn values<'a>(&self, words: &'a [u8], data: &'a [u8], bias: u32) -> ValuesRef<'a> {
        let (pairs, _) = words.get(self.at..self.end()).unwrap_or_default().as_chunks();
        ValuesRef { pairs, data, bias, blocks: self.blocks }
    }
}

impl SetRef<'_> {
    /// The values of a metric whose descriptor says `value_type`.
    ///
    /// # Errors
    /// `PM_ERR_CONV`: a value is not of that type.
    pub fn to_values(&self, value_type: ValueType) -> Result<ValueSet, PmError> {
        let typed = |(inst, value): (Inst, ValueRef<'_>)| {
            Ok::<_, PmError>(InstanceValue { inst, value: value.to_value(value_type)? })
        };
        let values = match &self.values {
            Ok(values) => Ok(values.iter().map(typed).collect::<Result<_, _>>()?),
            Err(error) => Err(*error),
        };
        Ok(ValueSet { pmid: self.pmid, values })
    }
}

impl<'a> ValuesRef<'a> {
    /// How many values.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// One value and its instance.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<(Inst, ValueRef<'a>)> {
        self.pairs.get(at).map(|pair| self.value(pair))
    }

    /// One value in double precision, and its instance, if it is a number that was sent in the usual way for its type: what
    /// [`ValuesRef::get`] and [`ValueRef::usual_number`] give, in one go and without a step through memory. For loops over
    /// many values of a type that is known when they are compiled.
    #[inline(always)]
    pub fn usual_f64(&self, at: usize, value_type: ValueType) -> Option<(Inst, f64)> {
        let &[i, n, s, t, w, o, r, d] = self.pairs.get(at)?;
        let (inst, word) = (Inst::from_be_bytes([i, n, s, t]), [w, o, r, d]);
        let value = match (value_type, self.blocks) {
            (ValueType::I32, false) => i32::from_be_bytes(word).into(),
            (ValueType::U32, false) => u32::from_be_bytes(word).into(),
            (ValueType::I64, true) => i64::from_be_bytes(self.number(word, value_type)?) as f64,
            (ValueType::U64, true) => u64::from_be_bytes(self.number(word, value_type)?) as f64,
            (ValueType::Double, true) => f64::from_be_bytes(self.number(word, value_type)?),
            (ValueType::Float, true) => f32::from_be_bytes(self.number(word, value_type)?).into(),
            _ => return None,
        };
        Some((inst, value))
    }

    /// The bytes of a number of `N` bytes whose block is at this place.
    #[inline(always)]
    fn number<const N: usize>(&self, place: [u8; WORD], value_type: ValueType) -> Option<[u8; N]> {
        let at = offset_of(u32::from_be_bytes(place), self.bias);
        let (header, rest) = self.data.get(at..)?.split_first_chunk()?;
        let is_usual = u32::from_be_bytes(*header) == u32::from_be_bytes(block_header(value_type as u8, N));
        rest.first_chunk().copied().filter(|_| is_usual)
    }

    /// All values and their instances.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Inst, ValueRef<'a>)> + use<'a> {
        let values = *self;
        self.pairs.iter().map(move |pair| values.value(pair))
    }

    #[inline(always)]
    fn value(&self, &[i, n, s, t, w, o, r, d]: &[u8; VALUE_LEN]) -> (Inst, ValueRef<'a>) {
        let word = [w, o, r, d];
        let value = match self.blocks {
            false => ValueRef::InSitu(word),
            // There is one if the sets were checked; a view of unchecked ones promises not to panic.
            true => {
                let at = offset_of(u32::from_be_bytes(word), self.bias);
                ValueRef::Block(block_at(self.data, at).unwrap_or_default())
            }
        };
        (Inst::from_be_bytes([i, n, s, t]), value)
    }
}
