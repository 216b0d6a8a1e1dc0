//! Definitions on their way to metrics: what they name, what has to be bound again, what they need.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::identity::{NAME, derived_name};
use crate::sampler::Handle;
use pcp_client::without_password;
use pcp_derive::{BindError, BindErrorKind, Bound, BoundNode, Definition, Fact, Kind, Registry, Tree, parse};
use pcp_model::{Desc, InDom, Pmid, ValueType};

use super::catalogue::Catalogue;
use super::files::Wanted;
use super::foreign::{Foreign, Known, Needs};

/// The domain of the collector's own metrics, which whoever serves clients directly has itself.
const COLLECTOR_DOMAIN: u16 = 2;

/// The definitions to be taken out: those that are gone or have another expression, and, up to the last,
/// those made of something that has come, gone or changed. `changed` are operands that have.
pub(super) fn outdated(
    registry: &Registry,
    wanted: &[Wanted],
    changed: HashSet<Arc<str>>,
) -> HashSet<Arc<str>> {
    let new: HashMap<String, &str> =
        wanted.iter().map(|wanted| (derived_name(&wanted.name), wanted.expression.as_str())).collect();
    let same = |definition: &Definition| new.get(&*definition.name) == Some(&&*definition.expression);
    let mut outdated: HashSet<Arc<str>> = HashSet::new();
    // Names first, then whatever is made of them, level by level.
    let mut affected = changed;
    affected.extend(new.keys().map(|name| name.as_str().into()));
    for definition in registry.definitions() {
        if same(definition) {
            affected.remove(&definition.name);
        } else {
            affected.insert(definition.name.clone());
            outdated.insert(definition.name.clone());
        }
    }
    extend(registry, &mut outdated, |name, outdated| affected.contains(name) || outdated.contains(name));
    outdated
}

/// The definitions that name what has no metadata yet, up to the last.
pub(super) fn waiting(registry: &Registry, foreign: &Foreign) -> HashSet<Arc<str>> {
    let mut waiting = HashSet::new();
    let is_waiting = |name: &str| foreign.known(name) == Some(Known::Waiting);
    extend(registry, &mut waiting, |name, waiting| is_waiting(name) || waiting.contains(name));
    waiting
}

/// Adds the definitions that name one for which `counts` says so, until there is no more of them.
fn extend(
    registry: &Registry,
    found: &mut HashSet<Arc<str>>,
    counts: impl Fn(&str, &HashSet<Arc<str>>) -> bool,
) {
    loop {
        let before = found.len();
        for definition in registry.definitions() {
            if !found.contains(&definition.name)
                && names(&definition.tree).any(|(name, _)| counts(name, found))
            {
                found.insert(definition.name.clone());
            }
        }
        if found.len() == before {
            return;
        }
    }
}

/// The metrics that an expression names, each with whether its values are wanted.
fn names(tree: &Tree) -> impl Iterator<Item = (&str, bool)> {
    tree.nodes().iter().filter_map(|node| match &node.kind {
        Kind::Metric(name) => Some((&**name, true)),
        Kind::Defined(name) => Some((&**name, false)),
        Kind::Constant(constant) => Some((constant.tags.as_ref()?.meta.as_deref()?, false)),
        Kind::NoValue(tags) => Some((tags.meta.as_deref()?, false)),
        _ => None,
    })
}

/// The names in definitions that are no metrics of this agent, but for definitions that would make them more
/// than `most`.
pub(super) fn foreign_names<'a>(
    registry: &'a Registry,
    catalogue: &Catalogue,
    most: usize,
) -> BTreeSet<&'a str> {
    let mut all = BTreeSet::new();
    for definition in registry.definitions() {
        let is_foreign = |name: &&str| {
            let own = *name == NAME || name.strip_prefix(NAME).is_some_and(|rest| rest.starts_with('.'));
            !own && !catalogue.by_name.contains_key(*name) && !all.contains(name)
        };
        let names = names(&definition.tree).map(|(name, _)| name);
        let new: BTreeSet<&str> = names.filter(is_foreign).collect();
        // All operands of a definition or none: with some of them it could not be computed, yet they would be asked for.
        if all.len() + new.len() <= most {
            all.extend(new);
        }
    }
    all
}

/// Puts a definition into the registry, unless it is there. The engine's PMID, or why it cannot be used.
pub(super) fn register(
    registry: &mut Registry,
    catalogue: &Catalogue,
    wanted: &Wanted,
) -> Result<Pmid, String> {
    let name = derived_name(&wanted.name);
    if let Some(definition) = registry.find(&name) {
        return Ok(definition.pmid);
    }
    let tree = parse(&wanted.expression, registry.dialect()).map_err(|error| error.to_string())?;
    let is_events = |name: &str| catalogue.by_name.get(name).is_some_and(|desc| is_events(desc.value_type));
    if let Some((operand, _)) = names(&tree).find(|(name, values)| *values && is_events(name)) {
        return Err(no_events(operand));
    }
    registry.register(&name, &wanted.expression).map_err(|error| error.to_string())
}

fn is_events(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Event | ValueType::HighResEvent)
}

fn no_events(operand: &str) -> String {
    format!(
        "{operand} gives event records, which are nothing to compute with, and each of which a client gets \
         only once"
    )
}

/// What a definition that binds needs of samples, if anything, or why it is no metric of this agent's after
/// all.
pub(super) fn check(
    bound: &Bound,
    catalogue: &Catalogue,
    foreign: &Foreign,
    domain: u16,
) -> Result<Option<Needs>, String> {
    let meta = bound.meta();
    if meta.is_set() && !is_known(meta.indom, catalogue) {
        let also = if foreign.host.is_some() { ", nor one of its operands" } else { "" };
        return Err(format!("instance domain {} is not one of this agent's{also}", meta.indom));
    }
    let mut needs = needs(bound, catalogue, foreign, domain)?;
    if needs.operands.is_empty() {
        // Without values of other agents it is computed in the fetch, from what the agent has.
        return Ok(None);
    }
    if is_foreign(meta.indom, domain) {
        if foreign.direct {
            needs.indoms.insert(meta.indom);
        } else if !foreign.is_here() {
            return Err(format!(
                "it has instances of {}, which clients would ask the pmcd of this host for: take a function \
                 that makes one value of them, or scalar(x[instance])",
                without_password(foreign.host.as_deref().unwrap_or_default())
            ));
        }
    }
    Ok(Some(needs))
}

/// Whether any metric that definitions may use has this instance domain.
fn is_known(indom: InDom, catalogue: &Catalogue) -> bool {
    let own = catalogue.by_pmid.values().map(|desc: &Desc| desc.indom);
    own.chain(catalogue.foreign_meta.values().map(|meta| meta.indom)).any(|other| other == indom)
}

fn is_foreign(indom: InDom, domain: u16) -> bool {
    indom != InDom::NULL && indom.domain() != domain
}

/// What the nodes of an expression need, or which of its operands cannot be one.
fn needs(bound: &Bound, catalogue: &Catalogue, foreign: &Foreign, domain: u16) -> Result<Needs, String> {
    // Whoever serves clients directly has the collector's domain itself, so its instances would be looked up here.
    let taken =
        |indom: InDom| indom.domain() == domain || foreign.direct && indom.domain() == COLLECTOR_DOMAIN;
    let mut needs = Needs::default();
    for (id, node) in bound.tree.iter() {
        // Branches that a condition on metadata has decided against need nothing.
        let BoundNode { meta, fact, active: true } = *bound.node(id) else { continue };
        let named = match &node.kind {
            Kind::Metric(name) => Some((&**name, fact)),
            _ => None,
        };
        if let Some((name, Fact::Operand(pmid))) = named {
            if is_events(meta.value_type) {
                return Err(no_events(name));
            }
            match Handle::of(pmid) {
                None => drop(needs.own.insert(pmid.local())),
                Some(_) if meta.is_set() && taken(meta.indom) => {
                    return Err(format!(
                        "{name} has instance domain {}, which would be taken for one of this agent's",
                        meta.indom
                    ));
                }
                Some(handle) => drop(needs.operands.insert(handle)),
            }
        }
        let by_name = match &node.kind {
            Kind::Instance(..) | Kind::Constant(_) => true,
            Kind::Call(call, _) => call.needs_instance_names(),
            _ => false,
        };
        if by_name && is_foreign(meta.indom, domain) {
            needs.indoms.insert(meta.indom);
            // For a constant with instances: a sample is made of metrics.
            let of_it = catalogue.foreign_meta.iter().filter(|(_, other)| other.indom == meta.indom);
            needs.operands.extend(of_it.map(|(handle, _)| *handle).min());
        }
    }
    Ok(needs)
}

/// Why a definition does not bind, for people.
pub(super) fn reason(error: &BindError, foreign: &Foreign, most: usize) -> String {
    let BindErrorKind::UnknownOperand(name) = &error.kind else { return error.to_string() };
    if name.starts_with("jumpseat.field.") {
        return format!("{name} is a parameter of event records and has no value of its own");
    }
    match (&foreign.host, foreign.known(name)) {
        (Some(host), Some(Known::Unknown(code))) => {
            format!("{name} is not a metric of this agent, and {} says: {code}", without_password(host))
        }
        (None, _) if !name.starts_with("jumpseat.") => format!(
            "{name} is not a metric of this agent; for those of others, set derived.pmcd in the configuration"
        ),
        (Some(_), None) if !name.starts_with("jumpseat.") => {
            format!("{name} is one more metric of other agents than derived.max_operands ({most}) allows")
        }
        _ => format!("{name} is not a metric of this agent"),
    }
}
