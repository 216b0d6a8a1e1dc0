//! What is kept of objectives over restarts, as text: a line that says what it is, and a line of JSON for each objective, so that
//! a line that is damaged costs one objective.
//!
//! ```text
//! {"jumpseat_objectives":1}
//! {"name":"checkout","spans":"shop/*","threshold":300000000,"window":2592000000000000,
//!  "known":[[FROM,TO],...],"minutes":[[SLOT,GOOD,TOTAL],...],"slots":[[SLOT,GOOD,TOTAL],...]}
//! ```
//!
//! Times are nanoseconds since the epoch; a slot is its number since then. Empty slots are left out. What does not fit an objective any
//! more, as its table says something else, or its time is over, or to come, is not taken.

use serde::{Deserialize, Serialize};

use crate::config::{MAX_OBJECTIVES, ObjectiveConfig};
use crate::state::spans::times::nanos;

/// What the first line has to be.
const VERSION: u32 = 1;
/// Longer than any real file.
pub(super) const MAX_FILE: u64 = 16 << 20;

#[derive(Serialize, Deserialize)]
struct Head {
    jumpseat_objectives: u32,
}

/// A slot's number, its good spans, and all.
pub(super) type KeptSlot = (u64, u64, u64);

/// One objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub name: String,
    pub spans: String,
    pub threshold: Option<u64>,
    pub window: u64,
    pub known: Vec<(u64, u64)>,
    pub minutes: Vec<KeptSlot>,
    pub slots: Vec<KeptSlot>,
}

impl Kept {
    /// Whether it is of an objective that counts the same spans by the same rule. What part of them is to be good does not matter.
    pub(super) fn is_of(&self, config: &ObjectiveConfig) -> bool {
        self.name == config.name
            && self.spans == config.spans.0
            && self.threshold == config.threshold.map(|most| nanos(most.0))
            && self.window == nanos(config.window.0)
    }
}

/// The text of a file.
pub(super) fn write(all: &[Kept]) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Head { jumpseat_objectives: VERSION })?;
    for kept in all {
        text.push(b'\n');
        serde_json::to_writer(&mut text, kept)?;
    }
    text.push(b'\n');
    Ok(text)
}

/// What a file has, and how many of its lines are no objectives.
///
/// # Errors
/// In words: it is no such file.
pub(super) fn read(text: &[u8]) -> Result<(Vec<Kept>, usize), String> {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let head: Head = serde_json::from_slice(lines.next().unwrap_or_default())
        .map_err(|error| format!("line 1 does not say that it is one: {error}"))?;
    if head.jumpseat_objectives != VERSION {
        return Err(format!("it has version {}, and this agent knows {VERSION}", head.jumpseat_objectives));
    }
    let (mut all, mut damaged) = (Vec::new(), 0);
    for line in lines.take(MAX_OBJECTIVES) {
        match serde_json::from_slice(line) {
            Ok(kept) => all.push(kept),
            Err(_) => damaged += 1,
        }
    }
    Ok((all, damaged))
}
