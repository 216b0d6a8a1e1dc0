//! Which PCP release a tool follows: what its command line asks for, or else the environment; the newest otherwise.

use pcp_model::Level;

use super::call::Call;
use super::getopt::{Getopt, Next};
use super::table::{Meaning, Standard, Tool};

/// The variable that names a release, for scripts that know PCP's names only, and no options beyond PCP's.
const VARIABLE: &str = "JUMPSEAT_PCP_LEVEL";

/// The release. It decides which options there are, so it is looked for before they are read; what is wrong with it is told when
/// its turn comes.
pub(super) fn chosen<O: Copy>(tool: &'static Tool<O>, call: &Call, words: &[String]) -> Level {
    let level = |next| match next {
        Next::Option(Meaning::Standard(Standard::PcpLevel), argument) => argument?.parse().ok(),
        _ => None,
    };
    let asked = Getopt::new(tool, call, words.to_vec()).filter_map(level).last();
    asked.or_else(from_environment).unwrap_or_default()
}

/// The release that the environment names.
fn from_environment() -> Option<Level> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
    let level = text.parse();
    level.map_err(|why| complain!("Error: ${VARIABLE}={text} is {why}, ignored")).ok()
}
