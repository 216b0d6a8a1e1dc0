//! `/pmapi/profile`: which instances a context's fetches give.

use pcp_model::{InDom, Inst};

use super::call::{Call, Output, refused};
use super::choice::Choice;
use super::indom::{Meant, instances, meant};
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::query::Query;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Delete,
}

impl Change {
    /// # Errors
    /// It is neither.
    pub(super) fn read(query: &Query) -> Result<Change, Refusal> {
        match query.get("expr").unwrap_or_default() {
            "add" => Ok(Change::Add),
            "del" => Ok(Change::Delete),
            text => Err(Refusal::bad(format!("{text} - invalid 'expr' parameter value"))),
        }
    }
}

pub(super) fn profile(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    let change = Change::read(&call.query)?;
    let choice = Choice::read(&call.query)?;
    let indom = match meant(session, &call.query)? {
        Meant::Domain(indom) => indom,
        Meant::None => InDom::NULL,
        Meant::NoDomain => return Err(Refusal::bad("invalid profile parameters")),
    };
    let chosen = chosen(session, indom, &choice)?;
    let changed = match change {
        Change::Add => session.context.add_profile(indom, &chosen),
        Change::Delete => session.context.delete_profile(indom, &chosen),
    };
    changed.map_err(|error| refused(&error))?;
    Output::success(number)
}

/// The instances of a choice; none for all of them.
fn chosen(session: &mut Session, indom: InDom, choice: &Choice) -> Result<Vec<Inst>, Refusal> {
    match choice {
        _ if indom == InDom::NULL => Ok(Vec::new()),
        Choice::All => Ok(Vec::new()),
        // Also those that there are not yet.
        Choice::Numbers(numbers) => Ok(numbers.iter().copied().collect()),
        Choice::Names(_) => {
            let all = instances(session, indom)?;
            let chosen: Vec<Inst> =
                all.iter().filter(|instance| choice.has(instance)).map(|instance| instance.id).collect();
            match chosen.is_empty() {
                // It would mean all (D18).
                true => Err(Refusal::bad("invalid profile parameters: no instance has such a name")),
                false => Ok(chosen),
            }
        }
    }
}
