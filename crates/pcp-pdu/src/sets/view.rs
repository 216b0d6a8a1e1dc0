//! Value sets read in place.

use std::slice::Iter;

use super::check::SetsError;
use super::layout::LayoutId;
use super::value::{ValueRef, block_at, block_header};
use super::{BLOCK_HEADER, INSITU, SET_HEADER, SPTR, VALUE_LEN, WORD, offset_of};
use pcp_model::{Inst, InstanceValue, PmError, Pmid, ValueSet, ValueType};

/// Value sets that were checked, where they are. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Sets<'a> {
    pub(super) data: &'a [u8],
    pub(super) heads: &'a [Head],
    pub(super) bias: u32,
    pub(super) layout: Option<LayoutId>,
}

/// A set and how its blocks lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) set: SetHead,
    pub(super) lie: Lie,
}

/// How the values of a set lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// In place.
    InSitu,
    /// Each in a block, wherever that is.
    Blocks,
    /// Each in a block of so many bytes, header included, one behind the other from `start` on. The words count for nothing then: the
    /// instances may be another set's as well.
    Row { start: usize, size: RowSize },
}

/// Blocks of 32-bit and of 64-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSize {
    Eight,
    Twelve,
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
    pub(super) lie: Lie,
}

/// The values of a set and their instances. Taking them by `for_each`, `fold` or what is made of these looks at how they lie
/// once and not for each.
#[derive(Clone, Debug)]
struct Values<'a> {
    pairs: Iter<'a, [u8; VALUE_LEN]>,
    blocks: Each<'a>,
}

/// Where the values are that belong to the instances.
#[derive(Clone, Debug)]
enum Each<'a> {
    InSitu,
    /// With how many words places are larger than offsets.
    Blocks(&'a [u8], u32),
    Eight(Iter<'a, [u8; 8]>),
    Twelve(Iter<'a, [u8; 12]>),
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
    /// How many sets.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The set at a place in their order.
    #[inline]
    pub fn get(&self, at: usize) -> Option<SetRef<'a>> {
        self.heads.get(at).map(|head| head.view(self.data, self.bias))
    }

    /// The sets, in their order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SetRef<'a>> + use<'a> {
        let Sets { data, heads, bias, .. } = *self;
        heads.iter().map(move |head| head.view(data, bias))
    }

    /// The layout that the sets have, if it was learned: sets of the same one differ in nothing but numbers, so what was found
    /// at a place is there again.
    pub fn layout(&self) -> Option<LayoutId> {
        self.layout
    }

    /// The data that the sets are in.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Where in [`Sets::data`] the bytes of a number begin, most significant first: that of the value at a place in the set at a place, if it is one
    /// that [`ValueRef::usual_number`] gives.
    pub fn number_at(&self, set: usize, value: usize, value_type: ValueType) -> Option<usize> {
        let (_, number) = self.get(set)?.values.ok()?.get(value)?;
        number.usual_number(value_type)?;
        let word = self.heads.get(set)?.set.at + value * VALUE_LEN + WORD;
        Some(match number {
            ValueRef::InSitu(_) => word,
            ValueRef::Block(_) => {
                let place = self.data.get(word..)?.first_chunk()?;
                offset_of(u32::from_be_bytes(*place), self.bias) + BLOCK_HEADER
            }
        })
    }

    /// All bytes, those in front of the sets included, and by how many words places are larger than offsets in them.
    pub(crate) fn bytes(&self) -> (&'a [u8], u32) {
        (self.data, self.bias)
    }

    /// Where all sets are.
    pub(crate) fn heads(&self) -> &'a [Head] {
        self.heads
    }

    /// Where the set at a place is.
    pub(crate) fn head(&self, at: usize) -> Option<Head> {
        self.heads.get(at).copied()
    }
}

impl Head {
    /// Of a set whose blocks were not looked at.
    pub(crate) fn unseen(set: SetHead) -> Head {
        Head { set, lie: if set.blocks { Lie::Blocks } else { Lie::InSitu } }
    }

    #[inline(always)]
    pub(crate) fn view<'a>(&self, data: &'a [u8], bias: u32) -> SetRef<'a> {
        self.view_of(data, data, bias)
    }

    /// The set, whose instances and words are in `words`, and whose blocks are in `data`.
    #[inline(always)]
    pub(crate) fn view_of<'a>(&self, words: &'a [u8], data: &'a [u8], bias: u32) -> SetRef<'a> {
        let SetHead { pmid, numval, .. } = self.set;
        let values = match numval {
            ..0 => Err(PmError(numval)),
            _ => Ok(ValuesRef { lie: self.lie, ..self.set.values(words, data, bias) }),
        };
        SetRef { pmid, values }
    }
}

impl RowSize {
    /// That of blocks of so many bytes.
    pub(super) fn of(bytes: usize) -> Option<RowSize> {
        match bytes {
            8 => Some(RowSize::Eight),
            12 => Some(RowSize::Twelve),
            _ => None,
        }
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        match self {
            RowSize::Eight => 8,
            RowSize::Twelve => 12,
        }
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
        Head::unseen(*self).view_of(words, data, bias)
    }

    /// Where the set begins.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.at - SET_HEADER - if self.numval > 0 { WORD } else { 0 }
    }

    #[inline]
    pub(crate) fn values<'a>(&self, words: &'a [u8], data: &'a [u8], bias: u32) -> ValuesRef<'a> {
        let (pairs, _) = words.get(self.at..self.end()).unwrap_or_default().as_chunks();
        let lie = if self.blocks { Lie::Blocks } else { Lie::InSitu };
        ValuesRef { pairs, data, bias, lie }
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

    /// Whether the values are in blocks.
    #[inline(always)]
    pub(super) fn has_blocks(&self) -> bool {
        self.lie != Lie::InSitu
    }

    /// One value and its instance.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<(Inst, ValueRef<'a>)> {
        let pair = self.pairs.get(at)?;
        let value = match self.lie {
            Lie::InSitu => ValueRef::InSitu(word_of(pair)),
            Lie::Blocks => self.block(pair),
            Lie::Row { start, size } => {
                let start = start + at * size.bytes();
                ValueRef::Block(self.data.get(start..start + size.bytes()).unwrap_or_default())
            }
        };
        Some((inst_of(pair), value))
    }

    /// The instances, without a look at their values.
    #[inline]
    pub fn insts(&self) -> impl ExactSizeIterator<Item = Inst> + use<'a> {
        self.pairs.iter().map(inst_of)
    }

    /// One value in double precision, and its instance, if it is a number that was sent in the usual way for its type: what
    /// [`ValuesRef::get`] and [`ValueRef::usual_number`] give, in one go and without a step through memory. For loops over
    /// many values of a type that is known when they are compiled.
    #[inline(always)]
    pub fn usual_f64(&self, at: usize, value_type: ValueType) -> Option<(Inst, f64)> {
        let &[i, n, s, t, w, o, r, d] = self.pairs.get(at)?;
        let (inst, word) = (Inst::from_be_bytes([i, n, s, t]), [w, o, r, d]);
        let block = match self.lie {
            Lie::Row { start, size } => start + at * size.bytes(),
            Lie::InSitu | Lie::Blocks => offset_of(u32::from_be_bytes(word), self.bias),
        };
        let value = match (value_type, self.has_blocks()) {
            (ValueType::I32, false) => i32::from_be_bytes(word).into(),
            (ValueType::U32, false) => u32::from_be_bytes(word).into(),
            (ValueType::I64, true) => i64::from_be_bytes(self.number(block, value_type)?) as f64,
            (ValueType::U64, true) => u64::from_be_bytes(self.number(block, value_type)?) as f64,
            (ValueType::Double, true) => f64::from_be_bytes(self.number(block, value_type)?),
            (ValueType::Float, true) => f32::from_be_bytes(self.number(block, value_type)?).into(),
            _ => return None,
        };
        Some((inst, value))
    }

    /// The bytes of a number of `N` bytes whose block begins there.
    #[inline(always)]
    fn number<const N: usize>(&self, at: usize, value_type: ValueType) -> Option<[u8; N]> {
        let (header, rest) = self.data.get(at..)?.split_first_chunk()?;
        let is_usual = u32::from_be_bytes(*header) == u32::from_be_bytes(block_header(value_type as u8, N));
        rest.first_chunk().copied().filter(|_| is_usual)
    }

    /// All values and their instances.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Inst, ValueRef<'a>)> + use<'a> {
        Values::of(*self)
    }

    #[inline(always)]
    fn block(&self, pair: &[u8; VALUE_LEN]) -> ValueRef<'a> {
        block_of(self.data, self.bias, pair)
    }

    /// The blocks of a row.
    #[inline(always)]
    fn row<const SIZE: usize>(&self, start: usize) -> &'a [[u8; SIZE]] {
        let end = start + SIZE * self.pairs.len();
        self.data.get(start..end).unwrap_or_default().as_chunks().0
    }
}

impl<'a> Values<'a> {
    #[inline]
    fn of(values: ValuesRef<'a>) -> Values<'a> {
        let blocks = match values.lie {
            Lie::InSitu => Each::InSitu,
            Lie::Blocks => Each::Blocks(values.data, values.bias),
            Lie::Row { start, size: RowSize::Eight } => Each::Eight(values.row(start).iter()),
            Lie::Row { start, size: RowSize::Twelve } => Each::Twelve(values.row(start).iter()),
        };
        Values { pairs: values.pairs.iter(), blocks }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = (Inst, ValueRef<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pairs.next()?;
        // A row has as many blocks as there are instances.
        let value = match &mut self.blocks {
            Each::InSitu => ValueRef::InSitu(word_of(pair)),
            Each::Blocks(data, bias) => block_of(data, *bias, pair),
            Each::Eight(blocks) => ValueRef::Block(blocks.next()?),
            Each::Twelve(blocks) => ValueRef::Block(blocks.next()?),
        };
        Some((inst_of(pair), value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pairs.size_hint()
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut each: F) -> B {
        let Values { pairs, blocks } = self;
        // In each arm `each` is compiled for blocks of one length.
        match blocks {
            Each::InSitu => {
                pairs.fold(init, |all, pair| each(all, (inst_of(pair), ValueRef::InSitu(word_of(pair)))))
            }
            Each::Blocks(data, bias) => {
                pairs.fold(init, |all, pair| each(all, (inst_of(pair), block_of(data, bias, pair))))
            }
            Each::Eight(blocks) => pairs
                .zip(blocks)
                .fold(init, |all, (pair, block)| each(all, (inst_of(pair), ValueRef::Block(block)))),
            Each::Twelve(blocks) => pairs
                .zip(blocks)
                .fold(init, |all, (pair, block)| each(all, (inst_of(pair), ValueRef::Block(block)))),
        }
    }
}

impl ExactSizeIterator for Values<'_> {}

/// The block whose place is the word of a pair.
#[inline(always)]
fn block_of<'a>(data: &'a [u8], bias: u32, pair: &[u8; VALUE_LEN]) -> ValueRef<'a> {
    // There is one if the sets were checked; a view of unchecked ones promises not to panic.
    let at = offset_of(u32::from_be_bytes(word_of(pair)), bias);
    ValueRef::Block(block_at(data, at).unwrap_or_default())
}

#[inline(always)]
pub(super) fn inst_of(&[i, n, s, t, ..]: &[u8; VALUE_LEN]) -> Inst {
    Inst::from_be_bytes([i, n, s, t])
}

#[inline(always)]
fn word_of(&[_, _, _, _, w, o, r, d]: &[u8; VALUE_LEN]) -> [u8; WORD] {
    [w, o, r, d]
}
