//! Putting an agent together, and checking that its parts fit before it answers anyone.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::call::{ClientId, Grants};
use super::core::{ClientEndFn, Core, ForeignFn, GenerationFn, MAX_SUBTREES, Parts, PmcdFns};
use super::help::{self, HelpError, HelpTexts, Topic};
use super::indom::{Indom, Instances};
use super::labels::{LabelFn, LabelList, LabelSubject};
use super::metric::Metric;
use super::pmcd::PmcdEvent;
use super::pmns::{self, NameTree, PmnsError};
use super::subtree::Subtree;
use pcp_model::{Desc, InDom, PmError};

/// The largest domain number an agent may have.
pub(crate) const MAX_DOMAIN: u16 = 510;

/// The parts of an agent over a state `S`. [`Agent::build`] makes a [`Core`] of it, which answers requests.
///
/// Every callback gets the state; the framework runs in one thread, so nothing needs a lock.
pub struct Agent<S> {
    name: String,
    version: String,
    domain: u16,
    symbol: String,
    state: S,
    names: (String, String),
    help: (String, String),
    metrics: Vec<Metric<S>>,
    indoms: Vec<Indom<S>>,
    subtrees: Vec<(String, Box<dyn Subtree<S>>)>,
    labels: Option<LabelFn<S>>,
    label_generation: Option<GenerationFn<S>>,
    client_end: Option<ClientEndFn<S>>,
    pmcd: Option<PmcdFns<S>>,
    foreign_instances: Option<ForeignFn<S>>,
    grants: Grants,
}

/// What does not fit in an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The domain number is out of range.
    #[error("domain {0} is not within 0..{MAX_DOMAIN}")]
    Domain(u16),
    /// The name space source.
    #[error(transparent)]
    Names(#[from] Box<PmnsError>),
    /// The help source.
    #[error(transparent)]
    Help(#[from] HelpError),
    /// The parts do not agree with each other. All disagreements are told at once.
    #[error("the parts of agent {agent} do not agree: {}", .problems.join("; "))]
    Parts {
        /// The agent's name.
        agent: String,
        /// What is missing, twice there, or unknown, each naming the metric or instance domain.
        problems: Vec<String>,
    },
}

impl<S> Agent<S> {
    /// An agent without metrics. Its name is also, in capitals, the symbol that stands for the domain in name
    /// space and help sources.
    pub fn new(name: &str, domain: u16, state: S) -> Agent<S> {
        Agent {
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            domain,
            symbol: name.to_ascii_uppercase(),
            state,
            names: ("pmns".to_owned(), String::new()),
            help: ("help".to_owned(), String::new()),
            metrics: Vec::new(),
            indoms: Vec::new(),
            subtrees: Vec::new(),
            labels: None,
            label_generation: None,
            client_end: None,
            pmcd: None,
            foreign_instances: None,
            grants: Grants::default(),
        }
    }

    /// The agent's version, if not that of this framework: what clients of a direct endpoint see as `pmcd.version`.
    pub fn version(mut self, version: &str) -> Agent<S> {
        version.clone_into(&mut self.version);
        self
    }

    /// Who may fetch and store, if not everybody.
    pub fn grants(mut self, grants: Grants) -> Agent<S> {
        self.grants = grants;
        self
    }

    /// The symbol that stands for the domain in name space and help sources, if not the agent's name in
    /// capitals.
    pub fn symbol(mut self, symbol: &str) -> Agent<S> {
        symbol.clone_into(&mut self.symbol);
        self
    }

    /// The name space source, and the name it goes by in errors.
    pub fn pmns(mut self, file: &str, source: &str) -> Agent<S> {
        self.names = (file.to_owned(), source.to_owned());
        self
    }

    /// The help source, and the name it goes by in errors.
    pub fn help(mut self, file: &str, source: &str) -> Agent<S> {
        self.help = (file.to_owned(), source.to_owned());
        self
    }

    /// Adds a metric.
    pub fn metric(mut self, metric: Metric<S>) -> Agent<S> {
        self.metrics.push(metric);
        self
    }

    /// Adds metrics.
    pub fn metrics(mut self, metrics: impl IntoIterator<Item = Metric<S>>) -> Agent<S> {
        self.metrics.extend(metrics);
        self
    }

    /// Adds an instance domain.
    pub fn indom(mut self, indom: Indom<S>) -> Agent<S> {
        self.indoms.push(indom);
        self
    }

    /// Serves everything below `root`, a `D:*:*` entry of the name space.
    pub fn subtree(mut self, root: &str, subtree: impl Subtree<S> + 'static) -> Agent<S> {
        self.subtrees.push((root.to_owned(), Box::new(subtree)));
        self
    }

    /// Sets what gives labels, at all levels ([`LabelSubject`]). Metrics of dynamic subtrees get theirs
    /// from the subtree.
    pub fn labels(
        mut self,
        labels: impl Fn(&S, LabelSubject, &mut LabelList) -> Result<(), PmError> + 'static,
    ) -> Agent<S> {
        self.labels = Some(Box::new(labels));
        self
    }

    /// Sets a number that changes whenever labels do, so that clients are told with their next fetch.
    pub fn label_generation(mut self, generation: impl Fn(&S) -> u64 + 'static) -> Agent<S> {
        self.label_generation = Some(Box::new(generation));
        self
    }

    /// Answers direct clients that ask for instances of another agent's domain: metrics of a subtree may have
    /// such a domain. pmcd asks every agent for its own only.
    pub fn foreign_instances(mut self, find: impl Fn(&S, InDom) -> Option<&Instances> + 'static) -> Agent<S> {
        self.foreign_instances = Some(Box::new(find));
        self
    }

    /// Sets what is called when a client context has ended. It is called exactly once for every [`ClientId`]
    /// that a callback was ever given.
    pub fn on_client_end(mut self, client_end: impl Fn(&mut S, ClientId) + 'static) -> Agent<S> {
        self.client_end = Some(Box::new(client_end));
        self
    }

    /// Sets what is told of the line to pmcd, and what is asked when an answer to a fetch or a store is ready: whether it
    /// matters, so that [`PmcdEvent::Leaving`] and [`PmcdEvent::Left`] are to be told of it.
    pub fn on_pmcd(
        mut self,
        event: impl Fn(&mut S, PmcdEvent<'_>) + 'static,
        answer: impl Fn(&mut S) -> bool + 'static,
    ) -> Agent<S> {
        self.pmcd = Some(PmcdFns { event: Box::new(event), answer: Box::new(answer) });
        self
    }

    /// Checks that everything fits and makes the agent's core.
    ///
    /// # Errors
    /// Errors of the sources with file and line; else, all at once: names without metric and metrics without
    /// name, metrics and instance domains without one-line or long help text, unknown instance domains,
    /// dynamic roots without subtree and subtrees without root, anything twice.
    pub fn build(self) -> Result<Core<S>, BuildError> {
        if self.domain > MAX_DOMAIN {
            return Err(BuildError::Domain(self.domain));
        }
        if self.subtrees.len() > MAX_SUBTREES {
            let problems = vec![format!("more than {MAX_SUBTREES} subtrees")];
            return Err(BuildError::Parts { agent: self.name, problems });
        }
        let symbols = [(self.symbol.as_str(), self.domain.to_string())];
        let names = pmns::parse(&self.names.0, &self.names.1, self.domain, &symbols).map_err(Box::new)?;
        let help = help::parse(&self.help.0, &self.help.1, self.domain, &self.symbol, &names)?;
        // All that is wrong at once: whoever changes several tables would otherwise start the agent as often.
        let mut problems = Vec::new();
        let indoms = self.check_indoms(&help, &mut problems);
        let table = self.check_metrics(&names, &help, &indoms, &mut problems);
        let roots: Vec<&str> = names.dynamic_roots().collect();
        for root in roots.iter().filter(|root| !self.subtrees.iter().any(|(name, _)| name == **root)) {
            problems.push(format!("dynamic root {root} of the name space has no subtree"));
        }
        for (index, (root, _)) in self.subtrees.iter().enumerate() {
            if !roots.contains(&root.as_str()) {
                problems.push(format!("subtree {root} is not a dynamic root of the name space"));
            }
            if self.subtrees[..index].iter().any(|(name, _)| name == root) {
                problems.push(format!("two subtrees for {root}"));
            }
        }
        if !problems.is_empty() {
            return Err(BuildError::Parts { agent: self.name, problems });
        }
        Ok(Core::assemble(Parts {
            name: self.name,
            version: self.version,
            domain: self.domain,
            state: self.state,
            names,
            help,
            metrics: self.metrics,
            table,
            indoms: self.indoms,
            indom_table: indoms,
            subtrees: self.subtrees,
            labels: self.labels,
            label_generation: self.label_generation,
            client_end: self.client_end,
            pmcd: self.pmcd,
            foreign_instances: self.foreign_instances,
            grants: self.grants,
        }))
    }

    /// Instance domains by serial.
    fn check_indoms(&self, help: &HelpTexts, problems: &mut Vec<String>) -> HashMap<u32, usize> {
        let mut indoms = HashMap::new();
        for (index, indom) in self.indoms.iter().enumerate() {
            let id = InDom::new(self.domain, indom.serial);
            // The id has 22 bits of the serial: what does not come back did not fit.
            if indom.serial > id.serial() {
                problems.push(format!("instance domain serial {} is above 4194303", indom.serial));
            } else if indoms.insert(indom.serial, index).is_some() {
                problems.push(format!("instance domain {id} twice"));
            }
            check_help(|| format!("instance domain {id}"), Topic::InDom(id), help, problems);
        }
        indoms
    }

    /// Metrics by cluster and item.
    fn check_metrics(
        &self,
        names: &NameTree,
        help: &HelpTexts,
        indoms: &HashMap<u32, usize>,
        problems: &mut Vec<String>,
    ) -> FxHashMap<u32, (usize, Desc)> {
        let mut table = FxHashMap::default();
        for (index, metric) in self.metrics.iter().enumerate() {
            let name = &metric.name;
            let Some(pmns::Name::Leaf(pmid)) = names.get(name) else {
                problems.push(format!("metric {name} is not in the name space"));
                continue;
            };
            if let Some(serial) = metric.indom.filter(|serial| !indoms.contains_key(serial)) {
                problems.push(format!("metric {name}: no instance domain {}.{serial}", self.domain));
            }
            check_help(|| format!("metric {name}"), Topic::Metric(pmid), help, problems);
            let indom = metric.indom.map_or(InDom::NULL, |serial| InDom::new(self.domain, serial));
            let desc = Desc {
                pmid,
                value_type: metric.value_type,
                indom,
                semantics: metric.semantics,
                units: metric.units,
            };
            if table.insert(pmid.local(), (index, desc)).is_some() {
                problems.push(format!("metric {name}: another metric has its PMID {pmid}"));
            }
        }
        for (name, pmid) in names.metrics().filter(|(_, pmid)| !table.contains_key(&pmid.local())) {
            // A second name of a metric is found by its PMID.
            problems.push(format!("name {name} ({pmid}) has no metric"));
        }
        table
    }
}

fn check_help(what: impl Fn() -> String, topic: Topic, help: &HelpTexts, problems: &mut Vec<String>) {
    let missing = match help.get(topic) {
        None => "help",
        Some(help) if help.oneline.is_empty() => "one-line help",
        Some(help) if help.text.trim_start().is_empty() => "long help text",
        Some(_) => return,
    };
    problems.push(format!("{} has no {missing}", what()));
}
