//! Reads again what may change while the agent runs.

use crate::config::Config;
use crate::state::State;

/// Reads the configuration again, where there is one, and the files with derived metrics. Limits and settings of
/// sources that were stored give way to configured ones. Tells the log what happened and whether all went well;
/// what cannot be read or is wrong changes nothing.
pub(crate) fn reload(state: &mut State) -> bool {
    if let Some(path) = state.config_file.clone() {
        match Config::load(&path) {
            Ok(config) => {
                state.configure(config);
                tracing::info!("{}: read again", path.display());
            }
            Err(error) => {
                error.messages().iter().for_each(|message| tracing::error!("{message}"));
                tracing::error!("{}: not read again, nothing has changed", path.display());
                return false;
            }
        }
    }
    state.derived.read()
}
