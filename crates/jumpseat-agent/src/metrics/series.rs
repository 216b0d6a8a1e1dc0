//! `jumpseat.otel.*`, `jumpseat.otel_exemplar.*` and `jumpseat.otel_start.*`: metrics that others push; `jumpseat.self.series.*`: what is told of them all.

use std::sync::atomic::{AtomicU64, Ordering};

use jumpseat_source::series::SeriesStats;
use jumpseat_source::series::batch::Branch;
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, PmError, Pmid, Semantics, Units, Value, ValueType};
use pcp_pmda::{Call, LabelList, Metric, SetWriter, Subtree, TextLevel};

use crate::identity::label;
use crate::state::State;

/// The dynamic subtree over [`State::series`]: one of its branches.
pub(crate) struct SeriesMetrics(pub(crate) Branch);

/// Below each root, whatever is pushed: PCP's tools take a root without metrics for one. No metric that is pushed has this name, as
/// a level is only told apart by `x_` where that is needed.
const COUNT: &str = "x_metrics";
/// Cluster and items of these.
const COUNT_CLUSTER: u16 = 9;
const COUNT_ITEMS: [u16; 3] = [16, 17, 18];

impl SeriesMetrics {
    fn count_pmid(&self) -> Pmid {
        Pmid::new(0, COUNT_CLUSTER, COUNT_ITEMS[self.0 as usize])
    }

    fn is_count(&self, pmid: Pmid) -> bool {
        pmid.local() == self.count_pmid().local()
    }
}

impl Subtree<State> for SeriesMetrics {
    fn generation(&self, state: &State) -> u64 {
        state.series.generation()
    }

    fn names(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        name(COUNT, self.count_pmid());
        for metric in state.series.metrics().filter(|metric| metric.meaning.branch == self.0) {
            name(&metric.meaning.name, metric.meaning.pmid);
        }
    }

    fn desc(&self, state: &State, pmid: Pmid) -> Option<Desc> {
        if self.is_count(pmid) {
            let (value_type, semantics) = (ValueType::U32, Semantics::Instant);
            return Some(Desc { pmid, value_type, indom: InDom::NULL, semantics, units: Units::COUNT });
        }
        let meaning = &state.series.metric(pmid)?.meaning;
        Some(Desc {
            pmid,
            value_type: meaning.value_type,
            indom: InDom::new(0, meaning.serial),
            semantics: meaning.semantics,
            units: meaning.units,
        })
    }

    fn fetch(&self, state: &mut State, call: &Call<'_>, values: &mut SetWriter<'_>) -> Result<(), PmError> {
        if self.is_count(call.pmid) {
            let own = state.series.metrics().filter(|metric| metric.meaning.branch == self.0);
            return values.value(PM_IN_NULL, &Value::U32(own.count() as u32));
        }
        let metric = state.series.metric(call.pmid).ok_or(PmError::PMID)?;
        if metric.meaning.branch == Branch::Exemplars {
            for (inst, text) in state.series.texts(metric) {
                if values.wants(inst) {
                    values.string(inst, text.as_bytes())?;
                }
            }
            return Ok(());
        }
        let value_type = metric.meaning.value_type;
        for (inst, bits) in state.series.values(metric) {
            if values.wants(inst) {
                values.value(inst, &number(bits, value_type))?;
            }
        }
        Ok(())
    }

    fn text(&self, state: &State, pmid: Pmid, level: TextLevel) -> Option<String> {
        if self.is_count(pmid) {
            let what = match self.0 {
                Branch::Values => "metrics that others push",
                Branch::Exemplars => "metrics with exemplars",
                Branch::Starts => "metrics with times at which sums began",
            };
            return Some(match level {
                TextLevel::OneLine => format!("{what}, below this root"),
                TextLevel::Help => format!("How many {what} there are below this root."),
            });
        }
        let meaning = &state.series.metric(pmid)?.meaning;
        let first = meaning.help.lines().next().filter(|line| !line.is_empty()).unwrap_or(&meaning.original);
        Some(match level {
            TextLevel::OneLine if self.0 == Branch::Exemplars => format!("exemplars of {}", meaning.original),
            TextLevel::OneLine if self.0 == Branch::Starts => {
                format!("when sums of {} began, since 1970", meaning.original)
            }
            TextLevel::OneLine => first.to_owned(),
            TextLevel::Help => {
                let unit = if meaning.unit.is_empty() { "none" } else { &meaning.unit };
                format!("{}\n\nPushed as \"{}\", in the unit \"{unit}\".", meaning.help, meaning.original)
            }
        })
    }

    fn labels(&self, state: &State, pmid: Pmid, labels: &mut LabelList) -> Result<(), PmError> {
        let Some(metric) = state.series.metric(pmid) else { return Ok(()) };
        labels.add_optional(label::OTEL_NAME, metric.meaning.original.as_str())?;
        if !metric.meaning.unit.is_empty() {
            labels.add_optional(label::OTEL_UNIT, metric.meaning.unit.as_str())?;
        }
        if let Some(told) = metric.meaning.told {
            labels.add_optional(label::OTEL_KIND, told.word())?;
        }
        Ok(())
    }
}

fn number(bits: u64, value_type: ValueType) -> Value {
    match value_type {
        ValueType::U64 => Value::U64(bits),
        ValueType::I64 => Value::I64(bits as i64),
        _ => Value::Double(f64::from_bits(bits)),
    }
}

/// Adds the labels of an instance; `None` for one that is not there.
pub(super) fn instance_labels(state: &State, serial: u32, inst: Inst, labels: &mut LabelList) -> Option<()> {
    use jumpseat_source::series::LabelText;
    for (name, value) in state.series.labels(serial, inst)?.iter() {
        // What is too much is dropped without an error: the name of the instance has it.
        let _ = match value {
            LabelText::Text(text) => labels.add(name, &**text),
            LabelText::Shared(text) => labels.add_optional(name, &**text),
            LabelText::Int(number) => labels.add(name, *number),
            LabelText::Bool(bit) => labels.add(name, *bit),
            LabelText::Double(number) => labels.add(name, *number),
        };
    }
    Some(())
}

pub(super) fn metrics() -> Vec<Metric<State>> {
    let of = |name: &str, units, counter: fn(&SeriesStats) -> &AtomicU64| {
        Metric::new(format!("jumpseat.self.series.{name}"), ValueType::U64)
            .units(units)
            .value(move |state: &mut State| counter(&state.series.stats).load(Ordering::Relaxed))
    };
    vec![
        of("metrics", Units::COUNT, |stats| &stats.metrics),
        of("count", Units::COUNT, |stats| &stats.series),
        of("memory", Units::BYTE, |stats| &stats.memory),
        of("points", Units::COUNT, |stats| &stats.points).counter(),
        of("overflowed", Units::COUNT, |stats| &stats.overflowed).counter(),
        of("forgotten", Units::COUNT, |stats| &stats.forgotten).counter(),
        of("busy", Units::COUNT, |stats| &stats.busy).counter(),
        Metric::new("jumpseat.self.series.waiting", ValueType::U32)
            .units(Units::COUNT)
            .value(|state: &mut State| state.series.waiting() as u32),
    ]
}
