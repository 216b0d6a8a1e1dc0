//! Every number and name that archives and other programs remember: none of them ever changes or means another thing.
//!
//! A PMID is (domain, cluster, item); the items are in `pmns/jumpseat`. The serial of an instance domain is also that
//! of the file that keeps its identifiers, `DOMAIN.SERIAL`, so no two things share one.

use std::ops::RangeInclusive;

use jumpseat_source::Reason;
use jumpseat_source::guard::book;
use jumpseat_source::registry;
use jumpseat_source::scrape;
use jumpseat_source::series;
use pcp_model::{Inst, Pmid};

/// The agent's domain number unless something else is said.
pub const DEFAULT_DOMAIN: u16 = 400;
/// The agent's name, under pmcd and in the name space.
pub const NAME: &str = "jumpseat";
/// The node of the name space with the descriptors of event parameters.
pub(crate) const FIELD_ROOT: &str = "jumpseat.field";
/// The node of the name space with the derived metrics.
pub(crate) const DERIVED_ROOT: &str = "jumpseat.derived";
/// The node of the name space with the metrics that others push.
pub(crate) const SERIES_ROOT: &str = "jumpseat.otel";
/// The node of the name space with their exemplars.
pub(crate) const EXEMPLAR_ROOT: &str = "jumpseat.otel_exemplar";
/// The node of the name space with the times at which their sums began.
pub(crate) const START_ROOT: &str = "jumpseat.otel_start";

/// Serial of the sources' instance domain.
pub(crate) const SOURCES: u32 = registry::SOURCE_SERIAL;
/// Serial of the instance domain of (source, event type) pairs.
pub(crate) const TYPES: u32 = registry::TYPE_SERIAL;
/// Serial of the instance domain of client streams.
pub(crate) const STREAMS: u32 = 3;
/// Serial of the file with the names of derived metrics; no instance domain has it.
pub(crate) const DERIVED_NAMES: u32 = 5;
/// Serial of the spans' instance domain.
pub(crate) const SPANS: u32 = registry::SPAN_SERIAL;
/// Serial of the instance domain of spans and buckets of durations.
pub(crate) const SPAN_BUCKETS: u32 = 7;
/// Serial of the instance domain of (source, reason) pairs.
pub(crate) const REASONS: u32 = 8;
/// Serial of the instance domain of spans and upper bounds of durations.
pub(crate) const SPAN_BOUNDS: u32 = 9;
/// Serial of the instance domain of sets of attributes.
pub(crate) const SERIES_SETS: u32 = series::SET_SERIAL;
/// Serial of the instance domain of sets of attributes and upper bounds.
pub(crate) const SERIES_BUCKETS: u32 = series::BUCKET_SERIAL;
/// Serial of the instance domain of sets of attributes and quantiles.
pub(crate) const SERIES_QUANTILES: u32 = series::QUANTILE_SERIAL;

/// Serial of the instance domain of spans with the values of their dimensions, and of the file with their names.
pub(crate) const SPAN_SERIES: u32 = 15;
/// The same of pairs of services.
pub(crate) const CALLS: u32 = 16;
/// The same of objectives.
pub(crate) const OBJECTIVES: u32 = 17;

/// Serial of the instance domain of names of receivers' tokens, and of the file with their numbers.
pub(crate) const TOKENS: u32 = book::TOKEN_SERIAL;

/// The same of targets that are scraped.
pub(crate) const SCRAPE_TARGETS: u32 = scrape::TARGET_SERIAL;

/// Clusters of derived metrics: [`ITEMS`] each.
pub(crate) const DERIVED_CLUSTERS: RangeInclusive<u16> = 64..=127;
/// Items of a cluster, as a PMID has room for.
pub(crate) const ITEMS: i32 = 1024;
/// The largest number of a name of derived metrics.
pub(crate) const DERIVED_NAMES_MAX: i32 =
    (*DERIVED_CLUSTERS.end() - *DERIVED_CLUSTERS.start() + 1) as i32 * ITEMS - 1;

/// Instances of reasons have the source's instance times this in their number: most reasons that input can be refused
/// for, now and ever.
const REASONS_PER_SOURCE: Inst = 32;
const _: () = assert!(Reason::COUNT <= REASONS_PER_SOURCE as usize);
/// Instances of buckets have the span's instance times this in their number.
const BUCKETS_PER_SPAN: Inst = 128;
/// Instances of bounds have the span's instance times this in their number.
const BOUNDS_PER_SPAN: Inst = 32;

/// Names of labels.
pub(crate) mod label {
    /// Of the domain: the agent's name.
    pub(crate) const AGENT: &str = "agent";
    /// Of a cluster: what its metrics are about.
    pub(crate) const ABOUT: &str = "about";
    /// Of an instance domain: what its instances are, as PCP's own agents say it.
    pub(crate) const INDOM_NAME: &str = "indom_name";
    /// The source that an instance is of.
    pub(crate) const SOURCE: &str = "source";
    /// The kind of a source.
    pub(crate) const KIND: &str = "kind";
    /// Where a source reads.
    pub(crate) const ADDRESS: &str = "address";
    /// The service that a sender says it is.
    pub(crate) const SERVICE: &str = "service";
    /// The event type that an instance is of.
    pub(crate) const TYPE: &str = "type";
    /// The span that an instance is of.
    pub(crate) const SPAN: &str = "span";
    /// The source whose span is called by that of the `client`.
    pub(crate) const SERVER: &str = "server";
    /// The objective that an instance is of.
    pub(crate) const OBJECTIVE: &str = "objective";
    /// An instance that stands for all that have none of their own.
    pub(crate) const OTHER: &str = "other";
    /// The end of a bucket.
    pub(crate) const BELOW: &str = "below";
    /// The end of a bucket in seconds, a number, as Prometheus calls it; the last one's is the text `+Inf`.
    pub(crate) const LE: &str = "le";
    /// Of a target that is scraped, what its series have under these names, as Prometheus calls them; and its address.
    pub(crate) const JOB: &str = "job";
    pub(crate) const INSTANCE: &str = "instance";
    pub(crate) const URL: &str = "url";
    /// The reason that an instance is of.
    pub(crate) const REASON: &str = "reason";
    /// The metric that gives a stream.
    pub(crate) const METRIC: &str = "metric";
    /// The client that a stream is of, and the process that it is, where that is known.
    pub(crate) const CLIENT: &str = "client";
    pub(crate) const PID: &str = "pid";
    /// The token that an instance is of.
    pub(crate) const TOKEN: &str = "token";
    /// The field that a metric describes.
    pub(crate) const FIELD: &str = "field";
    /// What a metric that was pushed is called where it comes from.
    pub(crate) const OTEL_NAME: &str = jumpseat_wire::series::NAME;
    /// Its unit there.
    pub(crate) const OTEL_UNIT: &str = jumpseat_wire::series::UNIT;
    /// What of it the values are.
    pub(crate) const OTEL_KIND: &str = jumpseat_wire::series::KIND;
}

/// What the metrics of a cluster are about.
pub(crate) fn about(cluster: u16) -> &'static str {
    match cluster {
        0 => "agent",
        1 => "events",
        2 => "sources",
        3 => "clients",
        4 => "spans",
        7 => "kernel",
        8 => "log",
        9 => "series",
        10 => "admission",
        11 => "scrape",
        12 => "services",
        13 => "objectives",
        14 => "traces",
        cluster if series::CLUSTERS.contains(&cluster) => "otel",
        cluster if DERIVED_CLUSTERS.contains(&cluster) => "derived",
        // The sixteen clusters of fields; clients may ask for any other as well.
        _ => "fields",
    }
}

/// What the instances of a domain are.
pub(crate) fn indom_name(serial: u32) -> Option<&'static str> {
    match serial {
        SOURCES => Some("per source"),
        TYPES => Some("per source and event type"),
        STREAMS => Some("per client stream"),
        REASONS => Some("per source and reason"),
        SPANS => Some("per source and span"),
        SPAN_BUCKETS => Some("per source, span and duration"),
        SPAN_BOUNDS => Some("per source, span and upper bound"),
        SERIES_SETS => Some("per set of attributes"),
        SERIES_BUCKETS => Some("per set of attributes and upper bound"),
        SERIES_QUANTILES => Some("per set of attributes and quantile"),
        SPAN_SERIES => Some("per source, span and values of dimensions"),
        CALLS => Some("per calling and called source"),
        OBJECTIVES => Some("per objective"),
        TOKENS => Some("per token of receivers"),
        SCRAPE_TARGETS => Some("per target"),
        _ => None,
    }
}

/// The name of a derived metric by what it is called below the root.
pub(crate) fn derived_name(below: &str) -> String {
    format!("{DERIVED_ROOT}.{below}")
}

/// The PMID of a derived metric by its name's number, without a domain.
pub(crate) fn derived_pmid(id: i32) -> Pmid {
    debug_assert!((0..=DERIVED_NAMES_MAX).contains(&id), "the file of names holds no others");
    Pmid::new(0, DERIVED_CLUSTERS.start() + (id / ITEMS) as u16, (id % ITEMS) as u16)
}

/// The number of a derived metric's name, by its PMID without a domain: clusters have an item for each number.
pub(crate) fn derived_id(local: u32) -> Option<usize> {
    let id = local.checked_sub(derived_pmid(0).local())?;
    (id <= DERIVED_NAMES_MAX as u32).then_some(id as usize)
}

/// The instance of a source and a reason; the first ones of so many sources have one.
pub(crate) fn reason_inst(source: Inst, reason: Reason) -> Option<Inst> {
    source.checked_mul(REASONS_PER_SOURCE)?.checked_add(reason as Inst)
}

/// The source and the reason of an instance.
pub(crate) fn reason_of(inst: Inst) -> (Inst, Option<Reason>) {
    (inst / REASONS_PER_SOURCE, Reason::ALL.get((inst % REASONS_PER_SOURCE) as usize).copied())
}

/// The instance of a span and a bucket; the first ones of so many spans have one.
pub(crate) fn bucket_inst(span: Inst, bucket: usize) -> Option<Inst> {
    let bucket = Inst::try_from(bucket).ok().filter(|bucket| *bucket < BUCKETS_PER_SPAN);
    debug_assert!(bucket.is_some(), "more buckets than there is room for in an instance");
    span.checked_mul(BUCKETS_PER_SPAN)?.checked_add(bucket?)
}

/// The span and the bucket of an instance.
pub(crate) fn bucket_of(inst: Inst) -> (Inst, usize) {
    (inst / BUCKETS_PER_SPAN, (inst % BUCKETS_PER_SPAN) as usize)
}

/// The instance of a span and an upper bound; the first ones of so many spans have one.
pub(crate) fn bound_inst(span: Inst, bound: usize) -> Option<Inst> {
    let bound = Inst::try_from(bound).ok().filter(|bound| *bound < BOUNDS_PER_SPAN);
    debug_assert!(bound.is_some(), "more bounds than there is room for in an instance");
    span.checked_mul(BOUNDS_PER_SPAN)?.checked_add(bound?)
}

/// The span and the bound of an instance.
pub(crate) fn bound_of(inst: Inst) -> (Inst, usize) {
    (inst / BOUNDS_PER_SPAN, (inst % BOUNDS_PER_SPAN) as usize)
}

#[cfg(test)]
mod tests {
    use jumpseat_source::registry::{FIELD_CLUSTER, FIELD_SERIAL, WellKnown};

    use super::*;

    /// The numbers in archives and in files of identifiers that exist. A change here is a change of what they mean.
    #[test]
    fn numbers_never_change() {
        assert_eq!((NAME, DEFAULT_DOMAIN), ("jumpseat", 400));
        assert_eq!((FIELD_ROOT, DERIVED_ROOT), ("jumpseat.field", "jumpseat.derived"));
        let serials =
            [SOURCES, TYPES, STREAMS, FIELD_SERIAL, DERIVED_NAMES, SPANS, SPAN_BUCKETS, REASONS, SPAN_BOUNDS];
        assert_eq!(serials, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!([SPAN_SERIES, CALLS, OBJECTIVES, TOKENS, SCRAPE_TARGETS], [15, 16, 17, 18, 20]);
        assert_eq!((FIELD_CLUSTER, DERIVED_CLUSTERS, ITEMS), (16, 64..=127, 1024));
        assert_eq!((REASONS_PER_SOURCE, BUCKETS_PER_SPAN), (32, 128));
        assert_eq!(derived_pmid(0), Pmid::new(0, 64, 0));
        assert_eq!(derived_pmid(2 * 1024 + 3), Pmid::new(0, 66, 3));
        assert_eq!(WellKnown::Missed.pmid(400), Pmid::new(400, 16, 5));
        assert_eq!(registry::field_pmid(400, 1024 + 7), Pmid::new(400, 17, 7));
        assert_eq!(bucket_inst(3, 5), Some(389));
        assert_eq!(bucket_of(389), (3, 5));
        assert_eq!((BOUNDS_PER_SPAN, bound_inst(3, 5), bound_of(101)), (32, Some(101), (3, 5)));
        let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        let kept = [
            "syntax",
            "encoding",
            "time",
            "depth",
            "control",
            "frame",
            "undefined",
            "oversize_line",
            "oversize_field",
            "compression",
            "protocol",
            "body",
            "unmatched",
        ];
        assert_eq!(words[..kept.len()], kept, "a new reason goes behind those there are");
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason_inst(2, reason), Some(64 + number as Inst));
            assert_eq!(reason_of(64 + number as Inst), (2, Some(reason)));
        }
    }

    #[test]
    fn words_in_labels_never_change() {
        use label::*;
        let names = [
            AGENT, ABOUT, INDOM_NAME, SOURCE, KIND, ADDRESS, SERVICE, TYPE, SPAN, BELOW, REASON, METRIC,
            FIELD, LE, CLIENT, PID, OTHER, SERVER, OBJECTIVE, OTEL_NAME, OTEL_UNIT, OTEL_KIND, TOKEN, JOB,
            INSTANCE, URL,
        ];
        let kept = [
            "agent",
            "about",
            "indom_name",
            "source",
            "kind",
            "address",
            "service",
            "type",
            "span",
            "below",
            "reason",
            "metric",
            "field",
            "le",
            "client",
            "pid",
            "other",
            "server",
            "objective",
            "otel_name",
            "otel_unit",
            "otel_kind",
            "token",
            "job",
            "instance",
            "url",
        ];
        assert_eq!(names, kept);
        let clusters = [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 16, 31, 64, 127, 128, 191].map(about);
        let kept = [
            "agent",
            "events",
            "sources",
            "clients",
            "spans",
            "kernel",
            "log",
            "series",
            "admission",
            "scrape",
            "services",
            "objectives",
            "traces",
            "fields",
            "fields",
            "derived",
            "derived",
            "otel",
            "otel",
        ];
        assert_eq!(clusters, kept);
        let indoms = [1, 2, 3, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 18, 20]
            .map(|serial| indom_name(serial).expect("one of ours"));
        let kept = [
            "per source",
            "per source and event type",
            "per client stream",
            "per source and span",
            "per source, span and duration",
            "per source and reason",
            "per source, span and upper bound",
            "per set of attributes",
            "per set of attributes and upper bound",
            "per set of attributes and quantile",
            "per source, span and values of dimensions",
            "per calling and called source",
            "per objective",
            "per token of receivers",
            "per target",
        ];
        assert_eq!(indoms, kept);
    }

    #[test]
    fn the_name_space_has_the_clusters_that_labels_tell_of() {
        let items = crate::PMNS.lines().filter_map(|line| line.split_once("JUMPSEAT:")?.1.split_once(':'));
        let clusters: std::collections::BTreeSet<u16> =
            items.filter_map(|(cluster, _)| cluster.parse().ok()).collect();
        assert_eq!(clusters, [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14].into());
    }
}
