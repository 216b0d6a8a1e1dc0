//! Value sets as readings: with the names of instances and event parameters, looked up once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use byteorder::BigEndian;
use jumpseat_tools::param_text;
use pcp_client::Context;
use pcp_event::ArrayKind;
use pcp_event::pack::{put_param, put_record};
use pcp_event::reader::{ArrayReader, Record};
use pcp_model::{Desc, InDom, Inst, PmError, Pmid, PrintOptions, Value, ValueType};
use pcp_pdu::{SetRef, ValueRef};

use super::events::KEPT;
use super::sample::{Batch, EventRecord, Item, Reading};

/// Characters of a value that are kept.
const MAX_TEXT: usize = 512;

/// Below which jumpseat's fields are.
const FIELDS: &str = "jumpseat.field.";

/// Names known so far.
#[derive(Default)]
pub(crate) struct Reader {
    instances: HashMap<InDom, HashMap<Inst, Arc<str>>>,
    params: HashMap<Pmid, Arc<str>>,
}

impl Reader {
    /// What the values of a metric are.
    pub(crate) fn read(&mut self, context: &mut Context, desc: &Desc, set: SetRef<'_>) -> Reading {
        let values = match set.values {
            Ok(values) => values,
            Err(error) => return Reading::Failed(error.to_string()),
        };
        // Asked again only if there is an instance without a name: names do not change.
        let new = match self.instances.get(&desc.indom) {
            Some(known) => values.iter().any(|(inst, _)| !known.contains_key(&inst)),
            None => true,
        };
        if desc.indom != InDom::NULL && new {
            self.refresh(context, desc.indom);
        }
        let mut items = Vec::with_capacity(values.len());
        for (inst, value) in values.iter() {
            items.push(Item { inst, name: self.instance(desc.indom, inst), value });
        }
        let reading = match desc.value_type {
            ValueType::Event => self.events(context, ArrayKind::Event, desc.indom, items),
            ValueType::HighResEvent => self.events(context, ArrayKind::HighRes, desc.indom, items),
            numeric if numeric.is_numeric() => {
                convert(items, |value| number(value, numeric)).map(Reading::Numbers)
            }
            other => convert(items, |value| text(value, other)).map(Reading::Texts),
        };
        reading.unwrap_or_else(|error| Reading::Failed(error.to_string()))
    }

    fn instance(&mut self, indom: InDom, inst: Inst) -> Arc<str> {
        if indom == InDom::NULL {
            return Arc::default();
        }
        let names = self.instances.entry(indom).or_default();
        // Named by its number if the collector does not know it (any more): it is not asked again.
        names.entry(inst).or_insert_with(|| format!("[{inst}]").into()).clone()
    }

    fn refresh(&mut self, context: &mut Context, indom: InDom) {
        let instances = context.instances(indom).unwrap_or_default();
        let named = instances.into_iter().map(|instance| (instance.id, instance.name.into()));
        self.instances.insert(indom, named.collect());
    }

    fn events(
        &mut self,
        context: &mut Context,
        kind: ArrayKind,
        indom: InDom,
        items: Vec<Item<ValueRef<'_>>>,
    ) -> Result<Reading, PmError> {
        let batch = |value: ValueRef<'_>| {
            let (Value::Event(bytes) | Value::HighResEvent(bytes)) = value.to_value(kind.value_type())?
            else {
                return Err(PmError::CONV);
            };
            let array = ArrayReader::<BigEndian>::new(kind, &bytes).map_err(|error| error.code())?;
            let mut batch = Batch::default();
            for record in array.records() {
                match record.missed() {
                    Some(count) => batch.missed += u64::from(count.max(0).unsigned_abs()),
                    None => batch.records += 1,
                }
            }
            // Counted all, read the newest only: a burst of a million must not become a million texts.
            let old = array.len().saturating_sub(KEPT);
            batch.newest = array.records().skip(old).map(|record| self.record(context, &record)).collect();
            Ok(batch)
        };
        let mut batches = convert(items, batch)?;
        // Agents need not give a value for an instance without records.
        let came: HashSet<Inst> = batches.iter().map(|item| item.inst).collect();
        let idle = self.instances.get(&indom).into_iter().flatten().filter(|(inst, _)| !came.contains(inst));
        batches.extend(idle.map(|(&inst, name)| Item { inst, name: name.clone(), value: Batch::default() }));
        Ok(Reading::Events(batches))
    }

    fn record(&mut self, context: &mut Context, record: &Record<'_, BigEndian>) -> EventRecord {
        let missed = record.missed();
        let (mut params, mut values) = (Vec::new(), Vec::new());
        for (at, param) in (0..).zip(record.params().filter(|_| missed.is_none())) {
            params.push((self.param(context, param.pmid), param_text(param.value, shorten)));
            put_param::<BigEndian>(&mut values, Pmid(at), &param.value);
        }
        let mut packed = Vec::with_capacity(values.len() + 24);
        let count = i32::try_from(params.len()).unwrap_or(i32::MAX);
        put_record::<BigEndian>(&mut packed, ArrayKind::HighRes, record.time, record.flags, count);
        packed.extend_from_slice(&values);
        EventRecord { time: record.time, flags: record.flags, missed, params, packed: packed.into() }
    }

    fn param(&mut self, context: &mut Context, pmid: Pmid) -> Arc<str> {
        let look_up = || {
            let names = context.names_of(pmid).unwrap_or_default();
            let name = names.first().and_then(|name| match name.strip_prefix(FIELDS) {
                // As filters call it: a field of jumpseat's may have points in its name.
                Some(field) => Some(field),
                None => name.rsplit('.').next(),
            });
            name.map_or_else(|| pmid.to_string().into(), Arc::from)
        };
        self.params.entry(pmid).or_insert_with(look_up).clone()
    }
}

fn convert<'a, T>(
    items: Vec<Item<ValueRef<'a>>>,
    mut value: impl FnMut(ValueRef<'a>) -> Result<T, PmError>,
) -> Result<Vec<Item<T>>, PmError> {
    let item = |Item { inst, name, value: raw }| Ok(Item { inst, name, value: value(raw)? });
    items.into_iter().map(item).collect()
}

fn number(value: ValueRef<'_>, value_type: ValueType) -> Result<f64, PmError> {
    match value.to_value(value_type)?.convert(ValueType::Double)? {
        Value::Double(number) => Ok(number),
        _ => Err(PmError::CONV),
    }
}

fn text(value: ValueRef<'_>, value_type: ValueType) -> Result<String, PmError> {
    let mut bytes = Vec::new();
    value.to_value(value_type)?.print(PrintOptions::default(), &mut bytes);
    Ok(shorten(&bytes))
}

/// Text that a line of the screen can show.
fn shorten(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
