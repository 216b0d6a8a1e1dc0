//! What `pcp-pmda` promises, seen from outside.

mod agent_support;
mod direct;
mod local;
mod pmcd;
mod protocol;
