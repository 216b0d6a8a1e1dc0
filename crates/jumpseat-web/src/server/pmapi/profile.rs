//! `/pmapi/profile`: which instances a context's fetches give.
//!
//! **Bounds:** [`MAX_INSTANCES`] and [`MAX_DOMAINS`] of a context, as the profile is kept, and sent to the collector whole.

use pcp_model::{InDom, Inst, Profile};

use super::call::{Call, Output, refused};
use super::choice::Choice;
use super::indom::{Meant, instances, meant};
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::query::Query;

/// Most instances in the lists of a context's profile.
const MAX_INSTANCES: usize = 65_536;
/// Most instance domains in it.
const MAX_DOMAINS: usize = 1024;

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
    expect_room(session.context.profile(), indom, chosen.len())?;
    let changed = match change {
        Change::Add => session.context.add_profile(indom, &chosen),
        Change::Delete => session.context.delete_profile(indom, &chosen),
    };
    changed.map_err(|error| refused(&error))?;
    Output::success(number)
}

/// Whether so many instances of a domain may be named beside what the profile has; none stand for all, and take back its list.
///
/// # Errors
/// They are too many.
fn expect_room(profile: &Profile, indom: InDom, count: usize) -> Result<(), Refusal> {
    let is_new = indom != InDom::NULL && profile.indoms.iter().all(|known| known.indom != indom);
    if is_new && profile.indoms.len() >= MAX_DOMAINS {
        return Err(Refusal::bad(format!("a profile has at most {MAX_DOMAINS} instance domains")));
    }
    let held: usize = profile.indoms.iter().map(|known| known.instances.len()).sum();
    if count > 0 && held + count > MAX_INSTANCES {
        return Err(Refusal::bad(format!("a profile has at most {MAX_INSTANCES} instances")));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_do_not_grow_for_ever() {
        let indom = |serial| InDom::new(29, serial);
        let mut profile = Profile::default();
        let many: Vec<Inst> = (0..65_535).collect();
        assert_eq!(expect_room(&profile, indom(1), many.len()), Ok(()));
        profile.add(indom(1), &many).expect("a profile");
        assert_eq!(expect_room(&profile, indom(2), 1), Ok(()));
        assert!(expect_room(&profile, indom(2), 2).is_err_and(|refusal| refusal.status == 400));
        // What makes it smaller is always possible.
        assert_eq!(expect_room(&profile, indom(1), 0), Ok(()));
        assert_eq!(expect_room(&profile, InDom::NULL, 0), Ok(()));
        (2..=1024).for_each(|serial| profile.delete(indom(serial), &[]).expect("a profile"));
        assert_eq!(expect_room(&profile, indom(1024), 0), Ok(()));
        assert!(expect_room(&profile, indom(1025), 0).is_err_and(|refusal| refusal.status == 400));
    }
}
