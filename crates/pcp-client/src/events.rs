//! Event records with names: what is in the arrays of an event metric, as a program wants it.
//!
//! ```text
//! set of values := instance { array { record { time, flags, field { metric's name, value } } } }
//! ```
//!
//! Names of fields and instances are asked for once; a collector that gives an instance another name is asked again after
//! [`EventReader::new`]. An archive knows them by time, and is asked each time. Where records are counted and not looked at,
//! `pcp_event::ArrayReader` reads them in place; here each is a value of its own.

use std::collections::HashMap;
use std::sync::Arc;

use byteorder::BigEndian;

use super::context::Context;
use super::error::{ClientError, Result};
use super::provider::{ContextKind, Mode};
use pcp_event::{ArrayKind, ArrayReader, EventFlags};
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, PmError, Pmid, Timestamp, Value, ValueType};
use pcp_pdu::{Fetched, ValueRef};

/// An event record.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// When it happened.
    pub time: Timestamp,
    /// The name of the metric's instance, of jumpseat's metrics the source; `None` for a metric without instances.
    pub instance: Option<Arc<str>>,
    /// Whether it begins or ends something, and which identifiers it has.
    pub flags: EventFlags,
    /// If it stands for records that were lost here, how many.
    pub missed: Option<i32>,
    /// Its parameters, in their order.
    pub fields: Vec<EventField>,
}

/// A parameter of an event record.
#[derive(Clone, Debug, PartialEq)]
pub struct EventField {
    /// The name of the metric that describes it, or its identifier if it has no name.
    pub name: Arc<str>,
    /// Its value.
    pub value: Value,
}

impl EventRecord {
    /// The value of a field, by its name or by the end of its name behind a dot: `message` finds
    /// `jumpseat.field.message`. The first one, if there are several.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let is = |field: &&EventField| {
            let rest = field.name.strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.fields.iter().find(is).map(|field| &field.value)
    }
}

/// Reads the records of one event metric.
#[derive(Debug)]
pub struct EventReader {
    pmid: Pmid,
    kind: ArrayKind,
    indom: InDom,
    fields: HashMap<Pmid, Arc<str>>,
    instances: HashMap<Inst, Arc<str>>,
    fetched: Fetched,
}

impl EventReader {
    /// A reader for a metric of event records.
    ///
    /// # Errors
    /// Those of looking it up; `PM_ERR_TYPE` for a metric of another type.
    pub fn new(context: &mut Context, metric: &str) -> Result<EventReader> {
        let pmid = context.pmid(metric)?;
        let Desc { value_type, indom, .. } = context.desc(pmid)?;
        let kind = match value_type {
            ValueType::Event => ArrayKind::Event,
            ValueType::HighResEvent => ArrayKind::HighRes,
            _ => return Err(PmError::TYPE.into()),
        };
        let (fields, instances) = (HashMap::new(), HashMap::new());
        Ok(EventReader { pmid, kind, indom, fields, instances, fetched: Fetched::new() })
    }

    /// Fetches once: the records that have come since this context fetched last, instance by instance, those of each in
    /// their order. A metric that has no values now has no records.
    ///
    /// # Errors
    /// Those of the source as a whole, and the metric's own; arrays that are none.
    pub fn fetch(&mut self, context: &mut Context) -> Result<Vec<EventRecord>> {
        let mut fetched = std::mem::take(&mut self.fetched);
        let records = context.fetch(&[self.pmid], &mut fetched).and_then(|_| self.read(context, &fetched));
        self.fetched = fetched;
        records
    }

    /// The records in what was fetched by others.
    ///
    /// # Errors
    /// The metric's own; `PM_ERR_PMID` if it was not asked for; arrays that are none.
    pub fn read(&mut self, context: &mut Context, fetched: &Fetched) -> Result<Vec<EventRecord>> {
        let values = fetched.find(self.pmid).ok_or(PmError::PMID)?.values?;
        if context.kind() == ContextKind::Archive {
            self.instances.clear();
        }
        let mut records = Vec::new();
        for (inst, value) in values.iter() {
            let ValueRef::Block(array) = value else { return Err(PmError::CONV.into()) };
            let array = ArrayReader::<BigEndian>::new(self.kind, array).map_err(PmError::from)?;
            let instance = if array.is_empty() { None } else { self.instance(context, inst)? };
            for record in array.records() {
                let fields = record.params().map(|param| {
                    Ok(EventField { name: self.field(context, param.pmid)?, value: Value::from(param.value) })
                });
                records.push(EventRecord {
                    time: record.time,
                    instance: instance.clone(),
                    flags: record.flags,
                    missed: record.missed(),
                    fields: fields.collect::<Result<_>>()?,
                });
            }
        }
        Ok(records)
    }

    fn instance(&mut self, context: &mut Context, inst: Inst) -> Result<Option<Arc<str>>> {
        if inst == PM_IN_NULL {
            return Ok(None);
        }
        let name = match self.instances.get(&inst) {
            Some(name) => name,
            None => {
                let name = unless_unknown(context.instance_name(self.indom, inst))?;
                let name = name.unwrap_or_else(|| format!("inst [{inst}]"));
                self.instances.entry(inst).or_insert(name.into())
            }
        };
        Ok(Some(Arc::clone(name)))
    }

    fn field(&mut self, context: &mut Context, pmid: Pmid) -> Result<Arc<str>> {
        if let Some(name) = self.fields.get(&pmid) {
            return Ok(Arc::clone(name));
        }
        let names = unless_unknown(context.names_of(pmid))?;
        let name = names.and_then(|names| names.into_iter().next()).unwrap_or_else(|| pmid.to_string());
        Ok(Arc::clone(self.fields.entry(pmid).or_insert(name.into())))
    }
}

/// # Events
impl Context {
    /// All event records of a metric of an archive, from where the context is to the end (see [`Context::samples`]).
    ///
    /// An array that is none, or an error that was recorded in place of values, is told in its place; records behind it
    /// follow. What keeps the archive from being read on is the last item.
    ///
    /// ```no_run
    /// use pcp_client::Context;
    ///
    /// let mut context = Context::archive("today")?;
    /// for record in context.event_records("jumpseat.event.records")? {
    ///     let record = record?;
    ///     if let Some(message) = record.get("message") {
    ///         println!("{} {message}", record.time);
    ///     }
    /// }
    /// # Ok::<(), pcp_client::ClientError>(())
    /// ```
    ///
    /// # Errors
    /// As [`EventReader::new`]; `PM_ERR_NOTARCHIVE` of a source that lives, where [`EventReader::fetch`] gives what has come;
    /// `PM_ERR_MODE` while values are interpolated, as events have none in between.
    pub fn event_records(&mut self, metric: &str) -> Result<impl Iterator<Item = Result<EventRecord>>> {
        match self.mode().0 {
            Mode::Live => return Err(PmError::NOTARCHIVE.into()),
            Mode::Interpolate { .. } => return Err(PmError::MODE.into()),
            Mode::Forward | Mode::Backward => {}
        }
        let mut reader = EventReader::new(self, metric)?;
        let (mut fetched, mut over) = (Fetched::new(), false);
        let mut records = Vec::new().into_iter();
        let next = move || loop {
            if let Some(record) = records.next() {
                return Some(Ok(record));
            }
            if over {
                return None;
            }
            let read = match self.fetch_next(&[reader.pmid], &mut fetched) {
                Ok(true) => reader.read(self, &fetched),
                outcome => {
                    over = true;
                    return outcome.err().map(Err);
                }
            };
            match read {
                Ok(read) => records = read.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        };
        Ok(std::iter::from_fn(next).fuse())
    }
}

/// A name that the source does not know is none; that it cannot be asked is an error.
fn unless_unknown<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Pcp(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
