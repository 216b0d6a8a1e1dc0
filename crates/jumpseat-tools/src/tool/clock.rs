//! The time zone in which a tool prints times.

use pcp_client::{ClientError, Context, ContextKind};
use pcp_model::time::Zone;

use super::common::{self, Common};
use super::out::{Out, put};

/// Times of day in a time zone.
pub(crate) struct Clock {
    /// The zone.
    pub zone: Zone,
}

impl Clock {
    /// In the zone of TZ, or else the system's.
    pub(crate) fn local() -> Clock {
        Clock { zone: Zone::local() }
    }

    /// In the zone that the command line asks for, which is told.
    ///
    /// # Errors
    /// Why the source does not tell its zone.
    pub(crate) fn reporting(
        common: &Common,
        context: &mut Context,
        out: &mut Out,
    ) -> Result<Clock, ClientError> {
        let zone = match &common.zone {
            None => return Ok(Clock::local()),
            Some(common::Zone::Named(text)) => {
                put!(out, "Note: timezone set to \"TZ={text}\"\n\n");
                Zone::new(text)
            }
            Some(common::Zone::Source) => {
                // Of a collector that may be half the world away, or of the host that was recorded.
                let text = context.time_zone()?;
                let host = context.host_name()?;
                let from = if context.kind() == ContextKind::Archive { " from archive" } else { "" };
                put!(out, "Note: timezone set to local timezone of host \"{host}\"{from}\n\n");
                Zone::new(&text)
            }
        };
        Ok(Clock { zone })
    }

    /// Seconds east of UTC at a time in seconds since the epoch; 0 for times outside of all calendars.
    pub(crate) fn utc_offset(&self, seconds: i64) -> i64 {
        self.zone.utc_offset(seconds)
    }
}
