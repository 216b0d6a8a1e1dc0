//! Arrays of event records, of a collector or an archive, as [`Record`]s.
//!
//! What a field and a source are called is asked for once; sources of an archive, whose names may change with time, each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byteorder::NetworkEndian;
use pcp_client::{ClientError, Context, ContextKind, LabelTarget, ValuesRef};
use pcp_event::{ArrayKind, ArrayReader};
use pcp_model::{Desc, InDom, Inst, Label, PM_IN_NULL, Pmid, Timestamp, Value, ValueType};
use pcp_pdu::TypedRef;
use serde_json::Value as Json;

use super::record::{Field, Origin, Record, name};

/// Most names that are remembered; then they are asked for anew.
const MAX_NAMES: usize = 1 << 16;
/// Most metrics of event records of a host or an archive.
const MAX_METRICS: usize = 64;
/// Names that are asked about at a time.
const BATCH: usize = 4096;
/// The same records to the nanosecond and to the microsecond: where there are the ones, the others are left out.
const HIGHRES: &str = "jumpseat.event.highres_records";
const RECORDS: &str = "jumpseat.event.records";
/// The last records, which every fetch gives anew.
const RECENT: &str = "jumpseat.event.recent";
/// What names of fields of jumpseat begin with.
const FIELDS: &str = "jumpseat.field.";
/// The label of a field with the name that its sender gave it.
const FIELD: &str = "field";
/// The label of a source with the resource that sends to it (docs/otel-out.md).
const RESOURCE: &str = "otel_resource";
const SERVICE: &str = "service.name";

/// Names of fields that were learnt from a host or an archive, for archives that do not have them: pmlogger records those of fields only
/// if it is told to, and if they were there when it began.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<Known>,
}

/// By host and field.
type Known = HashMap<(Arc<str>, Pmid), Arc<str>>;

impl Names {
    fn get(&self, host: &Arc<str>, pmid: Pmid) -> Option<Arc<str>> {
        self.lock().get(&(Arc::clone(host), pmid)).cloned()
    }

    fn insert(&self, host: &Arc<str>, pmid: Pmid, name: &Arc<str>) {
        let mut known = self.lock();
        if known.len() < MAX_NAMES {
            known.insert((Arc::clone(host), pmid), Arc::clone(name));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the records of one metric.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Its name.
    pub metric: Arc<str>,
    /// Its identifier.
    pub pmid: Pmid,
    kind: ArrayKind,
    indom: InDom,
    host: Arc<str>,
    names: Arc<Names>,
    fields: HashMap<Pmid, Arc<str>>,
    origins: HashMap<Inst, Arc<Origin>>,
}

/// The metrics of event records that a host or an archive has.
///
/// # Errors
/// Those of the source as a whole.
pub(crate) fn readers(
    context: &mut Context,
    host: &Arc<str>,
    names: &Arc<Names>,
) -> Result<Vec<Reader>, ClientError> {
    let mut all = match context.traverse("") {
        Ok(names) => names,
        Err(ClientError::Pcp(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // The same metrics each time, if there are too many.
    all.sort_unstable();
    let mut readers = Vec::new();
    for batch in all.chunks(BATCH) {
        let texts: Vec<&str> = batch.iter().map(String::as_str).collect();
        let pmids = match context.lookup_names(&texts) {
            Ok(pmids) => pmids,
            Err(ClientError::Pcp(_)) => continue,
            Err(error) => return Err(error),
        };
        let known: Vec<(&str, Pmid)> =
            texts.iter().zip(pmids).filter_map(|(&name, pmid)| Some((name, pmid?))).collect();
        let known: Vec<_> = known.into_iter().filter(|(_, pmid)| !pmid.is_derived()).collect();
        if known.is_empty() {
            continue;
        }
        let pmids: Vec<Pmid> = known.iter().map(|&(_, pmid)| pmid).collect();
        for ((name, _), desc) in known.iter().zip(context.descs(&pmids)?) {
            let reader = desc.ok().and_then(|desc| Reader::new(name, &desc, host, names));
            readers.extend(reader);
        }
    }
    let is_highres = readers.iter().any(|reader: &Reader| *reader.metric == *HIGHRES);
    readers.retain(|reader| *reader.metric != *RECENT && !(is_highres && *reader.metric == *RECORDS));
    readers.truncate(MAX_METRICS);
    Ok(readers)
}

impl Reader {
    fn new(metric: &str, desc: &Desc, host: &Arc<str>, names: &Arc<Names>) -> Option<Reader> {
        let kind = match desc.value_type {
            ValueType::Event => ArrayKind::Event,
            ValueType::HighResEvent => ArrayKind::HighRes,
            _ => return None,
        };
        Some(Reader {
            metric: metric.into(),
            pmid: desc.pmid,
            kind,
            indom: desc.indom,
            host: Arc::clone(host),
            names: Arc::clone(names),
            fields: HashMap::new(),
            origins: HashMap::new(),
        })
    }

    /// What is known of sources may have changed.
    pub(crate) fn forget(&mut self) {
        self.origins.clear();
    }

    /// When an archive has labels of sources anew, oldest first.
    pub(crate) fn label_changes(&self, context: &mut Context) -> Vec<Timestamp> {
        let recording = context.provider().recording_mut();
        recording.map_or_else(Vec::new, |archive| archive.label_changes(LabelTarget::Instances(self.indom)))
    }

    /// Gives `take` the records of a sample, instance by instance. What is no array is skipped; how many there were.
    ///
    /// # Errors
    /// Those of the source as a whole.
    pub(crate) fn read(
        &mut self,
        context: &mut Context,
        values: ValuesRef<'_>,
        take: &mut dyn FnMut(Record),
    ) -> Result<u64, ClientError> {
        let mut malformed = 0;
        let value_type = match self.kind {
            ArrayKind::Event => ValueType::Event,
            ArrayKind::HighRes => ValueType::HighResEvent,
        };
        for (inst, value) in values.iter() {
            let array = match value.typed(value_type) {
                Ok(TypedRef::Events(_, bytes)) => ArrayReader::<NetworkEndian>::new(self.kind, bytes),
                _ => {
                    malformed += 1;
                    continue;
                }
            };
            let Ok(array) = array else {
                malformed += 1;
                continue;
            };
            if array.is_empty() {
                continue;
            }
            let origin = self.origin(context, inst)?;
            for record in array.records() {
                let missed = record.missed().map(|missed| u32::try_from(missed).unwrap_or_default());
                let fields: Result<Box<[Field]>, ClientError> = record
                    .params()
                    .filter(|_| missed.is_none())
                    .map(|param| Ok(unfolded(self.field(context, param.pmid)?, Value::from(param.value))))
                    .collect();
                take(Record {
                    time: nanos(record.time),
                    flags: record.flags,
                    missed,
                    origin: Arc::clone(&origin),
                    fields: fields?,
                });
            }
        }
        Ok(malformed)
    }

    fn origin(&mut self, context: &mut Context, inst: Inst) -> Result<Arc<Origin>, ClientError> {
        let known = self.origins.get(&inst);
        if inst == PM_IN_NULL {
            let origin = known.cloned().unwrap_or_else(|| self.made("", Vec::new()));
            self.origins.insert(inst, Arc::clone(&origin));
            return Ok(origin);
        }
        if let Some(known) = known
            && context.kind() != ContextKind::Archive
        {
            return Ok(Arc::clone(known));
        }
        let name = unless_unknown(context.instance_name(self.indom, inst))?;
        let name = name.unwrap_or_else(|| format!("inst [{inst}]"));
        if let Some(known) = known
            && *known.source == *name
        {
            return Ok(Arc::clone(known));
        }
        let sets = unless_unknown(context.labels(LabelTarget::Instances(self.indom)))?.unwrap_or_default();
        let labels = sets.into_iter().find(|set| set.inst == inst).and_then(|set| set.labels.ok());
        let origin = self.made(&name, labels.unwrap_or_default());
        if self.origins.len() >= MAX_NAMES {
            self.origins.clear();
        }
        self.origins.insert(inst, Arc::clone(&origin));
        Ok(origin)
    }

    fn made(&self, source: &str, labels: Vec<Label>) -> Arc<Origin> {
        let mut tags: Vec<(String, Json)> = labels
            .into_iter()
            .map(|Label { name, value, .. }| {
                (name, serde_json::from_str(&value).unwrap_or(Json::String(value)))
            })
            .collect();
        let sent = tags.iter().find(|(name, _)| name == RESOURCE).and_then(|(_, value)| resource(value));
        let is_otlp = sent.is_some();
        if let Some(sent) = sent {
            tags = sent;
        }
        let service = tags.iter().find(|(name, _)| is_otlp && name == SERVICE);
        let service = service.and_then(|(_, value)| value.as_str()).filter(|name| !name.is_empty());
        let service = service.unwrap_or(if source.is_empty() { &self.metric } else { source }).into();
        Arc::new(Origin {
            host: Arc::clone(&self.host),
            metric: Arc::clone(&self.metric),
            source: source.into(),
            service,
            is_otlp,
            tags,
        })
    }

    fn field(&mut self, context: &mut Context, pmid: Pmid) -> Result<Arc<str>, ClientError> {
        if let Some(name) = self.fields.get(&pmid) {
            return Ok(Arc::clone(name));
        }
        if self.fields.len() >= MAX_NAMES {
            self.fields.clear();
        }
        let names = unless_unknown(context.names_of(pmid))?;
        let Some(metric) = names.and_then(|names| names.into_iter().next()) else {
            let name = self.names.get(&self.host, pmid).unwrap_or_else(|| pmid.to_string().into());
            self.fields.insert(pmid, Arc::clone(&name));
            return Ok(name);
        };
        let name = match metric.strip_prefix(FIELDS) {
            None => metric,
            Some(own) => {
                let sets = unless_unknown(context.labels(LabelTarget::Item(pmid)))?.unwrap_or_default();
                let mut labels = sets.iter().filter_map(|set| set.labels.as_ref().ok()).flatten();
                let sent = labels.find(|label| label.name == FIELD);
                let sent = sent.and_then(|label| serde_json::from_str(&label.value).ok());
                sent.unwrap_or_else(|| plain(own).to_owned())
            }
        };
        let name: Arc<str> = name.into();
        self.names.insert(&self.host, pmid, &name);
        self.fields.insert(pmid, Arc::clone(&name));
        Ok(name)
    }
}

/// Identifiers that were sent as numbers are fields of their own.
fn plain(field: &str) -> &str {
    match field {
        "span_id_u64" => name::SPAN_ID,
        "parent_id_u64" => name::PARENT_ID,
        other => other,
    }
}

/// What came after there were as many fields as there may be is `name=value` in one for all.
fn unfolded(field: Arc<str>, value: Value) -> Field {
    if *field == *name::OTHER
        && let Value::String(text) = &value
        && let Some((name, value)) = String::from_utf8_lossy(text).split_once('=')
    {
        return Field { name: name.into(), value: Value::from(value.to_owned()) };
    }
    Field { name: field, value }
}

/// The attributes of a resource: `{"attributes":[[name,value],...]}`, in a text or as it is.
fn resource(value: &Json) -> Option<Vec<(String, Json)>> {
    #[derive(serde::Deserialize)]
    struct Resource {
        attributes: Vec<(String, Json)>,
    }
    let resource: Resource = match value {
        Json::String(text) => serde_json::from_str(text).ok()?,
        other => serde_json::from_value(other.clone()).ok()?,
    };
    Some(resource.attributes)
}

/// Nanoseconds since 1970; times beyond the years that these can tell are the first or the last.
pub(crate) fn nanos(time: Timestamp) -> i64 {
    let nanos = time.as_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// A name that the source does not know is none; that it cannot be asked is an error.
fn unless_unknown<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Pcp(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
