//! What a name or an expression is to a context, and its values there.

use std::collections::HashMap;
use std::sync::Arc;

use jumpseat_tools::measure::Measure;
use jumpseat_tools::operand::Operand;
use pcp_client::{ClientError, Context, ContextKind, SetRef, ValueRef};
use pcp_model::{Desc, InDom, Inst, PmError, PrintOptions, Value, ValueType};

use super::lines::Text;

/// Characters of a value that are shown.
const MAX_TEXT: usize = 512;
/// Most values that are no numbers.
const MAX_TEXTS: usize = 200;

/// A metric or an expression that the context knows.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub desc: Desc,
    pub measure: Measure,
    /// Whether it is computed.
    pub derived: bool,
    names: HashMap<Inst, Arc<str>>,
}

impl Found {
    /// Looks it up, or defines it under a name with this number, which no other has.
    ///
    /// # Errors
    /// Why not, for people: with the nearest name, or the place in the expression.
    pub(super) fn find(context: &mut Context, expr: &str, number: u64) -> Result<Found, String> {
        let (pmid, derived) = match Operand::parse(expr) {
            Operand::Metric(name) => match context.pmid(&name) {
                Ok(pmid) => (pmid, pmid.is_derived()),
                Err(error) if error.code() == PmError::NAME => {
                    let near = context.nearest_name(&name);
                    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                    return Err(format!("{}{hint}", PmError::NAME));
                }
                Err(error) if error.code() == PmError::NONLEAF => {
                    return Err("names are below it, and it is no metric itself".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            },
            Operand::Expression { text, .. } => {
                let own = format!("jumpseat_web.expression{number}");
                let pmid = context.add_derived(&own, &text).map_err(|error| match error {
                    // The first line is that of a call that nobody here has made.
                    ClientError::Derived(error) => {
                        let report = error.report("", &text);
                        report
                            .split_once('\n')
                            .map_or(report.as_str(), |(_, rest)| rest)
                            .trim_end()
                            .to_owned()
                    }
                    error => error.to_string(),
                })?;
                (pmid, true)
            }
        };
        let desc = context.desc(pmid).map_err(|error| error.to_string())?;
        if matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent) {
            return Err("its values are event records: look at them among the events".to_owned());
        }
        let names = match context.kind() {
            ContextKind::Archive if desc.indom != InDom::NULL => {
                let ever = context.instances_ever(desc.indom).unwrap_or_default();
                ever.into_iter().map(|instance| (instance.id, instance.name.into())).collect()
            }
            _ => HashMap::new(),
        };
        Ok(Found { desc, measure: Measure::of(&desc), derived, names })
    }

    /// Whether its values are numbers.
    pub(super) fn is_numeric(&self) -> bool {
        self.desc.value_type.is_numeric()
    }

    /// Learns the names of the instances in a set; a collector is asked if there is a new one.
    pub(super) fn learn(&mut self, context: &mut Context, set: SetRef<'_>) {
        let Ok(values) = set.values else { return };
        if self.desc.indom == InDom::NULL
            || context.kind() == ContextKind::Archive
            || values.iter().all(|(inst, _)| self.names.contains_key(&inst))
        {
            return;
        }
        let instances = context.instances(self.desc.indom).unwrap_or_default();
        self.names = instances.into_iter().map(|instance| (instance.id, instance.name.into())).collect();
        for (inst, _) in values.iter() {
            // It is not asked for again if the collector does not know it (any more).
            self.names.entry(inst).or_insert_with(|| format!("[{inst}]").into());
        }
    }

    /// Instances may have other names from now on.
    pub(super) fn forget_names(&mut self) {
        self.names.clear();
    }

    /// The name of an instance; empty for metrics without instances.
    pub(super) fn name(&self, inst: Inst) -> Arc<str> {
        match self.names.get(&inst) {
            _ if self.desc.indom == InDom::NULL => Arc::default(),
            Some(name) => name.clone(),
            None => format!("[{inst}]").into(),
        }
    }

    /// The numbers of a set.
    ///
    /// # Errors
    /// The metric's.
    pub(super) fn numbers<'a>(
        &'a self,
        set: SetRef<'a>,
    ) -> Result<impl Iterator<Item = (Inst, f64)> + 'a, PmError> {
        let value_type = self.desc.value_type;
        let number = move |(inst, value): (Inst, ValueRef<'a>)| Some((inst, number(value, value_type)?));
        Ok(set.values?.iter().filter_map(number))
    }

    /// The values of a set as texts.
    ///
    /// # Errors
    /// The metric's.
    pub(super) fn texts(&self, set: SetRef<'_>) -> Result<Vec<Text>, PmError> {
        let text = |(inst, value): (Inst, ValueRef<'_>)| {
            let mut bytes = Vec::new();
            value.to_value(self.desc.value_type).ok()?.print(PrintOptions::default(), &mut bytes);
            let text = String::from_utf8_lossy(&bytes).chars().take(MAX_TEXT).collect();
            Some(Text { name: self.name(inst).to_string(), text })
        };
        Ok(set.values?.iter().filter_map(text).take(MAX_TEXTS).collect())
    }
}

fn number(value: ValueRef<'_>, value_type: ValueType) -> Option<f64> {
    match value.to_value(value_type).ok()?.convert(ValueType::Double).ok()? {
        Value::Double(number) => Some(number),
        _ => None,
    }
}
