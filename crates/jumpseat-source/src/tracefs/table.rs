//! The events a source takes, by the number their records begin with.

use super::comm::{self, Role};
use super::config::{EventSpec, KernelConfig, ProbeSpec};
use super::format::Format;
use super::instance::Instance;
use super::plan::Plan;
use super::read_file;
use super::select::{folders, select};
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

/// What became of the configuration.
#[derive(Debug, Default)]
pub struct Enabled {
    /// Events enabled.
    pub enabled: u32,
    /// What could not be enabled, each with its reason.
    pub refused: Vec<String>,
}

impl Table {
    /// Enables what the configuration says.
    pub fn enable(config: &KernelConfig, instance: &Instance) -> (Table, Enabled) {
        let mut table = Table { spans: config.spans, comm: config.comm, ..Table::default() };
        let mut outcome = Enabled::default();
        // Written by the kernel of its own accord: markers.
        for event in ["print", "raw_data"] {
            if let Ok(format) = read_format(instance, "ftrace", event, "ftrace") {
                table.add(format, true);
            }
        }
        for text in &config.events {
            // Checked with the configuration.
            let Ok(spec) = EventSpec::parse(text) else { continue };
            match select(&instance.path("events"), &spec) {
                Ok(names) => {
                    for (system, event) in names {
                        let filter = spec.filter.as_deref();
                        table.enable_event(instance, &system, &event, &system, filter, &mut outcome);
                    }
                }
                Err(reason) => outcome.refused.push(reason),
            }
        }
        for text in &config.probes {
            // Checked with the configuration, too.
            let Ok(probe) = ProbeSpec::parse(text) else { continue };
            match instance.define(&probe) {
                Ok(group) => {
                    // Named as the kernel names the probes of those who give no group: the same at each start.
                    let shown = if probe.user { "uprobes" } else { "kprobes" };
                    let filter = probe.filter.as_deref();
                    table.enable_event(instance, group, &probe.name, shown, filter, &mut outcome);
                }
                Err(reason) => outcome.refused.push(format!("probe {}: {reason}", probe.name)),
            }
        }
        if config.comm {
            table.enable_names(instance);
        }
        (table, outcome)
    }

    fn enable_event(
        &mut self,
        instance: &Instance,
        system: &str,
        event: &str,
        shown: &str,
        filter: Option<&str>,
        outcome: &mut Enabled,
    ) {
        let enable = || {
            let format = read_format(instance, system, event, shown)?;
            let file = |name: &str| format!("events/{system}/{event}/{name}");
            // "0" takes away the filter of a pattern that stands before.
            let filter = filter.unwrap_or("0");
            if filter != "0" || self.knows(format.id) {
                instance
                    .set(&file("filter"), filter)
                    .map_err(|reason| format!("filter {filter:?}: {reason}"))?;
            }
            instance.set(&file("enable"), "1")?;
            Ok::<_, String>(format)
        };
        match enable() {
            Ok(format) => {
                outcome.enabled += u32::from(!self.knows(format.id));
                self.add(format, true);
            }
            Err(reason) => outcome.refused.push(format!("{shown}:{event}: {reason}")),
        }
    }

    /// Enables what tells names of threads, for us alone where it is not configured.
    fn enable_names(&mut self, instance: &Instance) {
        for (system, event) in comm::EVENTS {
            let Ok(format) = read_format(instance, system, event, system) else { continue };
            if let Some(slot) = self.find(format.id) {
                // With a filter it does not tell all; then names may be old, as they are for the kernel itself.
                let role = Role::of(&slot.format);
                slot.role = role;
            } else if instance.set(&format!("events/{system}/{event}/enable"), "1").is_ok() {
                self.add(format, false);
            }
        }
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

    fn knows(&self, id: u16) -> bool {
        self.by_id.get(usize::from(id)).is_some_and(|slot| *slot != u16::MAX)
    }

    /// The event of a number.
    #[inline]
    pub fn find(&mut self, id: u16) -> Option<&mut Slot> {
        let slot = *self.by_id.get(usize::from(id))?;
        self.slots.get_mut(usize::from(slot))
    }

    /// Looks for the event of a number that nobody enabled here: another program uses our instance, or the kernel
    /// wrote something of its own.
    #[cold]
    pub fn search(&mut self, instance: &Instance, id: u16) -> Option<&mut Slot> {
        if self.searched.contains(&id) || self.searched.len() >= MAX_SEARCHES {
            return None;
        }
        self.searched.push(id);
        let wanted = id.to_string();
        let events = instance.path("events");
        for system in folders(&events) {
            for event in folders(&events.join(&system)) {
                let number = read_file(&events.join(&system).join(&event).join("id"));
                if number.is_ok_and(|number| number.trim() == wanted)
                    && let Ok(format) = read_format(instance, &system, &event, &system)
                {
                    self.add(format, true);
                    return self.find(id);
                }
            }
        }
        None
    }
}

fn read_format(instance: &Instance, system: &str, event: &str, shown: &str) -> Result<Format, String> {
    let path = instance.path(&format!("events/{system}/{event}/format"));
    let text = read_file(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Format::parse(shown, &text).map_err(|reason| format!("{}: {reason}", path.display()))
}
