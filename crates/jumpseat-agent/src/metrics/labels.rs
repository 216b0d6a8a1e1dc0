//! The labels of the agent, its instance domains, clusters and instances.

use pcp_model::Inst;
use pcp_pmda::{LabelError, LabelList, LabelSubject};

use super::series;
use crate::identity::{
    CALLS, NAME, OBJECTIVES, REASONS, SCRAPE_TARGETS, SERIES_BUCKETS, SERIES_QUANTILES, SERIES_SETS, SOURCES,
    SPAN_BOUNDS, SPAN_BUCKETS, SPAN_SERIES, SPANS, STREAMS, TOKENS, TYPES, about, indom_name, label,
    reason_of,
};
use crate::state::State;
use crate::state::source::Source;
use crate::state::spans::series::Series;
use crate::state::spans::service_map::ServiceMap;
use crate::state::spans::{Span, Spans};
use crate::state::streams::kind_word;

/// Adds the labels of a target.
///
/// # Errors
/// There is no room for more.
pub(crate) fn add(state: &State, subject: LabelSubject, labels: &mut LabelList) -> Result<(), LabelError> {
    match subject {
        LabelSubject::Domain => labels.add(label::AGENT, NAME),
        LabelSubject::Cluster(cluster) => labels.add(label::ABOUT, about(cluster)),
        LabelSubject::InDom(indom) => {
            indom_name(indom.serial()).map_or(Ok(()), |name| labels.add(label::INDOM_NAME, name))
        }
        LabelSubject::Item(_) => Ok(()),
        LabelSubject::Instance(indom, inst) => {
            of_instance(state, indom.serial(), inst, labels).unwrap_or(Ok(()))
        }
    }
}

/// The labels of an instance; `None` for one that is not there.
fn of_instance(
    state: &State,
    serial: u32,
    inst: Inst,
    labels: &mut LabelList,
) -> Option<Result<(), LabelError>> {
    Some(match serial {
        SOURCES => of_source(state.sources.get(inst)?, labels),
        TYPES => {
            let pair = state.types.get(inst)?;
            with_source(state, pair.source, labels, |labels| {
                labels.add(label::TYPE, pair.event_type.as_str())
            })
        }
        SPANS => of_span(state, state.spans.get(inst)?, labels),
        SPAN_BUCKETS => {
            let (span, bucket) = state.spans.of_bucket(inst)?;
            of_span(state, span, labels)
                .and_then(|()| labels.add(label::BELOW, Spans::bucket_name(bucket)))
                .and_then(|()| match Spans::bucket_seconds(bucket) {
                    Some(seconds) => labels.add(label::LE, seconds),
                    None => labels.add(label::LE, "+Inf"),
                })
        }
        SPAN_BOUNDS => {
            let (span, bound) = state.spans.of_bound(inst)?;
            of_span(state, span, labels).and_then(|()| match bound {
                Some(seconds) => labels.add(label::LE, seconds),
                None => labels.add(label::LE, "+Inf"),
            })
        }
        SPAN_SERIES => of_series(state, state.spans.series.get(inst)?, labels),
        CALLS => {
            let (pair, _) = state.spans.services.get(inst)?;
            if ServiceMap::is_other(pair) {
                return Some(labels.add(label::OTHER, true));
            }
            let [client, server] =
                [pair.0, pair.1].map(|source| state.spans.source_name(source).unwrap_or_default());
            labels.add(label::CLIENT, client).and_then(|()| labels.add(label::SERVER, server))
        }
        OBJECTIVES => {
            let objective = &state.spans.objectives.get(inst)?.config;
            labels.add(label::OBJECTIVE, objective.name.as_str())
        }
        REASONS => {
            let (source, reason) = reason_of(inst);
            with_source(state, source, labels, |labels| {
                reason.map_or(Ok(()), |reason| labels.add(label::REASON, reason.word()))
            })
        }
        STREAMS => {
            let stream = state.streams.get(inst)?;
            with_source(state, stream.source, labels, |labels| {
                labels.add(label::METRIC, kind_word(stream.kind))?;
                let Some((client, pid)) = state.streams.client_of(inst) else { return Ok(()) };
                labels.add(label::CLIENT, client)?;
                pid.map_or(Ok(()), |pid| labels.add(label::PID, pid))
            })
        }
        SCRAPE_TARGETS => {
            let target = state.targets.get(inst)?;
            labels
                .add(label::JOB, target.job.as_str())
                .and_then(|()| labels.add(label::INSTANCE, target.instance.as_str()))
                .and_then(|()| labels.add(label::URL, target.url.as_str()))
        }
        TOKENS => labels.add(label::TOKEN, state.tokens.instances().name(inst)?),
        SERIES_SETS | SERIES_BUCKETS | SERIES_QUANTILES => {
            Ok(series::instance_labels(state, serial, inst, labels)?)
        }
        _ => return None,
    })
}

fn of_span(state: &State, span: &Span, labels: &mut LabelList) -> Result<(), LabelError> {
    with_source(state, span.source, labels, |labels| labels.add(label::SPAN, span.name.as_str()))
}

/// The span's labels, and one for each dimension: its field as PCP can name it, with the value as it was sent.
fn of_series(state: &State, series: &Series, labels: &mut LabelList) -> Result<(), LabelError> {
    if let Some(span) = state.spans.get(series.span) {
        of_span(state, span, labels)?;
    }
    let fields = state.spans.dimensions(series.source).unwrap_or_default();
    let Some(values) = series.values() else { return labels.add(label::OTHER, true) };
    for (field, value) in fields.iter().zip(values) {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = field.chars().map(plain).collect();
        // A field that is called like one of ours, or that begins with no letter, has no label; the instance tells its value.
        let _ = labels.add(&name, &*String::from_utf8_lossy(value));
    }
    Ok(())
}

/// The source's name, and more.
fn with_source(
    state: &State,
    source: Inst,
    labels: &mut LabelList,
    more: impl FnOnce(&mut LabelList) -> Result<(), LabelError>,
) -> Result<(), LabelError> {
    let source = state.sources.get(source);
    debug_assert!(source.is_some(), "an instance of a source that was never announced");
    labels.add(label::SOURCE, source.map_or("", |source| &source.name))?;
    more(labels)
}

fn of_source(source: &Source, labels: &mut LabelList) -> Result<(), LabelError> {
    labels.add(label::SOURCE, &*source.name)?;
    if let Some(origin) = &source.sender.origin {
        labels.add(label::KIND, origin.kind)?;
        labels.add(label::ADDRESS, origin.address.as_str())?;
        origin.service.as_ref().map_or(Ok(()), |service| labels.add(label::SERVICE, service.as_str()))?;
    }
    for (name, value) in source.sender.labels.iter().flat_map(|given| given.iter()) {
        // A label that the sender names like one of ours, or that is too much, is dropped without an error.
        let _ = labels.add_optional(name, value.as_str());
    }
    Ok(())
}
