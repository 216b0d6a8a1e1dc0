//! Some sets of some data, put together, and the same out of other data of the same layout.
//!
//! Where layouts are the same, only numbers and texts differ ([`Layout`](super::Layout)): so an excerpt that was made once is right for
//! the next data when these are copied over, without a look at sets and values.
//!
//! Cost: a copy for each run of bytes that is one in the data and in the excerpt.

use super::check::last_word;
use super::scan::each_head;
use super::value::block_at;
use super::view::{Head, Lie, Sets};
use super::{SetsWriter, WORD, Whole, offset_of};
use pcp_model::Pmid;

/// What is to be copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excerpt {
    moves: Vec<Move>,
}

/// Bytes that differ between data of one layout, and where they stand in the excerpt.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: usize,
    to: usize,
    len: usize,
}

impl Excerpt {
    /// Puts sets of some data together into `body`, one behind the other and their blocks behind them: those of these metrics, at these
    /// places in the data; those that have no place are without values. The heads of the sets in the body, and by how many words
    /// places are larger than offsets there.
    ///
    /// `None` if one of them cannot be copied.
    pub(crate) fn make(
        &mut self,
        data: Sets<'_>,
        wanted: &[(Pmid, Option<usize>)],
        body: &mut Vec<u8>,
    ) -> Option<(Vec<Head>, u32)> {
        let mut writer = SetsWriter::with_lead(0, usize::MAX);
        for &(pmid, at) in wanted {
            match at.and_then(|at| data.get(at)) {
                Some(set) => writer.copy_set(set),
                None => writer.begin_set(pmid).and_then(|()| writer.end_set()),
            }
            .ok()?;
        }
        let [sets, blocks] = writer.parts();
        // Places are counted as if the sets stood where those of the data do: whoever hands the body on to such a place need not
        // change them then.
        let (_, bias) = data.bytes();
        let in_front = data.head(0).map_or(0, |first| first.set.start() / WORD);
        let bias = bias.checked_add(in_front.try_into().ok()?)?;
        let sets_len = u32::try_from(sets.len() / WORD).ok()?;
        body.clear();
        Whole::of(&[sets, blocks].concat(), 0, sets_len.wrapping_neg(), wanted.len())?.append_to(body, bias);
        self.learn(data, (body, bias), wanted).map(|heads| (heads, bias))
    }

    /// Copies what differs in data of the same layout.
    pub(crate) fn copy(&self, data: &[u8], body: &mut [u8]) {
        for &Move { from, to, len } in &self.moves {
            if let (Some(from), Some(to)) = (data.get(from..from + len), body.get_mut(to..to + len)) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Learns where in the data the bytes in a body are. The heads of its sets.
    fn learn(
        &mut self,
        data: Sets<'_>,
        (body, bias): (&[u8], u32),
        wanted: &[(Pmid, Option<usize>)],
    ) -> Option<Vec<Head>> {
        self.moves.clear();
        let mut heads = Vec::with_capacity(wanted.len());
        each_head(body, 0, wanted.len().try_into().ok()?, bias, |head| heads.push(head)).ok()?;
        for (head, (_, at)) in heads.iter().zip(wanted) {
            let Some(old) = at.and_then(|at| data.head(at)).filter(|_| head.set.numval > 0) else { continue };
            if head.lie == Lie::InSitu {
                self.add(Move { from: old.set.at, to: head.set.at, len: head.set.end() - head.set.at });
                continue;
            }
            let (data, data_bias) = data.bytes();
            let from = old.set.values(data, data, data_bias).pairs;
            for (from, to) in from.iter().zip(head.set.values(body, body, bias).pairs) {
                let [from, to] = [offset_of(last_word(from), data_bias), offset_of(last_word(to), bias)];
                self.add(Move { from, to, len: block_at(body, to)?.len() });
            }
        }
        Some(heads)
    }

    /// Adds a move, to the one before if both are of bytes that follow each other.
    fn add(&mut self, new: Move) {
        match self.moves.last_mut() {
            Some(last) if last.from + last.len == new.from && last.to + last.len == new.to => {
                last.len += new.len
            }
            _ => self.moves.push(new),
        }
    }
}
