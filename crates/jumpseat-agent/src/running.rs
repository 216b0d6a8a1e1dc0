//! What an agent that runs has read, in a file of its state directory: so that `jumpseat config check` can tell what a reload
//! would change.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use pcp_files::Replacement;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::reach::Reach;

/// Longer than any real one.
const MAX_FILE: u64 = 16 << 20;

/// What a running agent has read, and what it may still do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    /// Its process.
    pub(crate) pid: u32,
    /// The configuration file.
    pub(crate) path: PathBuf,
    /// What was in it at the start.
    pub(crate) started: Map<String, Value>,
    /// What was in it at the last reload.
    pub(crate) current: Map<String, Value>,
    /// What a reload may still reach.
    pub(crate) reach: Reach,
}

/// A configuration as data, every key with its value.
pub(crate) fn tables(config: &Config) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(tables)) => tables,
        // All of it came out of text.
        _ => Map::new(),
    }
}

/// Where it is.
fn file(state_dir: &Path, domain: u16) -> PathBuf {
    state_dir.join(format!("jumpseat-{domain}-running.json"))
}

impl Running {
    /// Leaves it in the state directory, at the start and whenever something else was read. That it cannot be is nothing that the agent
    /// needs to know.
    pub(crate) fn write(&self, state_dir: &Path, domain: u16, is_start: bool) {
        let path = file(state_dir, domain);
        // Not synced: it is worth nothing to anybody when the agent has ended.
        let write = || -> Result<(), Box<dyn Error>> {
            let text = serde_json::to_vec(self)?;
            let mut file = Replacement::begin(&path)?;
            file.file().write_all(&text)?;
            // The agent whose it was has ended.
            if is_start {
                file.drop_old();
            }
            file.finish_unsynced()?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!("what was read is not noted for `jumpseat config check`: {error}");
        }
    }

    /// What the agent of a state directory has left there, if it runs.
    pub(crate) fn read(state_dir: &Path, domain: u16) -> Option<Running> {
        let mut text = String::new();
        pcp_files::read(&file(state_dir, domain)).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
        let running: Running = serde_json::from_str(&text).ok()?;
        let name = std::fs::read_to_string(format!("/proc/{}/comm", running.pid)).ok()?;
        name.contains("jumpseat").then_some(running)
    }
}
