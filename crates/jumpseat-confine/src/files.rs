//! Which files, by Landlock.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// The newest rules known here; of an older kernel, those it has.
const RULES: ABI = ABI::V6;

/// Files a process may use. Descriptors it has, and sockets it connects to, are not concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// All that its user may, and why.
    Any(&'static str),
    /// All may be read; what is at or below these places may be written, made and removed, and nothing else. Places that
    /// are not there are left out.
    WriteBeneath {
        /// Directories and files.
        places: Vec<PathBuf>,
        /// Programs may be started, and are held to the same.
        programs: bool,
    },
    /// What is below these directories, and nothing else.
    Only(Vec<PathBuf>),
}

pub(crate) fn restrict(files: &Files) -> Result<String, String> {
    match files {
        Files::Any(why) => Err(format!("not restricted, {why}")),
        Files::WriteBeneath { places, programs } => {
            let readable = if *programs {
                AccessFs::from_read(RULES)
            } else {
                AccessFs::from_read(RULES) & !BitFlags::from(AccessFs::Execute)
            };
            let status = apply(&[(Path::new("/"), readable)], places).map_err(|error| error.to_string())?;
            told(
                status,
                &format!(
                    "written in {} only{}",
                    list(places),
                    if *programs { "" } else { ", none executed" }
                ),
            )
        }
        Files::Only(places) => {
            let status = apply(&[], places).map_err(|error| error.to_string())?;
            told(status, &format!("in {} only", list(places)))
        }
    }
}

fn apply(
    readable: &[(&Path, BitFlags<AccessFs>)],
    places: &[PathBuf],
) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(RULES);
    let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(RULES))?.create()?;
    for (path, access) in readable {
        rules = allow(rules, path, *access)?;
    }
    for place in places {
        // Not programs: what can be written is not executed.
        rules = allow(rules, place, all & !BitFlags::from(AccessFs::Execute))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    // What makes sense for directories only is no part of a rule for a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RULES) };
    rules.add_rule(PathBeneath::new(opened, access))
}

fn told(status: RulesetStatus, what: &str) -> Result<String, String> {
    match status {
        RulesetStatus::FullyEnforced => Ok(what.to_owned()),
        RulesetStatus::PartiallyEnforced => Ok(format!("{what}, as far as this kernel's Landlock goes")),
        RulesetStatus::NotEnforced => {
            Err("this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, lsm=)".to_owned())
        }
    }
}

fn list(places: &[PathBuf]) -> String {
    let names: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
