//! The logs on disk: opened at the start, with the threads that wait for the disk.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jumpseat_log::{LogDir, LogError};
use jumpseat_source::Registry;
use pcp_files::Directory;
use pcp_net::Worker;

use crate::config::{Config, Syncing};
use crate::state::contexts::{Contexts, Place};

/// Opens the logs, if the configuration says so, and has the registry's sources kept there. Without a directory that can be
/// written records are kept in memory, and the agent's log says so.
///
/// # Errors
/// Another process uses the directory.
pub(crate) fn open(
    config: &Config,
    domain: u16,
    state_dir: Option<&Path>,
    registry: &Registry,
) -> Result<(), LogError> {
    let Some(dir) = config.log.dir(state_dir, domain) else { return Ok(()) };
    match LogDir::open(&dir, domain, config.log.limits(config.events.max_sources)) {
        Ok(logs) => registry.keep_in(Arc::new(logs)),
        Err(error) if error.is_in_use() => return Err(error),
        Err(error) => {
            tracing::error!("records are kept in memory only, and end with the agent: {error}");
        }
    }
    Ok(())
}

/// Where pmcd's clients are kept: nowhere, if their records end with the agent.
pub(crate) fn contexts(
    config: &Config,
    domain: u16,
    state_dir: Option<&Path>,
    registry: &Registry,
) -> Contexts {
    let (Some(dir), Some(log)) = (config.log.contexts(), config.log.dir(state_dir, domain)) else {
        return Contexts::default();
    };
    if registry.logs().is_none() {
        return Contexts::default();
    }
    // Nobody else has this log, and so nobody has this file.
    let log = crc32fast::hash(log.as_os_str().as_encoded_bytes());
    let name = format!("jumpseat.{domain}.{log:08x}.contexts");
    match Directory::existing(&dir) {
        Ok(disk) => Contexts::at(Place { path: dir.join(&name), disk: Box::new(disk), name }),
        Err(error) => {
            tracing::info!("{}: {error}: what pmcd's clients have here ends with the agent", dir.display());
            Contexts::default()
        }
    }
}

/// Starts the threads that wait for the disk. They end when what is returned is dropped.
///
/// # Errors
/// The system has no thread.
pub(crate) fn threads(config: &Config, registry: &Registry) -> io::Result<Vec<Worker>> {
    let Some(logs) = registry.logs() else { return Ok(Vec::new()) };
    let mut threads = vec![logs.fetch_thread()?];
    if config.log.sync == Syncing::Interval {
        threads.push(logs.sync_thread(config.log.sync_interval.0)?);
    }
    Ok(threads)
}
