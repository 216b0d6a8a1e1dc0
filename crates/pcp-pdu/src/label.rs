//! LABEL_REQ and LABEL (`docs/pcp/wire.md` 17).
//!
//! ```text
//! LABEL_REQ  12 ident u32 | 16 type i32
//! LABEL      12 ident u32 | 16 type i32 | 20 pad 4 | 24 nsets i32 | 28 nsets x set | JSON texts
//! set   := inst i32 | nlabels i32 | JSON offset i32, from the start of the PDU | JSON length i32 | nlabels x label
//! label := name offset u16 | name length u8 | flags u8 | value offset u16 | value length u16
//! ```
//! Offsets in a label count from the start of its set's JSON; the name's quotes are left out, a string
//! value's are not. The PDU is not padded.

use std::fmt::Write;

use super::codec::{Reader, Writer, pad4};
use super::fault::{EncodeError, PduError, Problem, Unsendable};
use super::json;
use pcp_model::{InDom, Inst, Label, LabelFlags, LabelKind, LabelSet, PmError, Pmid};

const PAD_LEN: usize = 4;
const SET_LEN: usize = 16;
const LABEL_LEN: usize = 8;
const HEADER: usize = 28;
const MAX_LABELS: usize = 254;
const MAX_JSON: usize = 65534;
/// The ident of the context's labels.
const CONTEXT_IDENT: u32 = u32::MAX;

/// What labels belong to; as a PDU, the request for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelTarget {
    /// The host or container.
    Context,
    /// All metrics of an agent.
    Domain(u32),
    /// All metrics with an instance domain.
    InDom(InDom),
    /// A cluster of an agent's metrics; the item is 0, or the metric asked about.
    Cluster(Pmid),
    /// One metric.
    Item(Pmid),
    /// Each instance of an instance domain.
    Instances(InDom),
}

impl LabelTarget {
    /// The level.
    pub const fn kind(self) -> LabelKind {
        match self {
            LabelTarget::Context => LabelKind::Context,
            LabelTarget::Domain(_) => LabelKind::Domain,
            LabelTarget::InDom(_) => LabelKind::InDom,
            LabelTarget::Cluster(_) => LabelKind::Cluster,
            LabelTarget::Item(_) => LabelKind::Item,
            LabelTarget::Instances(_) => LabelKind::Instances,
        }
    }

    /// The identifier as it travels.
    pub const fn ident(self) -> u32 {
        match self {
            LabelTarget::Context => CONTEXT_IDENT,
            LabelTarget::Domain(domain) => domain,
            LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => indom.0,
            LabelTarget::Cluster(pmid) | LabelTarget::Item(pmid) => pmid.0,
        }
    }

    const fn new(kind: LabelKind, ident: u32) -> LabelTarget {
        match kind {
            LabelKind::Context => LabelTarget::Context,
            LabelKind::Domain => LabelTarget::Domain(ident),
            LabelKind::InDom => LabelTarget::InDom(InDom(ident)),
            LabelKind::Cluster => LabelTarget::Cluster(Pmid(ident)),
            LabelKind::Item => LabelTarget::Item(Pmid(ident)),
            LabelKind::Instances => LabelTarget::Instances(InDom(ident)),
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<LabelTarget, PduError> {
        let ident = r.u32("ident")?;
        let code = r.i32("type")?;
        match LabelKind::from_code(code) {
            Some(kind) => Ok(LabelTarget::new(kind, ident)),
            None => Err(r.error_before(Problem::LabelType { value: code })),
        }
    }

    fn encode(self, w: &mut Writer<'_>) {
        w.u32(self.ident());
        w.i32(self.kind().code());
    }
}

pub(super) fn decode_req(r: &mut Reader<'_>) -> Result<LabelTarget, PduError> {
    let target = LabelTarget::decode(r)?;
    r.finish()?;
    Ok(target)
}

pub(super) fn encode_req(target: LabelTarget, w: &mut Writer<'_>) {
    target.encode(w);
}

/// Labels: one set for each instance if asked for instances, else at most one.
///
/// A label inside a nested object has the dotted names of all enclosing objects, as if it had been
/// written that way, which PCP takes for the same. Labels are sent so, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPdu {
    /// Whose labels.
    pub target: LabelTarget,
    /// The labels.
    pub sets: Vec<LabelSet>,
}

impl LabelPdu {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<LabelPdu, PduError> {
        let target = LabelTarget::decode(r)?;
        r.take("pad", PAD_LEN)?;
        let count = r.count("nsets", SET_LEN)?;
        let mut heads = Vec::with_capacity(count);
        for _ in 0..count {
            heads.push(SetHead::decode(r)?);
        }
        // The JSON texts follow; they need not be in order, but must end where the PDU ends. Texts that
        // share bytes are refused, as are labels that do: a small PDU could take a lot of memory.
        let (start, mut end) = (r.place(), r.place());
        let mut room = r.remaining();
        for head in heads.iter().filter(|head| head.json_len > 0) {
            let json_end = head.json_at.saturating_add(head.json_len);
            if head.json_at < start || json_end > r.pdu_len() {
                return Err(r.error_at(head.place, Problem::Label { field: "JSON" }));
            }
            end = end.max(json_end);
            room = room
                .checked_sub(head.json_len)
                .ok_or(r.error_at(head.place, Problem::Label { field: "JSON of several sets" }))?;
        }
        if r.pdu_len() != end && r.pdu_len() != pad4(end) {
            return Err(r.error_at(end, Problem::Trailing { extra: r.pdu_len() - end }));
        }
        let sets = heads.into_iter().map(|head| head.labels(r)).collect::<Result<_, _>>()?;
        Ok(LabelPdu { target, sets })
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut texts = Vec::with_capacity(self.sets.len());
        for set in &self.sets {
            texts.push(SetText::new(set).map_err(|reason| w.error(reason))?);
        }
        let entries: usize = texts.iter().map(|text| text.entries.len()).sum();
        let mut json_at = HEADER + texts.len() * SET_LEN + entries;
        let json: usize = texts.iter().map(|text| text.json.len()).sum();
        w.reserve(json_at + json);
        self.target.encode(w);
        w.bytes(&[0; PAD_LEN]);
        w.count("nsets", self.sets.len())?;
        for (set, text) in self.sets.iter().zip(&texts) {
            w.i32(set.inst);
            match &set.labels {
                Ok(labels) => w.count("nlabels", labels.len())?,
                Err(error) if error.0 < 0 => w.i32(error.0),
                Err(error) => return Err(w.error(Unsendable::NotAnError { code: error.0 })),
            }
            // A set without labels points to the end of the PDU.
            w.count(
                "JSON offset",
                if text.json.is_empty() { HEADER + texts.len() * SET_LEN + entries + json } else { json_at },
            )?;
            w.count("JSON length", text.json.len())?;
            w.bytes(&text.entries);
            json_at += text.json.len();
        }
        texts.iter().for_each(|text| w.bytes(text.json.as_bytes()));
        Ok(())
    }
}

/// A set on the wire without its JSON.
struct SetHead {
    inst: Inst,
    nlabels: i32,
    /// Offset of the word with the JSON's offset.
    place: usize,
    json_at: usize,
    json_len: usize,
    entries: Vec<Entry>,
}

/// A label's place in its set's JSON.
struct Entry {
    place: usize,
    name: (usize, usize),
    flags: u8,
    value: (usize, usize),
}

impl SetHead {
    fn decode(r: &mut Reader<'_>) -> Result<SetHead, PduError> {
        let inst = r.i32("inst")?;
        let nlabels = r.i32("nlabels")?;
        let place = r.place();
        let mut word = |field| {
            let word = r.i32(field)?;
            usize::try_from(word).map_err(|_| r.error_before(Problem::Count { field, count: word }))
        };
        let (json_at, json_len) = (word("JSON offset")?, word("JSON length")?);
        let mut entries = Vec::new();
        if let Ok(count) = usize::try_from(nlabels) {
            if count > r.remaining() / LABEL_LEN {
                return Err(r.error_at(place - 4, Problem::Count { field: "nlabels", count: nlabels }));
            }
            entries.reserve_exact(count);
            for _ in 0..count {
                let place = r.place();
                let (name_at, name_len, flags) = (r.u16("name")?, r.u8("name")?, r.u8("flags")?);
                let (value_at, value_len) = (r.u16("value")?, r.u16("value")?);
                entries.push(Entry {
                    place,
                    name: (name_at.into(), name_len.into()),
                    flags,
                    value: (value_at.into(), value_len.into()),
                });
            }
        }
        Ok(SetHead { inst, nlabels, place, json_at, json_len, entries })
    }

    fn labels(self, r: &Reader<'_>) -> Result<LabelSet, PduError> {
        if self.nlabels <= 0 {
            let labels = if self.nlabels < 0 { Err(PmError(self.nlabels)) } else { Ok(Vec::new()) };
            return Ok(LabelSet { inst: self.inst, labels });
        }
        // Without JSON no label below lies inside it.
        let json = match self.json_len {
            0 => Default::default(),
            len => r.bytes_at(self.json_at, self.json_at.saturating_add(len)).unwrap_or_default(),
        };
        let compound = self.entries.iter().any(|entry| entry.flags & LabelFlags::COMPOUND != 0);
        let paths = if compound { json::nested(&json) } else { Vec::new() };
        let text = |(at, len): (usize, usize)| json.get(at..at + len).map(String::from_utf8_lossy);
        let mut room = json.len();
        let mut labels = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let outside = |field| r.error_at(entry.place, Problem::Label { field });
            room = room.checked_sub(entry.name.1 + entry.value.1).ok_or(outside("part of another"))?;
            let name = text(entry.name).ok_or(outside("name"))?;
            let value = text(entry.value).ok_or(outside("value"))?.into_owned();
            let nested = paths.binary_search_by_key(&entry.name.0, |(at, _)| *at);
            let name = match nested.ok().and_then(|found| paths.get(found)) {
                Some((_, path)) if entry.flags & LabelFlags::COMPOUND != 0 => format!("{path}{name}"),
                _ => name.into_owned(),
            };
            labels.push(Label { name, value, flags: LabelFlags(entry.flags) });
        }
        Ok(LabelSet::sorted(self.inst, labels))
    }
}

/// A set's JSON and the table that points into it, as archives have them too; `None` for a set without labels,
/// or with some that cannot be written.
pub fn label_text(set: &LabelSet) -> Option<(String, Vec<u8>)> {
    let text = SetText::new(set).ok()?;
    (!text.entries.is_empty()).then_some((text.json, text.entries))
}

/// A set's JSON and the table that points into it.
#[derive(Default)]
struct SetText {
    json: String,
    entries: Vec<u8>,
}

impl SetText {
    /// The text of a set, its labels sorted by name.
    fn new(set: &LabelSet) -> Result<SetText, Unsendable> {
        let labels = match &set.labels {
            Ok(labels) if !labels.is_empty() => labels,
            _ => return Ok(SetText::default()),
        };
        if labels.len() > MAX_LABELS {
            return Err(Unsendable::Limit { field: "nlabels", value: labels.len(), max: MAX_LABELS });
        }
        let mut sorted: Vec<&Label> = labels.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        if sorted.windows(2).any(|pair| matches!(pair, [a, b] if a.name == b.name)) {
            return Err(Unsendable::BadLabel { what: "the name of another" });
        }
        let mut text =
            SetText { json: "{".to_owned(), entries: Vec::with_capacity(labels.len() * LABEL_LEN) };
        for label in sorted {
            text.push(label)?;
        }
        text.json.push('}');
        match text.json.len() {
            ..=MAX_JSON => Ok(text),
            value => Err(Unsendable::Limit { field: "JSON length", value, max: MAX_JSON }),
        }
    }

    fn push(&mut self, label: &Label) -> Result<(), Unsendable> {
        if !json::is_plain_name(&label.name) {
            return Err(Unsendable::BadLabel { what: "a name that is empty, too long or needs escapes" });
        }
        if !json::is_value(label.value.as_bytes()) {
            return Err(Unsendable::BadLabel { what: "a value that is not JSON" });
        }
        if self.json.len() > 1 {
            self.json.push(',');
        }
        let name_at = self.json.len() + 1;
        let value_at = name_at + label.name.len() + 2;
        // Writing to a string does not fail.
        let _ = write!(self.json, "\"{}\":{}", label.name, label.value);
        let too_long = |value| Unsendable::Limit { field: "JSON length", value, max: MAX_JSON };
        let short = |value: usize| u16::try_from(value).map_err(|_| too_long(value));
        self.entries.extend(short(name_at)?.to_be_bytes());
        // Bounded by MAX_NAME.
        self.entries.extend([label.name.len() as u8, label.flags.0]);
        self.entries.extend(short(value_at)?.to_be_bytes());
        self.entries.extend(short(label.value.len())?.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::testing::*;
    use crate::{Frame, Pdu, kind};
    use pcp_model::PM_IN_NULL;

    fn label(name: &str, value: &str, flags: u8) -> Label {
        Label { name: name.to_owned(), value: value.to_owned(), flags: LabelFlags(flags) }
    }

    fn one_set(target: LabelTarget, labels: Vec<Label>) -> Pdu {
        Pdu::Label(LabelPdu { target, sets: vec![LabelSet { inst: PM_IN_NULL, labels: Ok(labels) }] })
    }

    /// A LABEL with one set: its table, offset and length of its JSON, the JSON.
    fn raw(nlabels: i32, at: i32, len: i32, table: &str, json: &str) -> Frame {
        let hex: String = json.bytes().map(|byte| format!("{byte:02x}")).collect();
        let head = "0000001d 00000002 00000000 00000001 ffffffff";
        body(kind::LABEL, &format!("{head} {nlabels:08x} {at:08x} {len:08x} {table} {hex}"))
    }

    #[test]
    fn captures() {
        captured("00000014 00007012 00000000 ffffffff 00000001", &Pdu::LabelReq(LabelTarget::Context));
        captured(
            "0000005f 00007013 00000000 0000001d 00000002 00000000 00000001 ffffffff 00000002 0000003c 00000023
             00020502 00090008 00130402 00190009
             7b226167656e74223a2273616d706c65222c22726f6c65223a2274657374696e67227d",
            &one_set(
                LabelTarget::Domain(29),
                vec![label("agent", "\"sample\"", 2), label("role", "\"testing\"", 2)],
            ),
        );
        let sets = (0..3).map(|inst| LabelSet { inst, labels: Ok(vec![]) }).collect();
        captured(
            "0000004c 00007013 00000000 07400001 00000020 00000000 00000003
             00000000 00000000 0000004c 00000000 00000001 00000000 0000004c 00000000
             00000002 00000000 0000004c 00000000",
            &Pdu::Label(LabelPdu { target: LabelTarget::Instances(InDom::new(29, 1)), sets }),
        );
        let none = LabelPdu { target: LabelTarget::InDom(InDom::new(29, 2)), sets: vec![] };
        captured("0000001c 00007013 00000000 07400002 00000004 00000000 00000000", &Pdu::Label(none));
    }

    #[test]
    fn a_request_has_one_of_six_types() {
        let frame = body(kind::LABEL_REQ, "07400002 00000003");
        refused(&frame, 16, Problem::LabelType { value: 3 });
        assert_eq!(Pdu::decode(&frame).unwrap_err().pm_error(), PmError::TYPE);
        refused(&body(kind::LABEL_REQ, "07400002 00000004 00"), 20, Problem::Trailing { extra: 1 });
    }

    #[test]
    fn everything_must_lie_in_its_place() {
        let entry = "00020102 00050001";
        let json = r#"{"a":1}"#;
        let Ok(Pdu::Label(pdu)) = Pdu::decode(&raw(1, 0x34, 7, entry, json)) else { panic!("refused") };
        assert_eq!(pdu.sets[0].labels, Ok(vec![label("a", "1", 2)]));
        assert!(Pdu::decode(&raw(1, 0x34, 7, entry, &format!("{json}\0"))).is_ok(), "padded");
        let outside = |field| Problem::Label { field };
        let count = |field, count| Problem::Count { field, count };
        refused(&raw(1, 0x34, -1, entry, json), 40, count("JSON length", -1));
        refused(&raw(1, -1, 7, entry, json), 36, count("JSON offset", -1));
        refused(&raw(1, 0x33, 7, entry, json), 36, outside("JSON"));
        refused(&raw(1, 0x35, 7, entry, json), 36, outside("JSON"));
        refused(&raw(1, 0x34, i32::MAX, entry, json), 36, outside("JSON"));
        refused(&raw(1, 0x34, 7, entry, "{\"a\":1}\0\0"), 59, Problem::Trailing { extra: 2 });
        refused(&raw(1, 0x34, 7, "00060202 00050001", json), 44, outside("name"));
        refused(&raw(1, 0x34, 7, "00020102 00050003", json), 44, outside("value"));
        refused(&raw(1, 0x34, 0, "00020102 00050001", ""), 44, outside("part of another"));
        let twice = "00020102 00050001 00000002 00000006";
        refused(&raw(2, 0x3c, 7, twice, json), 52, outside("part of another"));
        refused(&raw(9, 0x34, 7, entry, json), 32, count("nlabels", 9));
        refused(&raw(i32::MAX, 0x34, 7, entry, json), 32, count("nlabels", i32::MAX));
        let Ok(Pdu::Label(pdu)) = Pdu::decode(&raw(PmError::INST.0, 0x2c, 0, "", "")) else {
            panic!("refused")
        };
        assert_eq!(pdu.sets[0].labels, Err(PmError::INST));
        refused(&body(kind::LABEL, "0000001d 00000002 00000000 00000002"), 24, count("nsets", 2));
        let set = "00000000 00000000 0000003c 00000003";
        let shared = body(kind::LABEL, &format!("0000001d 00000020 00000000 00000002 {set} {set} 7b7d7e"));
        refused(&shared, 52, outside("JSON of several sets"));
    }

    #[test]
    fn a_nested_label_gets_its_whole_name() {
        let frame = raw(1, 0x34, 13, "00070142 000a0001", r#"{"a":{"b":1}}"#);
        let nested = one_set(LabelTarget::Domain(29), vec![label("a.b", "1", 0x42)]);
        assert_eq!(Pdu::decode(&frame), Ok(nested.clone()));
        round_trip(&nested);
    }

    /// PCP sorts them (`pmParseLabelSet`), but whoever sends them need not.
    #[test]
    fn labels_are_in_the_order_of_their_names() {
        let frame = raw(2, 0x3c, 13, "00080102 000b0001 00020102 00050001", r#"{"b":1,"a":2}"#);
        let sorted = one_set(LabelTarget::Domain(29), vec![label("a", "2", 2), label("b", "1", 2)]);
        assert_eq!(Pdu::decode(&frame), Ok(sorted.clone()));
        round_trip(&sorted);
    }

    #[test]
    fn labels_that_would_break_the_text_are_not_sent() {
        let reason = |labels| one_set(LabelTarget::Context, labels).to_bytes(0).map_err(|error| error.reason);
        for (name, value) in [("", "1"), ("a\"", "1"), ("a", ""), ("a", "x"), ("a", "1,\"b\":2"), ("a", "\"")]
        {
            let outcome = reason(vec![label(name, value, 1)]);
            assert!(matches!(outcome, Err(Unsendable::BadLabel { .. })), "{name} {value}");
        }
        let twice = reason(vec![label("a", "1", 1), label("a", "2", 1)]);
        assert!(matches!(twice, Err(Unsendable::BadLabel { .. })));
        let limit = |labels| matches!(reason(labels), Err(Unsendable::Limit { .. }));
        let many =
            |count, len| (0..count).map(|i| label(&format!("n{i}"), &"1".repeat(len), 1)).collect::<Vec<_>>();
        assert!(!limit(many(254, 1)) && limit(many(255, 1)));
        assert!(!limit(many(1, 65534 - 7)) && limit(many(1, 65534 - 6)) && limit(many(2, 65000)));
    }

    fn arb_set() -> impl Strategy<Value = LabelSet> {
        let value =
            prop_oneof!["-?[1-9][0-9]{0,8}", "\"[a-z é]{0,10}\"", Just("[1,{\"x\":null}]".to_owned())];
        let labels =
            prop::collection::btree_map("[a-z][a-z_.]{0,10}", (value, any::<u8>()), 0..6).prop_map(|map| {
                let label = |(name, (value, flags))| Label { name, value, flags: LabelFlags(flags) };
                Ok(map.into_iter().map(label).collect())
            });
        let labels = prop_oneof![4 => labels, 1 => (i32::MIN..0).prop_map(|code| Err(PmError(code)))];
        (any::<i32>(), labels).prop_map(|(inst, labels)| LabelSet { inst, labels })
    }

    proptest! {
        #[test]
        fn round_trips(
            kind in prop::sample::select(vec![1, 2, 4, 8, 0x10, 0x20]),
            ident: u32,
            sets in prop::collection::vec(arb_set(), 0..8),
        ) {
            let target = LabelTarget::new(LabelKind::from_code(kind).unwrap(), ident);
            round_trip(&Pdu::LabelReq(target));
            round_trip(&Pdu::Label(LabelPdu { target, sets }));
        }
    }
}
