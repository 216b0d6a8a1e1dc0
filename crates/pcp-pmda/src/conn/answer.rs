//! Answers that are the same for pmcd and for direct clients.

use crate::call::ClientId;
use crate::core::Serve;
use pcp_model::{Instance, PM_IN_NULL, PmError, Pmid};
use pcp_pdu::{
    ByteStr, ErrorPdu, InstanceEntry, InstanceList, InstanceReq, NodeKind, Pdu, PmnsIds, PmnsNames,
    RawValueSet, TextPdu, TextReq, TextTarget,
};

pub(super) fn desc(core: &mut dyn Serve, pmid: Pmid) -> Result<Pdu, PmError> {
    core.desc(pmid).map(Pdu::Desc)
}

/// The three forms of INSTANCE_REQ (`docs/pcp/wire.md` 12).
pub(super) fn instance(core: &mut dyn Serve, request: &InstanceReq) -> Result<Pdu, PmError> {
    let table = core.instances(request.indom)?;
    let instances = match (request.inst, &*request.name) {
        (PM_IN_NULL, []) => {
            let entry =
                |(id, name): (i32, &str)| InstanceEntry::from(&Instance { id, name: name.to_owned() });
            table.iter().map(entry).collect()
        }
        (inst, []) => vec![InstanceEntry::named(table.name(inst).ok_or(PmError::INST)?)],
        (PM_IN_NULL, _) => {
            let name = request.name.as_str().ok_or(PmError::INST)?;
            vec![InstanceEntry::identified(table.find(name)?)]
        }
        _ => return Err(PmError::INST),
    };
    Ok(Pdu::Instance(InstanceList { indom: request.indom, instances }))
}

pub(super) fn text(core: &mut dyn Serve, request: &TextReq) -> Result<Pdu, PmError> {
    let text = match request.target {
        TextTarget::Metric(pmid) => core.metric_text(pmid, request.level)?,
        TextTarget::InDom(indom) => core.indom_text(indom, request.level)?,
    };
    Ok(Pdu::Text(TextPdu { ident: request.target.ident(), text: text.as_str().into() }))
}

/// One name that fails is an error, several are a list with gaps (`docs/pcp/wire.md` 15.1).
pub(super) fn pmids(
    names: &[ByteStr],
    find: &mut dyn FnMut(&ByteStr) -> Result<Pmid, PmError>,
) -> Result<Pdu, PmError> {
    match names {
        [] => Err(PmError::TOOSMALL),
        [name] => Ok(Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![find(name)?] })),
        names => {
            let ids: Vec<Pmid> = names.iter().map(|name| find(name).unwrap_or(Pmid::NULL)).collect();
            let found = ids.iter().filter(|pmid| **pmid != Pmid::NULL).count();
            Ok(Pdu::PmnsIds(PmnsIds { status: found as i32, ids }))
        }
    }
}

pub(super) fn children(children: Vec<(String, bool)>, status: bool) -> Pdu {
    let kind = |leaf| if leaf { NodeKind::Leaf } else { NodeKind::NonLeaf };
    let names = children.into_iter();
    Pdu::PmnsNames(match status {
        true => PmnsNames::WithStatus(names.map(|(name, leaf)| (name.as_str().into(), kind(leaf))).collect()),
        false => PmnsNames::Plain(names.map(|(name, _)| name.as_str().into()).collect()),
    })
}

pub(super) fn names(names: &[String]) -> Pdu {
    Pdu::PmnsNames(PmnsNames::Plain(names.iter().map(|name| name.as_str().into()).collect()))
}

/// Stores every set, whatever becomes of the others; the first error is the answer.
pub(super) fn store<'a>(
    core: &mut dyn Serve,
    client: ClientId,
    sets: impl IntoIterator<Item = &'a RawValueSet>,
) -> Result<Pdu, PmError> {
    let mut result = Ok(Pdu::Error(ErrorPdu::success()));
    for set in sets {
        if let Err(error) = core.store(client, set) {
            result = result.and(Err(error));
        }
    }
    result
}
