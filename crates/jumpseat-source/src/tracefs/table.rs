//! The events a source takes, by the number their records begin with.

use super::comm::Role;
use super::config::KernelConfig;
use super::format::Format;
use super::plan::Plan;
use super::setup::EventText;
use pcp_event::EventFlags;

/// Most numbers that are looked for after the start.
const MAX_SEARCHES: usize = 64;

/// One event.
#[derive(Debug)]
pub struct Slot {
    /// How its records look.
    pub format: Format,
    /// Its records go to clients.
    pub shown: bool,
    /// It tells names of threads.
    pub role: Option<Role>,
    /// It begins or ends a system call's span.
    pub phase: Option<EventFlags>,
    /// Made when it comes first.
    pub plan: Option<Plan>,
}

/// All events.
#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Slot>,
    /// Index into `slots`, by number; none is `u16::MAX`.
    by_id: Vec<u16>,
    searched: Vec<u16>,
    spans: bool,
    comm: bool,
}

impl Table {
    /// The events of an instance, as a configuration wants them.
    pub(crate) fn new(config: &KernelConfig, events: &[EventText]) -> Table {
        let mut table = Table { spans: config.spans, comm: config.comm, ..Table::default() };
        for event in events {
            table.take(event);
        }
        table
    }

    /// Takes an event in. Its text has been read once before: one that makes no sense is not among them.
    fn take(&mut self, event: &EventText) -> Option<u16> {
        let format = Format::parse(&event.system, &event.format).ok()?;
        let id = format.id;
        self.add(format, event.shown);
        Some(id)
    }

    fn add(&mut self, format: Format, shown: bool) {
        let id = usize::from(format.id);
        let role = if self.comm { Role::of(&format) } else { None };
        let phase = self.phase(&format.name);
        let slot = Slot { format, shown, role, phase, plan: None };
        if let Some(known) = self.find(id as u16) {
            *known = slot;
            return;
        }
        if self.by_id.len() <= id {
            // Numbers are small and dense: a vector is a look-up without a hash for each event.
            self.by_id.resize(id + 1, u16::MAX);
        }
        // Numbers have 16 bits, and the largest is never given out: there are fewer slots.
        self.by_id[id] = self.slots.len() as u16;
        self.slots.push(slot);
    }

    fn phase(&self, name: &str) -> Option<EventFlags> {
        let call = name.strip_prefix("syscalls:sys_").filter(|_| self.spans)?;
        match call.split_once('_')?.0 {
            "enter" => Some(EventFlags::START),
            "exit" => Some(EventFlags::END),
            _ => None,
        }
    }

    /// The event of a number.
    #[inline]
    pub fn find(&mut self, id: u16) -> Option<&mut Slot> {
        let slot = *self.by_id.get(usize::from(id))?;
        self.slots.get_mut(usize::from(slot))
    }

    /// Has the event of a number looked for that nobody enabled here.
    #[cold]
    pub(crate) fn search(
        &mut self,
        id: u16,
        look: impl FnOnce(u16) -> Option<EventText>,
    ) -> Option<&mut Slot> {
        if self.searched.contains(&id) || self.searched.len() >= MAX_SEARCHES {
            return None;
        }
        self.searched.push(id);
        let found = self.take(&look(id)?)?;
        self.find(found)
    }
}
