//! Sets that are run through once, in their order, and not looked up.
//!
//! Cost: two walks over the sets, the second in what the processor has at hand from the first; no memory. To index a record of twenty thousand
//! metrics ([`super::Layout`]) takes more memory than the record has. Where that was done for a record before, none of it is needed.

use super::SetRef;
use super::check::{self, SetsError};
use super::view::{Head, Lie, SetHead, Sets, count_of_sets};
use pcp_model::Pmid;

/// Value sets that were found in some data and checked.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    data: &'a [u8],
    start: usize,
    count: usize,
    bias: u32,
    known: Option<Sets<'a>>,
}

impl<'a> From<Sets<'a>> for Scan<'a> {
    /// Sets that were found already.
    fn from(sets: Sets<'a>) -> Scan<'a> {
        let (data, bias) = sets.bytes();
        Scan { data, start: 0, count: sets.len(), bias, known: Some(sets) }
    }
}

impl<'a> Scan<'a> {
    /// Takes up the `numpmid` sets that begin at `start` in data, as [`super::Layout::read`] does. `each` is told of each metric, in their order,
    /// also of those in front of what is wrong.
    ///
    /// # Errors
    /// As [`super::Layout::read`].
    pub fn read(
        data: &'a [u8],
        start: usize,
        numpmid: i32,
        bias: u32,
        mut each: impl FnMut(Pmid),
    ) -> Result<Scan<'a>, SetsError> {
        let count = each_head(data, start, numpmid, bias, |head| each(head.set.pmid))?;
        Ok(Scan { data, start, count, bias, known: None })
    }

    /// How many sets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sets, to be looked up, if that can be had for nothing.
    pub fn known(&self) -> Option<Sets<'a>> {
        self.known
    }

    /// The sets, in their order.
    pub fn sets(&self) -> impl Iterator<Item = SetRef<'a>> + use<'a> {
        let Scan { data, start, count, bias, known } = *self;
        let mut at = start;
        (0..count).map_while(move |place| {
            if let Some(known) = known {
                return known.get(place);
            }
            // They were all there before.
            let head = SetHead::read(data, at).ok()?;
            at = head.end();
            Some(Head::unseen(head).view(data, bias))
        })
    }
}

/// Checks sets, and gives the head of each, in their order. How many there are.
///
/// # Errors
/// What is wrong, and where; the heads in front of that were given.
#[inline]
pub(super) fn each_head(
    data: &[u8],
    start: usize,
    numpmid: i32,
    bias: u32,
    mut give: impl FnMut(Head),
) -> Result<usize, SetsError> {
    let room = data.len().checked_sub(start);
    let count = room.and_then(|room| count_of_sets(numpmid, room));
    let count = count.ok_or_else(|| SetsError::sets(start, numpmid))?;
    let (mut at, mut blocks_end) = (start, 0);
    for _ in 0..count {
        let set = SetHead::read(data, at)?;
        at = set.end();
        let mut lie = Lie::InSitu;
        if set.blocks {
            let (found, from, to) = check::extent(&set.values(data, data, bias), set.at)?;
            if from < start {
                return Err(SetsError::outside(set.at));
            }
            blocks_end = blocks_end.max(to);
            lie = found;
        }
        give(Head { set, lie });
    }
    match data.len() {
        end if at == end || blocks_end == end => Ok(count),
        end => Err(SetsError::trailing(at.max(blocks_end), end)),
    }
}
