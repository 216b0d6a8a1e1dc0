//! What `pcp-pdu` promises, seen from outside.

mod captures;
mod hostile;
mod oracle;
