//! A PMDA with instances that come and go, labels, stores and event records: the doors of a building.
//!
//! Under pmcd: a line `doors 452 pipe binary /path/to/pmda -d 452` in pmcd.conf, and the names below in the name
//! space. Then, for example:
//!
//! ```text
//! pmstore doors.control.open cellar       a new door, opened once
//! pmstore -i cellar doors.locked 1
//! pmstore doors.control.open cellar       is refused now
//! pminfo -f doors
//! pmevent doors.event.records             each client sees each record once
//! ```

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::SystemTime;

use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::event::{ArrayKind, Batch, CursorId, EventFlags, Param};
use jumpseat::model::{Inst, PM_IN_NULL, PmError, Pmid, Timestamp, Units, Value, ValueType};
use jumpseat::pmda::{
    Agent, BuildError, Call, ClientId, Core, Indom, Instances, LabelList, LabelSubject, Metric, SetWriter,
    daemon,
};

const PMNS: &str = "
doors {
    opened      DOORS:0:0
    locked      DOORS:0:1
    control
    event
}
doors.control { open DOORS:1:0 }
doors.event {
    records     DOORS:2:0
    door        DOORS:2:1
    action      DOORS:2:2
    missed      DOORS:2:3
}
";

const HELP: &str = "\
@ doors.opened How often a door was opened
Since the agent was started.
@ doors.locked Whether a door is locked
Can be stored: 1 locks it, 0 unlocks it.
@ doors.control.open Opens the door of this name
A name that is new is a new door. The value is the door that was opened last.
@ doors.event.records What happened to the doors
Each record has the door and what was done to it.
@ doors.event.door The door of a record
Its name, as an instance of doors.opened.
@ doors.event.action What was done to it
One of opened, locked, unlocked and refused.
@ doors.event.missed How many records were lost at this place
For a client that came too late for them.
@ DOORS.0 Doors
All that were ever opened.
";

/// The instance domain, and what is in a record.
const DOORS: u32 = 0;
const RECORDS: u16 = 2;

#[derive(Default)]
struct Door {
    opened: u64,
    locked: bool,
}

struct State {
    names: Instances,
    doors: HashMap<Inst, Door>,
    last: String,
    domain: u16,
    /// What happened, kept in a bounded amount of memory, and where each client is in it.
    log: EventLog,
    cursors: HashMap<ClientId, CursorId>,
}

fn main() -> ExitCode {
    daemon::run("pmdadoors", 452, |options| Ok(agent(options.domain)?))
}

fn agent(domain: u16) -> Result<Core<State>, BuildError> {
    Agent::new("doors", domain, State::new(domain))
        .pmns("pmns", PMNS)
        .help("help", HELP)
        .indom(Indom::of(DOORS, |state: &State| &state.names))
        .metric(
            Metric::new("doors.opened", ValueType::U64)
                .counter()
                .units(Units::COUNT)
                .indom(DOORS)
                .each(|state: &mut State, _, door| Ok(state.doors.get(&door).map(|door| door.opened.into()))),
        )
        .metric(
            Metric::new("doors.locked", ValueType::U32)
                .discrete()
                .indom(DOORS)
                .each(|state: &mut State, _, door| {
                    Ok(state.doors.get(&door).map(|door| u32::from(door.locked).into()))
                })
                .store(|state, _, door, value| state.lock(door, value)),
        )
        .metric(
            Metric::new("doors.control.open", ValueType::String)
                .discrete()
                .value(|state: &mut State| state.last.clone())
                .store(|state, _, _, value| state.open(value)),
        )
        .metric(Metric::new("doors.event.records", ValueType::Event).set(read))
        // These only describe the parameters of records; asked for by themselves they have no value.
        .metric(Metric::new("doors.event.door", ValueType::String).discrete())
        .metric(Metric::new("doors.event.action", ValueType::String).discrete())
        .metric(Metric::new("doors.event.missed", ValueType::U64))
        .labels(labels)
        .on_client_end(|state, client| {
            if let Some(cursor) = state.cursors.remove(&client) {
                state.log.leave(cursor);
            }
        })
        .build()
}

impl State {
    fn new(domain: u16) -> State {
        let missed_pmid = Pmid::new(domain, RECORDS, 3);
        State {
            names: Instances::in_memory(),
            doors: HashMap::new(),
            last: String::new(),
            domain,
            log: EventLog::new(LogConfig { budget: 1 << 20, recent: 0, missed_pmid }),
            cursors: HashMap::new(),
        }
    }

    fn open(&mut self, name: &Value) -> Result<(), PmError> {
        let name = name.to_string();
        let inst = self.names.add(&name).map_err(|_| PmError::BADSTORE)?;
        let door = self.doors.entry(inst).or_default();
        if door.locked {
            self.note(&name, "refused");
            return Err(PmError::PERMISSION);
        }
        door.opened += 1;
        self.note(&name, "opened");
        self.last = name;
        Ok(())
    }

    fn lock(&mut self, inst: Inst, value: &Value) -> Result<(), PmError> {
        let locked = match value {
            Value::U32(0) => false,
            Value::U32(1) => true,
            _ => return Err(PmError::BADSTORE),
        };
        self.doors.get_mut(&inst).ok_or(PmError::INST)?.locked = locked;
        let name = self.names.name(inst).unwrap_or_default().to_owned();
        self.note(&name, if locked { "locked" } else { "unlocked" });
        Ok(())
    }

    /// Writes a record.
    fn note(&mut self, door: &str, action: &str) {
        let mut batch = Batch::with_capacity(128);
        let mut record = batch.record(Timestamp::from(SystemTime::now()), EventFlags::POINT);
        record.param(Pmid::new(self.domain, RECORDS, 1), Param::String(door.as_bytes()));
        record.param(Pmid::new(self.domain, RECORDS, 2), Param::String(action.as_bytes()));
        // A record that is too long is none: the batch is empty then.
        let _ = record.commit();
        self.log.append(batch);
    }
}

/// What this client has not seen yet. Its first fetch only takes a place.
fn read(state: &mut State, call: &Call<'_>, values: &mut SetWriter<'_>) -> Result<(), PmError> {
    let State { log, cursors, .. } = state;
    let cursor = *cursors.entry(call.client).or_insert_with(|| log.join());
    let room = values.room();
    values.events(PM_IN_NULL, |out| {
        log.read(cursor, ArrayKind::Event, out, room).is_some_and(|read| read.records > 0)
    })?;
    Ok(())
}

fn labels(state: &State, subject: LabelSubject, labels: &mut LabelList) -> Result<(), PmError> {
    match subject {
        LabelSubject::Domain => labels.add("agent", "doors")?,
        LabelSubject::Instance(_, inst) => {
            labels.add("door", state.names.name(inst).unwrap_or_default())?;
        }
        _ => {}
    }
    Ok(())
}
