//! What the members of lines were called, and in which order they came: a program's lines mostly have the same members, line
//! after line. A name that comes where it was expected is one comparison; neither its end is looked for, nor what it means,
//! nor its metric.
//!
//! Each name knows which one came behind it last, so that lines of several kinds are foreseen as well. Nothing follows from
//! what is expected but where to look first: what is there is compared each time.
//!
//! **Bounds:** [`MAX_MEMBERS`] names of up to [`MAX_NAME`] bytes, some 130 bytes each; when they are used up, all are forgotten.
//!
//! **Cost:** 2 ns for a name that was expected, a hash and a look-up for any other.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::scan::word_at;
use crate::meaning::Meaning;
use crate::registry::FieldMemo;

/// Most names that are remembered.
const MAX_MEMBERS: usize = 4096;
/// Longest name, with its quotes and the colon.
const MAX_NAME: usize = 32;
/// What is compared at once.
const WORDS: usize = 16;
/// The bytes of two words that belong to a name of so many.
const MASKS: [[u64; 2]; WORDS + 1] = {
    let mut masks = [[0; 2]; WORDS + 1];
    let mut len = 1;
    while len <= WORDS {
        let all = u128::MAX >> (128 - 8 * len);
        masks[len] = [all as u64, (all >> 64) as u64];
        len += 1;
    }
    masks
};

/// The place of a name, until names are forgotten: within one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberId(u32);

/// No name yet.
const NONE: MemberId = MemberId(u32::MAX);

/// The names of members.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    members: Vec<Member>,
    /// By the hash of a name.
    by_hash: FxHashMap<u64, MemberId>,
    /// What the line before began with.
    first: MemberId,
    /// The member that came last in this line.
    last: MemberId,
    /// What is expected next.
    next: MemberId,
}

#[derive(Clone, Debug)]
struct Member {
    /// `"name":`, and zeros.
    name: [u8; MAX_NAME],
    len: u8,
    meaning: Meaning,
    /// What came behind it last.
    next: MemberId,
    memo: FieldMemo,
}

/// A name that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub id: MemberId,
    pub meaning: Meaning,
    /// Of the name with its quotes and the colon.
    pub len: usize,
}

impl Default for Outline {
    fn default() -> Outline {
        Outline { members: Vec::new(), by_hash: FxHashMap::default(), first: NONE, last: NONE, next: NONE }
    }
}

impl Outline {
    /// A line begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.last, self.next) = (NONE, self.first);
    }

    /// Whether the expected name is at `at`, and with it nothing but a colon.
    #[inline]
    pub(super) fn expected(&mut self, line: &[u8], at: usize) -> Option<Found> {
        let id = self.next;
        let member = self.members.get(id.0 as usize)?;
        let len = usize::from(member.len);
        let [first, second] = MASKS[len.min(WORDS)];
        let differs = (word_at(line, at) ^ word_at(&member.name, 0)) & first
            | (word_at(line, at + 8) ^ word_at(&member.name, 8)) & second;
        if differs != 0 || len > WORDS && line.get(at + WORDS..at + len) != member.name.get(WORDS..len) {
            return None;
        }
        (self.last, self.next) = (id, member.next);
        Some(Found { id, meaning: member.meaning, len })
    }

    /// Another name came than was expected: `"name":`. It is remembered, and expected there next time.
    #[cold]
    pub(super) fn came(&mut self, quoted: &[u8], meaning: Meaning) -> Option<MemberId> {
        let id = self.find_or_add(quoted, meaning)?;
        let next = match self.members.get_mut(self.last.0 as usize) {
            Some(last) => &mut last.next,
            None => &mut self.first,
        };
        *next = id;
        self.last = id;
        self.next = self.members.get(id.0 as usize).map_or(NONE, |member| member.next);
        Some(id)
    }

    fn find_or_add(&mut self, quoted: &[u8], meaning: Meaning) -> Option<MemberId> {
        let mut name = [0; MAX_NAME];
        name.get_mut(..quoted.len())?.copy_from_slice(quoted);
        let hash = FxBuildHasher.hash_one(quoted);
        if let Some(&id) = self.by_hash.get(&hash) {
            // Of two names with one hash the first is remembered.
            return Some(id)
                .filter(|id| self.members.get(id.0 as usize).is_some_and(|member| member.name == name));
        }
        if self.members.len() >= MAX_MEMBERS {
            // Not those of this event.
            return None;
        }
        let id = MemberId(self.members.len() as u32);
        let member =
            Member { name, len: quoted.len() as u8, meaning, next: NONE, memo: FieldMemo::default() };
        self.members.push(member);
        self.by_hash.insert(hash, id);
        Some(id)
    }

    /// An event begins: names that were found so far are not used any more.
    #[inline]
    pub(crate) fn renew(&mut self) {
        if self.members.len() >= MAX_MEMBERS {
            *self = Outline::default();
        }
    }

    /// What is known of a name as a field's.
    #[inline]
    pub(crate) fn memo(&self, id: MemberId) -> Option<&FieldMemo> {
        self.members.get(id.0 as usize).map(|member| &member.memo)
    }
}
