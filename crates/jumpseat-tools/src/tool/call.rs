//! By which name a tool was called.

use pcp_model::Level;

/// How a tool was called, which its messages start with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// `pminfo`, or `jumpseat info`.
    pub name: String,
    /// Whether it is a name of PCP's: then the tool has PCP's options only, and speaks PCP's language of derived
    /// metrics only.
    pub pcp: bool,
    /// The PCP release whose command line, messages and output it has.
    pub level: Level,
}

impl Call {
    /// As a subcommand of `jumpseat`.
    pub fn subcommand(name: &str) -> Call {
        Call { name: format!("jumpseat {name}"), pcp: false, level: Level::default() }
    }

    /// By PCP's name.
    pub fn by_pcps_name(name: &str) -> Call {
        Call { name: name.to_owned(), pcp: true, level: Level::default() }
    }

    /// What `--version` prints. Programs that ask PCP's tools for it expect the release of PCP in its place.
    pub fn version(&self) -> String {
        let own = env!("CARGO_PKG_VERSION");
        match self.pcp {
            true => format!("{} version {} (jumpseat {own})", self.name, self.level),
            false => format!("{} version {own}", self.name),
        }
    }
}
