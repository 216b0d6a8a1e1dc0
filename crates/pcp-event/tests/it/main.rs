//! What `pcp-event` promises, seen from outside.

mod log;
mod oracle;
mod reader;
