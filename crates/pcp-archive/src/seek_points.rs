//! Where decoding of a compressed file can start: xz blocks, by the index at the end of each stream, and
//! zstd frames, by their headers. The other formats have none.
//!
//! What is found here is only used to go faster: a file whose index makes no sense is decoded from its start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::files::Compression;

/// A place where decoding can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeekPoint {
    /// Offset in the uncompressed file.
    pub plain: u64,
    /// Where what a decoder started here can give ends, if that is before the end of the file.
    pub plain_end: Option<u64>,
    /// Offset in the compressed file.
    pub packed: u64,
    /// Where the decoder's input ends.
    pub packed_end: u64,
    /// What the decoder wants to see first.
    header: Option<[u8; XZ_HEADER]>,
}

impl SeekPoint {
    /// What the decoder wants to see first.
    pub(crate) fn header(&self) -> Vec<u8> {
        self.header.map(Vec::from).unwrap_or_default()
    }
}

const XZ_HEADER: usize = 12;
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
/// An index longer than this (some million blocks) is not read.
const MAX_XZ_INDEX: u64 = 64 * 1024 * 1024;
/// More frames than this are not looked for.
const MAX_FRAMES: usize = 1 << 20;

/// The seek points of a file, at least its start; and its uncompressed length if the format tells.
pub(super) fn find(file: &File, compression: Compression) -> io::Result<(Vec<SeekPoint>, Option<u64>)> {
    let packed_len = file.metadata()?.len();
    let found = match compression {
        Compression::Xz => xz(file, packed_len),
        Compression::Zstd => zstd(file, packed_len),
        _ => None,
    };
    Ok(match found {
        Some((points, len)) if !points.is_empty() => (points, Some(len)),
        _ => {
            let whole =
                SeekPoint { plain: 0, plain_end: None, packed: 0, packed_end: packed_len, header: None };
            (vec![whole], None)
        }
    })
}

/// The blocks of all streams of an xz file, from the last stream to the first.
///
/// ```text
/// stream := header 12 | block* | index | footer: crc 4, index size / 4 - 1 as u32 LE, flags 2, "YZ"
/// index  := 0 | count | count x { unpadded size, uncompressed size } | padding, crc      (varints)
/// ```
fn xz(file: &File, packed_len: u64) -> Option<(Vec<SeekPoint>, u64)> {
    let mut points = Vec::new();
    // An index stands behind its blocks, so a file is read from its end.
    let mut end = packed_len;
    while end > 0 {
        let footer = read(file, end.checked_sub(12)?, 12)?;
        if footer == [0; 12] || footer[8..] == [0; 4] {
            // Padding between streams, four bytes at a time.
            end = end.checked_sub(4)?;
            continue;
        }
        let size = u32::from_le_bytes(footer[4..8].try_into().ok()?);
        let index_len = (u64::from(size) + 1) * 4;
        if &footer[10..] != b"YZ" || index_len > MAX_XZ_INDEX {
            return None;
        }
        let index_at = end.checked_sub(12 + index_len)?;
        let index = read(file, index_at, index_len as usize)?;
        let mut rest = index.strip_prefix(&[0])?;
        let mut blocks = Vec::new();
        for _ in 0..varint(&mut rest)? {
            blocks.push((varint(&mut rest)?, varint(&mut rest)?));
        }
        let mut block_end = index_at;
        let mut stream = Vec::with_capacity(blocks.len());
        for (unpadded, plain) in blocks.into_iter().rev() {
            // The index has lengths without padding; blocks begin at multiples of four.
            let at = block_end.checked_sub(unpadded.checked_next_multiple_of(4)?)?;
            stream.push((at, block_end, plain));
            block_end = at;
        }
        let header_at = block_end.checked_sub(XZ_HEADER as u64)?;
        let header: [u8; XZ_HEADER] = read(file, header_at, XZ_HEADER)?.try_into().ok()?;
        if !header.starts_with(XZ_MAGIC) {
            return None;
        }
        points.extend(stream.into_iter().map(|(at, end, plain)| (at, end, plain, header)));
        end = header_at;
    }
    let mut plain = 0_u64;
    let mut found = Vec::with_capacity(points.len());
    for (packed, packed_end, len, header) in points.into_iter().rev() {
        let plain_end = plain.checked_add(len)?;
        found.push(SeekPoint { plain, plain_end: Some(plain_end), packed, packed_end, header: Some(header) });
        plain = plain_end;
    }
    Some((found, plain))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The frames of a zstd file whose headers all tell their length.
///
/// ```text
/// frame := magic 4 | descriptor 1 | window 0..1 | dictionary 0..4 | content size 0..8 | block* | checksum 0, 4
/// block := 3 bytes LE: last:1 type:2 size:21 | size bytes (type 1: one byte)
/// ```
fn zstd(file: &File, packed_len: u64) -> Option<(Vec<SeekPoint>, u64)> {
    const FRAME: u32 = 0xfd2f_b528;
    let mut points = Vec::new();
    let (mut at, mut plain) = (0_u64, 0_u64);
    while at < packed_len {
        if points.len() >= MAX_FRAMES {
            return None;
        }
        let head = read(file, at, 8)?;
        let magic = u32::from_le_bytes(head[..4].try_into().ok()?);
        if magic & 0xffff_fff0 == 0x184d_2a50 {
            at = at.checked_add(8 + u64::from(u32::from_le_bytes(head[4..].try_into().ok()?)))?;
            continue;
        }
        if magic != FRAME {
            return None;
        }
        let descriptor = head[4];
        let single = descriptor >> 5 & 1;
        let size_len: usize = match descriptor >> 6 {
            0 => usize::from(single),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let skip = 5 + u64::from(1 - single) + [0, 1, 2, 4][usize::from(descriptor & 3)];
        let mut size = [0; 8];
        size[..size_len].copy_from_slice(&read(file, at + skip, size_len)?);
        let len = match size_len {
            0 => return None,
            2 => u64::from_le_bytes(size) + 256,
            _ => u64::from_le_bytes(size),
        };
        let mut block = at + skip + size_len as u64;
        loop {
            let head = read(file, block, 3)?;
            let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
            let stored = if head >> 1 & 3 == 1 { 1 } else { u64::from(head >> 3) };
            block += 3 + stored;
            if head & 1 == 1 {
                break;
            }
        }
        let packed_end = block + if descriptor >> 2 & 1 == 1 { 4 } else { 0 };
        let plain_end = plain.checked_add(len)?;
        points.push(SeekPoint { plain, plain_end: Some(plain_end), packed: at, packed_end, header: None });
        (at, plain) = (packed_end, plain_end);
    }
    Some((points, plain))
}

fn read(file: &File, at: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}
