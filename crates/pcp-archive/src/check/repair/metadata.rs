//! The metadata, written anew: whole records as they are, in batches of [`BATCH`] bytes.
//!
//! After a loss the records of instance domains are made anew from all those that are left, one domain behind the other in
//! order of time: what a change was made to may be missing, and readers die of a change to nothing.

use bytes::BufMut;

use super::{Loss, Losses, RepairError};
use crate::check::survey::Survey;
use crate::fields::{Fields, Stamp};
use crate::member::{MemberReader, WORD};
use crate::metadata::{INDOM, INDOM_DELTA, INDOM_V2, LABEL, LABEL_V2, record_type};
use crate::write::{ArchiveWriter, WriteError, put_stamp};
use pcp_model::InDom;

/// How much metadata is collected; one record may be longer.
const BATCH: usize = 1 << 20;
/// How many instances are gone through at most to make domains anew.
const MAX_WORK: u64 = 1 << 30;
/// By how much a record grows whose stamp gets nanoseconds and a century more.
const LONGER: u32 = 4;

/// Writes it. How many records.
pub(super) fn copy(
    survey: &Survey,
    writer: &mut ArchiveWriter,
    losses: &mut Losses,
) -> Result<u64, RepairError> {
    let Some(member) = &survey.files.meta else { return Ok(0) };
    let mut source = MemberReader::open(member)?;
    let mut written = 0;
    for &(from, to) in &survey.stretches {
        let mut at = from;
        while at < to {
            let Some(frame) = source.frame(at)? else {
                return Err(source.bad(at, super::values::CHANGED).into());
            };
            at = frame.end();
            let record = source.record(frame)?;
            let is_domain = matches!(record_type(record), Some(INDOM_V2 | INDOM | INDOM_DELTA));
            if !(is_domain && survey.has_lost_metadata) {
                put(writer.batch(), record);
                written += 1;
                flush_long(writer)?;
            }
        }
    }
    if survey.has_lost_metadata {
        let (made, left_out) = copy_domains(survey, writer)?;
        written += made;
        losses.insert(Loss::Domains, left_out);
    }
    writer.flush_batch()?;
    Ok(written)
}

/// How many records of domains are made, and how many left out.
fn copy_domains(survey: &Survey, writer: &mut ArchiveWriter) -> Result<(u64, u64), WriteError> {
    let mut indoms: Vec<InDom> = survey.metadata.indoms.keys().copied().collect();
    indoms.sort_unstable_by_key(|indom| indom.0);
    let (mut room, mut made, mut left_out) = (MAX_WORK, 0, 0);
    for indom in indoms {
        let Some(history) = survey.metadata.indoms.get(&indom) else { continue };
        left_out += history.anew(&mut room, |record| {
            writer.domain((record.stamp, indom), record.delta, &record.instances);
            made += 1;
            flush_long(writer)
        })? as u64;
    }
    Ok((made, left_out))
}

fn flush_long(writer: &mut ArchiveWriter) -> Result<(), WriteError> {
    if writer.batch().len() < BATCH { Ok(()) } else { writer.flush_batch() }
}

/// Appends a record as version 3 has it.
fn put(batch: &mut Vec<u8>, record: &[u8]) {
    let kind = match record_type(record) {
        Some(INDOM_V2) => INDOM,
        Some(LABEL_V2) => LABEL,
        _ => return batch.extend_from_slice(record),
    };
    let body = record.get(2 * WORD..record.len() - WORD).unwrap_or_default();
    let mut fields = Fields(body);
    // It was read before.
    let Some(time) = fields.stamp(Stamp::Micro) else { return };
    let len = record.len() as u32 + LONGER;
    batch.put_u32(len);
    batch.put_u32(kind);
    put_stamp(batch, time);
    batch.extend_from_slice(fields.0);
    batch.put_u32(len);
}
