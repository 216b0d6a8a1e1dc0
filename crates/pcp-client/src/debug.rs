//! What debug options show of a context (`pmdbg(1)`): events of `tracing`, level TRACE, with the targets `pcp::pdu`,
//! `pcp::fetch` and so on, one a debug option.
//!
//! Cost: a load of one word where nobody listens; texts are made only for who does, and are of bounded length.

use std::fmt::Display;

use bytes::Bytes;
use tracing::{Level, enabled, trace};

use super::error::Result;
use pcp_model::text::{cut, listed};
use pcp_model::{InDom, Instance, LabelSet, PM_IN_NULL, Pmid, Profile, ProfileState};
use pcp_pdu::{Fetched, Frame, HEADER_LEN, LabelTarget, Pdu, StateChange, kind};

/// Metrics, names, instances, labels shown of a list.
const SHOWN: usize = 16;
/// Bytes of a PDU shown.
const DUMPED: usize = 256;
/// Bytes of it in a line.
const WIDTH: usize = 16;
/// Bytes of a name or value shown.
const TEXT: usize = 120;

/// Which way a PDU goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Sent,
    Received,
}

/// A PDU of a connection, header included.
pub(super) fn pdu(way: Way, connection: impl std::os::fd::AsRawFd, bytes: &[u8]) {
    if !enabled!(target: "pcp::pdu", Level::TRACE) {
        return;
    }
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (kind, from) = (word(4).unwrap_or_default(), word(8).unwrap_or_default() as i32);
    let name = kind::name(kind).map_or_else(|| format!("type {kind:#x}"), str::to_owned);
    let body = Bytes::copy_from_slice(bytes.get(HEADER_LEN..).unwrap_or_default());
    let decoded = Pdu::decode(&Frame { kind, from, body });
    let said = match &decoded {
        Ok(pdu) => pdu.summary(),
        Err(error) => format!("not decoded: {error}"),
    };
    let harmless = is_harmless(kind, decoded.as_ref().ok());
    // Nor is there a dump of what may hold a password, decoded or not.
    let dump = dump(if harmless { bytes } else { bytes.get(..HEADER_LEN).unwrap_or_default() });
    let way = match way {
        Way::Sent => "sent",
        Way::Received => "received",
    };
    let (fd, len) = (connection.as_raw_fd(), bytes.len());
    trace!(target: "pcp::pdu", "{way} {name} on {fd}, {len} bytes, from {from}: {said}\n{dump}");
}

/// Whether all of a PDU may be seen: only of known attributes of a connection is it sure that they are no secrets.
fn is_harmless(kind: u32, decoded: Option<&Pdu>) -> bool {
    match decoded {
        Some(Pdu::Attr(attr)) => attr.is_shown(),
        _ => kind != kind::ATTR,
    }
}

/// The first bytes, in lines with their places.
fn dump(bytes: &[u8]) -> String {
    let shown = bytes.get(..DUMPED).unwrap_or(bytes);
    let mut text = String::new();
    for (number, line) in shown.chunks(WIDTH).enumerate() {
        let words: Vec<String> = line
            .chunks(4)
            .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            .collect();
        let plain = |&byte: &u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' };
        let plain: String = line.iter().map(plain).collect();
        text.push_str(&format!("{:04x}  {:<35}  {plain}\n", number * WIDTH, words.join(" ")));
    }
    let rest = bytes.len() - shown.len();
    if rest > 0 {
        text.push_str(&format!("{rest} bytes more\n"));
    }
    text
}

/// A fetch that begins: what was asked for, and the operands of derived metrics that are fetched with it.
pub(super) fn asked(request: &[Pmid], operands: &[Pmid], profile: &Profile) {
    if !enabled!(target: "pcp::fetch", Level::TRACE) {
        return;
    }
    let mut text = format!("{} metrics: {}", request.len(), listed(request, SHOWN));
    if !operands.is_empty() {
        text.push_str(&format!("; {} operands: {}", operands.len(), listed(operands, SHOWN)));
    }
    trace!(target: "pcp::fetch", "asked for {text}; instances: {}", wanted(profile));
}

/// A fetch that is over. `out` holds the answer, if there is one.
pub(super) fn answered<T>(done: &Result<T>, out: &Fetched) {
    if !enabled!(target: "pcp::fetch", Level::TRACE) {
        return;
    }
    if let Err(error) = done {
        return trace!(target: "pcp::fetch", "failed: {error} ({})", error.code().0);
    }
    let (mut values, mut failed) = (0, 0);
    let sets: Vec<String> = out
        .sets()
        .map(|set| match set.values {
            Ok(found) => {
                values += found.len();
                format!("{}: {};", set.pmid, found.len())
            }
            Err(error) => {
                failed += 1;
                format!("{}: {error};", set.pmid)
            }
        })
        .collect();
    let changes = match out.changes == StateChange::default() {
        true => String::new(),
        false => format!(", changed: {}", out.changes),
    };
    trace!(
        target: "pcp::fetch",
        "values of {}: {} metrics, {failed} of them failed, {values} values{changes}; numbers of values: {}",
        out.timestamp,
        sets.len(),
        listed(sets, SHOWN),
    );
}

/// The instances that a profile wants, in words.
pub(super) fn wanted(profile: &Profile) -> String {
    let state = |state, exceptions: usize| match (state, exceptions) {
        (ProfileState::Include, 0) => "all".to_owned(),
        (ProfileState::Exclude, 0) => "none".to_owned(),
        (ProfileState::Include, exceptions) => format!("all but {exceptions}"),
        (ProfileState::Exclude, exceptions) => format!("{exceptions} only"),
    };
    let domains = profile.indoms.iter();
    let domains = domains.map(|of| format!("of {} {};", of.indom, state(of.state, of.instances.len())));
    let others = state(profile.state, 0);
    match profile.indoms.is_empty() {
        true => others,
        false => format!("{} of others {others}", listed(domains, SHOWN)),
    }
}

/// Names that were looked up, and what they are.
pub(super) fn looked_up(names: &[&str], found: &Result<Vec<Option<Pmid>>>) {
    if !enabled!(target: "pcp::pmns", Level::TRACE) {
        return;
    }
    let names = names.iter().map(|name| cut(name, TEXT));
    match found {
        Ok(pmids) => {
            let each = names.zip(pmids).map(|(name, pmid)| match pmid {
                Some(pmid) => format!("{name} = {pmid};"),
                None => format!("{name}: not known;"),
            });
            trace!(target: "pcp::pmns", "looked up {}: {}", pmids.len(), listed(each, SHOWN));
        }
        Err(error) => trace!(target: "pcp::pmns", "looked up {}: {error}", listed(names, SHOWN)),
    }
}

/// The answer to a question about a place in the name space.
pub(super) fn below<'a, T, I: Iterator<Item = &'a str>>(
    what: &str,
    name: &(impl Display + ?Sized),
    found: &'a Result<T>,
    names: impl FnOnce(&'a T) -> I,
) {
    if !enabled!(target: "pcp::pmns", Level::TRACE) {
        return;
    }
    let name = name.to_string();
    let name = if name.is_empty() { "the root" } else { cut(&name, TEXT) };
    match found {
        Ok(found) => {
            let names: Vec<&str> = names(found).map(|name| cut(name, TEXT)).collect();
            trace!(target: "pcp::pmns", "{what} {name}: {}: {}", names.len(), listed(names, SHOWN));
        }
        Err(error) => trace!(target: "pcp::pmns", "{what} {name}: {error}"),
    }
}

/// Instances that were asked for.
pub(super) fn instances<E: Display>(indom: InDom, found: std::result::Result<&[Instance], &E>) {
    if !enabled!(target: "pcp::indom", Level::TRACE) {
        return;
    }
    match found {
        Ok(found) => {
            let each = found.iter().map(|one| format!("{} {:?}", one.id, cut(&one.name, TEXT)));
            trace!(target: "pcp::indom", "instances of {indom}: {}: {}", found.len(), listed(each, SHOWN));
        }
        Err(error) => trace!(target: "pcp::indom", "instances of {indom}: {error}"),
    }
}

/// Labels that were asked for.
pub(super) fn labels<E: Display>(target: LabelTarget, found: std::result::Result<&[LabelSet], &E>) {
    if !enabled!(target: "pcp::labels", Level::TRACE) {
        return;
    }
    let sets = match found {
        Ok(sets) => sets,
        Err(error) => return trace!(target: "pcp::labels", "labels of {target}: {error}"),
    };
    let set = |set: &LabelSet| {
        let of = if set.inst == PM_IN_NULL { String::new() } else { format!("instance {}: ", set.inst) };
        match &set.labels {
            Ok(labels) => {
                let each = labels.iter().map(|one| format!("{}={}", one.name, cut(&one.value, TEXT)));
                format!("{of}{}", listed(each, SHOWN))
            }
            Err(error) => format!("{of}{error}"),
        }
    };
    let (count, sets) = (sets.len(), sets.iter().take(SHOWN).map(|each| format!("\n{}", set(each))));
    let rest = count.saturating_sub(SHOWN);
    let more = if rest > 0 { format!("\n{rest} sets more") } else { String::new() };
    trace!(target: "pcp::labels", "labels of {target}: {count} sets{}{more}", sets.collect::<String>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_pdu::{Attr, AttrCode};

    #[test]
    fn a_dump_has_places_words_and_text() {
        assert_eq!(dump(b"\0\0\0\x14pcp!"), "0000  00000014 70637021                    ....pcp!\n");
        let long = dump(&[0; DUMPED + 3]);
        assert_eq!(long.lines().count(), DUMPED / WIDTH + 1);
        assert!(long.ends_with("3 bytes more\n"), "{long}");
    }

    #[test]
    fn attributes_that_may_be_secrets_are_not_dumped() {
        let attr = |code| Pdu::Attr(Attr { code, payload: Bytes::from_static(b"secret") });
        for (code, expected) in [
            (AttrCode::SASL, false),
            (AttrCode(77), false),
            (AttrCode::CONTAINER, true),
            (AttrCode::USERNAME, true),
        ] {
            assert_eq!(is_harmless(kind::ATTR, Some(&attr(code))), expected, "{code:?}");
        }
        assert!(!is_harmless(kind::ATTR, None));
        assert!(is_harmless(kind::FETCH, None));
    }

    #[test]
    fn profiles_in_words() {
        let mut profile = Profile::default();
        assert_eq!(wanted(&profile), "all");
        profile.add(InDom::new(60, 1), &[3, 4]).unwrap();
        assert_eq!(wanted(&profile), "of 60.1 2 only; of others all");
        profile.delete(InDom::NULL, &[]).unwrap();
        assert_eq!(wanted(&profile), "none");
    }
}
