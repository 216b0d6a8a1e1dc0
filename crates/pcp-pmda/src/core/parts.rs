//! What a core is made of.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::call::{ClientId, Grants};
use crate::help::HelpTexts;
use crate::indom::{Indom, Instances};
use crate::labels::LabelFn;
use crate::metric::Metric;
use crate::pmcd::PmcdEvent;
use crate::pmns::NameTree;
use crate::subtree::Subtree;
use pcp_model::{Desc, InDom};

/// Called when a client context has ended.
pub(crate) type ClientEndFn<S> = Box<dyn Fn(&mut S, ClientId)>;
/// Gives the instances of another agent's domain.
pub(crate) type ForeignFn<S> = Box<dyn Fn(&S, InDom) -> Option<&Instances>>;
/// Gives a number that changes whenever labels do.
pub(crate) type GenerationFn<S> = Box<dyn Fn(&S) -> u64>;

/// Told what happens on the line to pmcd.
type PmcdFn<S> = Box<dyn Fn(&mut S, PmcdEvent<'_>)>;

/// Told of the line to pmcd.
pub(crate) struct PmcdFns<S> {
    /// What happens there.
    pub event: PmcdFn<S>,
    /// An answer is ready. Whether it matters.
    pub answer: Box<dyn Fn(&mut S) -> bool>,
}

/// Everything a [`Core`](super::Core) is made of, checked by the builder.
pub(crate) struct Parts<S> {
    pub name: String,
    pub version: String,
    pub domain: u16,
    pub state: S,
    pub names: NameTree,
    pub help: HelpTexts,
    pub metrics: Vec<Metric<S>>,
    /// Index into `metrics`, and descriptor, by [`pcp_model::Pmid::local`].
    pub table: FxHashMap<u32, (usize, Desc)>,
    pub indoms: Vec<Indom<S>>,
    /// Index into `indoms`, by serial.
    pub indom_table: HashMap<u32, usize>,
    pub subtrees: Vec<(String, Box<dyn Subtree<S>>)>,
    pub labels: Option<LabelFn<S>>,
    pub label_generation: Option<GenerationFn<S>>,
    pub client_end: Option<ClientEndFn<S>>,
    pub pmcd: Option<PmcdFns<S>>,
    pub foreign_instances: Option<ForeignFn<S>>,
    pub grants: Grants,
}
