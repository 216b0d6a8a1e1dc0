//! What the thread tells about itself: read by the agent without locks.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pcp_model::Inst;

/// What is going on with a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// There is no file, or none that can be read.
    #[default]
    Waiting,
    /// Files are followed; everything was read, or will be at once.
    Following,
    /// The event loop has no room: reading waits for it.
    Held,
    /// The command runs.
    Running,
    /// The command has ended and will be started again.
    Restarting,
    /// The command has ended for good.
    Ended,
}

impl Phase {
    const ALL: [Phase; 6] =
        [Phase::Waiting, Phase::Following, Phase::Held, Phase::Running, Phase::Restarting, Phase::Ended];

    /// The word for metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Following => "following",
            Phase::Held => "held",
            Phase::Running => "running",
            Phase::Restarting => "restarting",
            Phase::Ended => "ended",
        }
    }
}

/// The account of one source.
#[derive(Debug, Default)]
pub struct SourceStats {
    inst: AtomicI32,
    phase: AtomicU8,
    /// Files open now.
    pub files: AtomicU32,
    /// Bytes in them that were not read yet.
    pub behind: AtomicU64,
    /// Lines with bytes that had to be replaced.
    pub repaired: AtomicU64,
    /// Starts of the command after its first.
    pub restarts: AtomicU64,
    /// The exit status of the command's newest run, negative for a signal; [`NO_STATUS`] before.
    status: AtomicI32,
}

/// No run has ended yet.
const NO_STATUS: i32 = i32::MIN;

impl SourceStats {
    /// What is going on.
    pub fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or_default()
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The exit status of the command's newest run, negative for a signal.
    pub fn status(&self) -> Option<i32> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != NO_STATUS)
    }

    pub(super) fn set_status(&self, status: i32) {
        self.status.store(status, Ordering::Relaxed);
    }
}

/// The thread's account. Sources are added and never removed.
#[derive(Debug)]
pub struct FollowStats {
    slots: Box<[SourceStats]>,
    used: AtomicUsize,
    /// Files that were replaced by others of their name.
    pub rotations: AtomicU64,
    /// Files that were cut short under the reader.
    pub truncations: AtomicU64,
    /// Files and directories that could not be read, commands that could not be started.
    pub errors: AtomicU64,
    /// Times the positions were written.
    pub saves: AtomicU64,
    /// Tables of files that have matched nothing yet.
    pub unmatched: AtomicU64,
}

impl FollowStats {
    /// Room for so many sources.
    pub fn new(sources: usize) -> FollowStats {
        FollowStats {
            slots: (0..sources).map(|_| SourceStats::default()).collect(),
            used: AtomicUsize::new(0),
            rotations: AtomicU64::new(0),
            truncations: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            unmatched: AtomicU64::new(0),
        }
    }

    /// Number of a source's account, for [`FollowStats::slot`]: its own, or a new one. Called by one thread only.
    pub(super) fn add(&self, source: Inst) -> usize {
        let used = self.used.load(Ordering::Relaxed);
        let known = self.slots[..used].iter().position(|slot| slot.inst.load(Ordering::Relaxed) == source);
        known.unwrap_or_else(|| {
            if let Some(slot) = self.slots.get(used) {
                slot.inst.store(source, Ordering::Relaxed);
                slot.status.store(NO_STATUS, Ordering::Relaxed);
                // After this the agent may look at it.
                self.used.store(used + 1, Ordering::Release);
            }
            used
        })
    }

    /// Nothing is read for a source any more.
    pub(super) fn ended(&self, number: usize) {
        let Some(slot) = self.slot(number) else { return };
        slot.files.store(0, Ordering::Relaxed);
        slot.behind.store(0, Ordering::Relaxed);
        slot.set_phase(Phase::Ended);
    }

    /// The account of this number. There are as many as sources may exist.
    pub(super) fn slot(&self, number: usize) -> Option<&SourceStats> {
        self.slots.get(number)
    }

    /// The account of a source, if it is one of files, commands or journals.
    pub fn of(&self, source: Inst) -> Option<&SourceStats> {
        let used = self.used.load(Ordering::Acquire).min(self.slots.len());
        self.slots[..used].iter().find(|slot| slot.inst.load(Ordering::Relaxed) == source)
    }

    pub(super) fn error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}
