//! Records of the metadata file (`docs/pcp/archive.md` 5).
//!
//! ```text
//! record := len | type | body | len
//! DESC   := pmid | type | indom | semantics | units | numnames x { len | bytes }
//! INDOM, INDOM_DELTA := stamp | indom | n | n x inst | n x string offset (-1: deleted) | strings with NULs
//! LABEL  := stamp | label type | ident | nsets x { inst | len | JSON | nlabels x 8 bytes }
//! TEXT   := text type | ident | text with a NUL
//! ```

use byteorder::{BigEndian, ByteOrder};
use bytes::BufMut;

use super::put_stamp;
use pcp_model::{Desc, InDom, Instance, LabelSet, Pmid, Timestamp};
use pcp_pdu::{LabelTarget, TextLevel, TextTarget, label_text};

const DESC: u32 = 1;
const TEXT: u32 = 4;
const INDOM: u32 = 5;
const INDOM_DELTA: u32 = 6;
const LABEL: u32 = 7;

const WORD: usize = 4;

/// Appends a descriptor.
pub(super) fn put_desc<'a>(out: &mut Vec<u8>, desc: &Desc, names: impl ExactSizeIterator<Item = &'a str>) {
    framed(out, DESC, |out| {
        out.put_u32(desc.pmid.0);
        out.put_i32(desc.value_type.code());
        out.put_u32(desc.indom.0);
        out.put_i32(desc.semantics.code());
        out.put_u32(desc.units.to_word());
        out.put_u32(names.len() as u32);
        for name in names {
            out.put_u32(name.len() as u32);
            out.put_slice(name.as_bytes());
        }
    });
}

/// Appends all instances of a domain.
pub(super) fn put_indom(out: &mut Vec<u8>, time: Timestamp, indom: InDom, instances: &[Instance]) {
    let all = instances.iter().map(|instance| (instance.id, Some(instance.name.as_bytes())));
    put_all(out, time, indom, all);
}

/// Appends all instances of a domain, whose names need not be text.
pub(super) fn put_all<'a>(
    out: &mut Vec<u8>,
    time: Timestamp,
    indom: InDom,
    instances: impl ExactSizeIterator<Item = (i32, Option<&'a [u8]>)> + Clone,
) {
    framed(out, INDOM, |out| put_instances(out, time, indom, instances));
}

/// Appends what has changed in a domain: instances that came, with their names, and those that went.
pub(super) fn put_delta<'a>(
    out: &mut Vec<u8>,
    time: Timestamp,
    indom: InDom,
    changes: impl ExactSizeIterator<Item = (i32, Option<&'a [u8]>)> + Clone,
) {
    framed(out, INDOM_DELTA, |out| put_instances(out, time, indom, changes));
}

fn put_instances<'a>(
    out: &mut Vec<u8>,
    time: Timestamp,
    indom: InDom,
    instances: impl ExactSizeIterator<Item = (i32, Option<&'a [u8]>)> + Clone,
) {
    put_stamp(out, time);
    out.put_u32(indom.0);
    out.put_u32(instances.len() as u32);
    instances.clone().for_each(|(inst, _)| out.put_i32(inst));
    let mut offset = 0;
    for (_, name) in instances.clone() {
        out.put_i32(name.map_or(-1, |_| offset));
        offset += name.map_or(0, |name| text(name).len() + 1) as i32;
    }
    for name in instances.filter_map(|(_, name)| name) {
        out.put_slice(text(name));
        out.put_u8(0);
    }
}

/// Appends labels; nothing if there are none in any of the sets.
pub(super) fn put_labels(out: &mut Vec<u8>, time: Timestamp, target: LabelTarget, sets: &[LabelSet]) {
    let texts = sets.iter().filter_map(|set| Some((set.inst, label_text(set)?)));
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() {
        return;
    }
    framed(out, LABEL, |out| {
        put_stamp(out, time);
        out.put_i32(target.kind().code());
        out.put_u32(target.ident());
        out.put_u32(texts.len() as u32);
        for (inst, (json, table)) in &texts {
            out.put_i32(*inst);
            out.put_u32(json.len() as u32);
            out.put_slice(json.as_bytes());
            out.put_u32((table.len() / 8) as u32);
            out.put_slice(table);
        }
    });
}

/// Appends a help text.
pub(super) fn put_text(out: &mut Vec<u8>, target: TextTarget, level: TextLevel, help: &str) {
    let level = match level {
        TextLevel::OneLine => 1,
        TextLevel::Help => 2,
    };
    let (kind, ident) = match target {
        TextTarget::Metric(Pmid(ident)) => (4, ident),
        TextTarget::InDom(InDom(ident)) => (8, ident),
    };
    framed(out, TEXT, |out| {
        out.put_u32(kind | level);
        out.put_u32(ident);
        out.put_slice(text(help.as_bytes()));
        out.put_u8(0);
    });
}

/// Up to a NUL, which would end it for a reader.
fn text(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn framed(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u32(0);
    out.put_u32(kind);
    body(out);
    // All of it came in one reply of a few MiB at most.
    let len = (out.len() - start + WORD) as u32;
    BigEndian::write_u32(&mut out[start..], len);
    out.put_u32(len);
}
