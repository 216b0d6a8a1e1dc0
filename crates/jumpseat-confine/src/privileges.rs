//! Capabilities, and no new privileges.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl;

/// Programs started from here have no more rights than this one, whatever their files say.
pub(crate) fn no_new() -> Result<String, String> {
    prctl::set_no_new_privs().map_err(|error| error.desc().to_owned())?;
    Ok("no new ones".to_owned())
}

/// Gives all capabilities up but those of `kept` that are there.
pub(crate) fn keep(kept: &[Capability]) -> Result<String, String> {
    let failed = |error: caps::errors::CapsError| error.to_string();
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let kept: CapsHashSet = kept.iter().copied().filter(|kept| permitted.contains(kept)).collect();
    if permitted.contains(&Capability::CAP_SETPCAP) {
        // The bounding set first: it takes a capability that goes afterwards. Those a kernel does not know are no loss.
        for capability in caps::all() {
            if !kept.contains(&capability) {
                let _ = caps::drop(None, CapSet::Bounding, capability);
            }
        }
    }
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)?;
    let mut names: Vec<String> = kept.iter().map(ToString::to_string).collect();
    names.sort();
    Ok(if names.is_empty() { "none".to_owned() } else { names.join(" ") })
}
