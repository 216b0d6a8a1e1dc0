//! `/pmapi/context` and `/pmapi/children`.

use pcp_client::{ClientError, LabelTarget};
use serde::Serialize;

use super::call::{Call, Output, refused};
use super::labels::{Labels, Merged};
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::identity::Id;

/// What a context is of.
pub(super) fn context(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    #[derive(Serialize)]
    struct Raw {
        context: u32,
    }
    #[derive(Serialize)]
    struct Form<'a> {
        context: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        source: String,
        hostspec: String,
        labels: &'a Merged<'a>,
    }
    if call.raw {
        return Output::json(&Raw { context: number });
    }
    let mut labels = Labels::default();
    let looked = labels.look_up(&mut session.context, [LabelTarget::Context]);
    looked.map_err(|refusal| Refusal::bad(format!("failed to get context labels: {}", refusal.message)))?;
    let labels = &labels.merged(&[LabelTarget::Context], true);
    let hostspec = session.context.host_name().map_err(|error| refused(&error))?;
    Output::json(&Form {
        context: number,
        client: call.client(),
        source: Id::source(&labels.text()).to_string(),
        hostspec,
        labels,
    })
}

/// The nodes below another.
pub(super) fn children(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    #[derive(Serialize)]
    struct Form<'a> {
        context: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        name: &'a str,
        leaf: Vec<String>,
        nonleaf: Vec<String>,
    }
    let name = call.query.first(&["prefix", "name"]).unwrap_or_default();
    let children = session.context.children(name).map_err(|error| match error {
        ClientError::Pcp(error) => Refusal::bad(format!("child traversal failed - {error}")),
        error => refused(&error),
    })?;
    let (mut leaf, mut nonleaf) = (Vec::new(), Vec::new());
    for child in children {
        if child.leaf { &mut leaf } else { &mut nonleaf }.push(child.name);
    }
    Output::json(&Form { context: number, client: call.client(), name, leaf, nonleaf })
}
