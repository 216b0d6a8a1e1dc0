//! Playing recorded metrics: where in the recording the screen is, and how it goes on.

use std::collections::HashMap;
use std::time::Duration;

use pcp_client::{ClientError, Context, Mode};
use pcp_model::time::{Reference, Switches, Zone, parse_window};
use pcp_model::{Inst, Timestamp};

use super::sample::{Id, Reading};

/// Samples that are taken before the place that is sought, to have a past to show.
const PAST: i128 = 120;
/// Intervals that the keys for larger steps go.
pub(crate) const FAR: i64 = 10;

/// A way through a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// So many intervals on, or back.
    By(i64),
    Start,
    End,
}

/// How the user has it played, for the title and the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Playing {
    /// Whether it goes on by itself.
    pub on: bool,
    /// Whether there is nothing more.
    pub ended: bool,
    /// How many times as fast as it was, as a power of two.
    pub speed: i32,
}

impl Playing {
    /// The fastest, and the slowest.
    const LIMIT: i32 = 10;

    /// On, as fast as it was.
    pub(crate) fn new() -> Playing {
        Playing { on: true, ended: false, speed: 0 }
    }

    /// Twice or half as fast.
    pub(crate) fn faster(&mut self, by: i32) {
        self.speed = (self.speed + by).clamp(-Playing::LIMIT, Playing::LIMIT);
    }

    /// How long an interval of the recording takes now.
    pub(crate) fn pace(&self, interval: Duration) -> Duration {
        match u32::try_from(self.speed) {
            // Bounded by the limit of the speed.
            Ok(times) => interval / (1 << times),
            Err(_) => interval.saturating_mul(1 << self.speed.unsigned_abs()),
        }
    }

    /// For the title.
    pub(crate) fn text(&self) -> String {
        let speed = match u32::try_from(self.speed) {
            Ok(times) => format!("{}x", 1 << times),
            Err(_) => format!("1/{}x", 1 << self.speed.unsigned_abs()),
        };
        match (self.ended, self.on) {
            (true, _) => "end".to_owned(),
            (_, true) => format!("play {speed}"),
            (_, false) => "paused".to_owned(),
        }
    }
}

/// A recording, and the place in it.
pub(crate) struct Tape {
    start: Timestamp,
    end: Timestamp,
    interval: Duration,
    /// The newest record shown of each instance: what is interpolated between two records has those of the earlier
    /// again and again.
    newest: HashMap<(Id, Inst), Timestamp>,
}

impl Tape {
    /// The part of an archive that the switches select. The context is set to its start.
    ///
    /// # Errors
    /// What is wrong with the archive, or with a switch.
    pub(crate) fn new(
        context: &mut Context,
        switches: &Switches<'_>,
        zone: &Zone,
        interval: Duration,
        now: Timestamp,
    ) -> Result<Tape, String> {
        let (start, end) = context.span().map_err(|error| error.to_string())?;
        let window = parse_window(switches, &Reference { start, end, now }, zone)
            .map_err(|error| format!("invalid time window.\n{error}"))?;
        let mut tape = Tape { start: window.origin, end: window.end, interval, newest: HashMap::new() };
        tape.go(context, window.origin).map_err(|error| error.to_string())?;
        Ok(tape)
    }

    /// Whether the next sample is behind the end.
    pub(crate) fn is_over(&self, context: &Context) -> bool {
        let (_, next) = context.mode();
        next > self.end
    }

    /// Samples are that far apart from now on.
    pub(crate) fn set_interval(
        &mut self,
        context: &mut Context,
        interval: Duration,
    ) -> Result<(), ClientError> {
        let (_, next) = context.mode();
        self.interval = interval;
        self.go(context, next)
    }

    /// Goes to another place. What is to be shown is the samples from now on up to the time that is returned.
    pub(crate) fn seek(
        &mut self,
        context: &mut Context,
        seek: Seek,
        shown: Timestamp,
    ) -> Result<Timestamp, ClientError> {
        let step = self.interval.as_nanos().max(1) as i128;
        let (start, end) = (self.start.as_nanos(), self.end.as_nanos());
        // Steps are where they would be had it been played from the start: seeking does not shift them.
        let grid = |time: i128| start + (time - start).max(0) / step * step;
        let target = match seek {
            Seek::By(steps) => shown.as_nanos() + i128::from(steps) * step,
            Seek::Start => start,
            Seek::End => grid(end),
        };
        let target = target.min(grid(end)).max(start);
        // On the grid of the target, and not before the start.
        let from = (target - PAST * step).max(start + (target - start) % step);
        self.newest.clear();
        self.go(context, Timestamp::from_nanos(from))?;
        Ok(Timestamp::from_nanos(target))
    }

    /// Leaves out records that have been shown.
    pub(crate) fn without_shown(&mut self, id: Id, reading: &mut Reading) {
        let Reading::Events(items) = reading else { return };
        for item in items {
            let Some(time) = item.value.newest.iter().map(|record| record.time).max() else { continue };
            let known = self.newest.entry((id, item.inst)).or_default();
            // An interpolated sample repeats the records of the one before.
            if time <= *known {
                item.value = Default::default();
            } else {
                *known = time;
            }
        }
    }

    fn go(&mut self, context: &mut Context, to: Timestamp) -> Result<(), ClientError> {
        let step = i64::try_from(self.interval.as_nanos()).unwrap_or(i64::MAX);
        context.set_mode(Mode::Interpolate { step }, Some(to))
    }
}
