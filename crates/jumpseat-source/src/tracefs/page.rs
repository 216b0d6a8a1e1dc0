//! Sub-buffers of the kernel's ring buffer, as `trace_pipe_raw` gives them (kernel documentation, "Ring buffer
//! design"; `events/header_page` and `events/header_event`).
//!
//! ```text
//! page  := time stamp (8) | commit: length and flags (4 or 8) | event*  [| lost count (4 or 8)]
//! event := type_len (5 bits), time_delta (27 bits) | array (32 bits)*
//! ```
//!
//! The bytes are not trusted: whatever they hold, walking them ends and stays within them.

/// In the commit field: something was lost before this page.
const MISSED: u64 = 1 << 31;
/// In the commit field: how much is told behind the last event.
const STORED: u64 = 1 << 30;
/// The length in the commit field.
const LENGTH: u64 = (1 << 20) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Time deltas have so many bits, and what extends them is above.
const DELTA_BITS: u32 = 27;
/// Absolute times have so many bits.
const STAMP_BITS: u32 = 59;

/// What precedes the events of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the commit field.
    commit: usize,
    /// Bytes of the commit field, and of the lost count.
    word: usize,
    /// Offset of the first event.
    data: usize,
}

impl Layout {
    /// What this machine's kernel has.
    pub const NATIVE: Layout = Layout { commit: 8, word: size_of::<usize>(), data: 8 + size_of::<usize>() };

    /// Reads `events/header_page`; `None` if it is not understood.
    pub fn parse(header_page: &str) -> Option<Layout> {
        let field = |name: &str| {
            let line = header_page.lines().find(|line| {
                let declaration = line.split(';').next().unwrap_or_default();
                declaration.split_whitespace().next_back() == Some(name)
            })?;
            let number = |key: &str| line.split_once(key)?.1.split(';').next()?.trim().parse::<usize>().ok();
            Some((number("offset:")?, number("size:")?))
        };
        let ((stamp, 8), (commit, word @ (4 | 8)), (data, _)) =
            (field("timestamp")?, field("commit")?, field("data")?)
        else {
            return None;
        };
        (stamp == 0 && commit >= 8 && commit + word <= data && data <= 64).then_some(Layout {
            commit,
            word,
            data,
        })
    }
}

/// What a page says it lost before its first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing.
    Nothing,
    /// So many events.
    Count(u64),
    /// Some; there was no room to tell how many.
    Some,
}

/// Where a walk through a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    offset: usize,
    end: usize,
    time: u64,
    /// What was lost before the first event.
    pub lost: Lost,
}

/// An event's time, and where in the page its data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// By the trace clock.
    pub time: u64,
    /// Offset of the data.
    pub start: usize,
    /// Offset behind it.
    pub end: usize,
}

impl Walk {
    /// A walk that is over.
    pub const DONE: Walk = Walk { offset: 0, end: 0, time: 0, lost: Lost::Nothing };

    /// Begins at a page's first event. `None`: the page has no header, or says that it is longer than it is.
    pub fn begin(page: &[u8], layout: Layout) -> Option<Walk> {
        let time = u64::from_ne_bytes(page.get(..8)?.try_into().ok()?);
        let commit = word(page, layout.commit, layout.word)?;
        let end = layout.data + (commit & LENGTH) as usize;
        if end > page.len() {
            return None;
        }
        let lost = match (commit & MISSED != 0, commit & STORED != 0) {
            (false, _) => Lost::Nothing,
            (true, false) => Lost::Some,
            (true, true) => word(page, end, layout.word).map_or(Lost::Some, Lost::Count),
        };
        Some(Walk { offset: layout.data, end, time, lost })
    }

    /// The time at this place.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Bytes of events that are left.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.offset)
    }

    /// The next event with data. `None` at the end of the page; [`Walk::left`] is not 0 then if the rest makes
    /// no sense.
    #[inline]
    pub fn next(&mut self, page: &[u8]) -> Option<Entry> {
        loop {
            let head = word32(page, self.offset, self.end)?;
            let (type_len, delta) = split(head);
            let array = self.offset + 4;
            match type_len {
                PADDING if delta == 0 => {
                    self.offset = self.end;
                    return None;
                }
                TIME_EXTEND | TIME_STAMP => {
                    let high = u64::from(word32(page, array, self.end)?) << DELTA_BITS;
                    let value = high | u64::from(delta);
                    self.time = match type_len {
                        TIME_EXTEND => self.time.wrapping_add(value),
                        _ => absolute(value, self.time),
                    };
                    self.offset = array + 4;
                }
                0 | PADDING => {
                    let length = word32(page, array, self.end)? as usize;
                    // The length counts itself; a discarded event has one without its data's padding.
                    let next = array.checked_add(length.checked_next_multiple_of(4)?)?;
                    if length < 4 || next > self.end {
                        return None;
                    }
                    self.time = self.time.wrapping_add(u64::from(delta));
                    self.offset = next;
                    if type_len == 0 {
                        return Some(Entry { time: self.time, start: array + 4, end: array + length });
                    }
                }
                words => {
                    let next = array + words as usize * 4;
                    if next > self.end {
                        return None;
                    }
                    self.time = self.time.wrapping_add(u64::from(delta));
                    self.offset = next;
                    return Some(Entry { time: self.time, start: array, end: next });
                }
            }
        }
    }
}

/// An absolute time has 59 bits; the others are as they were before, or one more.
fn absolute(value: u64, before: u64) -> u64 {
    let mask = (1 << STAMP_BITS) - 1;
    let time = value & mask | before & !mask;
    if before & !mask != 0 && time < before { time.wrapping_add(1 << STAMP_BITS) } else { time }
}

/// The two bit fields of an event's first word lie as a C compiler lays them.
#[inline]
fn split(head: u32) -> (u32, u32) {
    if cfg!(target_endian = "little") {
        (head & 31, head >> 5)
    } else {
        (head >> DELTA_BITS, head & ((1 << DELTA_BITS) - 1))
    }
}

#[inline]
fn word32(page: &[u8], offset: usize, end: usize) -> Option<u32> {
    let bytes = page.get(offset..end)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*bytes))
}

fn word(page: &[u8], offset: usize, size: usize) -> Option<u64> {
    match *page.get(offset..offset.checked_add(size)?)? {
        [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join(type_len: u32, delta: u32) -> [u8; 4] {
        let head =
            if cfg!(target_endian = "little") { delta << 5 | type_len } else { type_len << 27 | delta };
        head.to_ne_bytes()
    }

    /// A page with these events and flags, filled up to 4,096 bytes.
    fn page(time: u64, flags: u64, events: &[u8], lost: &[u8]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((flags | events.len() as u64).to_ne_bytes());
        page.extend(events);
        page.extend(lost);
        page.resize(4096, 0);
        page
    }

    const LAYOUT: Layout = Layout { commit: 8, word: 8, data: 16 };

    fn walk(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, Walk) {
        let mut walk = Walk::begin(page, LAYOUT).expect("a page");
        let mut all = Vec::new();
        while let Some(entry) = walk.next(page) {
            all.push((entry.time, page[entry.start..entry.end].to_vec()));
        }
        (all, walk)
    }

    #[test]
    fn every_kind_of_entry_is_walked() {
        let word = |n: u32| n.to_ne_bytes();
        let events = [
            join(1, 5),
            *b"abcd",
            // a discarded event, whose time counts
            join(29, 2),
            word(8),
            *b"gone",
            // 7 bytes of data, padded
            join(0, 1),
            word(11),
            *b"efgh",
            *b"ijk\0",
            join(30, 3),
            word(2),
            join(1, 0),
            *b"late",
            join(31, 77),
            word(0),
            join(1, 1),
            *b"abso",
            join(29, 0),
            *b"rest",
        ]
        .concat();
        let (all, rest) = walk(&page(1000, 0, &events, &[]));
        let extended = 1008 + (2u64 << 27) + 3;
        let expected: [(u64, &[u8]); 4] =
            [(1005, b"abcd"), (1008, b"efghijk"), (extended, b"late"), (78, b"abso")];
        assert_eq!(all, expected.map(|(time, data)| (time, data.to_vec())));
        assert_eq!((rest.left(), rest.lost), (0, Lost::Nothing));
    }

    #[test]
    fn lost_events_are_told_with_or_without_their_number() {
        let event = [join(1, 5), *b"abcd"].concat();
        let lost = 42u64.to_ne_bytes();
        assert_eq!(walk(&page(0, MISSED | STORED, &event, &lost)).1.lost, Lost::Count(42));
        assert_eq!(walk(&page(0, MISSED, &event, &lost)).1.lost, Lost::Some);
        assert_eq!(walk(&page(0, 0, &event, &lost)).1.lost, Lost::Nothing);
    }

    #[test]
    fn absolute_times_take_their_upper_bits_from_what_was_before() {
        assert_eq!(absolute(5, 3), 5);
        assert_eq!(absolute(5, (1 << 60) + 3), (1 << 60) + 5);
        assert_eq!(absolute(2, (1 << 60) + 3), (1 << 60) + (1 << 59) + 2);
    }

    #[test]
    fn the_kernels_description_is_read() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(Layout::parse(text), Some(LAYOUT));
        assert_eq!(Layout::parse(&text.replace("size:8", "size:3")), None);
        assert_eq!(Layout::parse(&text.replace("offset:16", "offset:18446744073709551615")), None);
        assert_eq!(Layout::parse(""), None);
    }

    #[test]
    fn cut_and_overlong_entries_end_the_walk() {
        for events in [&join(2, 1)[..], &join(0, 1), &[join(0, 1), 3u32.to_ne_bytes()].concat(), &[1, 2]] {
            let (all, rest) = walk(&page(0, 0, events, &[]));
            assert!(all.is_empty() && rest.left() > 0, "{events:?}");
        }
        assert_eq!(Walk::begin(&page(0, LENGTH, &[], &[]), LAYOUT), None);
        assert_eq!(Walk::begin(&[0; 15], LAYOUT), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..600), len in 0u64..600) {
            let mut bytes = bytes;
            if bytes.len() >= 16 {
                // Otherwise nearly every length is beyond the end.
                bytes[8..16].copy_from_slice(&(len | MISSED | STORED).to_ne_bytes());
            }
            if let Some(mut walk) = Walk::begin(&bytes, LAYOUT) {
                let mut entries = 0;
                while let Some(entry) = walk.next(&bytes) {
                    prop_assert!(entry.start <= entry.end && entry.end <= bytes.len());
                    entries += 1;
                    prop_assert!(entries <= bytes.len());
                }
            }
        }
    }
}
