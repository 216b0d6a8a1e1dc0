//! By which name a tool was called.

/// The PCP release whose command line, messages and output the tools have.
const PCP_VERSION: &str = "6.3.8";

/// How a tool was called, which its messages start with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// `pminfo`, or `jumpseat info`.
    pub name: String,
    /// Whether it is a name of PCP's: then the tool has PCP's options only, and speaks PCP's language of derived
    /// metrics only.
    pub pcp: bool,
}

impl Call {
    /// As a subcommand of `jumpseat`.
    pub fn subcommand(name: &str) -> Call {
        Call { name: format!("jumpseat {name}"), pcp: false }
    }

    /// By PCP's name.
    pub fn by_pcps_name(name: &str) -> Call {
        Call { name: name.to_owned(), pcp: true }
    }

    /// What `--version` prints. Programs that ask PCP's tools for it expect the release of PCP in its place.
    pub fn version(&self) -> String {
        let own = env!("CARGO_PKG_VERSION");
        match self.pcp {
            true => format!("{} version {PCP_VERSION} (jumpseat {own})", self.name),
            false => format!("{} version {own}", self.name),
        }
    }
}
