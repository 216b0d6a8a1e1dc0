//! Event records of hosts and archives.

use std::io;
use std::sync::Arc;

use super::library::Library;
use super::sources::Sources;

/// Event records.
#[derive(Debug)]
pub(super) struct Records;

impl Records {
    pub(super) fn start(_sources: Arc<Sources>, _library: Arc<Library>) -> io::Result<Records> {
        Ok(Records)
    }
}
